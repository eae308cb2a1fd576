"""The command line: exit codes, errors of one line, and the JSON that scripts rely on."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support import ROOT, SMALL, Cli

ONE_KEYS = {
    "write_amplification",
    "cleaning_cost",
    "p_gc",
    "host_page_writes",
    "relocated_pages",
    "erases",
    "frequency_bound",
    "steady_from_update",
    "flash_page_programs_per_second",
    "peak_rss_bytes",
    "life_years",
    "provenance",
}
MEASURED = {"flash_page_programs_per_second", "peak_rss_bytes", "wall_seconds"}

ONE = ["--placements", "none", "--op", "0.1"]

WRONG_USE = [
    (["nonsense"], "nonsense"),
    (["compare"], "SOURCE"),
    (["compare", "missing.parquet"], "missing.parquet: no such file"),
    (["compare", "."], "a folder without a requests.parquet"),
    (["compare", "synth:nope"], "known are: uniform, zipf"),
    (["compare", "synth:zipf(x=1)"], "`x`"),
    (["compare", SMALL, "--op", "0"], "is not an over-provisioning"),
    (["compare", SMALL, "--op", "abc"], "write a number above 0"),
    (["compare", SMALL, "--placements", "nope"], "known are: none"),
    (["compare", SMALL, "--victims", "nope"], "known are: lru"),
    (["compare", SMALL, *ONE, "--victims", "window_greedy(window=7)"], "window=7"),
    (["compare", SMALL, "--page-size", "0"], "is not a size"),
    (["compare", SMALL, "--page-size", "4G"], "512 bytes to 16 MiB"),
    (["compare", SMALL, "--op", "1000"], "at most 100 (which is 10000 %)"),
    (["compare", SMALL, *ONE, "--life", "life(trace)"], "has no times"),
    (["compare", SMALL, "--placements", "none,nope"], "`nope`"),
    (["compare", SMALL, "--placements", ","], "no name is given"),
    (["compare", SMALL, "--op", "0.1,0.1"], "twice"),
    (["compare", SMALL, SMALL], "given twice"),
    (["compare", SMALL, "--json", "none/x.json"], "there is no folder 'none'"),
    (["compare", SMALL, "--json", "."], "is a folder"),
    (["compare", SMALL, "--out", "/dev/null/x"], "'/dev/null' is not a folder"),
    (["model", "missing"], "no such file"),
    (["trace", "stats", "missing"], "no such file"),
    (["trace", "convert", "synth:zipf(pages=1k)", "x.xyz"], "x.xyz"),
    (["trace", "x.csv"], "right would be `flashwright trace stats x.csv`"),
    (["trace", "x.csv", "--json", "-"], "`flashwright trace stats x.csv --json -`"),
    (["trace", "x.csv", "y.parquet"], "`flashwright trace convert x.csv y.parquet`"),
    (["trace", "part(x, skip_bad=1)"], "`flashwright trace stats 'part(x, skip_bad=1)'`"),
    (["trace", "stat"], "Did you mean 'stats'"),
    (["report", "missing"], "no run folder"),
    (["list", "nope"], "known are: placement, victim"),
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


def test_malformed_line_names_file_line_and_reason(cli: Cli, tmp_path: Path) -> None:
    good = "128166372003061629,prxy,0,Write,{},4096,100"
    lines = [good.format(4096 * number) for number in range(20)]
    lines[6] = "128166372003061629,prxy,0,Scribble,0,4096,100"
    (tmp_path / "bad.csv").write_text("\n".join(lines) + "\n")
    done = cli("trace", "stats", "part(bad.csv, format=msr)", code=2)
    assert "bad.csv" in done.stderr
    assert "7" in done.stderr
    assert "Scribble" in done.stderr
    skipped = cli("trace", "stats", "part(bad.csv, format=msr, skip_bad=1)", "--json", "-")
    assert json.loads(skipped.stdout)["skipped"] == 1


def test_run_that_fails_exits_1(cli: Cli) -> None:
    """Nobody can make a file in /proc, not even root."""
    done = cli("trace", "convert", "synth:uniform(pages=1k,updates=1x)", "/proc/x.parquet", code=1)
    assert done.stderr.count("\n") == 1
    assert "x.parquet" in done.stderr


def test_target_without_a_folder_is_told(cli: Cli, tmp_path: Path) -> None:
    done = cli(
        "trace",
        "convert",
        "synth:uniform(pages=1k,updates=1x)",
        tmp_path / "none" / "x.parquet",
        code=2,
    )
    assert done.stderr.count("\n") == 1
    assert "there is no folder" in done.stderr


@pytest.mark.parametrize(
    "command",
    [
        "",
        "trace",
        "trace stats",
        "trace convert",
        "trace split",
        "play",
        "compare",
        "model",
        "list",
        "demo",
        "bench",
        "record",
        "waterfall",
        "report",
    ],
)
def test_every_command_has_help(cli: Cli, command: str) -> None:
    text = cli(*command.split(), "--help").stdout
    assert text.startswith("Usage: flashwright")
    if command not in ("demo",):
        assert "flashwright " + command in text.split("\n", 1)[1], "the help has no example"


HEAVY = ("numpy", "pandas", "plotly", "pyarrow")


@pytest.mark.parametrize("command", ["--version", "volume --help", "play --help", "device a16"])
def test_a_command_that_needs_little_loads_little(command: str) -> None:
    """It shall start at once, and most of its time would be that of imports."""
    code = f"""
