"""Jobs as Python does them."""

from __future__ import annotations

import importlib.util
import inspect
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import flashwright as fw
from flashwright import _core
from flashwright._core import InputError
from flashwright.jobs.schema import settings_of
from flashwright.jobs.work import Job
from support import ROOT, Cli


def _writing() -> Any:
    """Load the script that writes the files of jobs."""
    spec = importlib.util.spec_from_file_location("jobs", ROOT / "scripts" / "setup" / "jobs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


writing = _writing()


@dataclass(frozen=True)
class Found:
    """An outcome."""

    number: int


def test_threads_that_read_their_first_outcome_at_once_do_not_look_into_its_type() -> None:
    """Two that did so crashed: what msgspec knows of a type has to be there before."""
    job = Job("play", Found)
    assert hasattr(Found, "__msgspec_cache__")
    assert job.read(b'{"number": 1}') == Found(1)


@pytest.mark.parametrize("name", _core.job_names())
def test_the_written_files_of_a_job_are_those_of_the_structs(name: str) -> None:
    for file, text in writing.written(name).items():
        there = (writing.ROOT / name / file).read_text(encoding="utf-8")
        assert there == text, f"{name}/{file} is out of date: run `make jobs`"


@pytest.mark.parametrize("name", _core.job_names())
def test_every_option_of_a_job_has_a_help_and_a_group(name: str) -> None:
    known = [one for one in settings_of(name) if not one.is_hidden]
    assert known
    assert [one.name for one in known if not one.help] == []
    named = [one.name for one in known if not one.is_argument and one.group == "Options"]
    assert named == []


def test_a_function_of_a_job_shows_its_settings_and_refuses_others() -> None:
    known = inspect.signature(fw.fleet_synth).parameters
    assert known["out"].default is inspect.Parameter.empty
    assert known["seed"].default == 1
    assert known["seed"].kind is inspect.Parameter.KEYWORD_ONLY
    assert known["progress"].default is True
    with pytest.raises(TypeError, match="volume"):
        fw.fleet_synth("out", volume=3)
    assert set(_core.job_names(commands=True)) < set(dir(fw))


ASKED: dict[str, Any] = {
    "source": "part(io:random(reads=0.5), ops=read+write, priority=1)",
    "on": ["profile(intel-x25e, state=aged(overwrites=3), op=28%)", "array(raid5, of=sd-card)"],
    "stack": ["scheduler(defer)|log_volume", "direct"],
    "pace": ["closed(8, think=5us)", "open(factor=2)", "intervals(1)"],
    "flow": ["flow(io:sequential(size=64Ki), pace=4, priority=2, region=1Mi+64Mi)"],
    "requests": "20k",
    "untimed": "85%",
    "duration": "90s",
    "checkpoints": "every(60s)",
    "life": "life(40G, cycles=3000)",
    "data": "killed",
    "seed": 7,
}


def test_settings_go_through_json_and_back_without_loss() -> None:
    job = Job("play", Found)
    once = job.settings(ASKED)
    assert job.settings(once) == once
    assert job.settings(json.loads(json.dumps(once))) == once
    assert once["seed"] == 7


def test_two_ways_of_writing_a_number_are_one_job(cli: Cli, tmp_path: Path) -> None:
    job = Job("play", Found)
    many, same = (
        job.settings({"source": "io:random", "on": ["intel-x25e"], "requests": count, "pace": pace})
        for count, pace in (("20k", ["8"]), (20_000, ["closed(8)"]))
    )
    assert many == same
    for count in ("1k", "1000"):
        cli("play", "io:random", "--on", "intel-x25e", "--requests", count)
    [folder] = (tmp_path / "runs").iterdir()
    assert folder.name.startswith("play-")


WRONG = [
    ("on", "--on", ["profile(intel-x25e, state=agd)"], "agd"),
    ("pace", "--pace", ["closd(8)"], "closd"),
    ("requests", "--requests", "many", "many"),
    ("life", "--life", "life(cycls=3)", "cycls"),
    ("data", "--data", "kiled", "kiled"),
]


@pytest.mark.parametrize(("name", "flag", "value", "said"), WRONG, ids=[one[0] for one in WRONG])
def test_what_is_wrong_is_said_in_the_same_words_everywhere(
    name: str, flag: str, value: Any, said: str, cli: Cli
) -> None:
    """In the shell by its option, in Python by its keyword, and by the core with its name."""
    asked = {"source": "io:random", "on": ["intel-x25e"], name: value}
    with pytest.raises(InputError) as of_core:
        _core.run_job("play", json.dumps(asked).encode())
    option = str(of_core.value.option)  # type: ignore[attr-defined]
    assert option.partition("[")[0].partition(".")[0] == name
    assert said in str(of_core.value)
    options = {key: given for key, given in asked.items() if key != "source"}
    with pytest.raises(InputError) as of_python:
        fw.play("io:random", progress=False, **options)
    assert str(of_python.value) == str(of_core.value)
    word = value[0] if isinstance(value, list) else value
    more = () if name == "on" else ("--on", "intel-x25e")
    of_shell = cli("play", "io:random", *more, flag, word, code=2).stderr
    reason = str(of_core.value).removeprefix(f"{option}: ")
    assert " ".join(reason.split()) in of_shell
    assert flag in of_shell


def test_a_finished_job_is_not_done_again_unless_it_is_asked_for(cli: Cli, tmp_path: Path) -> None:
    words = ("play", "io:random", "--on", "intel-x25e", "--requests", "500", "--out", "run")
    cli(*words)
    result = tmp_path / "run" / "result.json"
    first = result.stat().st_ino
    said = cli(*words).stdout
    assert "run holds the complete result of this work; --again does it again." in said
    assert result.stat().st_ino == first
    assert "holds the complete result" not in cli(*words, "--again").stdout
    assert result.stat().st_ino != first


def test_play_has_a_signature_and_a_help_with_all_options() -> None:
    known = [one for one in settings_of("play") if not one.is_hidden]
    found = inspect.signature(fw.play).parameters
    assert {one.name for one in known} <= set(found)
    assert set(found) - {one.name for one in known} == {"jobs", "progress"}
    said = inspect.getdoc(fw.play) or ""
    assert [one.name for one in known if f"{one.name}: {one.help}" not in said] == []
    with pytest.raises((TypeError, InputError), match="requets"):
        fw.play("io:random", on="intel-x25e", requets=3, progress=False)  # type: ignore[call-arg]
