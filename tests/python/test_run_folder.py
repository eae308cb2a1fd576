"""The run folder: readable by others, complete, and enough to make the report again."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import random
from pathlib import Path

import duckdb
import polars as pl
import pyarrow.parquet as pq
import pytest

from flashwright import InputError, data
from flashwright.reports import write_report
from flashwright.runs import Run, table
from support import SMALL, Cli

COMMANDS = {
    "alone": ["compare", SMALL, "--placements", "dac", "--op", "0.1"],
    "compare": ["compare", SMALL, "--op", "0.1,0.2", "--placements", "none,multi_log"],
    "play": ["play", "io:random(reads=0.5)", "--on", "intel-x25e", "--requests", "500"],
    "bound": ["model", SMALL],
    "model": ["model"],
    "trace": ["trace", "stats", SMALL],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_tables_open_everywhere_and_agree(cli: Cli, tmp_path: Path, name: str) -> None:
    cli(*COMMANDS[name], "--out", "run")
    folder = tmp_path / "run"
    result = json.loads((folder / "result.json").read_text())
    assert set(result["provenance"]) == {
        "flashwright",
        "revision",
        "command",
        "seed",
        "inputs",
        "work",
    }
    assert result["tables"], "the run has no tables"
    for file in result["tables"].values():
        arrow = pq.read_table(folder / file)
        polars = pl.read_parquet(folder / file)
        [(rows,)] = duckdb.connect().execute(f"SELECT count(*) FROM '{folder / file}'").fetchall()
        assert arrow.num_rows == polars.height == rows > 0
        assert polars.columns == arrow.column_names
    assert {path.name for path in folder.iterdir()} - {"simulations", "profile.toml"} == {
        "result.json",
        "report.html",
        *result["tables"].values(),
    }


OURS = {"provenance": {"flashwright": "0.1.0"}}
"""By which a run folder is known as ours."""


def test_a_run_that_cannot_be_written_leaves_the_earlier_one_whole(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    first = Run(
        "sample",
        {"a": 1, **OURS},
        {"one": table({"x": [1]}), "old": table({"x": [1]})},
        {"profile.toml": "first"},
    )
    first.write(folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert set(before) == {"result.json", "one.parquet", "old.parquet", "profile.toml"}
    # A text of a lone surrogate cannot be written as UTF-8: whatever fails, fails in the middle.
    unwritable = {"profile.toml": "\ud800"}
    second = Run("sample", {"a": 2, **OURS}, {"one": table({"x": [2]})}, unwritable)
    with pytest.raises(UnicodeEncodeError):
        second.write(folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    Run("sample", {"a": 2, **OURS}, {"one": table({"x": [2]})}).write(folder)
    assert {path.name for path in folder.iterdir()} == {"result.json", "one.parquet"}
    assert Run.read(folder).tables["one"]["x"].to_pylist() == [2]


def test_a_table_that_is_taken_as_a_file_is_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the requests of a recording, whose stream is removed when its folder is written."""
    file, folder = tmp_path / "made.parquet", tmp_path / "run"
    pq.write_table(table({"a": [1]}), file)
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda one: synced.append(os.fstat(one).st_ino))
    Run("record", {}, table_files={"requests": file}).write(folder)
    assert sorted(synced) == sorted(path.stat().st_ino for path in folder.iterdir())


@pytest.mark.parametrize("name", COMMANDS)
def test_report_is_made_again_from_the_folder_alone(cli: Cli, tmp_path: Path, name: str) -> None:
    cli(*COMMANDS[name])
    [folder] = (one for one in (tmp_path / "runs").iterdir() if one.name != "store")
    assert folder.name.startswith(COMMANDS[name][0] + "-")
    report = folder / "report.html"
    first = hashlib.sha256(report.read_bytes()).hexdigest()
    report.unlink()
    moved = folder.rename(tmp_path / "moved")
    cli("report", moved)
    assert hashlib.sha256((moved / "report.html").read_bytes()).hexdigest() == first


def test_same_inputs_share_a_folder_and_others_do_not(cli: Cli, tmp_path: Path) -> None:
    for options in ([], [], ["--victims", "lru"], ["--seed", "2"]):
        cli("compare", SMALL, "--placements", "none", "--op", "0.2", *options)
    assert len(list((tmp_path / "runs").iterdir())) == 3


def test_provenance_holds_the_hash_of_the_input(cli: Cli, tmp_path: Path) -> None:
    cli("trace", "convert", SMALL, "input.parquet")
    alone = ("--placements", "none", "--op", "0.2")
    done = cli("compare", "input.parquet", *alone, "--json", "-")
    [said] = json.loads(done.stdout)["provenance"]["inputs"]
    assert said["sha256"] == hashlib.sha256((tmp_path / "input.parquet").read_bytes()).hexdigest()


def test_stacked_tables_tell_the_runs_apart(cli: Cli, tmp_path: Path) -> None:
    cli(*COMMANDS["compare"], "--out", "run")
    over_time = pl.read_parquet(tmp_path / "run" / "over_time.parquet")
    results = pl.read_parquet(tmp_path / "run" / "results.parquet")
    keys = ["workload", "policy", "over_provisioning"]
    assert set(over_time.select(keys).unique().rows()) == set(results.select(keys).rows())
    last = over_time.group_by(keys).agg(pl.col("host_page_writes").max())
    assert last["host_page_writes"].unique().to_list() == [10 * 16 * 1024]


