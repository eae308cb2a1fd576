"""`play` on simulated drives, `device` and `list` of them.

The JSON that scripts rely on, and errors of one line.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from support import ROOT, Cli, wait_until_used

READS = "io:random(reads=1,requests=20000)"
WRITES = "io:random(requests=20000)"
SMALL = "media.erase_blocks_per_plane=64"
A16 = ["--on", f"profile(a16, {SMALL})"]
LATENCY_KEYS = {"count", "mean", "p50", "p99", "p999", "p9999", "max"}
RUN_KEYS = {
    "device",
    "state",
    "pace",
    "requests",
    "latency_ns",
    "iops",
    "bytes_per_second",
    "seconds",
    "flows",
    "simulated",
    "steady",
    "life_years",
}
SIMULATED_KEYS = {
    "delays",
    "die_share",
    "write_amplification",
    "flash_operations",
    "event_hash",
    "energy",
    "wall_seconds",
}
RESULT_KEYS = {"source", "devices", "runs", "settings", "peak_rss_bytes", "provenance"}


def on(*more: str) -> list[str]:
    """Give the small drive with more of it stated."""
    return ["--on", f"profile({', '.join(('a16', SMALL, *more))})"]


def run_of(cli_json: Callable[..., Any], *words: str | Path) -> dict[str, Any]:
    """Give the one run of a play."""
    (run,) = cli_json("play", *words)["runs"]
    return dict(run)


def timeless(run: dict[str, Any]) -> dict[str, Any]:
    """Leave out what the machine's clock says."""
    inside = run["simulated"]
    kept = {key: inside[key] for key in inside if key not in ("wall_seconds", "prepare_seconds")}
    return {**run, "simulated": kept, "device": None, "about": None}


WRONG_USE = [
    (["play", READS], "--on: no device is named; `flashwright list profile`"),
    (["play", READS, "--on", "nope"], "built in are: "),
    (["play", READS, "--on", "profile(nope)"], "built in are: "),
    (["play", READS, *on("media.nope=1")], "known in `media` are"),
    (["play", READS, *on("media")], "media"),
    (["play", READS, *A16, "--pace", "soon"], "known are: closed, open, intervals"),
    (["play", READS, *A16, "--pace", "open"], "has no times"),
    (["play", READS, *on("overwrites=3")], "there is no parameter `overwrites`"),
    (["play", READS, *on("state=filled(overwrites=3)")], "there is no parameter `overwrites`"),
    (["play", READS, *on("pages_per_erase_block=8")], "keys of the profile such as media."),
    (["play", READS, *on("op=0.2", "ftl.over_provisioning=0.3")], "is given twice"),
    (["play", READS, *on("victim=nope")], "known are: lru"),
    (["play", READS, *A16, "--warm-up", "10", "--requests", "10"], "nothing is left"),
    (["play", READS, *A16, "--requests", "0"], "--requests: 0"),
    (["play", "io:random", *A16, "--untimed", "85%"], "has no end to take a share of"),
    (["play", READS, *A16, "--untimed", "20k"], "nothing is left to play of the 20000"),
    (["play", f"part({READS}, handle=1)", *A16, "--untimed", "5"], "handles of their own"),
    (["play", READS, *A16, "--untimed", "100%"], "leaves nothing: a share is below 100%"),
    (["play", READS, *A16, "--untimed", "much"], "write 4096, 1M or 85%"),
    (["play", READS, *A16, "--warm-up", "1M"], "nothing is left to measure of 20000 requests"),
    (["play", READS, *A16, "--for", "nan"], "--for"),
    (["play", READS, *A16, "--pace", "closed(1, think=inf)"], "--pace"),
    (
        ["play", READS, "--on", "profile(sd-card, placement=multi_log)"],
        "ftl.placement: sd-card maps with `bast`",
    ),
    (["play", "random", *A16], "`io:random`"),
    (["play", READS, *A16, "--timeline", "10", "--json", "-"], "give --out DIR"),
    (["play", READS, *A16, "--life", "life(trace)"], "has no times"),
    (["play", "io:nope", *A16], "known are: sequential"),
    (["play", "io:random(size=5)", *A16], "size"),
    (["play", READS, "--on", "a16,a16"], "given twice"),
    (["play", READS, *A16, *A16], "given twice"),
    (["compare", READS, "--op", "0.1"], f"`flashwright play {READS} --on PROFILE`"),
    (["device", "nope"], "built in are: "),
    (["device", "a16", "--out", "none/x.toml"], "there is no folder 'none'"),
]


