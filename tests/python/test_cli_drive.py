"""`simulate`, `compare`, `device` and `list` of simulated drives.

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

from support import ROOT, SMALL, Cli, wait_until_used

READS = "io:random(reads=1,requests=20000)"
WRITES = "io:random(requests=20000)"
SMALL_DRIVE = ["--set", "media.erase_blocks_per_plane=64"]
A16 = ["--device", "a16", *SMALL_DRIVE]
LATENCY_KEYS = {"count", "mean", "p50", "p99", "p999", "p9999", "max"}
DRIVE_KEYS = {
    "requests",
    "latency_ns",
    "delays",
    "iops",
    "bytes_per_second",
    "die_share",
    "write_amplification",
    "simulated_seconds",
    "requests_per_wall_second",
    "flash_operations_per_wall_second",
    "event_hash",
    "device",
    "state",
    "pace",
    "steady",
    "life_years",
    "energy_joules",
    "peak_rss_bytes",
    "provenance",
}
MEASURED = {
    "requests_per_wall_second",
    "flash_operations_per_wall_second",
    "wall_seconds",
    "prepare_seconds",
    "peak_rss_bytes",
    "provenance",
}

WRONG_USE = [
    (["simulate", SMALL, "--depth", "4"], "--depth: it is for a simulated drive, so give --device"),
    (["simulate", SMALL, "--set", "a=1"], "--set"),
    (["simulate", SMALL, "--timeline", "1k"], "--timeline"),
    (["simulate", READS], "take it with --device PROFILE"),
    (["simulate", READS, "--device", "nope"], "built in are: "),
    (["simulate", READS, *A16, "--set", "media.nope=1"], "known in `media` are"),
    (["simulate", READS, *A16, "--set", "media"], "media"),
    (["simulate", READS, *A16, "--depth", "4", "--open-loop"], "a run has one pace"),
    (["simulate", READS, *A16, "--open-loop"], "has no times"),
    (["simulate", READS, *A16, "--overwrites", "3"], "--state aged"),
    (["simulate", READS, *A16, "--start", "fresh"], "use --state"),
    (
        ["simulate", READS, *A16, "--pages-per-erase-block", "8"],
        "--set media.pages_per_erase_block",
    ),
    (
        ["simulate", READS, *A16, "--op", "0.2", "--set", "ftl.over_provisioning=0.3"],
        "says the same thing",
    ),
    (["simulate", READS, *A16, "--victim", "nope"], "known are: lru"),
    (["simulate", READS, *A16, "--warm-up", "10", "--requests", "10"], "nothing is left"),
    (["simulate", READS, *A16, "--requests", "0"], "--requests 0"),
    (["simulate", "io:random", *A16, "--untimed", "85%"], "has no end to take a share of"),
    (["simulate", READS, *A16, "--untimed", "20k"], "nothing is left to play of the 20000"),
    (["simulate", READS, *A16, "--untimed", "5", "--handle", "1"], "handles of their own"),
    (["simulate", READS, *A16, "--untimed", "100%"], "less than 100%"),
    (["simulate", READS, *A16, "--untimed", "much"], "write 4096, 1M or 85%"),
    (
        ["simulate", READS, *A16, "--warm-up", "1M"],
        "nothing is left to measure of the 20000 requests",
    ),
    (["simulate", READS, *A16, "--seconds", "nan"], "--seconds"),
    (["simulate", READS, *A16, "--think-time", "inf"], "--think-time"),
    (
        ["simulate", READS, *A16, "--device", "nvme-tlc"],
        "flashwright compare SOURCE --device a16 --device nvme-tlc",
    ),
    (
        ["simulate", READS, "--device", "sd-card", "--placement", "multi_log"],
        "ftl.placement: sd-card maps with `bast`",
    ),
    (["simulate", "random", *A16], "`io:random`"),
    (["simulate", READS, *A16, "--timeline", "10", "--json", "-"], "give --out DIR"),
    (["simulate", READS, *A16, "--writes-per-day", "trace"], "has no times"),
    (["simulate", "io:nope", *A16], "known are: sequential"),
    (["simulate", READS, *A16, "--fold"], "--fold: it says how a trace is read"),
    (["compare", READS, *A16, "--page-size", "8192"], "--page-size: it says how a trace is read"),
    (
        ["simulate", READS, *A16, "--set", "media.channels=2", "--set", "media.channels=4"],
        "media.channels: it is set twice",
    ),
    (["simulate", "io:random(size=5)", *A16], "size"),
    (["compare", READS, "--depth", "4"], "give --device"),
    (["compare", READS, "--device", "a16", "--device", "a16"], "given twice"),
    (["compare", READS, *A16, "--placements", "nope"], "known are: none"),
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


def test_simulate_json_is_pure_and_has_the_stable_keys(cli: Cli, tmp_path: Path) -> None:
    done = cli("simulate", READS, *A16, "--seed", "3", "--json", "-")
    result = json.loads(done.stdout)
    assert done.stderr == ""
    assert set(result) >= DRIVE_KEYS
    assert result["requests"] == 20_000
    assert set(result["latency_ns"]["read"]) == LATENCY_KEYS
    assert "write" not in result["latency_ns"]
    assert set(result["die_share"]) >= {"host", "cleaning", "wear_levelling", "idle"}
    assert sum(result["die_share"].values()) == pytest.approx(1)
    assert result["pace"] == {"kind": "closed_loop", "depth": 32, "think_time_us": 0}
    assert result["state"] == {"kind": "filled"}
    assert len(result["event_hash"]) == 16
    assert result["device"]["name"] == "a16"
    assert result["device"]["overrides"] == ["media.erase_blocks_per_plane=64"]
    assert result["provenance"]["seed"] == 3
    assert result["iops"] == pytest.approx(result["requests"] / result["simulated_seconds"])
    assert not (tmp_path / "runs").exists()


def test_one_by_one_takes_the_time_of_each_request(cli_json: Callable[..., Any]) -> None:
    result = cli_json("simulate", READS, *A16, "--one-by-one")
    assert result["iops"] == pytest.approx(1e9 / result["latency_ns"]["read"]["mean"], rel=1e-3)
    thinking = cli_json("simulate", READS, *A16, "--one-by-one", "--think-time", "100")
    assert thinking["latency_ns"] == result["latency_ns"]
    expected = result["simulated_seconds"] + 20_000 * 100e-6
    assert thinking["simulated_seconds"] == pytest.approx(expected, rel=1e-3)


def test_same_inputs_same_numbers_and_folder(cli: Cli, tmp_path: Path) -> None:
    results = []
    for seed in ("1", "1", "2"):
        cli("simulate", WRITES, *A16, "--state", "aged", "--seed", seed)
        results.append(seed)
    folders = sorted((tmp_path / "runs").iterdir())
    assert len(folders) == 2
    first, second = (json.loads((folder / "result.json").read_text()) for folder in folders)
    assert first["event_hash"] != second["event_hash"]


def test_a_run_is_repeated_from_its_own_profile(
    cli: Cli, cli_json: Callable[..., Any], tmp_path: Path
) -> None:
    cli(
        "simulate",
        WRITES,
        *A16,
        "--op",
        "30%",
        "--victim",
        "lru",
        "--state",
        "aged",
        "--out",
        "run",
    )
    first = json.loads((tmp_path / "run" / "result.json").read_text())
    profile = tomllib.loads((tmp_path / "run" / "profile.toml").read_text())
    assert profile["ftl"]["over_provisioning"] == 0.3
    assert profile["ftl"]["victim"] == "lru"
    again = cli_json("simulate", WRITES, "--device", "run/profile.toml", "--state", "aged")
    different = MEASURED | {"device", "tables", "files"}
    assert {key: value for key, value in first.items() if key not in different} == {
        key: value for key, value in again.items() if key not in different
    }
    assert again["device"]["profile_hash"] == first["device"]["profile_hash"]


def test_run_folder_has_tables_profile_and_timeline(cli: Cli, tmp_path: Path) -> None:
    cli("simulate", WRITES, *A16, "--state", "aged", "--timeline", "100", "--out", "run")
    folder = tmp_path / "run"
    result = json.loads((folder / "result.json").read_text())
    assert set(result["tables"]) == {
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
    cli("simulate", WRITES, *A16, "--out", "run")
    assert not (folder / "timeline.json").exists(), "a stale timeline stays"


def test_state_matters_and_is_told(cli: Cli, cli_json: Callable[..., Any]) -> None:
    fresh = cli_json("simulate", WRITES, *A16, "--state", "fresh")
    aged = cli_json("simulate", WRITES, *A16, "--state", "aged", "--overwrites", "1.5")
    assert fresh["write_amplification"] < aged["write_amplification"]
    assert fresh["iops"] > aged["iops"]
    assert aged["state"] == {"kind": "aged", "overwrites": 1.5}
    assert "was fresh at the start" in cli("simulate", WRITES, *A16, "--state", "fresh").stdout


def test_limits_and_warm_up_are_kept(cli_json: Callable[..., Any]) -> None:
    endless = "io:random(reads=1)"
    assert cli_json("simulate", endless, *A16, "--requests", "5k")["requests"] == 5000
    assert (
        cli_json("simulate", endless, *A16, "--requests", "5k", "--warm-up", "1k")["requests"]
        == 4000
    )
    limited = cli_json("simulate", endless, *A16, "--seconds", "0.05")
    assert limited["simulated_seconds"] == pytest.approx(0.05, rel=0.05)


def test_untimed_requests_age_the_drive_and_take_no_time(cli_json: Callable[..., Any]) -> None:
    endless = "io:random"
    asked = ["simulate", endless, *A16]
    fresh = cli_json(*asked, "--requests", "2k")
    aged = cli_json(*asked, "--requests", "2k", "--untimed", "200k")
    assert aged["requests"] == fresh["requests"] == 2000
    assert aged["write_amplification"] > 1.5 * fresh["write_amplification"]
    assert aged["limits"]["untimed"] == 200_000
    assert "untimed" not in fresh["limits"]
    share = cli_json("simulate", READS, *A16, "--untimed", "75%")
    assert share["requests"] == 5000


def test_a_trace_is_played_at_its_own_pace(
    cli: Cli, cli_json: Callable[..., Any], tmp_path: Path
) -> None:
    lines = [f"{number * 2000} /dev/x write {number * 4096} 4096" for number in range(200)]
    head = ["fio version 3 iolog", "0 /dev/x add", "0 /dev/x open"]
    (tmp_path / "slow.iolog").write_text("\n".join([*head, *lines]) + "\n")
    result = cli_json("simulate", "slow.iolog", *A16, "--open-loop")
    assert result["requests"] == 200
    assert result["pace"] == {"kind": "open_loop"}
    [said] = result["provenance"]["inputs"]
    assert said["sha256"]
    recorded = cli_json("trace", "stats", "slow.iolog")["duration_ns"] / 1e9
    assert result["simulated_seconds"] == pytest.approx(recorded, rel=0.02)


def test_a_trace_larger_than_the_drive_is_told_or_folded(
    cli: Cli, cli_json: Callable[..., Any], tmp_path: Path
) -> None:
    lines = [f"1 /dev/x write {number << 28} 4096" for number in range(4000)]
    head = ["fio version 3 iolog", "0 /dev/x add", "0 /dev/x open"]
    (tmp_path / "wide.iolog").write_text("\n".join([*head, *lines]) + "\n")
    done = cli("simulate", "wide.iolog", *A16, code=2)
    assert done.stderr.count("\n") == 1
    assert "--fold" in done.stderr
    assert cli_json("simulate", "wide.iolog", *A16, "--fold")["requests"] == 4000


def test_compare_stands_drives_side_by_side(cli: Cli, tmp_path: Path) -> None:
    done = cli("compare", READS, "--device", "a16", "--device", "intel-x25e", "--out", "run")
    assert "requests/s" in done.stdout
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert [row["drive"] for row in result["results"]] == ["a16", "intel-x25e"]
    for row in result["results"]:
        assert set(row) >= DRIVE_KEYS - {"pace", "provenance", "peak_rss_bytes"}
    stacked = pl.read_parquet(tmp_path / "run" / "latency_histogram.parquet")
    assert set(stacked["drive"]) == {"a16", "intel-x25e"}
    flat = pl.read_parquet(tmp_path / "run" / "results.parquet")
    assert flat["latency_ns_read_p99"].to_list() == [
        row["latency_ns"]["read"]["p99"] for row in result["results"]
    ]


def test_compare_varies_policies_and_equals_simulate(cli_json: Callable[..., Any]) -> None:
    load = [WRITES, *A16, "--state", "aged"]
    one, two = (
        cli_json(
            "compare",
            *load,
            "--placements",
            "none",
            "--victims",
            "greedy,lru",
            "--op",
            "0.2,0.3",
            "--jobs",
            jobs,
        )
        for jobs in ("1", "2")
    )
    rows = {row["drive"]: row for row in one["results"]}
    assert list(rows) == [
        f"a16, none, {victim} at {op}" for op in ("20 %", "30 %") for victim in ("greedy", "lru")
    ]
    assert [row["event_hash"] for row in one["results"]] == [
        row["event_hash"] for row in two["results"]
    ]
    single = cli_json("simulate", *load, "--placement", "none", "--victim", "lru", "--op", "0.3")
    assert rows["a16, none, lru at 30 %"]["event_hash"] == single["event_hash"]
    assert rows["a16, none, lru at 20 %"]["write_amplification"] > single["write_amplification"]


def test_device_writes_a_profile_of_ones_own(
    cli: Cli, cli_json: Callable[..., Any], tmp_path: Path
) -> None:
    shown = cli("device", "intel-x25e")
    assert "limit of the channels" in shown.stdout
    assert "# 3.3 V x 25 mA" in shown.stdout, "the comments are lost"
    cli("device", "intel-x25e", *SMALL_DRIVE, "--set", "name=mine", "--out", "my.toml")
    result = cli_json("simulate", READS, "--device", "my.toml")
    assert result["device"]["name"] == "mine"
    assert "media.erase_blocks_per_plane" in result["device"]["fitted"]
    said = cli_json("device", "my.toml")
    assert said["capacity_bytes"] == result["device"]["capacity_bytes"]
    assert (
        said["limits"]["link_bytes_per_second"]
        == said["keys"]["interface"]["link_mb_per_second"] * 1e6
    )


def test_every_profile_runs(cli_json: Callable[..., Any]) -> None:
    profiles = [profile["name"] for profile in cli_json("list")["profile"]]
    assert "intel-x25e" in profiles
    devices = [argument for profile in profiles for argument in ("--device", profile)]
    load = ["io:random(reads=0.5,requests=300)", "--state", "fresh", "--one-by-one"]
    result = cli_json("compare", *load, *devices)
    assert [row["drive"] for row in result["results"]] == profiles
    assert all(row["requests"] == 300 for row in result["results"])


def test_list_has_schemes_and_patterns_with_parameters(
    cli: Cli, cli_json: Callable[..., Any]
) -> None:
    names = cli_json("list")
    for kind in ("scheme", "pattern"):
        assert all({"name", "summary", "params", "usage"} <= set(entry) for entry in names[kind])
    assert "--set ftl.scheme" not in cli("list", "scheme").stdout
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
    command = [
        sys.executable,
        "-m",
        "flashwright",
        "simulate",
        "io:random",
        *A16,
        "--requests",
        "4G",
        "--json",
        "-",
    ]
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


@pytest.mark.parametrize("command", ["device", "simulate", "compare"])
def test_help_has_examples_of_drives(cli: Cli, command: str) -> None:
    text = cli(command, "--help").stdout
    assert "intel-x25e" in text.partition("Options:")[0]
