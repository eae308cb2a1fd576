"""Lives, rates of writes, and what a drive's parts can do, against plain sums."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flashwright.devices import Device
from flashwright.lifetime import Lifetime

DAYS_IN_YEAR = 365.25


def test_a_life_counts_the_spare_space() -> None:
    """3,000 erases of one and a half times the data, of which two are programmed for each write."""
    years = Lifetime(3000, 1.0).years(2.0, 0.5)
    assert years == pytest.approx(3000 * 1.5 / 2 / DAYS_IN_YEAR)


def test_a_recorded_rate_does_not_depend_on_how_often_it_is_played(
    cli_json: Callable[..., Any], tmp_path: Path
) -> None:
    lines = [f"{number * 1000},vm,0,Write,{number % 999 * 4096},4096,0" for number in range(4000)]
    (tmp_path / "rate.csv").write_text("\n".join(lines) + "\n")
    rates = [
        cli_json(
            "simulate", "rate.csv", "--format", "msr", "--op", "1", "--repeat", str(times),
            "--capacity", "1G",
        )["workload"]["recorded_bytes_per_day"]
        for times in (1, 3)
    ]  # fmt: skip
    assert rates[0] == rates[1]
    # MSR's times are of 100 ns: 4000 pages in 0.4 s.
    assert rates[0] == pytest.approx(4000 * 4096 * 86_400 / 0.3999)


def test_the_limit_of_a_channel_is_of_bytes() -> None:
    of = {
        bits: Device.load("a16", [f"media.channel_bits={bits}"]).limits()[
            "channels_bytes_per_second"
        ]
        for bits in (8, 16)
    }
    device = Device.load("a16")
    media = device.profile["media"]
    page = media["page_bytes"]
    transfer_us = media["command_us"] + page / media["channel_mt_per_second"]
    assert of[8] == pytest.approx(media["channels"] * page / transfer_us * 1e6)
    assert of[8] < of[16] < 2.01 * of[8]