@pytest.mark.parametrize(
    ("arguments", "said"), WRONG_USE, ids=[" ".join(arguments) for arguments, _ in WRONG_USE]
)
def test_wrong_use_is_one_line_and_exit_2(cli: Cli, arguments: list[str], said: str) -> None:
    done = cli(*arguments, code=2)
    assert done.stdout == ""
    assert done.stderr.startswith("flashwright: error: ")
    assert done.stderr.count("\n") == 1
    assert said in done.stderr


def test_json_is_pure_and_has_the_stable_keys(cli: Cli, tmp_path: Path) -> None:
    done = cli("play", READS, *A16, "--seed", "3", "--json", "-")
    result = json.loads(done.stdout)
    assert done.stderr == ""
    assert set(result) >= RESULT_KEYS
    (run,), (device,) = result["runs"], result["devices"]
    assert set(run) >= RUN_KEYS
    assert set(run["simulated"]) >= SIMULATED_KEYS
    assert run["requests"] == result["source"]["requests"] == 20_000
    assert set(run["latency_ns"]["read"]) == LATENCY_KEYS
    assert "write" not in run["latency_ns"]
    shares = run["simulated"]["die_share"]
    assert set(shares) >= {"host", "cleaning", "wear_levelling", "idle"}
    assert sum(shares.values()) == pytest.approx(1)
    assert (run["pace"], run["state"]) == ("closed(32)", {"kind": "filled"})
    assert len(run["simulated"]["event_hash"]) == 16
    assert device["label"] == f"a16({SMALL})"
    assert device["overrides"] == [SMALL]
    assert result["provenance"]["seed"] == 3
    assert run["iops"] == pytest.approx(run["requests"] / run["seconds"])
    assert not (tmp_path / "runs").exists()


def test_one_by_one_takes_the_time_of_each_request(cli_json: Callable[..., Any]) -> None:
    one = run_of(cli_json, READS, *A16, "--pace", "1")
    assert one["iops"] == pytest.approx(1e9 / one["latency_ns"]["read"]["mean"], rel=1e-3)
    thinking = run_of(cli_json, READS, *A16, "--pace", "closed(1, think=100us)")
    assert thinking["latency_ns"] == one["latency_ns"]
    expected = one["seconds"] + 20_000 * 100e-6
    assert thinking["seconds"] == pytest.approx(expected, rel=1e-3)


def test_same_inputs_same_numbers_and_folder(cli: Cli, tmp_path: Path) -> None:
    for seed in ("1", "1", "2"):
        cli("play", WRITES, *on("state=aged"), "--seed", seed)
    folders = sorted((tmp_path / "runs").iterdir())
    assert len(folders) == 2
    first, second = (json.loads((folder / "result.json").read_text()) for folder in folders)
    hashes = {one["runs"][0]["simulated"]["event_hash"] for one in (first, second)}
    assert len(hashes) == 2


def test_a_run_is_repeated_from_its_own_profile(
    cli: Cli, cli_json: Callable[..., Any], tmp_path: Path
) -> None:
    cli("play", WRITES, *on("op=30%", "victim=lru", "state=aged"), "--out", "run")
    first = json.loads((tmp_path / "run" / "result.json").read_text())
    profile = tomllib.loads((tmp_path / "run" / "profile.toml").read_text())
    assert profile["ftl"]["over_provisioning"] == 0.3
    assert profile["ftl"]["victim"] == "lru"
    again = cli_json("play", WRITES, "--on", "profile(run/profile.toml, state=aged)")
    assert timeless(first["runs"][0]) == timeless(again["runs"][0])
    hashes = {one["devices"][0]["profile_hash"] for one in (first, again)}
    assert len(hashes) == 1


