"""Finished simulations of a comparison that was stopped, and complete results, are kept."""

from __future__ import annotations

import json
import math
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flashwright import _core, progress
from flashwright.cli import main
from flashwright.kept import Kept, key_of
from flashwright.runs import Job
from support import SMALL

COUNTED = ("compare", SMALL, "--op", "0.2", "--placements", "none,dac", "--victims", "greedy,lru")
DRIVES = ("play", "io:random(reads=1)", "--on", "intel-x25e,intel-x25m", "--requests", "300")


class Simulator:
    """Counts simulations, and stops the command with Ctrl-C when so many are done."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        self.done = 0
        self.most: int | None = None
        self._at_most = threading.Event()
        self._simulate = getattr(_core, name)
        self._wait = progress._draw_until_done
        monkeypatch.setattr(_core, name, self._counted)
        monkeypatch.setattr(progress, "_draw_until_done", self._interrupted)

    def _counted(self, *given: Any, **more: Any) -> Any:
        if self.most is not None and self.done >= self.most:
            self._at_most.set()
            raise _core.Cancelled("stopped")
        found = self._simulate(*given, **more)
        self.done += 1
        return found

    def _interrupted(self, label: Any, *more: Any) -> None:
        said = label() if callable(label) else label
        if self.most is None or "runs" not in said:
            self._wait(label, *more)
            return
        assert self._at_most.wait(60)
        raise KeyboardInterrupt


@pytest.fixture
def command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str]]:
    """Runs a command in this process, one simulation at a time; gives its code and its words."""
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["flashwright", *words, "--jobs", "1"])
        with pytest.raises(SystemExit) as left:
            main()
        said = capsys.readouterr()
        return int(left.value.code or 0), said.out + said.err

    return run


def _timeless(found: Any) -> Any:
    """Leave out what depends on how busy the machine is."""
    if isinstance(found, list):
        return [_timeless(one) for one in found]
    if not isinstance(found, dict):
        return found
    return {
        key: _timeless(value)
        for key, value in found.items()
        if "wall" not in key and key not in ("prepare_seconds", "flash_page_programs_per_second")
    }


def _result(folder: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(folder, "result.json").read_text())
    del found["peak_rss_bytes"], found["provenance"]["command"]
    return found


@pytest.mark.parametrize(
    ("words", "simulator", "unit", "rows", "planned", "kept"),
    [
        (
            COUNTED,
            "simulate",
            "simulations",
            "results",
            5,
            "stopped after 1 of 5 (20%) simulations; all that is finished is kept in runs/store",
        ),
        (DRIVES, "run_job", "runs", "runs", 2, "1 of 2 runs are kept in run, and are not done"),
    ],
    ids=["counted", "drives"],
)
def test_a_comparison_that_was_stopped_goes_on_from_what_is_finished(
    words: tuple[str, ...],
    simulator: str,
    unit: str,
    rows: str,
    planned: int,
    kept: str,
    command: Callable[..., tuple[int, str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counting = Simulator(monkeypatch, simulator)
    counting.most = 1
    code, said = command(*words, "--out", "run")
    assert code == 130
    assert kept in said
    assert not _result("run")["complete"]
    counting.most = None
    code, said = command(*words, "--out", "run")
    assert code == 0
    assert f"1 of {planned} {unit} were finished by an earlier run" in said
    assert counting.done == planned
    # The results that were kept are those of a run without a stop.
    assert command(*words, "--out", "whole")[0] == 0
    found = [_timeless(_result(folder)[rows]) for folder in ("run", "whole")]
    assert found[0] == found[1]


def test_a_complete_result_outlives_a_repetition_that_is_stopped(
    command: Callable[..., tuple[int, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where none of its simulations is kept any more."""
    counting = Simulator(monkeypatch, "simulate")
    assert command(*COUNTED, "--out", "run")[0] == 0
    before = _result("run")
    assert before["complete"]
    Path("runs/store").rename("away")
    counting.done, counting.most = 0, 2
    code, said = command(*COUNTED, "--out", "run")
    assert code == 130
    assert "run: the complete result of an earlier run stays there" in said
    assert _result("run") == before


