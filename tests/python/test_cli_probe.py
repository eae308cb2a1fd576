"""`probe`: what it keeps and says, on simulated drives, memory and files; what it refuses.

How it stops and goes on.
"""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from flashwright import _core
from flashwright.cli.listing import experiments_in_full
from flashwright.probing import plan as plans
from flashwright.probing.store import Store
from support import ROOT, Cli

SMALL = "media.erase_blocks_per_plane=64"
DRIVE = [f"profile(intel-x25e, {SMALL})"]
A16 = f"profile(a16, {SMALL})"
DEPTH = ["--only", "depth_read", "--minutes", "0.02"]
TWO = ["--only", "depth_read", "--only", "response_time_read", "--minutes", "0.03"]
MEMORY = "memory(bytes=64Mi)"
MIB = 1 << 20


def drive(*more: str) -> str:
    """Give the drive with more of it stated."""
    return f"profile({', '.join(('intel-x25e', SMALL, *more))})"


WRONG_USE = [
    ([], "Missing argument 'DEVICE'"),
    (["nope"], "no such device, file or profile"),
    (["nope.toml"], "no such device, file or profile"),
    ([*DRIVE, "--only", "nope"], "known are: throughput_read"),
    ([*DRIVE, "--only", "depth_read(nope=1)"], "nope"),
    ([*DRIVE, "--only", "depth_read", "--only", "depth_read()"], "is asked for twice"),
    (
        [*DRIVE, "--only", "throughput_read(depths=0+8)"],
        "such as 1+8+32, or all doublings such as 1..256, or `auto`: 0 is not",
    ),
    (
        [*DRIVE, "--only", "throughput_read(sizes=1Mi..4Ki)", "--json", "-"],
        "`1Mi..4Ki` runs backwards",
    ),
    (
        [*DRIVE, "--only", "throughput_read(accesses=zigzag)"],
        "some of sequential, stride, random joined by `+`",
    ),
    (
        [*DRIVE, "--only", "throughput_write(mixes=0+2)"],
        "shares from 0 to 1 joined by `+`, such as 0+0.5: `2` is none",
    ),
    (
        [*DRIVE, "--only", "mix(size=1000)"],
        "size=1000 is not a multiple of 512 bytes, the smallest sector: 512 and 1024",
    ),
    (
        [*DRIVE, "--only", "depth_read(depths=2+4)"],
        "at least 3 numbers, of which one is 1, such as 1..256",
    ),
    ([*DRIVE, "--only", "response_time_read(size=513)"], "512 and 1024 are"),
    (
        ["memory(bytes=64Mi,sector=4Ki)", "--only", "depth_read(size=4608)", "--json", "-"],
        "whole sectors of 4096",
    ),
    ([*DRIVE, "--only", "depth_read", "--full"], "--full and --only: give one of them"),
    ([*DRIVE, "--quick", "--full"], "give one of them"),
    (["disk(memory(bytes=64Mi), region=10Ti)"], "write memory(bytes=64Mi) by itself"),
    (["disk(memory(bytes=64Mi), region=1000)"], "write memory(bytes=64Mi) by itself"),
    (["disk(memory(bytes=64Mi), region=1Mi+zero)"], "is not a region"),
    (["disk(memory(bytes=64Mi), region=4Ki)"], "write memory(bytes=64Mi) by itself"),
    ([*DRIVE, "--minutes", "0"], "--minutes"),
    ([drive("overwrites=2")], "there is no parameter `overwrites`"),
    ([*DRIVE, "--destroy-data", "intel-x25e"], "it confirms --write"),
    ([*DRIVE, "--write", "--destroy-data", "/dev/other"], "it must repeat the device, "),
    ([*DRIVE, *DEPTH, "--against", "nope"], "no such device"),
    (["profile(memory(bytes=64Mi), state=aged)"], "no such profile or file"),
    (["disk(/dev/null, media.channels=1)"], "there is no parameter `media.channels`"),
    (["memory(byte=1)"], "byte"),
    (["."], "a directory"),
]


def other_lines(stderr: str) -> list[str]:
    """Give what is said beside how long it will take."""
    return [line for line in stderr.splitlines() if ": about " not in line]


@pytest.mark.parametrize(("arguments", "said"), WRONG_USE)
def test_wrong_use_is_one_line_and_nothing_is_left_behind(
    cli: Cli, tmp_path: Path, arguments: list[str], said: str
) -> None:
    done = cli("probe", *arguments, code=2)
    assert said in done.stderr
    assert len(other_lines(done.stderr)) == 1
    assert list(tmp_path.iterdir()) == []


