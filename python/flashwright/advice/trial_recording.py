"""A trial as it stands, recorded; and what changes of it are predicted to do."""

from __future__ import annotations

import shutil
import tempfile
import threading
from dataclasses import dataclass, field, replace
from pathlib import Path

from flashwright._core import InputError
from flashwright.advice import trials
from flashwright.advice.building import Question, case_of
from flashwright.advice.case import Case
from flashwright.advice.engine import DEPTH, Clients, Conditions, Engine
from flashwright.advice.processors import AtWork
from flashwright.advice.proving import Change
from flashwright.advice.setup import Figures
from flashwright.advice.trial_setups import predicted
from flashwright.advice.trials import Trial
from flashwright.sources import REQUESTS_FILE

LEAST_COMMITS = 200
"""Fewest commits of a recording from which changes are predicted."""
_SERVERS = ("postgres", "mysql")
"""Databases that write data behind their clients' backs."""
_TRIES = 6
_NEAR = 0.05
"""How near a closed loop's time has to be to what was recorded, as a share."""


@dataclass
class TrialRecording:
    """A recording of a trial, made if it is not there; follows as `Tracker` says."""

    trial: Trial
    folder: Path
    on: Path
    """Where the drives' bytes lie meanwhile."""
    said: str = ""
    stop: threading.Event = field(default_factory=threading.Event)

    @property
    def is_there(self) -> bool:
        """Whether it is whole."""
        return (self.folder / REQUESTS_FILE).is_file()

    def state(self) -> tuple[int, int]:
        """See `Tracker`."""
        return 0, 1

    def cancel(self) -> None:
        """See `Tracker`."""
        self.stop.set()

    def _say(self, what: str) -> None:
        self.said = what

    def make(self) -> None:
        """Make it; what is left of one that was stopped is ours to replace."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        trials.run(self.trial, self.on, self._say, self.stop, self.folder)


@dataclass
class Predicting:
    """Predicts changes of trials; reads the recording of each once."""

    kept: Path
    """Folder of figures that were simulated."""
    unknown: dict[tuple[Path, str], str] = field(default_factory=dict)
    """Why nothing was predicted, by recording and change."""
    _known: dict[Path, tuple[Case, Engine]] = field(default_factory=dict)
    _folders: list[tempfile.TemporaryDirectory[str]] = field(default_factory=list)

    def predicted(self, recording: Path, trial: Trial, change: Change) -> dict[str, float]:
        """Give the ratios that a change of a recorded trial is predicted to have.

        By the names of `proving.FIGURES`; those of which nothing is predicted are left out. If it
        is none at all, `unknown` says why.
        """
        try:
            case, engine = self._case(recording, trial)
            count = 0 if case.load.commits is None else case.load.commits.count
            if count >= LEAST_COMMITS:
                return predicted(case, engine, change.of(trial), trial)
            why = f"{count} commits are recorded: of fewer than {LEAST_COMMITS} most is chance"
        except InputError as error:
            why = str(error)
        self.unknown[recording, change.name] = why
        return {}

    def _case(self, recording: Path, trial: Trial) -> tuple[Case, Engine]:
        if recording not in self._known:
            folder: tempfile.TemporaryDirectory[str] = tempfile.TemporaryDirectory()
            self._folders.append(folder)
            # What a run of a minute does to a drive depends on how it was before.
            conditions = Conditions(trial.drive.state, capacities_written=0.0)
            engine = Engine(self.kept, conditions=conditions)
            # An aged drive has no space that it knows to be free.
            drive = trial.drive
            question = Question(str(recording), drive.profile, drive.size_bytes, 1.0)
            case = case_of(question, engine, Path(folder.name))
            clients = clients_of(case, engine)
            engine.conditions = replace(conditions, clients=clients, seconds=case.load.seconds)
            self._known[recording] = (case, engine)
        return self._known[recording]


def clients_of(case: Case, engine: Engine) -> Clients | None:
    """Find the closed loop that takes as long on the simulated drive as was recorded.

    As few requests are outstanding as may be: a database sends most of what it waits for one by
    one. Time to think is what is left beside the drive, found by the secant method; there is none
    if the drive takes as long by itself. Of that time, what syncs of the log took longer than the
    drive needs for them is of the flushes, and goes with them. None without times.
    """
    wanted = case.load.seconds
    if not wanted:
        return None
    conditions = engine.conditions
    base = Clients(
        1,
        0.0,
        1 if case.loop is None else max(1, round(case.loop.clients)),
        served=case.database in _SERVERS,
    )

    def figures(outstanding: int, thinks: float) -> Figures:
        clients = replace(base, outstanding=outstanding, thinks=thinks)
        engine.conditions = replace(conditions, clients=clients)
        return engine.figures(case.base)

    def seconds(outstanding: int, thinks: float) -> float:
        return figures(outstanding, thinks).seconds_taken

    outstanding, alone = 1, seconds(1, 0.0)
    while alone > wanted * (1 + _NEAR) and outstanding < DEPTH:
        outstanding *= 2
        alone = seconds(outstanding, 0.0)
    if alone >= wanted * (1 - _NEAR):
        at_work = _at_work(case, figures(outstanding, 0.0), 0.0)
        return replace(base, outstanding=outstanding, at_work=at_work)
    before, found = (0.0, alone), wanted - alone
    for _ in range(_TRIES):
        there = seconds(outstanding, found)
        if abs(there / wanted - 1) < _NEAR:
            break
        slope = (there - before[1]) / (found - before[0]) or 1.0
        before, found = (found, there), max(0.0, found + (wanted - there) / slope)
    at_work = _at_work(case, figures(outstanding, found), found)
    base = replace(base, outstanding=outstanding, thinks=found, at_work=at_work)
    if at_work is not None:
        return base
    flushes = case.load.requests.get("flush", 0)
    there_commits = figures(outstanding, found).commits
    if case.loop is None or there_commits is None or not flushes:
        return base
    beside = max(0.0, case.loop.wait - there_commits.mean)
    flushing = min(beside, found / flushes)
    return replace(base, thinks=found - flushing * flushes, flushing=flushing)


def _at_work(case: Case, there: Figures, beside: float) -> AtWork | None:
    """Give the clients at work; None if the recording does not tell what they took.

    `there`: the load on the simulated drive, with so many seconds `beside` it. The way to the
    drive is what the quicker commits took longer when recorded: the others have also what the
    simulated drive is too fast by.
    """
    known = case.processors
    if known is None or not known.is_whole or case.loop is None:
        return None
    way, recorded = 0.0, case.load.commits
    if recorded is not None and there.commits is not None:
        way = max(0.0, recorded.p25 - there.commits.p25)
    return AtWork(
        max(case.loop.clients, 1.0),
        known.seconds,
        known.count,
        there.seconds_taken - beside,
        beside,
        case.load.requests.get("flush", 0),
        way,
    )