def test_run_folder_has_tables_profile_and_timeline(cli: Cli, tmp_path: Path) -> None:
    cli("play", WRITES, *on("state=aged"), "--timeline", "100", "--out", "run")
    folder = tmp_path / "run"
    result = json.loads((folder / "result.json").read_text())
    assert set(result["tables"]) == {
        "runs",
        "latency_histogram",
        "latency_over_time",
        "delay_histogram",
        "over_time",
        "dies",
        "wear",
    }
    texts = {"result.json", "report.html", "profile.toml", "timeline.json"}
    assert {path.name for path in folder.iterdir()} == {*texts, *result["tables"].values()}
    latencies = pl.read_parquet(folder / "latency_histogram.parquet")
    assert latencies["count"].sum() == 20_000
    timeline = json.loads((folder / "timeline.json").read_text())
    assert sum(event["ph"] == "X" for event in timeline["traceEvents"]) == 100
    cli("play", WRITES, *A16, "--out", "run")
    assert not (folder / "timeline.json").exists(), "a stale timeline stays"


def test_state_matters_and_is_said(cli: Cli, cli_json: Callable[..., Any]) -> None:
    fresh = run_of(cli_json, WRITES, *on("state=fresh"))
    aged = run_of(cli_json, WRITES, *on("state=aged(overwrites=1.5)"))
    one, other = (run["simulated"]["write_amplification"] for run in (fresh, aged))
    assert one < other
    assert fresh["iops"] > aged["iops"]
    assert aged["state"] == {"kind": "aged", "overwrites": 1.5}
    assert "was fresh at the start" in cli("play", WRITES, *on("state=fresh")).stdout


def test_limits_and_warm_up_are_kept(cli_json: Callable[..., Any]) -> None:
    endless = ["io:random(reads=1)", *A16]
    assert run_of(cli_json, *endless, "--requests", "5k")["requests"] == 5000
    warmed = run_of(cli_json, *endless, "--requests", "5k", "--warm-up", "1k")
    assert warmed["requests"] == 4000
    limited = run_of(cli_json, *endless, "--for", "0.05")
    assert limited["seconds"] == pytest.approx(0.05, rel=0.05)


def test_untimed_requests_age_the_drive_and_take_no_time(cli_json: Callable[..., Any]) -> None:
    asked = ["io:random", *A16, "--requests", "2k"]
    fresh, result = run_of(cli_json, *asked), cli_json("play", *asked, "--untimed", "200k")
    (aged,) = result["runs"]
    assert aged["requests"] == fresh["requests"] == 2000
    one, other = (run["simulated"]["write_amplification"] for run in (fresh, aged))
    assert other > 1.5 * one
    assert result["settings"]["untimed"] == "200000"
    assert run_of(cli_json, READS, *A16, "--untimed", "75%")["requests"] == 5000


def iolog(path: Path, lines: list[str]) -> str:
    """Write a trace of fio's."""
    head = ["fio version 3 iolog", "0 /dev/x add", "0 /dev/x open"]
    path.write_text("\n".join([*head, *lines]) + "\n")
    return path.name


def test_a_trace_is_played_at_its_own_pace(cli_json: Callable[..., Any], tmp_path: Path) -> None:
    lines = [f"{number * 2000} /dev/x write {number * 4096} 4096" for number in range(200)]
    slow = iolog(tmp_path / "slow.iolog", lines)
    result = cli_json("play", slow, *A16, "--pace", "open")
    (run,) = result["runs"]
    assert (run["requests"], run["pace"]) == (200, "open")
    [said] = result["provenance"]["inputs"]
    assert said["sha256"]
    recorded = cli_json("trace", "stats", slow)["duration_ns"] / 1e9
    assert run["seconds"] == pytest.approx(recorded, rel=0.02)


def test_a_trace_larger_than_the_drive_is_refused_or_folded(
    cli: Cli, cli_json: Callable[..., Any], tmp_path: Path
) -> None:
    lines = [f"1 /dev/x write {number << 28} 4096" for number in range(4000)]
    wide = iolog(tmp_path / "wide.iolog", lines)
    done = cli("play", wide, *A16, code=2)
    assert done.stderr.count("\n") == 1
    assert "--fold" in done.stderr
    assert run_of(cli_json, wide, *A16, "--fold")["requests"] == 4000