def test_a_complete_comparison_is_not_simulated_again(
    command: Callable[..., tuple[int, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    counting = Simulator(monkeypatch, "simulate")
    assert command(*COUNTED)[0] == 0
    done = counting.done
    code, said = command(*COUNTED)
    assert (code, counting.done) == (0, done)
    assert f"{done} of {done} simulations were finished by an earlier run" in said
    # One that asks for more takes what is there, and one that differs shares nothing.
    code, said = command(*COUNTED[:-1], "greedy,lru,fifo", "--out", "run")
    assert code == 0
    assert f"{done} of {done + 2} simulations were finished by an earlier run" in said
    assert counting.done == done + 2
    assert command(*COUNTED, "--seed", "2", "--out", "run")[0] == 0
    assert counting.done == 2 * done + 2


def test_a_comparison_takes_what_a_sweep_has_counted_and_the_other_way_round(
    command: Callable[..., tuple[int, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sweep kept no tables, so that a comparison, which shows them, counts once more."""
    counting = Simulator(monkeypatch, "simulate")
    axes = '[axes]\nplacement = ["none", "dac"]\n'
    fixed = f'[fixed]\nsource = "{SMALL}"\nvictim = "greedy"\nover_provisioning = 0.2\n'
    kept = 'tables = ["over_time", "p_gc_histogram", "streams", "wear"]\n'
    Path("with.toml").write_text(f'job = "count"\n{kept}{fixed}{axes}')
    Path("without.toml").write_text(f'job = "count"\n{fixed}{axes}')
    _, said = command("sweep", "without.toml", "--out", "sweep")
    _, said = command(*COUNTED[:-1], "greedy")
    assert (counting.done, "were finished" in said) == (3, False)
    assert "2 of 2 jobs were finished" in command("sweep", "with.toml", "--out", "sweep")[1]
    code, said = command("sweep", "without.toml", "--out", "sweep")
    assert (code, counting.done) == (0, 3)
    assert "2 of 2 jobs were finished" in said


def test_what_is_kept_is_what_was_found(tmp_path: Path) -> None:
    kept, key = Kept(tmp_path), key_of("one", {"x": 1.5})
    found = {"x": 0.1 + 0.2, "none": None, "tables": {"t": {"a": [1, 2], "b": ["x", "y"]}}}
    assert kept.remember(key, lambda: found) is found
    again = kept.remember(key, lambda: pytest.fail("it was kept"))
    assert again["x"] == found["x"]
    assert {name: column.to_pylist() for name, column in again["tables"]["t"].items()} == {
        "a": [1, 2],
        "b": ["x", "y"],
    }
    # A damaged result is simulated again; without a name, or a folder, nothing is kept.
    (tmp_path / "simulations" / key[:2] / f"{key}.t.parquet").write_bytes(b"no table")
    assert kept.remember(key, lambda: {"x": 2})["x"] == 2
    # What no table or JSON holds is not kept, and is given all the same.
    other = key_of("other")
    for odd in ({"tables": {"t": {"a": [1, "x"]}}}, {"x": math.inf}, {"x": object()}):
        assert kept.remember(other, lambda odd=odd: odd) is odd  # type: ignore[misc]
        assert not kept.has(other)
    # What is of other work in the same folder goes.
    kept.drop_all_but([other])
    assert not kept.has(key)
    assert not kept.has(None)
    assert Kept(None).remember(key, lambda: {"x": 3}) == {"x": 3}


def test_other_code_shares_no_simulation(monkeypatch: pytest.MonkeyPatch) -> None:
    """The name had the core's size and time alone: an edit of Python left it as it was."""
    before = key_of("one", 1)
    assert key_of("one", 1) == before
    monkeypatch.setattr("flashwright.kept.version_hash", lambda: "of other code")
    assert key_of("one", 1) != before


def test_only_the_same_work_counts_as_complete(tmp_path: Path) -> None:
    job = Job("compare", ["a"])
    job.run({"complete": True}).write(tmp_path / "run")
    assert job.is_complete_in(tmp_path / "run")
    assert not Job("compare", ["b"]).is_complete_in(tmp_path / "run")
    assert not job.is_complete_in(tmp_path / "nothing")
    job.run({"complete": False}).write(tmp_path / "run")
    assert not job.is_complete_in(tmp_path / "run")
