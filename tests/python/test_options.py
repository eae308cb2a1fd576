"""Classes of options, and jobs.

What a command gets of its options, and what of a job names its run folder.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from flashwright._core import InputError
from flashwright.cli.options import all_of, argument, at_most_one, option, options
from flashwright.runs import Job, Run


@dataclass(frozen=True)
class Base:
    """Options that both have."""

    number: int = option("A number.", type=click.IntRange(1), default=3)


@dataclass(frozen=True)
class Both(Base):
    """Options with flags and lists."""

    is_on: bool = option("A flag.", "--on", is_flag=True)
    is_off: bool = option("Another.")
    names: tuple[str, ...] = option("Names.", "--name", multiple=True)


@click.command()
@options
def say_all(
    *, word: str = argument(), both: Both = all_of(Both, {"number": "  [some note]"})
) -> None:
    """Print what came."""
    click.echo(f"{word} {both}")


def test_a_command_gets_its_options_as_one_instance() -> None:
    done = CliRunner().invoke(
        say_all, ["w", "--name", "a", "--name", "b", "--is-off", "--number", "7"]
    )
    assert done.output == f"w {Both(number=7, is_on=False, is_off=True, names=('a', 'b'))}\n"


def test_the_help_has_defaults_and_notes() -> None:
    said = " ".join(CliRunner().invoke(say_all, ["--help"]).output.split())
    assert "--number N A number. [some note] [default: 3; x>=1]" in said
    assert "--is-off Another." in said


def test_of_options_that_exclude_each_other_one_is_taken() -> None:
    at_most_one({"--a": None, "--b": True, "--c": ()}, "give one of them")
    with pytest.raises(click.UsageError, match="--a and --c: give one of them"):
        at_most_one({"--a": 1, "--b": False, "--c": ("x",)}, "give one of them")


JOB = Job("probe", {"device": {"model": "a", "bytes": 1}, "seed": 1}, [{"source": "a"}], 1)


def test_a_folder_is_named_by_what_decides_on_the_result() -> None:
    again = replace(JOB, inputs=[{"source": "another/name"}], seed=None)
    assert again.folder == JOB.folder
    assert JOB.folder.name.startswith("probe-")
    assert replace(JOB, identity={**JOB.identity, "seed": 2}).folder != JOB.folder


def test_a_run_has_the_provenance_of_its_job() -> None:
    run = JOB.run({"found": 1})
    assert run.job == JOB
    assert run.result["provenance"]["inputs"] == [{"source": "a"}]
    assert run.result["provenance"]["seed"] == 1


def test_a_job_goes_on_only_from_its_own_run(tmp_path: Path) -> None:
    assert not JOB.is_begun(tmp_path)
    JOB.run({"identity": JOB.identity}).write(tmp_path)
    assert JOB.is_begun(tmp_path)
    other = {"device": {"model": "b", "bytes": 1}, "seed": 1}
    with pytest.raises(
        InputError, match="another device: model a there, b asked for; choose another --out"
    ):
        replace(JOB, identity=other).is_begun(tmp_path)
    Run("play", {}).write(tmp_path)
    with pytest.raises(InputError, match="it holds a run of `play`"):
        JOB.is_begun(tmp_path)
    (tmp_path / "result.json").unlink()
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(InputError, match="not empty and no run folder"):
        JOB.is_begun(tmp_path)