def test_drives_stand_side_by_side(cli: Cli, tmp_path: Path) -> None:
    done = cli("play", READS, "--on", "a16,intel-x25e", "--out", "run")
    assert "requests/s" in done.stdout
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert [row["device"] for row in result["runs"]] == ["a16", "intel-x25e"]
    for row in result["runs"]:
        assert set(row) >= RUN_KEYS
        assert set(row["simulated"]) >= SIMULATED_KEYS
    stacked = pl.read_parquet(tmp_path / "run" / "latency_histogram.parquet")
    assert set(stacked["device"]) == {"a16", "intel-x25e"}
    flat = pl.read_parquet(tmp_path / "run" / "runs.parquet")
    assert flat["latency_ns_read_p99"].to_list() == [
        row["latency_ns"]["read"]["p99"] for row in result["runs"]
    ]


def test_policies_side_by_side_are_the_runs_of_each(cli_json: Callable[..., Any]) -> None:
    drives = [
        on("state=aged", "placement=none", f"victim={victim}", f"op={op}")
        for op in ("20%", "30%")
        for victim in ("greedy", "lru")
    ]
    words = [word for drive in drives for word in drive]
    one, two = (cli_json("play", WRITES, *words, "--jobs", jobs)["runs"] for jobs in ("1", "2"))
    hashes = [row["simulated"]["event_hash"] for row in one]
    assert len({row["device"] for row in one}) == len(set(hashes)) == 4
    assert hashes == [row["simulated"]["event_hash"] for row in two]
    single = run_of(cli_json, WRITES, *drives[3])["simulated"]
    assert hashes[3] == single["event_hash"]
    assert one[1]["simulated"]["write_amplification"] > single["write_amplification"]


def test_device_writes_a_profile_of_ones_own(cli: Cli, cli_json: Callable[..., Any]) -> None:
    shown = cli("device", "intel-x25e")
    assert "limit of the channels" in shown.stdout
    assert "# 3.3 V x 25 mA" in shown.stdout, "the comments are lost"
    cli("device", f"profile(intel-x25e, {SMALL})", "--out", "my.toml")
    (device,) = cli_json("play", READS, "--on", "my.toml")["devices"]
    assert device["label"] == "my.toml"
    assert "media.erase_blocks_per_plane" in device["fitted"]
    said = cli_json("device", "my.toml")
    assert said["capacity_bytes"] == device["capacity_bytes"]
    assert (
        said["limits"]["link_bytes_per_second"]
        == said["keys"]["interface"]["link_mb_per_second"] * 1e6
    )


def test_every_profile_runs(cli_json: Callable[..., Any]) -> None:
    profiles = [profile["name"] for profile in cli_json("list")["profile"]]
    assert "intel-x25e" in profiles
    devices = [f"--on=profile({profile}, state=fresh)" for profile in profiles]
    rows = cli_json("play", "io:random(reads=0.5,requests=300)", "--pace", "1", *devices)["runs"]
    assert [row["device"].partition("(")[0] for row in rows] == profiles
    assert all(row["requests"] == 300 for row in rows)


def test_list_has_schemes_and_patterns_with_parameters(
    cli: Cli, cli_json: Callable[..., Any]
) -> None:
    names = cli_json("list")
    for kind in ("scheme", "pattern"):
        assert all({"name", "summary", "params", "usage"} <= set(entry) for entry in names[kind])
    assert "reads=" in cli("list", "pattern").stdout


def test_reference_lists_profiles_and_schemes(cli: Cli) -> None:
    page = (ROOT / "docs/reference/drives.md").read_text(encoding="utf-8")
    for kind in ("profile", "scheme"):
        begin, end = f"<!-- list {kind} -->\n", f"\n<!-- end of list {kind} -->"
        shown = page.partition(begin)[2].partition(end)[0]
        assert shown.strip() == cli("list", kind, "--markdown").stdout.strip(), (
            "drives.md is out of date: run `make readme`"
        )


def test_ctrl_c_ends_a_run_with_130_and_one_line(tmp_path: Path) -> None:
    words = ["play", "io:random", *A16, "--requests", "4G", "--json", "-"]
    command = [sys.executable, "-m", "flashwright", *words]
    process = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    wait_until_used(process, 2.5)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=20)
    assert process.returncode == 130, stderr
    assert stdout == ""
    assert stderr.startswith("flashwright: stopped")
    assert stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["device", "play"])
def test_help_has_examples_of_drives(cli: Cli, command: str) -> None:
    text = cli(command, "--help").stdout
    assert "intel-x25e" in text.partition("Options:")[0]
