"""Lives, rates of writes, and what a drive's parts can do, against plain sums."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flashwright import InputError
from flashwright.devices import DriveProfile
from flashwright.lifetime import Lifetime, Recorded, Wear, lifetime_of, volume
from support import Cli

DAYS_IN_YEAR = 365.25


def test_a_life_counts_the_spare_space() -> None:
    """3,000 erases of one and a half times the data, of which two are programmed for each write."""
    years = Lifetime(3000, 1.0).life(2.0, 0.5).years
    assert years == pytest.approx(3000 * 1.5 / 2 / DAYS_IN_YEAR)


def test_a_recorded_rate_does_not_depend_on_how_often_it_is_played(
    cli_json: Callable[..., Any], tmp_path: Path
) -> None:
    lines = [f"{number * 1000},vm,0,Write,{number % 999 * 4096},4096,0" for number in range(4000)]
    (tmp_path / "rate.csv").write_text("\n".join(lines) + "\n")
    rates = [
        cli_json(
            "compare", f"part(rate.csv, format=msr, repeat={times})", "--op", "1",
            "--placements", "none", "--life", "life(capacity=1G)",
        )["workload"]["recorded_bytes_per_day"]
        for times in (1, 3)
    ]  # fmt: skip
    assert rates[0] == rates[1]
    # MSR's times are of 100 ns: 4000 pages in 0.4 s.
    assert rates[0] == pytest.approx(4000 * 4096 * 86_400 / 0.3999)


def test_the_limit_of_a_channel_is_of_bytes() -> None:
    of = {
        bits: DriveProfile.load("a16", [f"media.channel_bits={bits}"]).limits()[
            "channels_bytes_per_second"
        ]
        for bits in (8, 16)
    }
    device = DriveProfile.load("a16")
    media = device.profile["media"]
    page = media["page_bytes"]
    transfer_us = media["command_us"] + page / media["channel_mt_per_second"]
    assert of[8] == pytest.approx(media["channels"] * page / transfer_us * 1e6)
    assert of[8] < of[16] < 2.01 * of[8]


def _recorded(seconds: float) -> Recorded:
    return Recorded(seconds, 2e12)


def test_a_life_is_not_extrapolated_from_less_than_ten_minutes() -> None:
    """13 days instead of 5.2 days, from a trace of 0.63 s: nobody can know."""
    for asked in (None, "trace"):
        short = lifetime_of("t", Wear(writes_per_day=asked), 3000, 10**9, _recorded(0.63))
        life = short.life(2.0, 0.2)
        assert life.years is None
        assert life.unknown == (
            "630 ms are too short to say what a day brings, below 10.0 min; at this rate 2.00 TB a "
            "day; --life 'life(40G)', with the true volume, gives a life"
        )
    long = lifetime_of("t", Wear(capacity=10**12), 3000, 10**9, _recorded(600.0))
    assert long.rate == "recorded"
    assert long.life(2.0, 0.2).years == pytest.approx(3000 * 1.2 / 2 / 2 / DAYS_IN_YEAR)


def test_bytes_a_day_give_a_life_whatever_was_recorded() -> None:
    wear = Wear(writes_per_day="40G", capacity=256 * 2**30)
    lifetime = lifetime_of("t", wear, 3000, 10**9, _recorded(0.63))
    assert (lifetime.rate, lifetime.writes_per_day) == ("given", 40 / 256)
    assert lifetime.life(1.0, 0.0).years == pytest.approx(3000 * 256 / 40 / DAYS_IN_YEAR)


def test_what_a_drive_has_counted_is_a_true_volume() -> None:
    """Units written over the hours that it was powered: what `record` reads."""
    counted = lifetime_of("t", Wear(), 3000, 10**9, _recorded(60.0), 5e9)
    assert (counted.rate, counted.writes_per_day) == ("counted", 5.0)
    assert counted.life(1.0, 0.0).years is not None


@pytest.mark.parametrize("steady", [False, None])
def test_a_run_that_is_not_steady_gives_no_life(steady: bool | None) -> None:
    life = Lifetime(3000, 1.0).life(2.0, 0.5, steady=steady)
    assert life.years is None
    assert life.unknown in ("the run is not steady", "the run is short")


@pytest.mark.parametrize("asked", ["0", "-1", "x", "inf", "40X"])
def test_a_rate_is_bytes_a_number_or_the_trace(asked: str) -> None:
    with pytest.raises(InputError, match="write bytes a day, such as 40G"):
        lifetime_of("t", Wear(writes_per_day=asked), 3000, 10**9, None)


def test_volumes_are_written_as_drives_are_sold() -> None:
    assert [volume(value) for value in (2.5e12, 40e9, 3.2e6, 100.0)] == [
        "2.50 TB", "40.0 GB", "3.20 MB", "0.000100 MB",
    ]  # fmt: skip


SHORT_TRACE = 40_000
"""Page writes, in 15.6 s."""


@pytest.fixture
def short_trace(tmp_path: Path) -> Path:
    lines = [
        f"{number * 39062500 // 10_000},vm,0,Write,{number * 7919 % 4096 * 4096},4096,0"
        for number in range(SHORT_TRACE)
    ]
    path = tmp_path / "short.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_every_command_says_the_same_of_a_short_trace(
    cli: Cli, cli_json: Callable[..., Any], short_trace: Path
) -> None:
    once, often = (f"part({short_trace}, format=msr{more})" for more in ("", ", repeat=12"))
    on = "profile(a16, media.endurance_cycles=3000, op={})"
    asked = {
        "alone": ("compare", often, "--op", "1", "--placements", "none"),
        "compare": ("compare", often, "--op", "1,2", "--placements", "none"),
        "drive": ("play", once, "--on", on.format("0.2"), "--fold"),
        "drives": ("play", once, "--on", on.format("0.2"), "--on", on.format("0.3"), "--fold"),
        "bound": ("model", once, "--op", "0.2"),
    }
    for name, command in asked.items():
        found = cli_json(*command)
        for row in found.get("runs") or found.get("results") or found.get("bounds") or [found]:
            assert row["life_years"] is None, name
    said = cli(*asked["compare"]).stdout
    assert "How long the drive lives is not known: 15.6 s are too short" in said.replace("\n", " ")
    given = cli_json(*asked["alone"], "--life", "life(40G, capacity=256G)")
    assert given["lifetime"]["rate"] == "given"
    assert given["life_years"] > 0