def test_folders_of_others_are_left_alone(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("do not touch")
    done = cli("model", "--out", "mine", code=2)
    assert "choose another --out" in done.stderr
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize("damage", ["{", "[]", '{"command": "nonsense"}', '{"command": "compare"}'])
def test_damaged_folder_is_told_in_one_line(cli: Cli, tmp_path: Path, damage: str) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "result.json").write_text(damage)
    done = cli("report", "run", code=2)
    assert done.stderr.count("\n") == 1
    assert "run" in done.stderr


def test_demo_uses_the_recorded_trace(shipped_demo: Path) -> None:
    printed = (shipped_demo / "printed.txt").read_text(encoding="utf-8")
    result = json.loads((shipped_demo / "demo.json").read_text())
    said, data_pages = result["provenance"]["inputs"]
    assert said["sha256"] == hashlib.sha256(data.TPCC_REQUESTS.read_bytes()).hexdigest()
    assert "data_pages" in data_pages["source"]
    whole, without_log = result["workloads"]
    assert whole["page_writes"] % result["trace"]["page_writes"] == 0
    assert without_log["page_writes"] < 0.7 * whole["page_writes"]
    assert "report.html" in printed
    # It leads with the whole stream; of a run that is not steady there is no life.
    first = next(line for line in printed.splitlines() if line.startswith("The database wrote"))
    assert "9.91 GiB in 19.0 min" in first
    assert "(not steady)" in first
    assert "a benchmark at full speed" in first
    assert "--life 'life(40G)'" in first
    # Once over, fewer than half of the runs are steady.
    steady = [row["steady"] for row in result["results"]]
    assert sum(steady) >= len(steady) / 2
    assert all(row["unsteady"] for row in result["results"] if not row["steady"])


def iolog(path: Path, lines: list[str]) -> None:
    path.write_text(
        "\n".join(["fio version 3 iolog", "0 /dev/x add", "0 /dev/x open", *lines]) + "\n"
    )


def test_trimmed_pages_are_spare_space_to_the_bound(cli: Cli, tmp_path: Path) -> None:
    draw = random.Random(1)
    pages, page = 8192, 4096
    lines = [f"1 /dev/x write {number * page} {page}" for number in range(pages)]
    lines.append(f"2 /dev/x trim {pages // 2 * page} {pages // 2 * page}")
    lines += [
        f"3 /dev/x write {draw.randrange(pages // 2) * page} {page}" for _ in range(20 * pages)
    ]
    iolog(tmp_path / "trimmed.iolog", lines)
    cli(
        "compare",
        "trimmed.iolog",
        "--op",
        "0.2",
        "--placements",
        "none,dac",
        "--victims",
        "lru",
        "--out",
        "run",
    )
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["workloads"][0]["page_trims"] == pages // 2
    assert abs(result["results"][0]["gap_to_frequency_bound_percent"]) < 4


def test_a_bound_that_is_none_is_not_called_the_least(cli: Cli, tmp_path: Path) -> None:
    """Half of the writes go round in a circle.

    Their erase blocks become free as a whole, which the bound does not know.
    """
    draw = random.Random(1)
    pages, page = 8192, 4096
    lines = []
    for number in range(10 * pages):
        lines.append(f"3 /dev/x write {number % (pages // 2) * page} {page}")
        lines.append(f"3 /dev/x write {(pages // 2 + draw.randrange(pages // 2)) * page} {page}")
    iolog(tmp_path / "circle.iolog", lines)
    done = cli(
        "compare",
        "circle.iolog",
        "--op",
        "0.2",
        "--placements",
        "none,dac",
        "--victims",
        "greedy",
        "--out",
        "run",
    )
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["results"][0]["gap_to_frequency_bound_percent"] < -5
    assert "Greedy, DAC write less than the frequency bound" in done.stdout
    assert "assumes independent updates" in done.stdout
    report = (tmp_path / "run" / "report.html").read_text()
    assert "assumes independent updates" in report
    assert "least possible" not in report


def test_a_bound_that_a_policy_undercuts_is_not_called_the_least(cli: Cli, tmp_path: Path) -> None:
    """Greedy cleans a little better than in order, which the bound takes for granted."""
    cli(
        "compare",
        "synth:uniform(pages=32Ki)",
        "--op",
        "0.2",
        "--placements",
        "none,separate",
        "--out",
        "run",
    )
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert min(row["gap_to_frequency_bound_percent"] for row in result["results"]) < 0
    report = (tmp_path / "run" / "report.html").read_text()
    assert "that are cleaned in order" in report
    assert "least possible" not in report


def test_the_report_of_the_demo_shows_both_workloads(shipped_demo: Path) -> None:
    report = (shipped_demo / "run" / "report.html").read_text()
    assert "The data pages alone: what the flash has to write" in report
    for workload in json.loads((shipped_demo / "demo.json").read_text())["workloads"]:
        assert workload["name"] in report


def test_a_report_that_cannot_be_written_leaves_the_earlier_one(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli("model", "--out", "run")
    folder = tmp_path / "run"
    before, names = (folder / "report.html").read_bytes(), sorted(folder.iterdir())

    def full(path: Path, text: str, encoding: str) -> None:
        path.write_bytes(text[:100].encode(encoding))
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(
        InputError, match=r"report\.html: cannot write the report: No space left on device"
    ):
        write_report(folder)
    assert ((folder / "report.html").read_bytes(), sorted(folder.iterdir())) == (before, names)
