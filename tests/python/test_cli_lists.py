"""Options that take several values, and what a shell completes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from flashwright.cli import cli as flashwright
from flashwright.cli.lists import Listed, split_assignments, split_names
from support import ROOT, Cli


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a,b", ["a", "b"]),
        ("scheduler(coalesce,defer),log_volume", ["scheduler(coalesce,defer)", "log_volume"]),
        ("a(b(1,2),3),c", ["a(b(1,2),3)", "c"]),
        (" a , ,b,", ["a", "b"]),
        ("emulated(profile=sd-card,size=1Gi)", ["emulated(profile=sd-card,size=1Gi)"]),
    ],
)
def test_names_are_split_outside_of_brackets(text: str, parts: list[str]) -> None:
    assert split_names(text) == parts


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a=1,b.c=2", ["a=1", "b.c=2"]),
        ("media.read_us=[25,50],x=1", ["media.read_us=[25,50]", "x=1"]),
        ("ftl.placement=dac(a=1,b=2),x=1", ["ftl.placement=dac(a=1,b=2)", "x=1"]),
        (
            "shared_preload_libraries=a,b,work_mem=1MB",
            ["shared_preload_libraries=a,b", "work_mem=1MB"],
        ),
        ("search_path='a,b=c',x=1", ["search_path='a,b=c'", "x=1"]),
    ],
)
def test_assignments_are_split_before_a_name(text: str, parts: list[str]) -> None:
    assert split_assignments(text) == parts


def _all_options(command: click.Command, path: str = "") -> list[tuple[str, click.Option]]:
    found = [
        (f"{path} {option.opts[0]}", option)
        for option in command.params
        if isinstance(option, click.Option)
    ]
    if isinstance(command, click.Group):
        for name, below in command.commands.items():
            found += _all_options(below, f"{path} {name}")
    return found


def test_every_option_that_may_be_given_again_takes_a_list() -> None:
    """All but those for nbdkit: its words are passed on as they are."""
    again = [(path, one) for path, one in _all_options(flashwright) if one.multiple]
    assert len(again) > 15
    others = {path for path, one in again if not isinstance(one, Listed)}
    assert {path.split()[-1] for path in others} == {"--nbdkit"}


@click.command()
@click.option("--name", "names", cls=Listed)
@click.option("--number", "numbers", cls=Listed, type=click.IntRange(1))
def say(names: tuple[str, ...], numbers: tuple[int, ...]) -> None:
    """Print what came."""
    click.echo(f"{names} {numbers}")


def test_lists_and_repeats_go_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a,file").touch()
    run = CliRunner()
    done = run.invoke(say, ["--name", "a,b", "--name", "a,file", "--number", "1,8"])
    assert done.output == "('a', 'b', 'a,file') (1, 8)\n"
    assert run.invoke(say, []).output == "() ()\n"
    wrong = run.invoke(say, ["--number", "1,x"])
    assert "'x' is not a valid integer" in wrong.output
    assert "',' names nothing" in run.invoke(say, ["--name", ","]).output


def test_drives_are_compared_at_several_paces(cli: Cli, cli_json: Cli) -> None:
    found: dict[str, object] = cli_json(  # type: ignore[assignment]
        *("play", "io:random(reads=1)", "--on", "intel-x25e,intel-x25m"),
        *("--pace", "1,8", "--requests", "500"),
    )
    rows = {(row["device"], row["pace"]): row for row in found["runs"]}  # type: ignore[attr-defined]
    assert list(rows) == [
        (drive, f"closed({depth})") for drive in ("intel-x25e", "intel-x25m") for depth in (1, 8)
    ]
    slow, fast = (rows["intel-x25e", f"closed({depth})"]["iops"] for depth in (1, 8))
    assert fast > 2 * slow
    said = cli("play", "io:random", "--on", "sd-card", "--pace", "8,closed(8)", code=2).stderr
    assert "--pace: closed(8): it is given twice" in said


def _completed(words: str, shell: str = "bash") -> list[str]:
    """Give what a shell would be offered for the last of these words."""
    given = words.split(" ")
    environment = {
        **os.environ,
        "_FLASHWRIGHT_COMPLETE": f"{shell}_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(given) - 1),
        "PYTHONPATH": str(ROOT / "python"),
    }
    code = "import sys; sys.argv = ['flashwright']; from flashwright.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("flashwright serve 'emulated(usb'", "emulated(usb-stick"),
        ("flashwright play t.csv --on sd-card,usb", "sd-card,usb-stick"),
        ("flashwright compare t.csv --placements multi_log_", "multi_log_optimal"),
        ("flashwright compare t.csv --placements none,da", "none,dac"),
        ("flashwright compare t.csv --victims window", "window_greedy"),
        ("flashwright play t.csv --on sd-card --stack sched", "scheduler"),
        ("flashwright probe sd-card --only chunk", "chunk_size"),
        ("flashwright bench tpc", "tpcb"),
        ("flashwright bench tpcc --db post", "postgres"),
        ("flashwright list prof", "profile"),
    ],
)
def test_a_shell_completes_names(words: str, offered: str) -> None:
    assert f"plain,{offered}" in _completed(words)


def test_files_are_completed_where_no_name_begins_so() -> None:
    assert _completed("flashwright play my.par") == ["file,my.par"]
    assert "file,./my" in _completed("flashwright serve ./my")
