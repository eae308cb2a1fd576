"""`volume info --live`: metrics read, rates between two looks, and both kinds of output."""

from __future__ import annotations

import io
import json
import threading
import time
from pathlib import Path

import pytest
from rich.console import Console

from flashwright import _core
from flashwright._core import InputError
from flashwright.volumes import metrics, watching
from flashwright.volumes.metrics import Between
from support import Cli

UUID = "00000000-0000-4000-8000-000000000001"
MEBIBYTE = 1 << 20


def text(seconds: float, writes: int, below: int, programs: int, busy: float) -> str:
    """Give metrics of a volume: writes of 4 KiB that took less than 8 us, but for one of 1 ms."""
    of_writes = {"0.000008": writes - 1, "0.001024": writes, "+Inf": writes}
    return "\n".join(
        [
            "# HELP flashwright_volume_open_seconds Since it was opened.",
            f'flashwright_volume_open_seconds{{volume="{UUID}"}} {seconds}',
            f'flashwright_volume_requests_total{{volume="{UUID}",op="write"}} {writes}',
            f'flashwright_volume_request_bytes_total{{volume="{UUID}",op="write"}} {writes * 4096}',
            f'flashwright_volume_device_bytes_total{{volume="{UUID}",op="write"}} {below}',
            f'flashwright_volume_request_seconds_count{{volume="{UUID}",op="write"}} {writes}',
            f'flashwright_volume_request_seconds_sum{{volume="{UUID}",op="write"}} {writes / 1e6}',
            *(
                f'flashwright_volume_request_seconds_bucket{{volume="{UUID}",op="write",le="{le}"}}'
                f" {count}"
                for le, count in of_writes.items()
            ),
            f'flashwright_flash_page_bytes{{volume="{UUID}"}} 16384',
            f'flashwright_flash_page_programs_total{{volume="{UUID}"}} {programs}',
            f'flashwright_flash_die_busy_seconds_total{{volume="{UUID}",die="0"}} {busy}',
            f'flashwright_flash_wear_erases_mean{{volume="{UUID}"}} 2.5',
            f'flashwright_flash_wear_erases_most{{volume="{UUID}"}} 4',
            f'flashwright_layer_cleaned_total{{volume="{UUID}",layer="log_volume",level="0"}} 7',
        ]
    )


def test_rates_are_of_what_was_done_between_two_looks() -> None:
    before = metrics.parse(text(10, 1000, 5_000_000, 300, 1.0), "before")
    now = metrics.parse(text(12, 2000, 5_000_000 + 2000 * 4096, 1300, 2.5), "now")
    found = watching.document(Between(now, before))
    assert found["seconds"] == 2
    assert found["request"]["write"]["per_s"] == 500
    assert found["request"]["write"]["mean_us"] == pytest.approx(1)
    assert found["request"]["write"]["half_below_us"] == pytest.approx(8)
    assert found["request"]["read"] == {
        "per_s": 0,
        "bytes_per_s": 0,
        "failed": 0,
        "mean_us": None,
        "half_below_us": None,
        "p99_below_us": None,
    }
    # 1,000 writes of 4 KiB were asked, and 2,000 were sent.
    assert found["layers_write_amplification"] == pytest.approx(2)
    assert found["flash_write_amplification"] == pytest.approx(1000 * 16384 / (2000 * 4096))
    assert found["dies_busy_share"] == [0.75]
    assert found["flash"]["wear_erases_rated"] is None
    assert found["layers"] == [
        {"level": 0, "layer": "log_volume", "name": "cleaned", "is_level": False, "value": 0}
    ]


def test_without_an_earlier_look_it_is_since_the_opening() -> None:
    now = metrics.parse(text(10, 1000, 4_096_000, 250, 1.0), "now")
    found = watching.document(Between(now))
    assert found["request"]["write"]["per_s"] == 100
    assert found["layers_write_amplification"] == pytest.approx(1)
    # One of a thousand took longer than 8 us.
    assert found["request"]["write"]["p99_below_us"] == pytest.approx(8)
    assert Between(now).below_us("volume_request_seconds", "write", 0.9999) == pytest.approx(1024)