def test_the_quick_set_on_a_simulated_drive_finds_its_inside(cli: Cli, tmp_path: Path) -> None:
    done = cli("probe", *DRIVE, "--minutes", "1", "--fit", "0", "--out", "run")
    assert "chunk_bytes" in done.stdout
    assert "Report: run/report.html" in done.stdout
    assert not other_lines(done.stderr)
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["command"] == "probe"
    assert (result["complete"], result["error"], result["missing"]) == (True, None, [])
    assert result["device"]["kind"] == "simulated"
    assert result["identity"]["seed"] == result["seed"] == 1
    assert {"flashwright", "command", "seed", "inputs"} <= result["provenance"].keys()
    assert result["device_seconds"] < 120
    names = {finding["label"] for finding in result["findings"]}
    skipped = {entry["experiment"] for entry in result["left_out"]}
    quick = {entry["name"] for entry in _core.variants("experiment") if entry["is_quick"]}
    assert names | skipped == quick
    assert {path.name for path in (tmp_path / "run" / "findings").iterdir()} == {
        f"{name}.json" for name in names
    }
    found = {value["key"]: value for finding in result["findings"] for value in finding["values"]}
    assert (found["chunk_bytes"]["number"], found["chunk_bytes"]["verdict"]) == (4096, "sure")
    curves = pl.read_parquet(tmp_path / "run" / "curves.parquet")
    assert set(curves["experiment"]) == names
    assert curves.columns == [
        "drive",
        "experiment",
        "chart",
        "series",
        "x",
        "y",
        "low",
        "high",
        "x_unit",
        "y_unit",
    ]
    assert curves.height == sum(
        len(series["points"])
        for path in (tmp_path / "run" / "findings").iterdir()
        for chart in json.loads(path.read_text())["charts"]
        for series in chart["series"]
    )
    values = pl.read_parquet(tmp_path / "run" / "values.parquet")
    assert values.filter(pl.col("key") == "chunk_bytes")["number"].to_list() == [4096.0]


def test_a_profile_is_fitted_and_taken_as_a_drive(cli: Cli, tmp_path: Path) -> None:
    matrix = [
        "probe",
        A16,
        "--only",
        "matrix_reads",
        "--minutes",
        "0.2",
        "--fit",
        "1",
        "--out",
        "run",
    ]
    done = cli(*matrix)
    assert "Profile: profile.toml in the run folder" in done.stdout
    said = json.loads((tmp_path / "run" / "result.json").read_text())["profile"]
    assert len(said["cells"]) > 20
    assert all(cell["ratio"] > 0 for cell in said["cells"])
    toml = (tmp_path / "run" / "profile.toml").read_text()
    # The same findings have the same profile, and it is not fitted again.
    again = cli(*matrix)
    assert "Already in run: matrix_reads" in again.stderr
    assert (tmp_path / "run" / "profile.toml").read_text() == toml
    cli("device", "run/profile.toml")
    cli("probe", "run/profile.toml", *DEPTH, "--out", "other")
    cli("probe", *DRIVE, *DEPTH, "--out", "none")
    said = json.loads((tmp_path / "none" / "result.json").read_text())["profile"]
    assert "it is fitted to what the experiment `matrix` finds" in said["why_not"]
    assert not (tmp_path / "none" / "profile.toml").exists()


def test_a_finished_run_keeps_its_profile(cli: Cli, tmp_path: Path) -> None:
    matrix = ["probe", A16, "--only", "matrix_reads", "--minutes", "0.2", "--out", "run"]
    toml, mark = tmp_path / "run" / "profile.toml", "# by hand: gone only if it is fitted anew\n"
    cli(*matrix, "--fit", "2")
    first = json.loads((tmp_path / "run" / "result.json").read_text())["profile"]
    toml.write_text(toml.read_text() + mark)
    for effort in ("2", "1", "0"):
        cli(*matrix, "--fit", effort)
        assert mark in toml.read_text()
        assert json.loads((tmp_path / "run" / "result.json").read_text())["profile"] == first
    # A fit uses all findings: after others another fit is due, but not with --fit 0.
    other = cli("probe", A16, *DEPTH, "--fit", "0", "--out", "run")
    assert mark in toml.read_text()
    assert "It is of what this folder held before" in other.stdout
    cli(*matrix, "--fit", "1")
    assert mark not in toml.read_text()
    toml.write_text(toml.read_text() + mark)
    cli(*matrix, "--fit", "2")
    assert mark not in toml.read_text()
    toml.write_text(toml.read_text() + mark)
    assert "It is of" not in cli(*matrix, "--fit", "1", "--again").stdout
    assert mark not in toml.read_text()


