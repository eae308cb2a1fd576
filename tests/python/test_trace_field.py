"""Traces as people have them: what they lack is said by every command that reads them."""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import flashwright
from support import Cli

MISSING = "about 9500 events are missing, as its summary says: counts and bytes are too low"
REQUESTS = 12_000
ONE_POLICY = ["--placements", "none", "--victims", "greedy"]
MEMORY = ["--on", "memory(bytes=64Mi)"]
SUMMARY = "CPU0 (259,0):\nEvents (259,0): 6 entries\nSkips: 2 forward (9,500 - 99.9%)\n"


@pytest.fixture
def lossy(tmp_path: Path) -> Path:
    """A text of blkparse that lost events, and has a zone reset."""
    lines = []
    for number in range(REQUESTS):
        sector = number * 7919 % 6000 * 8
        lines.append(f" 259,0 0 {number + 1} 0.{number * 1000:09} 900 D W {sector} + 8 [x]")
    lines.insert(9, " 259,0    0 0    0.000009000   900  D  ZR 0 + 0 [x]")
    path = tmp_path / "lossy.blkparse"
    path.write_text("\n".join(lines) + "\n" + SUMMARY)
    return path


def results(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "result.json").read_text())
    return found


def test_lost_events_are_said_by_every_command_that_reads_the_trace(
    cli: Cli, lossy: Path, tmp_path: Path
) -> None:
    name = lossy.name
    fresh = "profile(intel-x25e, state=fresh)"
    commands: dict[str, tuple[list[str], str | None]] = {
        "a": (["trace", "stats", name], None),
        "b": (["compare", name, "--op", "0.5", "--placements", "none"], "workload"),
        "c": (["compare", name, "--op", "0.5,0.6", *ONE_POLICY], "workloads"),
        "d": (["play", name, "--on", fresh], "source"),
        "e": (["play", name, *MEMORY, "--pace", "open"], "source"),
        "f": (["model", name, "--op", "0.5"], "workload"),
        "g": (["play", name, *MEMORY, "--stack", "scheduler"], "source"),
        "h": (["play", name, "--on", fresh, "--on", "sd-card"], "source"),
    }
    for place, (command, key) in commands.items():
        done = cli(*command, "--out", place)
        assert f"flashwright: warning: {name}: {MISSING}\n" in done.stderr, command
        result = results(tmp_path / place)
        found = result if key is None else result[key]
        found = found[0] if isinstance(found, list) else found
        assert found["lost_events"] == 9500, command
        assert found["warnings"] == [MISSING], command
        assert [count for reason, count in found["left_out"].items() if "zone" in reason] == [1]
        report = (tmp_path / place / "report.html").read_text()
        assert f"{MISSING[0].upper()}{MISSING[1:]}." in report, command
        assert "zone resets" in report, command
    stats = cli("trace", "stats", name, "--out", "i").stdout
    assert "zone resets" in stats
    assert re.search(r"events that are missing, about +9\s500", stats)
    # Files that are made of it say so, too.
    cli("trace", "convert", name, "kept.parquet")
    assert MISSING in cli("trace", "stats", "kept.parquet", "--out", "j").stderr


def test_the_library_gives_what_was_found_beside_requests(lossy: Path) -> None:
    with pytest.warns(UserWarning, match="about 9500 events"):
        workload = flashwright._core.load_workload(str(lossy))
    assert workload.reading["lost_events"] == 9500
    trace = flashwright.open_trace(lossy)
    assert pa.RecordBatchReader.from_stream(trace).read_all().num_rows == REQUESTS
    assert trace.reading["warnings"] == [MISSING]


def test_timestamps_of_pandas_are_times(cli_json: Any, tmp_path: Path) -> None:
    """Microseconds were taken for nanoseconds."""
    start = 1_795_780_800_000_000
    count = 20
    columns = {
        "time_ns": pa.array([start + 100 * n for n in range(count)], pa.timestamp("us", "UTC")),
        "op": pa.array(["W", "READ"] * (count // 2)).dictionary_encode(),
        "offset": [float(4096 * n) for n in range(count)],
        "length": [4096.0] * count,
    }
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    found = cli_json("trace", "stats", "a.parquet")
    assert found["duration_ns"] == 100_000 * (count - 1)
    assert (found["writes"], found["reads"]) == (count // 2, count // 2)


def test_a_file_of_an_archive_is_named_behind_it(cli_json: Any, cli: Cli, tmp_path: Path) -> None:
    line = "128166372003061629,srv,0,Write,0,4096,41286\n"
    with zipfile.ZipFile(tmp_path / "data.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("one.csv", line * 3)
        archive.writestr("two.csv", line * 5)
    error = cli("trace", "stats", "data.zip", code=2).stderr
    assert "it holds 2 files: one.csv, two.csv" in error
    assert cli_json("trace", "stats", "data.zip/two.csv")["writes"] == 5
    assert "no such file" in cli("trace", "stats", "nope.zip/two.csv", code=2).stderr


@pytest.fixture
def large(tmp_path: Path) -> str:
    """Another machine's trace: what it touches alone is more than a small drive has."""
    count = 50
    columns = {
        "time_ns": [n * 1_000_000 for n in range(count)],
        "op": ["write"] * count,
        "offset": [n << 30 for n in range(count)],
        "length": pa.array([2 << 30] * count, pa.uint32()),
    }
    pq.write_table(pa.table(columns), tmp_path / "large.parquet")
    return "large.parquet"


@pytest.mark.parametrize(
    "words",
    [
        ["--on", "intel-x25e"],
        ["--on", "intel-x25e", "--stack", "scheduler"],
        MEMORY,
        [*MEMORY, "--stack", "auto"],
    ],
    ids=" ".join,
)
def test_addresses_beyond_a_device_are_refused_in_the_same_words(
    cli: Cli, large: str, words: list[str]
) -> None:
    error = cli("play", large, *words, code=2).stderr
    assert error.startswith("flashwright: error: ")
    assert "right would be a larger device" in error
    assert "large.parquet needs " in error or "the trace names addresses up to byte" in error
    assert "--fold" in error


def test_addresses_beyond_a_device_go_where_the_option_says(cli: Cli, tmp_path: Path) -> None:
    columns = {
        "time_ns": [0, 1000],
        "op": ["write"] * 2,
        "offset": [0, 1 << 40],
        "length": [4096] * 2,
    }
    pq.write_table(pa.table(columns), tmp_path / "far.parquet")
    for fit in ("fold", "scale", "dense"):
        cli("play", f"part(far.parquet, fit={fit})", *MEMORY, "--out", fit)
        assert results(tmp_path / fit)["source"]["part"]["fit"] == fit