def test_requests_that_failed_are_counted() -> None:
    line = f'flashwright_volume_request_failures_total{{volume="{UUID}",op="write"}} '
    before, now = (
        metrics.parse(f"{text(seconds, 1000, 4_096_000, 250, 1.0)}\n{line}{failed}", "x")
        for seconds, failed in ((10, 3), (12, 8))
    )
    found = watching.document(Between(now, before))
    assert (found["request"]["write"]["failed"], found["device"]["write"]["failed"]) == (5, 0)


@pytest.mark.parametrize("is_broken", [False, True])
def test_a_volume_of_no_use_is_said(*, is_broken: bool) -> None:
    line = f'flashwright_volume_broken{{volume="{UUID}"}} {int(is_broken)}'
    now = Between(metrics.parse(f"{text(10, 1000, 4_096_000, 250, 1.0)}\n{line}", "now"))
    assert watching.document(now)["is_broken"] is is_broken
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(watching.drawn(watching.Watched("a", Path("a")), now))
    assert ("of no use any more" in console.export_text()) is is_broken


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("hello\n", "line 1"),
        ("flashwright_x 1\n", "line 1"),
        ('flashwright_x{volume="a"} one\n', "line 1"),
        ("", "of 0 volumes"),
        ('flashwright_x{volume="a"} 1\nflashwright_x{volume="b"} 1\n', "of 2 volumes"),
    ],
)
def test_what_is_no_metrics_is_one_line(content: str, said: str) -> None:
    with pytest.raises(InputError, match=said) as found:
        metrics.parse(content, "some.prom")
    assert "some.prom" in str(found.value)


def test_of_nothing_and_of_what_is_not_there(cli: Cli, tmp_path: Path) -> None:
    assert (
        "neither a volume that is served"
        in cli("volume", "info", str(tmp_path / "none"), "--live", code=2).stderr
    )
    (tmp_path / "text").write_text("hello\n")
    done = cli("volume", "info", str(tmp_path / "text"), "--live", code=2)
    assert done.stderr.count("\n") == 1
    assert "--metrics" in done.stderr


def test_a_volume_that_is_being_opened_is_waited_for(tmp_path: Path) -> None:
    place = tmp_path / "control.sock"
    drive = _core.Volume("emulated(profile=sd-card,size=1Gi,state=fresh)", bare=True)
    try:
        with pytest.raises(InputError, match="cannot be read"):
            metrics.read(place)
        opens = threading.Timer(0.3, drive.keep_control, [place])
        opens.start()
        assert metrics.read(place, lambda: True).seconds >= 0
        opens.join()
    finally:
        drive.close()


def test_an_emulated_drive_is_watched(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "drive.prom"
    drive = _core.Volume("emulated(profile=sd-card,size=1Gi,state=fresh)", bare=True)
    try:
        drive.keep_metrics(path, 0.1)
        for page in range(64):
            drive.write(page * 65_536, b"x" * 4096)
        time.sleep(0.2)
        found = json.loads(
            cli("volume", "info", str(path), "--live", "--every", "0.2", "--json", "-").stdout
        )
        assert found[0]["capacity_bytes"] == drive.about()["capacity_bytes"]
        since = watching.document(Between(metrics.read(path)))
        assert since["device"]["write"]["per_s"] > 0
        assert since["flash_write_amplification"] >= 1
        assert max(since["dies_busy_share"]) > 0
        assert since["flash"]["wear_erases_rated"] == 5000
        shown = cli("volume", "info", str(path), "--live", "--every", "0.2").stdout
        assert "writes to the device" in shown
        assert "5\u202f000" in next(line for line in shown.splitlines() if "rated" in line)
    finally:
        drive.close()
    assert metrics.read(path).get("volume_capacity_bytes"), "it keeps its last values"