def test_who_stops_reading_loses_nothing_of_a_run(cli: Cli, tmp_path: Path) -> None:
    matrix = [
        A16,
        "--only",
        "matrix_reads",
        "--minutes",
        "0.2",
        "--fit",
        "1",
        "--out",
        "run",
    ]

    def cut_off() -> None:
        process = _start(matrix, tmp_path)
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        process.stderr.close()
        process.wait(60)

    def kept() -> tuple[str, Any]:
        result = json.loads((tmp_path / "run" / "result.json").read_text())
        return (tmp_path / "run" / "profile.toml").read_text(), [
            result["findings"],
            result["profile"],
            result["tables"],
        ]

    cut_off()
    assert "ratio" in kept()[1][1]["cells"][0]
    cli("probe", *matrix)
    before = kept()
    cut_off()
    assert kept() == before


def test_the_same_seed_finds_the_same_and_another_does_not(cli_json: Callable[..., Any]) -> None:
    def findings(*more: str) -> Any:
        return cli_json("probe", *DRIVE, *TWO, *more)["findings"]

    assert findings() == findings()
    assert findings() != findings("--seed", "2")


def test_json_alone_keeps_nothing(cli: Cli, tmp_path: Path) -> None:
    result = json.loads(cli("probe", *DRIVE, *DEPTH, "--json", "-").stdout)
    assert [finding["label"] for finding in result["findings"]] == ["depth_read"]
    assert list(tmp_path.iterdir()) == []


def test_a_probe_goes_on_where_it_stopped(cli: Cli, tmp_path: Path) -> None:
    cli("probe", *DRIVE, *DEPTH, "--out", "run")
    first = (tmp_path / "run" / "findings" / "depth_read.json").read_bytes()
    done = cli("probe", *DRIVE, *TWO, "--out", "run")
    # It has less time there than alone, so what was found before is enough.
    assert "Already in run: depth_read; --again measures anew." in done.stderr
    assert (tmp_path / "run" / "findings" / "depth_read.json").read_bytes() == first
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert {finding["label"] for finding in result["findings"]} == {
        "depth_read",
        "response_time_read",
    }
    again = cli("probe", *DRIVE, *TWO, "--out", "run", "--again")
    assert not other_lines(again.stderr)
    longer = cli("probe", *DRIVE, "--only", "depth_read", "--minutes", "0.2", "--out", "run")
    assert not other_lines(longer.stderr)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([*DRIVE, "--seed", "2"], "a probe with another seed: 1 there, 2 asked for"),
        ([drive("state=aged")], "another device: state"),
        ([drive("interface.queue_depth=8")], "another device: profile_hash"),
    ],
)
def test_a_folder_of_another_probe_is_refused(cli: Cli, arguments: list[str], said: str) -> None:
    cli("probe", *DRIVE, *DEPTH, "--out", "run")
    done = cli("probe", *arguments, *DEPTH, "--out", "run", code=2)
    assert said in done.stderr
    assert "choose another --out" in done.stderr