import sys
from flashwright.cli import main
try:
    main()
finally:
    print(*[name for name in {HEAVY} if name in sys.modules], file=sys.stderr)
"""
    run = [sys.executable, "-c", code, *command.split()]
    done = subprocess.run(run, capture_output=True, text=True, check=True)
    assert done.stderr == "\n"


def test_json_of_one_policy_is_pure_and_has_the_stable_keys(cli: Cli, tmp_path: Path) -> None:
    policy = ["--placements", "multi_log", "--op", "0.2"]
    repeated = "part(synth:zipf(s=0.99,pages=16Ki,updates=10x), repeat=2)"
    done = cli("compare", repeated, *policy, "--seed", "3", "--json", "-")
    result = json.loads(done.stdout)
    assert done.stderr == ""
    assert set(result) >= ONE_KEYS
    assert result["host_page_writes"] == 2 * 10 * 16 * 1024
    assert result["cleaning_cost"] == pytest.approx(result["write_amplification"] - 1)
    assert result["provenance"]["seed"] == 3
    assert result["provenance"]["command"][:3] == ["flashwright", "compare", repeated]
    assert not (tmp_path / "runs").exists(), "with --json - alone nothing else is written"


def test_same_inputs_same_numbers(cli_json: Callable[..., Any]) -> None:
    first, second = (cli_json("compare", SMALL, *ONE, "--victims", "d_choices") for _ in range(2))
    other = cli_json("compare", SMALL, *ONE, "--victims", "d_choices", "--seed", "2")
    for result in (first, second, other):
        for key in MEASURED:
            del result[key]
    assert first == second
    assert first["relocated_pages"] != other["relocated_pages"]


def test_start_fresh_differs_from_filled(cli_json: Callable[..., Any]) -> None:
    filled = cli_json("compare", SMALL, *ONE, "--start", "filled")
    fresh = cli_json("compare", SMALL, *ONE, "--start", "fresh")
    assert filled["host_page_writes"] == fresh["host_page_writes"]
    assert filled["erases"] > fresh["erases"]


def test_bound_alone_is_the_bound_of_compare(cli_json: Callable[..., Any]) -> None:
    bound = cli_json("model", SMALL, "--op", "0.2")
    one = cli_json("compare", SMALL, "--op", "20%", "--placements", "none")
    many = cli_json("compare", SMALL, "--op", "0.2", "--placements", "none,dac")
    assert bound["frequency_bound"] == one["frequency_bound"]
    assert bound["frequency_bound"] == many["bounds"][0]["frequency_bound"]
    authors = [
        row["write_amplification"]
        for row in many["results"]
        if (row["placement"], row["victim"]) == ("none", one["victim"])
    ]
    assert authors == [one["write_amplification"]]


def test_compare_runs_every_policy_at_every_over_provisioning(cli_json: Callable[..., Any]) -> None:
    other = "synth:uniform(pages=16Ki,updates=4x)"
    names = cli_json("list")
    result = cli_json("compare", SMALL, other, "--op", "0.3,0.2", "--jobs", "2")
    policies = {(row["placement"], row["victim"]) for row in result["results"]}
    placements = {entry["name"] for entry in names["placement"]} - {"future_knowledge"}
    assert {placement for placement, _ in policies} == placements
    victims = {entry["name"] for entry in names["victim"]}
    assert {victim for placement, victim in policies if placement == "none"} == {
        *victims,
        "cost_benefit(age=closed)",
    }
    authors = {entry["name"]: entry["victim"] for entry in names["placement"]}
    for placement in placements:
        partners = {"greedy", "cost_benefit(age=closed)", authors[placement]}
        assert {(placement, victim) for victim in partners} <= policies
    assert len(result["results"]) == len(policies) * 2 * 2
    assert result["complete"] is True
    for row in result["results"]:
        assert set(row) >= ONE_KEYS - MEASURED - {"provenance"}
        assert not MEASURED & set(row), "figures are the same on any machine"
        expected = (row["write_amplification"] / row["frequency_bound"] - 1) * 100
        assert row["gap_to_frequency_bound_percent"] == pytest.approx(expected)
        low, high = row["write_amplification_low"], row["write_amplification_high"]
        assert low is None or low <= row["write_amplification"] <= high
        assert row["steady"] is (row["unsteady"] is None)


def test_the_offline_minimum_is_the_least_that_any_run_found(cli_json: Callable[..., Any]) -> None:
    result = cli_json("compare", SMALL, "--op", "0.2", "--placements", "none,multi_log")
    [bound] = result["bounds"]
    least = min(row["write_amplification"] for row in result["results"])
    # Nothing but the offline placement comes near one here.
    assert 1.0 <= bound["offline_minimum"] < 1.2 < least
    for row in result["results"]:
        assert row["offline_minimum"] == bound["offline_minimum"]
    assert {row["placement"] for row in result["results"]} == {"none", "multi_log"}
    one = cli_json("compare", SMALL, "--op", "0.2", "--placements", "none")
    assert one["offline_minimum"] == bound["offline_minimum"]


def test_the_best_victim_policy_of_each_placement_is_shown(cli: Cli) -> None:
    source = "synth:zipf(s=0.99,pages=16Ki,updates=10x)"
    done = cli("compare", source, "--op", "0.2", "--placements", "none,separate")
    # Its authors' is Greedy, which serves it worse.
    assert "separate + cost_benefit(age=closed)" in done.stdout
    assert "1 more pair is in the report" in done.stdout


def test_a_life_is_of_a_stated_drive_at_the_recorded_rate(
    cli: Cli, cli_json: Callable[..., Any], tmp_path: Path
) -> None:
    """Fifteen pages of 4 KiB a second, for ever, to a drive of 1 TiB that is half full."""
    lines = [
        f"{number * 666_667},vm,0,Write,{number % 4096 * 4096},4096,0" for number in range(40_000)
    ]
    (tmp_path / "fast.csv").write_text("\n".join(lines) + "\n")
    asked = ("compare", "part(fast.csv, format=msr)", "--placements", "none", "--op", "0.3")
    one = cli_json(*asked, "--life", "life(capacity=1TiB, fill=50%)")
    life = one["lifetime"]
    rate = one["workload"]["recorded_bytes_per_day"]
    assert life["rate"] == "recorded"
    assert life["drive_writes_per_day"] == pytest.approx(rate / 2**39)
    assumed = cli_json(*asked)["lifetime"]
    assert (assumed["rate"], assumed["drive_writes_per_day"]) == ("assumed", 1.0)
    done = cli("compare", SMALL, *ONE, "--life", "life(capacity=1TiB)", code=2)
    assert "has no times" in done.stderr


def test_no_life_is_given_where_nothing_was_cleaned(cli: Cli, cli_json: Callable[..., Any]) -> None:
    few = "synth:uniform(pages=16Ki,updates=1000)"
    one = ("compare", few, "--op", "0.3", "--placements", "none")
    assert cli_json(*one)["life_years"] is None
    assert "not known: nothing was cleaned" in " ".join(cli(*one).stdout.split())
    compared = cli_json("compare", few, "--op", "0.3", "--placements", "none,dac")
    assert {row["life_years"] for row in compared["results"]} == {None}
    assert "would live" not in cli("compare", few, "--op", "0.3", "--placements", "none,dac").stdout


def test_policy_that_cannot_run_is_told_and_costs_no_other(cli: Cli, tmp_path: Path) -> None:
    done = cli(
        "compare", SMALL, "--op", "0.02", "--placements", "none,envy_hybrid", "--out", "run", code=1
    )
    assert done.stderr.startswith("flashwright: error: envy_hybrid at over-provisioning 0.02")
    assert done.stderr.count("\n") == 1
    rows = {
        row["placement"]: row
        for row in json.loads((tmp_path / "run" / "result.json").read_text())["results"]
    }
    assert "too few" in rows["envy_hybrid"]["error"]
    assert rows["none"]["write_amplification"] > 1
    assert "could not run" in (tmp_path / "run" / "report.html").read_text()


def test_policy_that_nobody_named_may_be_too_large_for_a_load(
    cli: Cli, cli_json: Callable[..., Any]
) -> None:
    small = ("compare", "synth:uniform(pages=2500,updates=5000)", "--op", "0.15", "--store", "kept")
    said = " ".join(cli(*small).stdout.split())
    assert said.count("envy_hybrid could not run on") == 1
    rows = cli_json(*small)["results"]
    [reason] = {row["error"] for row in rows if "error" in row}
    assert "too few for `envy_hybrid`" in reason
    assert len([row for row in rows if "error" not in row]) > 20
    # Where no policy can run, nothing was compared.
    cli("compare", "synth:uniform(pages=300,updates=5000)", "--op", "0.02", code=1)


def test_number_of_jobs_does_not_change_the_numbers(cli_json: Callable[..., Any]) -> None:
    # Each with a store of its own, or the second would take what the first has kept.
    one, four = (
        cli_json("compare", SMALL, "--op", "0.2", "--jobs", jobs, "--store", f"of-{jobs}")
        for jobs in ("1", "4")
    )
    assert one["results"] == four["results"]


def test_victims_are_paired_with_each_placement(cli_json: Callable[..., Any]) -> None:
    arguments = (
        "compare",
        SMALL,
        "--op",
        "0.2",
        "--placements",
        "none,dac(regions=3,threshold=1)",
        "--victims",
        "greedy,lru",
    )
    rows = cli_json(*arguments)["results"]
    assert [(row["placement"], row["victim"]) for row in rows] == [
        ("none", "greedy"),
        ("none", "lru"),
        ("dac(regions=3,threshold=1)", "greedy"),
        ("dac(regions=3,threshold=1)", "lru"),
    ]


def test_trace_stats_are_told_in_words_with_units(cli: Cli) -> None:
    said = cli("trace", "stats", SMALL).stdout
    assert "footprint of writes" in said
    assert "64 MiB" in said
    assert "_" not in said.split("Report:")[0]
    # It has no times: its windows are of requests, and not of nanoseconds.
    assert re.search(r"window of the plots over time +[0-9\u202f]+ requests", said)


def test_trace_stats_of_a_file_equal_those_of_the_workload_in_it(
    cli: Cli, cli_json: Callable[..., Any]
) -> None:
    cli("trace", "convert", SMALL, "zipf.parquet")
    cli("trace", "convert", "zipf.parquet", "zipf.iolog", "--to", "fio_iolog")
    direct, stored, converted = (
        cli_json("trace", "stats", source) for source in (SMALL, "zipf.parquet", "zipf.iolog")
    )
    assert direct["writes"] == 10 * 16 * 1024
    for key in (
        "writes",
        "write_bytes",
        "footprint_written_pages",
        "update_share_of_hottest_20_percent",
    ):
        assert direct[key] == stored[key] == converted[key], key


def test_json_to_a_file_keeps_the_text_for_people(cli: Cli, tmp_path: Path) -> None:
    done = cli("model", "--op", "0.1,0.2", "--json", "out.json", "--out", "run")
    assert "p_gc" in done.stdout
    assert json.loads((tmp_path / "out.json").read_text()) == json.loads(
        (tmp_path / "run" / "result.json").read_text()
    )


@pytest.mark.parametrize(
    ("times", "reversals"),
    [([30, 20, 10], 2), ([50, 70, 30], 1), ([50, 30, 70, 60], 2), ([10, 20, 20], 0)],
)
def test_times_that_go_back_are_counted(
    cli_json: Callable[..., Any], tmp_path: Path, times: list[int], reversals: int
) -> None:
    """Those before the first one's, too, though they are set to it."""
    lines = [f"{time}0,vm,0,Write,4096,4096,0" for time in times]
    (tmp_path / "back.csv").write_text("\n".join(lines) + "\n")
    found = cli_json("trace", "stats", "part(back.csv, format=msr)")
    assert found["time_reversals"] == reversals
    assert found["clamped_times"] == sum(time < times[0] for time in times)


