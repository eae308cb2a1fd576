"""Proof of an answer: a database runs on an emulated drive, as it is and with each advice applied.

Predicted is what the advice would do to that run, from a recording of it: the load of a benchmark
is not the user's.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from flashwright._core import InputError
from flashwright.advice.answer import Answer
from flashwright.advice.own_commands import OwnCommand
from flashwright.advice.proving import FIGURES, Bench, Proof, Proving, Ratio
from flashwright.advice.trial_recording import Predicting, TrialRecording
from flashwright.advice.trial_setups import change_of
from flashwright.advice.trials import Trial
from flashwright.engine.where import LOCAL, Where
from flashwright.progress import follow
from flashwright.recording.tools import need_root

WORKLOAD = "tpcb(scale=8)"
"""Run where none is named: short transactions that write."""
_SIZES = tuple(1 << power for power in range(30, 36))
_CLIENTS = 4


@dataclass(frozen=True)
class ProofPlan:
    """What is run to prove an answer."""

    top: int = 3
    """Number of changes."""
    workload: str | OwnCommand = WORKLOAD
    seconds: float = 30.0
    """Measured in each run."""
    repeats: int = 2
    on: Path = field(default_factory=lambda: Path(tempfile.gettempdir()))
    """Folder in which the drives' bytes lie meanwhile."""
    where: Where = field(default_factory=Where)
    """Who runs trials, and where they are kept."""


@dataclass(frozen=True)
class ProvenRow:
    """A figure of a change: its ratio to how things stand, predicted and measured."""

    change: str
    figure: str
    predicted: float | None
    measured: Ratio | None
    refused: str | None = None
    """Why it was not run."""
    unknown: str | None = None
    """Why nothing was predicted."""

    def document(self) -> dict[str, Any]:
        """Give it for a result."""
        return {
            "change": self.change,
            "figure": self.figure,
            "predicted": self.predicted,
            "measured": None if self.measured is None else self.measured.document(),
            "refused": self.refused,
            "unknown": self.unknown,
        }


def prove(answer: Answer, plan: ProofPlan, kept: Path) -> list[ProvenRow]:
    """Run the first changes of an answer; runs that are kept are not run again.

    `kept` is the folder of the advice: recordings of trials, and what was simulated of them.

    Raises:
        InputError: no root, there is nothing to prove, or it cannot be run here.
        RunError: a run failed.
        StoppedError: Ctrl-C; what was run is kept.
    """
    need_root("running a database on an emulated drive")
    if plan.where.engine != LOCAL and isinstance(plan.workload, OwnCommand):
        raise InputError(
            f"--engine {plan.where.engine}: COMMAND works on a copy of data that is here; right "
            "would be --engine local"
        )
    case = answer.case
    chosen = answer.changes[: plan.top]
    if not chosen:
        raise InputError("--prove: nothing is advised, so there is nothing to prove")
    trial = _trial(answer, plan)
    changes = [change_of(one.candidate, case.base) for one in chosen]
    proof = Proving(trial, changes, plan.repeats, plan.on, plan.where).run()
    return _rows(proof, trial, plan, kept, changes)


def _trial(answer: Answer, plan: ProofPlan) -> Trial:
    """Give the run as things stand, on the smallest drive of that kind that can be emulated."""
    case = answer.case
    database = case.database or "postgres"
    bench = Bench(
        plan.workload,
        database,
        clients=1 if database == "sqlite" else _CLIENTS,
        seconds=plan.seconds,
    )
    refused: InputError | None = None
    for size in _SIZES:
        trial = replace(bench, size_bytes=size).trial(case.base.drive.profile)
        try:
            trial.check()
        except InputError as error:
            refused = error
        else:
            return trial
    raise refused or InputError("no drive of this kind can be emulated")


def _rows(
    proof: Proof, trial: Trial, plan: ProofPlan, kept: Path, changes: Sequence[Any]
) -> list[ProvenRow]:
    said: dict[str, dict[str, float]] = {}
    unknown: dict[str, str] = {}
    if not isinstance(plan.workload, OwnCommand):
        place = kept / "recordings" / trial.recording_key[:12]
        recording = TrialRecording(trial, place, plan.on)
        if not recording.is_there:
            label = "Recording a run, to predict the others: "
            follow(lambda: label + recording.said, "", recording, recording.make)
        predicting = Predicting(kept)
        said = {one.name: predicting.predicted(place, trial, one) for one in changes}
        unknown = {name: why for (_, name), why in predicting.unknown.items()}
    rows = []
    for one in proof.changes:
        ratios = proof.ratios(one)
        rows += [
            ProvenRow(
                one.name,
                figure.title,
                said.get(one.name, {}).get(figure.name),
                ratios.get(figure.name),
                one.refused,
                unknown.get(one.name),
            )
            for figure in FIGURES
        ]
    return rows