def test_a_folder_of_something_else_is_refused_and_a_damaged_finding_told(
    cli: Cli, tmp_path: Path
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("years of work")
    assert "no run folder" in cli("probe", *DRIVE, *DEPTH, "--out", "mine", code=2).stderr
    cli("play", "io:random(requests=100)", "--on", "a16", "--out", "played")
    assert "a run of `play`" in cli("probe", *DRIVE, *DEPTH, "--out", "played", code=2).stderr
    assert "a run of `play`" in cli("probe", *DRIVE, *DEPTH, "--against", "played", code=2).stderr
    cli("probe", *DRIVE, *DEPTH, "--out", "run")
    (tmp_path / "run" / "findings" / "depth_read.json").write_text("{")
    assert (
        "findings/depth_read.json: not the finding"
        in cli("probe", *DRIVE, *DEPTH, "--out", "run", code=2).stderr
    )


def test_an_experiment_with_parameters_of_its_own_has_a_file_of_its_own(
    cli: Cli, tmp_path: Path
) -> None:
    name = "chunk_size(most=16Ki)"
    done = cli(
        "probe", *DRIVE, "--only", "chunk_size", "--only", name, "--minutes", "0.2", "--out", "run"
    )
    assert "chunk_size(most=16384)" in done.stdout
    files = sorted(path.name for path in (tmp_path / "run" / "findings").iterdir())
    assert len(files) == 2
    assert files[1] == "chunk_size.json" or files[0] == "chunk_size.json"


def test_two_drives_lie_side_by_side(cli: Cli, tmp_path: Path) -> None:
    done = cli("probe", *DRIVE, *DEPTH, "--against", "intel-x25m", "--out", "run")
    assert "intel-x25m" in done.stdout
    assert "ratio" in done.stdout
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    own = "intel-x25e(media.erase_blocks_per_plane=64)"
    assert (result["drive"], result["against"]["drive"]) == (own, "intel-x25m")
    curves = pl.read_parquet(tmp_path / "run" / "curves.parquet")
    assert set(curves["drive"]) == {own, "intel-x25m"}
    # The other is a run folder of its own, and can be taken as one; here against another state of
    # the same drive.
    other = tmp_path / "run" / "against"
    assert json.loads((other / "result.json").read_text())["drive"] == "intel-x25m"
    fresh = drive("state=fresh")
    cli("probe", fresh, *DEPTH, "--against", tmp_path / "run", "--out", "states")
    states = json.loads((tmp_path / "states" / "result.json").read_text())
    assert states["against"]["drive"] == own
    assert "against" not in states["against"]


def test_a_file_is_only_read_unless_writing_is_allowed_twice(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "data.bin"
    content = os.urandom(4 * MIB)
    path.write_bytes(content)
    _skip_without_direct(cli, path)
    done = cli("probe", "data.bin", "--minutes", "0.01", "--out", "run")
    assert path.read_bytes() == content
    assert "it writes to the device, which --write allows" in done.stdout
    assert "--write allows" in cli("probe", "data.bin", "--only", "write_buffer", code=2).stderr
    refused = cli(
        "probe", "data.bin", "--only", "write_patterns", "--write", "--minutes", "0.01", code=2
    )
    assert "add --destroy-data data.bin" in refused.stderr
    assert path.read_bytes() == content
    write = [
        "--only",
        "response_time_write",
        "--write",
        "--destroy-data",
        "data.bin",
        "--minutes",
        "0.01",
    ]
    written = cli("probe", "disk(data.bin, region=1Mi+2Mi, tbw=100)", *write)
    before, after = other_lines(written.stderr)
    assert "what is in bytes 1048576 to 3145728 (2 MiB) is overwritten. At most" in before
    assert "of the drive's life of the 100 TB" in before
    assert "were written in all" in after
    now = path.read_bytes()
    assert now[:MIB] == content[:MIB]
    assert now[3 * MIB :] == content[3 * MIB :]
    assert now != content


def test_data_is_in_the_way_only_in_the_region(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "data.bin"
    path.write_bytes(bytes(4 * MIB))
    _skip_without_direct(cli, path)
    with path.open("r+b") as file:
        file.seek(3 * MIB + 700)
        file.write(b"to whom it may concern")
    write = ["--only", "response_time_write", "--write", "--minutes", "0.01", "--json", "-"]
    refused = cli("probe", "data.bin", *write, code=2)
    said = (
        f"it holds data that this program did not write, at byte {3 * MIB + 512}; add "
        "--destroy-data data.bin to destroy"
    )
    assert said in refused.stderr
    assert "Traceback" not in refused.stderr
    cli("probe", "disk(data.bin, region=2Mi)", *write)
    assert path.read_bytes()[3 * MIB + 700 :].startswith(b"to whom it may concern")


def _skip_without_direct(cli: Cli, path: Path) -> None:
    done = cli("probe", path, *DEPTH, "--json", "-", code=None)
    if "O_DIRECT" in done.stderr:
        pytest.skip("the file system of the test's folder has no O_DIRECT")


def test_a_file_is_made_to_be_probed(cli: Cli, tmp_path: Path) -> None:
    done = cli("probe", "file(new.bin, create=1Mi)", *DEPTH, "--out", "run", code=None)
    if "O_DIRECT" in done.stderr:
        pytest.skip("the file system of the test's folder has no O_DIRECT")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "new.bin").stat().st_size == MIB
    assert "Nothing was written" in done.stdout


def test_a_device_in_use_is_refused(cli: Cli) -> None:
    device = _mounted_device()
    if device is None or os.geteuid() != 0:
        pytest.skip("no mounted block device that may be opened")
    for more in ([], ["--destroy-data", device]):
        done = cli("probe", device, "--write", *more, "--json", "-", code=2)
        assert "is not written to" in done.stderr
        assert done.stderr.count("\n") == 1


def _mounted_device() -> str | None:
    for line in Path("/proc/self/mounts").read_text().splitlines():
        path = Path(line.split()[0])
        if path.is_absolute() and path.exists() and stat.S_ISBLK(path.stat().st_mode):
            return str(path)
    # The root may be named in a way of its own.
    root = Path("/").stat().st_dev
    for path in Path("/dev").iterdir():
        found = path.stat() if path.exists() else None
        if found is not None and stat.S_ISBLK(found.st_mode) and found.st_rdev == root:
            return str(path)
    return None


def _start(arguments: list[str], folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "flashwright", "probe", *arguments]
    return subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


LONG = ["--only", "depth_read", "--only", "streams", "--minutes", "0.25", "--out", "run"]


def test_ctrl_c_keeps_what_was_found_and_the_same_command_goes_on(cli: Cli, tmp_path: Path) -> None:
    process = _start([MEMORY, *LONG], tmp_path)
    done = _ended_after_first(process, tmp_path)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=30)
    assert process.returncode == 130, stderr
    assert len(other_lines(stderr)) == 1
    assert "1 of 2 experiments are kept in run; the same command goes on from there" in stderr
    assert done in stdout
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert (result["complete"], len(result["missing"])) == (False, 1)
    assert "stopped before its end" in (tmp_path / "run" / "report.html").read_text()
    again = cli("probe", MEMORY, *LONG)
    assert f"Already in run: {done}" in again.stderr
    assert json.loads((tmp_path / "run" / "result.json").read_text())["complete"] is True


def _ended_after_first(process: subprocess.Popen[str], folder: Path) -> str:
    """Wait until the first of two experiments is kept; give its name."""
    deadline = time.monotonic() + 60
    while not (found := list((folder / "run" / "findings").glob("*.json"))):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return str(json.loads(found[0].read_text())["experiment"].partition("(")[0])


def test_a_device_that_fails_keeps_what_was_found(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "data.bin"
    path.write_bytes(os.urandom(8 * MIB))
    _skip_without_direct(cli, path)
    process = _start(["data.bin", *LONG], tmp_path)
    done = _ended_after_first(process, tmp_path)
    os.truncate(path, MIB)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 1, stderr
    assert len(other_lines(stderr)) == 1
    assert "truncated" in stderr
    assert "1 of 2 experiments are kept in run" in stderr
    assert done in stdout
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert "truncated" in result["error"]
    assert (
        "The device failed, which ended the probe" in (tmp_path / "run" / "report.html").read_text()
    )


def test_experiments_run_behind_those_whose_findings_they_use() -> None:
    plan = plans.make(plans.FULL, (), None, may_write=True)
    names = [step.name for step in plan.steps]
    assert len(names) == len(_core.variants("experiment"))
    for step in plan.steps:
        assert all(
            names.index(before) < names.index(step.name) for before in step.entry["after"]
        ), step.name
    assert plan.budget_seconds == pytest.approx(60 * plans.MINUTES[plans.FULL])


def test_a_finding_is_a_whole_file_or_none(tmp_path: Path) -> None:
    step = plans.make(plans.QUICK, ("depth_read",), 1, may_write=False).steps[0]
    store = Store(tmp_path)
    finding = store.keep(
        step, json.dumps({"experiment": step.spec, "values": [], "charts": [], "notes": []})
    )
    (tmp_path / "findings" / "other.part").write_text("half a fin")
    assert store.read() == {step.spec: finding}


def test_the_list_has_every_experiment(cli: Cli) -> None:
    listed = cli("probe", "--list").stdout
    assert all(entry["name"] in listed for entry in _core.variants("experiment"))
    assert listed == cli("list", "experiment").stdout


def test_docs_list_every_experiment(cli: Cli) -> None:
    page = (ROOT / "docs/reference/experiments.md").read_text(encoding="utf-8")
    shown = page.partition("<!-- list experiment -->\n")[2].partition(
        "\n<!-- end of list experiment -->"
    )[0]
    assert shown == cli("list", "experiment", "--markdown").stdout.rstrip("\n"), (
        "out of date: run `make readme`"
    )
    docs = (ROOT / "docs" / "probing.md").read_text(encoding="utf-8")
    shown = docs.partition("<!-- experiments -->\n")[2].partition("\n<!-- end of experiments -->")[
        0
    ]
    assert shown == experiments_in_full(), "docs/probing.md is out of date: run `make readme`"