def test_version_names_the_revision(cli: Cli) -> None:
    said = cli("--version").stdout
    assert re.fullmatch(r"flashwright \d+\.\d+\.\d+, revision [0-9a-f]{40}(-dirty)?\n", said)


def test_output_into_a_closed_pipe_is_quiet(cli: Cli, tmp_path: Path) -> None:
    line = f"{sys.executable} -m flashwright list | head -n 1"
    done = subprocess.run(
        ["bash", "-c", line], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stderr == ""


def test_reference_lists_what_the_registry_has(cli: Cli) -> None:
    page = (ROOT / "docs/reference/policies.md").read_text(encoding="utf-8")
    for kind in ("placement", "victim"):
        begin, end = f"<!-- list {kind} -->\n", f"\n<!-- end of list {kind} -->"
        shown = page.partition(begin)[2].partition(end)[0]
        assert shown.strip() == cli("list", kind, "--markdown").stdout.strip(), (
            "policies.md is out of date: run `make readme`"
        )


def test_bytes_in_place_of_blocks_are_warned_of(cli: Cli, tmp_path: Path) -> None:
    lines = [f"{i}.5 0 {i * 4096} 4096 0" for i in range(1, 400)]
    (tmp_path / "bytes.trace").write_text("\n".join(lines) + "\n")
    for command in (
        ["trace", "stats", "bytes.trace", "--out", "a"],
        ["trace", "convert", "bytes.trace", "bytes.parquet"],
        ["model", "bytes.trace", "--op", "0.3", "--out", "b"],
        ["play", "bytes.trace", "--on", "intel-x25e", "--out", "c"],
    ):
        done = cli(*command)
        assert done.stderr.count("\n") == 1, command
        assert done.stderr.startswith("flashwright: warning: bytes.trace: read in blocks of 512")
        assert "disksim(unit_bytes=1)" in done.stderr
    for place, key in (("a", None), ("b", "workload"), ("c", "source")):
        result = json.loads((tmp_path / place / "result.json").read_text())
        assert "multiple of 512 blocks" in (result[key] if key else result)["warnings"][0]
    again = cli("trace", "stats", "part(bytes.trace, format=disksim(unit_bytes=1))", "--json", "-")
    assert again.stderr == ""
    assert json.loads(again.stdout)["warnings"] == []
