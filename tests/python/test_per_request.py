"""`play --per-request`: a row for each request, whose parts are its latency."""

from __future__ import annotations

import json
import resource
import signal
import subprocess
import sys
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
import pytest

from support import Cli, wait_until_used

DRIVE = [
    "--on",
    "profile(a16, media.erase_blocks_per_plane=64, write_buffer.bytes=1Mi, state=aged)",
]
LOAD = ["io:random(reads=0.5,requests=20000)", *DRIVE]
COLUMNS = ["submitted_ns", "completed_ns", "op", "offset", "length", "flow", "latency_ns"]


def _requests(folder: Path) -> pl.DataFrame:
    return pl.read_parquet(folder / "requests.parquet").with_columns(pl.col("op").cast(pl.String))


def _parts(table: pl.DataFrame) -> list[str]:
    return table.columns[len(COLUMNS) :]


def test_parts_are_the_latency_and_agree_with_the_result(cli: Cli, tmp_path: Path) -> None:
    cli("play", *LOAD, "--per-request", "--out", "run")
    document = json.loads((tmp_path / "run" / "result.json").read_text())
    assert document["large_tables"] == {"requests": "requests.parquet"}
    [result] = document["runs"]
    delays = result["simulated"]["delays"]
    table = _requests(tmp_path / "run")
    assert table.columns[: len(COLUMNS)] == COLUMNS
    assert set(_parts(table)) == {f"{name}_ns" for name in delays["all"]}
    assert table.height == result["requests"] == 20_000
    assert (table.select(pl.sum_horizontal(_parts(table))).to_series() == table["latency_ns"]).all()
    took = table["completed_ns"] - table["submitted_ns"]
    assert (took == table["latency_ns"]).all()
    for op in ("read", "write"):
        rows, figures = table.filter(pl.col("op") == op), result["latency_ns"][op]
        assert rows.height == figures["count"]
        assert rows["latency_ns"].max() == figures["max"]
        assert rows["latency_ns"].mean() == pytest.approx(figures["mean"], abs=0.5)
        for delay, found in delays[op].items():
            assert rows[f"{delay}_ns"].mean() == pytest.approx(found["mean"], abs=1), delay
    assert table["cleaning_ns"].sum() > 0
    assert table["buffer_ns"].sum() > 0
    assert set(table["length"]) == {4096}
    assert (table["offset"] % 4096 == 0).all()


def test_a_run_is_the_same_with_it_and_without(cli: Cli, tmp_path: Path) -> None:
    cli("play", *LOAD, "--out", "without")
    cli("play", *LOAD, "--per-request", "--out", "with")
    one, two = (
        json.loads((tmp_path / name / "result.json").read_text()) for name in ("without", "with")
    )
    first, second = one["runs"][0], two["runs"][0]
    for key in ("latency_ns", "seconds"):
        assert first[key] == second[key], key
    for key in ("event_hash", "delays", "write_amplification"):
        assert first["simulated"][key] == second["simulated"][key], key
    assert "large_tables" not in one
    assert not (tmp_path / "without" / "requests.parquet").exists()
    cli("play", *LOAD, "--out", "with")
    assert not (tmp_path / "with" / "requests.parquet").exists(), "a stale table stays"


def test_the_warm_up_is_left_out_and_flows_are_told_apart(cli: Cli, tmp_path: Path) -> None:
    reads = "io:random(reads=1,requests=3000)"
    beside = ["--flow", "flow(io:sequential(size=16Ki), pace=2, region=64Mi+64Mi)"]
    cli(
        *("play", reads, *DRIVE, *beside, "--warm-up", "500", "--pace", "4"),
        *("--per-request", "--out", "run"),
    )
    result = json.loads((tmp_path / "run" / "result.json").read_text())["runs"][0]
    table = _requests(tmp_path / "run")
    assert table.height == result["requests"]
    for number, flow in enumerate(result["flows"]):
        rows = table.filter(pl.col("flow") == number)
        assert rows.height == flow["requests"]
        assert rows["latency_ns"].mean() == pytest.approx(flow["mean_latency_ns"], abs=0.5)
    second = table.filter(pl.col("flow") == 1)
    assert set(second["op"]) == {"write"}
    assert second["offset"].is_between(64 << 20, 128 << 20).all()
    # Times are from the first request on, that of the warm-up.
    assert (table["submitted_ns"] > 0).all()


def test_it_is_written_in_groups_of_rows(cli: Cli, tmp_path: Path) -> None:
    cli(
        *("play", "io:random(reads=1,requests=300k)", "--on", "profile(a16, state=fresh)"),
        *("--per-request", "--out", "run"),
    )
    metadata = pq.ParquetFile(tmp_path / "run" / "requests.parquet").metadata
    rows = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
    assert sum(rows) == 300_000
    assert max(rows) <= 128 << 10


def test_without_a_place_for_it_nothing_is_simulated(cli: Cli, tmp_path: Path) -> None:
    done = cli("play", *LOAD, "--per-request", "--json", "-", code=2)
    assert "--per-request: it is a file of the run folder" in done.stderr
    memory = ("--on", "memory(bytes=64Mi)", "--per-request")
    done = cli("play", "io:random(requests=10)", *memory, code=2)
    assert "--per-request: it is of one run on a simulated drive" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_leaves_nothing(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "flashwright", "play", "io:random"),
            *(*DRIVE, "--requests", "4G", "--per-request"),
        ],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_until_used(process, 2.5)
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=20)
    assert process.returncode == 130, stderr
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_takes_no_more_ends_the_run(tmp_path: Path) -> None:
    def little() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (3 << 20, 3 << 20))

    done = subprocess.run(
        [
            *(sys.executable, "-m", "flashwright", "play", "io:random"),
            *(*DRIVE, "--requests", "4G", "--per-request", "--out", "a/run"),
        ],
        cwd=tmp_path,
        preexec_fn=little,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert done.stderr.count("\n") == 1
    assert "requests" in done.stderr
    assert "write failed" in done.stderr
    assert list(tmp_path.iterdir()) == []
