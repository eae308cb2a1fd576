"""The folder of a recording, wherever a trace is taken.

And two recordings or runs that do not replace each other.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from playwright.sync_api import Browser

from browsing import check_report
from flashwright.jobs.play import against
from flashwright.jobs.play.as_played import as_played
from flashwright.runs import Run
from support import Cli

COUNT = 1000
GAP_NS = 1_000_000
MEASURED = "wall|^prepare_seconds|^peak_rss|^provenance|per_second$"
DRIVE = ["--on", "intel-x25e"]


def latency_of(number: int) -> int:
    """Give the latency of a request in nanoseconds: 1 us for the first, and 1 us more each time."""
    return 1000 * (number + 1)


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """A recording of writes, with a flush at the end, and one request whose end was not seen."""
    offsets = np.random.default_rng(3).integers(0, 512, COUNT) * 4096
    latencies: list[int | None] = [latency_of(number) for number in range(COUNT)]
    latencies[500] = None
    requests = pa.table(
        {
            "time_ns": pa.array(np.arange(COUNT, dtype=np.uint64) * np.uint64(GAP_NS)),
            "op": pa.array(["write"] * (COUNT - 1) + ["flush"]),
            "offset": pa.array([*offsets[:-1], 0], pa.uint64()),
            "length": pa.array([4096] * (COUNT - 1) + [0], pa.uint32()),
            "latency_ns": pa.array(latencies, pa.uint64()),
        }
    )
    folder = tmp_path / "rec"
    result = {
        "recording": {"device": {"name": "loop9"}},
        "provenance": {"command": ["flashwright", "record"]},
    }
    Run("record", result, {"requests": requests}).write(folder)
    return folder


def timeless(said: Any) -> Any:
    """Leave out what the machine's clock and memory say, and the command."""
    if isinstance(said, list):
        return [timeless(one) for one in said]
    if not isinstance(said, dict):
        return said
    return {key: timeless(one) for key, one in said.items() if not re.search(MEASURED, key)}


@pytest.mark.parametrize(
    "command",
    [
        ["trace", "stats", "rec"],
        ["model", "rec"],
        ["compare", "rec", "--op", "0.4", "--placements", "none", "--pages-per-erase-block", "16"],
        ["play", "rec", *DRIVE],
        [
            "compare",
            "rec",
            "--op",
            "0.4",
            "--placements",
            "none,multi_log",
            "--pages-per-erase-block",
            "16",
        ],
        ["play", "rec", "--on", "intel-x25e", "--on", "usb-stick"],
        ["trace", "convert", "rec", "out.blkparse"],
    ],
    ids=" ".join,
)
@pytest.mark.usefixtures("recording")
def test_a_recording_is_a_trace(command: list[str], cli: Cli, tmp_path: Path) -> None:
    with_folder = cli(*command, "--json", "a.json").stdout
    assert command[-1] == "out.blkparse" or "rec/requests.parquet" in with_folder
    # A trace as text says of nobody that he wrote it, so that none is replaced.
    (tmp_path / "out.blkparse").unlink(missing_ok=True)
    cli(*(word.replace("rec", "rec/requests.parquet") for word in command), "--json", "b.json")
    one, other = (json.loads((tmp_path / name).read_text()) for name in ("a.json", "b.json"))
    assert timeless(one) == timeless(other)


def test_a_run_is_laid_beside_the_recording_that_it_repeats(
    cli: Cli, recording: Path, tmp_path: Path, browser: Browser
) -> None:
    done = cli("play", "rec", *DRIVE, "--pace", "open", "--against", "rec", "--out", "out")
    assert "Against rec/requests.parquet on loop9, as it was recorded" in done.stdout
    assert "another trace" not in done.stdout
    [other] = json.loads((tmp_path / "out" / "result.json").read_text())["against"]["runs"]
    seen = [latency_of(number) for number in range(COUNT - 1) if number != 500]
    found = other["latency_ns"]["write"]
    assert (found["count"], found["p50"], found["max"]) == (
        COUNT - 2,
        sorted(seen)[(COUNT - 3) // 2],
        max(seen),
    )
    assert found["mean"] == pytest.approx(sum(seen) / len(seen))
    assert other["requests"] == COUNT
    # To the answer of the last one.
    assert other["seconds"] == pytest.approx(((COUNT - 1) * GAP_NS + latency_of(COUNT - 1)) / 1e9)
    assert other["bytes_per_second"] == pytest.approx((COUNT - 1) * 4096 / other["seconds"])
    check_report(browser, tmp_path / "out" / "report.html", least_plots=6)
    tables = against.read(recording).tables
    classes = {
        to: count
        for op, to, count in zip(
            *(tables["latency"][name].to_pylist() for name in ("op", "to_ns", "count")), strict=True
        )
        if op == "write"
    }
    assert sum(classes.values()) == COUNT - 2
    # Each is at most 0.2 % too large, and never too small.
    upper = sorted(to for to, count in classes.items() for _ in range(count))
    assert all(
        latency <= to <= latency * 1.002 for latency, to in zip(sorted(seen), upper, strict=True)
    )
    assert sum(tables["windows"]["requests"].to_pylist()) == COUNT - 1


def test_what_was_moved_is_what_was_read_and_written(tmp_path: Path) -> None:
    requests = pa.table(
        {
            "time_ns": pa.array([0, 10, 20, 30], pa.uint64()),
            "op": pa.array(["read", "write", "trim", "flush"]),
            "length": pa.array([4096, 8192, 1 << 20, 0], pa.uint32()),
            "latency_ns": pa.array([5, None, 7, 999_999_970], pa.uint64()),
        }
    )
    result = {"recording": {"device": {"name": "loop9"}}, "provenance": {"flashwright": "0.1.0"}}
    run = Run("record", result, {"requests": requests})
    run.write(tmp_path / "rec")
    [said] = as_played(run, tmp_path / "rec").result["runs"]
    assert (said["requests"], said["seconds"], said["bytes_per_second"]) == (4, 1.0, 12_288)
    assert "write" not in said["latency_ns"], "its end was not seen"
    assert said["latency_ns"]["trim"]["mean"] == 7


@pytest.mark.usefixtures("recording")
def test_runs_on_a_real_file_do_not_replace_each_other(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(4 << 20))
    for _ in range(2):
        cli("play", "rec", "--on", "file", "--write", "--destroy-data", "file", "--pace", "8")
        cli("play", "rec", *DRIVE)
    made = [
        Run.read_result(folder).result["devices"][0]["kind"]
        for folder in (tmp_path / "runs").iterdir()
    ]
    # A simulated drive does the same each time.
    assert sorted(made) == ["file", "file", "simulated"]


def test_a_folder_that_is_neither_is_refused(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert "a folder without a requests.parquet" in cli("play", "empty", *DRIVE, code=2).stderr
    Run("record", {"recording": {}, "provenance": {}}).write(tmp_path / "bare")
    said = cli("play", "bare", *DRIVE, "--against", "bare", code=2).stderr
    assert (
        "a folder without a requests.parquet" in said
        or "right would be a finished recording" in said
    )
    assert said.count("\n") == 1
