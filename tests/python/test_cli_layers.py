"""`play --stack`: traces on stacks over simulated drives, memory and files.

What is measured, told, refused, and kept when it is stopped.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from playwright.sync_api import Browser

from browsing import check_report
from flashwright import _core
from flashwright.cli.listing import layers_in_full
from flashwright.jobs.play import remarks
from flashwright.jobs.play import run as playing
from flashwright.jobs.play.said import stacks as names_of
from flashwright.jobs.play.view import View
from flashwright.layering import checkpoints, facts, verdict
from flashwright.layering.checkpoints import Taken
from support import ROOT, Cli, wait_until_used, write_trace

MIB = 1 << 20
PROFILE = "mtron-sata7035"
SMALL = f"profile({PROFILE}, media.erase_blocks_per_plane=256)"
DRIVE = ["--on", SMALL]
LAYERS = [entry["name"] for entry in _core.registry()["layer"]]
STACK = "scheduler(defer,coalesce,buffer=64Ki)"


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep measurements for layers for the other tests, and not in the user's cache."""
    os.environ["XDG_CACHE_HOME"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return write_trace(tmp_path / "small.parquet")


WRONG_USE = [
    (["small.parquet", "--stack", STACK], "--on: no device is named"),
    (["nope.parquet", *DRIVE, "--stack", STACK], "no such file"),
    (["small.parquet", *DRIVE, "--stack", "nope"], "nope"),
    (["small.parquet", *DRIVE, "--stack", "scheduler(nope=1)"], "nope"),
    (["small.parquet", *DRIVE, "--stack", STACK, "--stack", STACK], "it is given twice"),
    (["small.parquet", *DRIVE, "--stack", f"auto,{STACK}"], "name it alone"),
    (["small.parquet", *DRIVE, "--checkpoints", "every(1s)"], "it is for layers, so give --stack"),
    (["small.parquet", *DRIVE, "--facts", "none"], "it is for layers, so give --stack too"),
    (["small.parquet", *DRIVE, "--no-drain"], "it is for layers, so give --stack too"),
    (
        ["small.parquet", *DRIVE, "--stack", STACK, "--data", "drained", "--no-drain"],
        "leave one of them out",
    ),
    (["small.parquet", *DRIVE, "--stack", STACK, "--checkpoints", "marks"], "not of a recording"),
    (
        ["small.parquet", *DRIVE, "--stack", STACK, "--checkpoints", "every(1e-9s)"],
        "take longer intervals",
    ),
    (["small.parquet", *DRIVE, "--stack", STACK, "--facts", "nope"], "no run folder"),
    (["small.parquet", "--on", "file", "--stack", STACK], "add --write"),
    (["reads.parquet", "--on", "file", "--stack", STACK], "layers write to it; add --write"),
    (
        ["small.parquet", "--on", "file", "--write", "--facts", "measure", "--stack", STACK],
        "probe it first",
    ),
    (["small.parquet", "--on", "data", "--write", "--stack", STACK], "--destroy-data data"),
    (["small.parquet", "--on", "memory(bytes=1Mi)", "--stack", STACK], "--fold"),
]


@pytest.mark.parametrize(("arguments", "said"), WRONG_USE)
def test_wrong_use_is_one_line_and_nothing_is_left_behind(
    cli: Cli, trace: Path, tmp_path: Path, arguments: list[str], said: str
) -> None:
    (tmp_path / "file").write_bytes(bytes(16 * MIB))
    (tmp_path / "data").write_bytes(b"somebody's data " * MIB)
    pq.write_table(
        pa.table({"time_ns": [0], "op": ["read"], "offset": [0], "length": [4096]}),
        tmp_path / "reads.parquet",
    )
    before = sorted(path.name for path in tmp_path.iterdir())
    done = cli("play", *arguments, code=2)
    assert said in done.stderr
    assert done.stderr.splitlines()[-1].startswith("flashwright: error: ")
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_the_device_alone_is_played_as_without_layers(
    cli_json: Callable[..., Any], trace: Path
) -> None:
    alone = cli_json("play", trace, *DRIVE, "--pace", "1")["runs"][0]
    (row,) = cli_json("play", trace, *DRIVE, "--stack", "direct")["runs"]
    assert (row["stack"], alone["stack"]) == ("direct", None)
    assert row["requests"] == alone["requests"] == 600
    for key in ("read_bytes", "written_bytes", "pace"):
        assert row[key] == alone[key], key
    for key in ("seconds", "iops"):
        assert row[key] == pytest.approx(alone[key], rel=1e-3), key
    for op, one in alone["latency_ns"].items():
        assert row["latency_ns"][op]["count"] == one["count"]
        assert row["latency_ns"][op]["mean"] == pytest.approx(one["mean"], rel=1e-3)
    assert row["writes_below"] == row["writes_above"] == alone["latency_ns"]["write"]["count"]
    assert row["layer_write_amplification"] == 1
    flash = row["layers"]["flash"]
    programmed_bytes = flash["page_programs"] * flash["page_bytes"]
    assert row["drive_write_amplification"] == pytest.approx(
        programmed_bytes / row["written_bytes"]
    )
    measured = (
        row["latency_ns"]["write"]["mean"] * row["writes_below"]
        + row["latency_ns"]["flush"]["mean"] * 6
    )
    assert row["total_write_seconds"] == pytest.approx(measured / 1e9, rel=1e-3)


def test_the_run_folder_holds_what_was_measured(
    cli: Cli, trace: Path, tmp_path: Path, browser: Browser
) -> None:
    more = ["--stack", STACK, "--checkpoints", "every(10ms)"]
    done = cli("play", trace, *DRIVE, *more, "--out", "run")
    assert "Report: run/report.html" in done.stdout
    assert done.stderr == ""
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert (result["command"], result["complete"], result["stacks"]) == (
        "play",
        True,
        ["direct", STACK],
    )
    due = {"number": 5, "told_as": "flush", "origin": "assumed every 0.01 s", "beginnings": 0}
    assert result["checkpoints"] == due
    direct, layered = result["runs"]
    assert direct["verdict"] is None
    assert direct["flushes_below"] == 6 + 5
    counts = {op: one["count"] for op, one in direct["latency_ns"].items()}
    assert {op: one["count"] for op, one in layered["latency_ns"].items()} == counts
    assert layered["verdict"]["times_faster"] == pytest.approx(
        direct["total_write_seconds"] / layered["total_write_seconds"]
    )
    assert layered["verdict"]["line"] in " ".join(done.stdout.split())
    (device,) = result["devices"]
    assert device["facts"]["values"]["times"]["sequential_ns"] > 0
    assert (
        "measured on a second simulated drive" in device["facts"]["origin"]
        or "measured before" in device["facts"]["origin"]
    )
    stacks = pl.read_parquet(tmp_path / "run" / "runs.parquet")
    assert stacks["stack"].to_list() == ["direct", STACK]
    assert stacks["latency_ns_write_count"].to_list() == [counts["write"]] * 2
    classes = pl.read_parquet(tmp_path / "run" / "latency.parquet")
    of_writes = classes.filter((pl.col("of") == "latency") & (pl.col("op") == "write"))
    of_stacks = of_writes.group_by("stack").agg(pl.col("count").sum())
    assert of_stacks["count"].to_list() == [counts["write"]] * 2
    samples = pl.read_parquet(tmp_path / "run" / "samples.parquet")
    assert set(samples["layer"]) == {"scheduler"}
    (tmp_path / "run" / "report.html").unlink()
    cli("report", tmp_path / "run")
    check_report(browser, tmp_path / "run" / "report.html", least_plots=5)


@pytest.mark.parametrize("layer", LAYERS)
def test_each_layer_plays_the_whole_trace_and_the_same_again(
    cli_json: Callable[..., Any], trace: Path, layer: str
) -> None:
    command = ("play", trace, *DRIVE, "--stack", layer, "--pace", "4")
    first, again = cli_json(*command)["runs"], cli_json(*command)["runs"]
    for row, other in zip(first, again, strict=True):
        assert row["error"] is None
        assert row["requests"] == 600
        counts = {op: one["count"] for op, one in row["latency_ns"].items()}
        assert counts == {"all": 600, "read": 198, "write": 396, "flush": 6}
        assert timeless(row) == timeless(other)


def timeless(row: dict[str, Any]) -> dict[str, Any]:
    """Leave out time of this machine's processor: the only figure that differs."""
    sent = {key: row["sent"][key] for key in row["sent"] if not key.startswith("starved")}
    layers = {key: row["layers"][key] for key in row["layers"] if key != "computing_seconds"}
    return {**row, "sent": sent, "layers": layers, "computing_ns_per_request": None}


def test_reads_that_cost_nothing_are_told(cli_json: Callable[..., Any], trace: Path) -> None:
    words = [f"--stack={one}" for one in ("log_volume", "log_volume(filled=yes)")]
    result = cli_json("play", trace, *DRIVE, *words)
    lines = [remarks.unmapped(row) for row in result["runs"]]
    found = [line for line in lines if line is not None]
    assert len(found) == 1
    assert "cost nothing" in found[0]
    assert "log_volume" in found[0]
    empty, filled = result["runs"][1:]
    assert empty["reads_below"] < filled["reads_below"]


def test_a_region_is_all_that_is_touched(cli: Cli, trace: Path, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(bytes(24 * MIB))
    device = f"disk(file, region={4 * MIB}+{12 * MIB})"
    done = cli("play", trace, "--on", device, "--write", "--stack", STACK, "--json", "-")
    assert "each of 2 " in done.stderr
    result = json.loads(done.stdout)
    assert all(row["latency_ns"]["write"]["count"] == 396 for row in result["runs"])
    assert any("on the same device" in remark for remark in result["remarks"])
    content = file.read_bytes()
    assert not any(content[: 4 * MIB])
    assert not any(content[16 * MIB :])
    assert any(content[4 * MIB : 12 * MIB])


def test_stacks_of_different_capacity_play_the_same_requests(
    cli_json: Callable[..., Any], trace: Path
) -> None:
    # Of memory nothing is known.
    given = "size=1Mi,focused_area=1Mi,t_sequential=60,t_partitioned=70,t_focused=99"
    stack = f"stable_buffer({given},theta_sequential=4,theta_partitioned=5,theta_focused=7)"
    memory = ["--on", "memory(bytes=8Mi)"]
    result = cli_json("play", trace, *memory, "--stack", stack, "--fold")
    direct, layered = result["runs"]
    assert layered["capacity_bytes"] < direct["capacity_bytes"] == 8 * MIB
    assert layered["sent"]["fitted"] == direct["sent"]["fitted"]


def recording(folder: Path) -> Path:
    """Make what a recording is: requests, and marks on the same clock."""
    folder.mkdir()
    write_trace(folder / "requests.parquet")
    ends = [-5, 10_000_000, 30_000_000, 99_000_000]
    marks = {
        "time_ns": [-9, 9_000_000, 25_000_000, 98_000_000],
        "end_ns": ends,
        "kind": ["checkpoint"] * 4,
        "name": [""] * 4,
    }
    pq.write_table(pa.table(marks), folder / "marks.parquet")
    return folder


def test_checkpoints_are_those_that_the_recording_marked(
    cli_json: Callable[..., Any], tmp_path: Path
) -> None:
    folder = recording(tmp_path / "recording")

    def flushes(source: str | Path, when: str) -> int:
        words = ("play", source, *DRIVE, "--checkpoints", when, "--stack", "direct")
        return int(cli_json(*words)["runs"][0]["flushes_below"])

    found = cli_json("play", folder, *DRIVE, "--checkpoints", "marks", "--stack", "direct")
    assert found["checkpoints"]["origin"] == "2 of 4 that the recording marked"
    assert found["runs"][0]["flushes_below"] == 6 + 2
    assert flushes(folder, "marks(as=signal)") == 6
    assert flushes(f"part({folder}, ops=read+write+trim)", "marks") == 2


def test_a_window_may_close_where_a_checkpoint_begins(
    cli: Cli, cli_json: Callable[..., Any], tmp_path: Path
) -> None:
    folder = recording(tmp_path / "recording")
    stack = "scheduler(defer,coalesce,window=checkpoint_begin,buffer=off)"
    command = ("play", f"part({folder}, ops=read+write+trim)", *DRIVE, "--stack", stack)
    result = cli_json(*command, "--checkpoints", "marks(as=signal)")
    assert result["checkpoints"]["beginnings"] == 2
    assert result["runs"][1]["counters"][0]["counters"]["batches_checkpoint"] == 2
    done = cli(*command, "--checkpoints", "every(10ms, as=signal)", code=2)
    assert "hears of no beginning" in done.stderr
    assert done.stderr.count("\n") == 1


def test_marks_are_counted_from_the_first_request_that_is_taken(tmp_path: Path) -> None:
    path = recording(tmp_path / "recording") / "requests.parquet"
    assert checkpoints.marked(path, Taken()).times_ns == (10_000_000, 30_000_000)
    assert checkpoints.marked(path, Taken(skip_seconds=0.005)).times_ns == (
        5_000_000,
        25_000_000,
    )
    # The first read is the third request.
    assert checkpoints.marked(path, Taken(ops=("read",))).times_ns == (9_800_000, 29_800_000)
    assert checkpoints.marked(path, Taken(seconds=0.02)).times_ns == (10_000_000,)
    assert checkpoints.marked(path, Taken(limit=200)).times_ns == (10_000_000,)
    with pytest.raises(_core.InputError, match="none ends within"):
        checkpoints.marked(path, Taken(skip_seconds=0.04))


def test_what_layers_know_is_measured_once(cli: Cli, trace: Path, tmp_path: Path) -> None:
    drive = f"profile({PROFILE}, media.erase_blocks_per_plane=256, media.read_us=31)"
    command = ["play", trace, "--on", drive, "--stack", STACK, "--json", "-"]
    first, again = (json.loads(cli(*command).stdout) for _ in range(2))
    said = [result["devices"][0]["facts"] for result in (first, again)]
    assert "measured on a second simulated drive" in said[0]["origin"]
    assert "measured before" in said[1]["origin"]
    assert said[0]["values"] == said[1]["values"]
    assert {"times", "sequential_write", "random_write", "write_bytes"} <= said[0]["values"].keys()
    assert said[0]["random_over_sequential"] > 10
    nothing = json.loads(cli(*command, "--facts", "none").stdout)["devices"][0]["facts"]
    assert nothing["values"] == {}


def test_what_layers_know_is_from_a_probe(
    cli: Cli, cli_json: Callable[..., Any], trace: Path
) -> None:
    only = [part for spec in facts.EXPERIMENTS for part in ("--only", spec)]
    cli("probe", SMALL, *only, "--minutes", "2", "--out", "probed")
    result = cli_json("play", trace, *DRIVE, "--stack", STACK, "--facts", "probed")
    said = result["devices"][0]["facts"]
    assert said["origin"].startswith(f"`flashwright probe` of {PROFILE}")
    assert said["origin"].endswith(", probed")
    assert {"times", "sequential_write", "random_write", "write_bytes"} <= said["values"].keys()
    line = remarks.known(result["devices"][0])
    assert said["remarks"]
    assert all(remark.partition(" (")[0] in line for remark in said["remarks"])


def value(
    key: str, number: float | None, verdict_: str = "sure", word: str | None = None
) -> dict[str, Any]:
    return {"key": key, "number": number, "word": word, "verdict": verdict_, "why": "of the test"}


def test_what_is_not_sure_is_told() -> None:
    patterns = [
        value(f"{name}_write_us", us) for name, us in (("sequential", 60.0), ("partitioned", 70.0))
    ]
    findings = {
        "focused(size=32768)": {
            "values": [value("focused_area_bytes", 8.4e6, "unsure")],
            "charts": [],
        },
        "erase_block_size(size=1)": {
            "values": [value("superblock_bytes", None, "not_found")],
            "charts": [],
        },
        "write_patterns(size=32768)": {
            "values": [*patterns, value("focused_write_us", 99.0)],
            "charts": [],
        },
    }
    found = facts.of_findings(findings, "the test")
    assert found.values == {
        "focused_area_bytes": 8_400_000,
        "times": {"sequential_ns": 60_000.0, "partitioned_ns": 70_000.0, "focused_ns": 99_000.0},
    }
    assert found.remarks == (
        "focused_area_bytes is not sure (of the test)",
        "superblock_bytes was not found (of the test)",
        "times of patterns are those of writes of 32 KiB, not of pages of 4 KiB",
    )


@pytest.mark.parametrize(("ratio", "area"), [(1.2, 8 * MIB), (120.0, None)])
def test_where_writes_at_random_are_as_fast_any_area_is_a_focused_one(
    ratio: float, area: int | None
) -> None:
    patterns = [
        value("random_over_sequential", ratio),
        value("focused_write_area_bytes", 8.0 * MIB),
    ]
    findings = {
        "focused(size=4096)": {
            "values": [value("focused_area_bytes", None, "not_found")],
            "charts": [],
        },
        "write_patterns(size=4096,area=0)": {"values": patterns, "charts": []},
    }
    found = facts.of_findings(findings, "the test")
    assert found.values.get("focused_area_bytes") == area
    assert ("the 8 MiB are taken" in found.remarks[-1]) == (area is not None)


def test_performance_equations_are_taken_piece_by_piece() -> None:
    keys = {
        "random_write_piece_1_us_per_sector": 0.0,
        "random_write_piece_1_us_at_zero": 7298.8,
        "random_write_piece_2_us_per_sector": 4.6076,
        "random_write_piece_2_us_at_zero": 7043.9,
        "random_write_piece_2_from_sectors": 128.0,
        "random_write_us_per_sector": 9.0,
        "random_write_us_at_zero": 9.0,
    }
    values = [
        value("random_write_shape", None, "sure", "pieces"),
        *(value(key, number) for key, number in keys.items()),
    ]
    found = facts.of_findings({"equations_write": {"values": values, "charts": []}}, "the test")
    first, second = found.values["random_write"]
    assert first == (65_536, pytest.approx(7_298_800), 0.0)
    assert second[0] > 1 << 50
    assert second[1:] == (pytest.approx(7_043_900), pytest.approx(4607.6 / 512))
    assert found.remarks == ()


@pytest.mark.parametrize(
    ("rates", "kib"),
    [
        # Those of our Mtron drives and of an NVMe drive.
        ([60.1, 70.3, 75.4, 77.1, 76.0, 77.3, 77.8, 76.0, 94.8], 16),
        ([68.1, 85.6, 91.8, 99.3, 98.8, 102.5, 104.5, 109.4, 119.8], 32),
        ([428.1, 777.4, 1130.0, 1103.6, 1104.6], 16),
        ([1.0, 2.0, 4.0, 8.0], 32),
    ],
)
def test_the_size_from_which_on_larger_writes_bring_little_more(
    rates: list[float], kib: int
) -> None:
    points = [
        {"x": float(4096 << power), "y": (4096 << power) / rate} for power, rate in enumerate(rates)
    ]
    chart = {
        "name": "equations_write",
        "series": [{"name": "sequential write", "is_scatter": True, "points": points}],
    }
    found = facts.of_findings({"equations_write": {"values": [], "charts": [chart]}}, "the test")
    assert found.values == {"write_bytes": kib * 1024}


def row_of(**changed: Any) -> dict[str, Any]:
    latency = {op: {"mean": 1e6, "p50": 1e6, "p99": 2e6, "max": 4e6} for op in ("read", "write")}
    return {
        "total_write_seconds": 10.0,
        "seconds_with_drain": 12.0,
        "iops": 100.0,
        "latency_ns": latency,
        "programmed_bytes": 8 * MIB,
        "erases": 8,
        "capacity_bytes": 64 * MIB,
        "layer_write_amplification": 1.0,
        "reads_below_bytes": MIB,
        "writes_above_bytes": 4 * MIB,
        "writes_below": 1024,
        "writes_below_bytes": 4 * MIB,
        "flush_seconds_below": 0.0,
        "write_seconds_below": 10.0,
        **changed,
    }


def test_a_verdict_says_what_is_gained_and_what_is_lost() -> None:
    reads = {
        "read": {"mean": 3e6, "p50": 1e6, "p99": 9e6, "max": 4e6},
        "write": row_of()["latency_ns"]["write"],
    }
    row = row_of(
        total_write_seconds=2.0, capacity_bytes=60 * MIB, latency_ns=reads, programmed_bytes=4 * MIB
    )
    found = verdict.verdict(row, row_of(), {"random_over_sequential": 120.0})
    assert (found["times_faster"], found["is_gain"]) == (5.0, True)
    assert [one["figure"] for one in found["gain"]] == ["total_write_seconds", "programmed_bytes"]
    assert [one["figure"] for one in found["lost"]] == [
        "latency_ns.read.mean",
        "latency_ns.read.p99",
        "capacity_bytes",
    ]
    assert found["gain"][0]["ratio"] == pytest.approx(0.2)
    assert found["line"].startswith(
        "5.00 times faster than the device alone (2.00 s of writing instead of 10.0 s): this "
        "drive takes 120 times"
    )
    assert "99th percentile of reads: 9.00 ms instead of 2.00 ms" in found["line"]


def test_a_write_that_takes_no_time_is_called_what_it_is() -> None:
    def times(p99: int) -> dict[str, Any]:
        return {"write": {"mean": p99, "p50": p99, "p99": p99, "max": p99}}

    row = row_of(total_write_seconds=2.0, latency_ns=times(0))
    line = verdict.verdict(row, row_of(latency_ns=times(7_500_000)), {})["line"]
    assert line.endswith(
        " 99th percentile of writes: under 1 µs (in memory, not yet durable) instead of 7.50 ms."
    )


def test_stacks_have_names_in_words_of_which_no_two_are_the_same() -> None:
    assert names_of(["direct", "stable_buffer(size=4MiB) | log_volume"]) == {
        "direct": "device alone",
        "stable_buffer(size=4MiB) | log_volume": "StableBuffer over log volume",
    }
    both = names_of(["scheduler(defer)", "scheduler(defer,align)", "direct"])
    assert list(both.values()) == [
        "write scheduler (defer)",
        "write scheduler (defer, align)",
        "device alone",
    ]
    assert names_of(both.values()) == {name: name for name in both.values()}


def test_a_verdict_says_when_a_stack_is_slower_and_why() -> None:
    row = row_of(total_write_seconds=20.0, layer_write_amplification=2.0, reads_below_bytes=5 * MIB)
    found = verdict.verdict(row, row_of(), {"random_over_sequential": 1.0})
    assert (found["times_faster"], found["is_gain"]) == (0.5, False)
    assert found["reasons"] == [
        "this drive writes at random as fast as in sequence",
        "the layers write 2.00 bytes for each that they are given",
        "they read 4 MiB more",
    ]
    assert found["line"].startswith(
        "2.00 times slower than the device alone (20.0 s of writing instead of 10.0 s): this "
        "drive writes"
    )
    same = verdict.verdict(row_of(total_write_seconds=10.1), row_of(), {})
    assert same["line"].startswith("as fast as the device alone")
    assert same["gain"] == same["lost"] == []
    nothing = verdict.verdict(row_of(total_write_seconds=0.0), row_of(total_write_seconds=0.0), {})
    assert (nothing["times_faster"], nothing["is_gain"]) == (None, None)


def test_a_verdict_on_a_trace_with_its_times_counts_what_is_late() -> None:
    late = {"read": {"mean": 5e9, "p50": 5e9, "p99": 9e9, "max": 9e9}}
    in_time = {"read": {"mean": 1e6, "p50": 1e6, "p99": 2e6, "max": 4e6}}
    found = verdict.verdict(row_of(response_ns=in_time), row_of(response_ns=late), {})
    assert [one["figure"] for one in found["gain"]] == [
        f"latency_ns.read.{key}" for key in ("mean", "p50", "p99", "max")
    ]


def small_play(path: Path, *stacks: str) -> playing.Playing:
    asked = {"source": str(path), "on": [SMALL], "stack": list(stacks), "facts": "none"}
    return playing.Playing(playing.plan(playing.settings_of(asked), 1))


def test_stopping_keeps_the_stacks_that_are_done(tmp_path: Path) -> None:
    path = write_trace(tmp_path / "long.parquet", count=60_000)
    made = small_play(path, STACK, "scheduler(defer)")
    found: list[Any] = []
    worker = threading.Thread(target=lambda: found.extend(made.pool.run()))
    worker.start()
    deadline = time.monotonic() + 120
    while made.pool.state()[0] <= 60_000 and worker.is_alive() and time.monotonic() < deadline:
        time.sleep(0.001)
    made.pool.cancel()
    worker.join(60)
    made.take(found)
    view = View(made.run())
    assert [row["stack"] for row in view.rows] == ["direct"]
    assert view.result["complete"] is False
    assert "2 of 3 runs are missing" in view.result["remarks"][0]
    assert remarks.headline(view) == "Nothing was compared."


def test_a_stack_that_fails_does_not_cost_the_others_their_results(tmp_path: Path) -> None:
    made = small_play(write_trace(tmp_path / "small.parquet"), STACK)
    ended = made.pool.run()
    made.take([ended[0], type(ended[1])(1, None, "it broke")])
    view = View(made.run())
    assert [row["error"] for row in made.rows] == [None, "it broke"]
    assert [row["stack"] for row in made.failures] == [STACK]
    assert any("it broke" in line for line in remarks.remarks(view))


def test_drives_and_stacks_are_compared(cli: Cli, trace: Path, tmp_path: Path) -> None:
    words = ["--on", f"{PROFILE},sd-card", "--stack", STACK, "--jobs", "2"]
    done = cli("play", trace, *words, "--out", "run")
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert (result["command"], result["paces"]) == ("play", ["closed(1)", "closed(1)"])
    pairs = [(row["device"], row["stack"]) for row in result["runs"]]
    assert pairs == [
        (drive, stack) for drive in (PROFILE, "sd-card") for stack in ("direct", STACK)
    ]
    assert [row["verdict"] is None for row in result["runs"]] == [True, False, True, False]
    assert any(line.split() == ["stack", PROFILE, "sd-card"] for line in done.stdout.splitlines())
    assert (
        done.stdout.count("times faster")
        + done.stdout.count("slower")
        + done.stdout.count("as fast as")
        >= 2
    )
    cli("report", tmp_path / "run")


def test_layers_are_listed(cli: Cli, cli_json: Callable[..., Any]) -> None:
    listed = cli_json("list", "layer")["layer"]
    assert [entry["name"] for entry in listed] == LAYERS
    shown = cli("list", "layer").stdout
    assert all(name in shown for name in LAYERS)


def test_docs_list_every_layer(cli: Cli) -> None:
    page = (ROOT / "docs/reference/layers.md").read_text(encoding="utf-8")
    shown = page.partition("<!-- list layer -->\n")[2].partition("\n<!-- end of list layer -->")[0]
    assert shown == cli("list", "layer", "--markdown").stdout.rstrip("\n"), (
        "layers.md is out of date: run `make readme`"
    )
    docs = (ROOT / "docs" / "layers.md").read_text(encoding="utf-8")
    shown = docs.partition("<!-- layers -->\n")[2].partition("\n<!-- end of layers -->")[0]
    assert shown == layers_in_full(), "docs/layers.md is out of date: run `make readme`"


def test_ctrl_c_is_one_line_and_130(tmp_path: Path) -> None:
    write_trace(tmp_path / "long.parquet", count=1_000_000)
    words = ["play", "long.parquet", *DRIVE, "--jobs", "1", "--stack", STACK]
    command = [sys.executable, "-m", "flashwright", *words]
    process = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    wait_until_used(process, 3)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130, stderr
    # On a busy machine another line says before that it stops.
    assert stderr.splitlines()[-1].startswith("flashwright: stopped")
    assert "Traceback" not in stderr
