"""Proof of advice: a database runs as things stand and with each change, on emulated drives.

All are run once, then all again: what drifts on the machine favours none. Each run is a task of the
engine, kept as soon as it is there, so that a proof that was stopped goes on where it was.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flashwright._core import InputError, RunError
from flashwright.engine.doing import do
from flashwright.intervals import t_975

from . import trial_job
from .own_commands import OwnCommand
from .trials import Drive, Measured, Trial

if TYPE_CHECKING:
    from flashwright.engine.task import Outcome, Task
    from flashwright.engine.where import Where

BASELINE = "baseline"
"""Name of the trial as things stand."""


@dataclass(frozen=True)
class Bench:
    """The load that a proof runs: a workload of ours, or a command of one's own."""

    workload: str | OwnCommand
    """As in `flashwright bench`."""
    database: str = "postgres"
    """As in `flashwright bench`."""
    clients: int = 1
    seconds: float = 60.0
    warm_up: float = 15.0
    size_bytes: int = 1 << 30
    """Of each drive."""
    seed: int = 1

    def trial(self, profile: str, state: str = "aged", overrides: Sequence[str] = ()) -> Trial:
        """Give the trial on a drive, as things stand."""
        return Trial(
            Drive(profile, self.size_bytes, state, tuple(overrides)),
            self.workload,
            self.database,
            clients=self.clients,
            seconds=self.seconds,
            warm_up=self.warm_up,
            seed=self.seed,
        )


@dataclass(frozen=True)
class Change:
    """Something that is done otherwise."""

    name: str
    of: Callable[[Trial], Trial]


@dataclass(frozen=True)
class Ratio:
    """A figure with a change over that without; 95 % interval over repeats, None if of one."""

    value: float
    low: float | None = None
    high: float | None = None

    @staticmethod
    def of(pairs: Sequence[tuple[float, float]]) -> Ratio | None:
        """Find it from (with, without) of each repeat, by the mean of the logarithms.

        By Student's t; ratios are taken as log-normal. None if a figure is not above 0.
        """
        if not pairs or any(one <= 0 for pair in pairs for one in pair):
            return None
        logs = [math.log(changed / base) for changed, base in pairs]
        mean = statistics.fmean(logs)
        if len(logs) == 1:
            return Ratio(math.exp(mean))
        wide = t_975(len(logs) - 1) * statistics.stdev(logs) / math.sqrt(len(logs))
        return Ratio(math.exp(mean), math.exp(mean - wide), math.exp(mean + wide))

    def document(self) -> dict[str, float | None]:
        """Give it as JSON holds it."""
        return {"value": self.value, "low": self.low, "high": self.high}


@dataclass(frozen=True)
class Figure:
    """A figure that changes are judged by."""

    name: str
    title: str
    is_cost: bool
    """True if less is better."""
    of: Callable[[Measured], float | None]

    def gain(self, ratio: float) -> float:
        """Give what a ratio gains, as a share: above 0 is better."""
        return 1 - ratio if self.is_cost else ratio - 1


FIGURES = (
    Figure(
        "flash_bytes",
        "flash bytes for a transaction",
        is_cost=True,
        of=lambda one: one.flash_bytes_per_transaction,
    ),
    Figure("throughput", "transactions/s", is_cost=False, of=lambda one: one.per_second),
    Figure("p99", "99 % of commits", is_cost=True, of=lambda one: one.p99_seconds),
)


@dataclass(frozen=True)
class Proven:
    """What came of a change, or of the baseline: its runs, in the order of the repeats."""

    name: str
    runs: tuple[Measured, ...]
    refused: str | None = None
    """Why it could not be run; the runs are those before."""


@dataclass(frozen=True)
class Proof:
    """Runs of all, beside each other."""

    baseline: Proven
    changes: tuple[Proven, ...]

    def ratio(self, change: Proven, figure: Figure) -> Ratio | None:
        """Give a figure of a change over that of the baseline; None if one is not known.

        Each run is compared with the baseline of its own repeat, which had the same seed. The only
        run of a change is compared with all of the baseline, by their geometric mean: an error of
        one would be in the ratios of all changes.
        """
        changed = [figure.of(one) for one in change.runs]
        base = [figure.of(one) for one in self.baseline.runs]
        if len(changed) == 1 and base:
            base = [_middle(base)]
        pairs = [
            (one, beside)
            for one, beside in zip(changed, base, strict=False)
            if one is not None and beside is not None
        ]
        return Ratio.of(pairs) if len(pairs) == len(changed) else None

    def ratios(self, change: Proven) -> dict[str, Ratio]:
        """Give the ratios of all figures that are known."""
        found = {figure.name: self.ratio(change, figure) for figure in FIGURES}
        return {name: one for name, one in found.items() if one is not None}

    def document(self) -> dict[str, Any]:
        """Give it as JSON holds it."""
        return {
            "baseline": [one.document() for one in self.baseline.runs],
            "changes": {
                one.name: {
                    "runs": [run.document() for run in one.runs],
                    "refused": one.refused,
                    "ratios": {name: ratio.document() for name, ratio in self.ratios(one).items()},
                }
                for one in self.changes
            },
        }


def _middle(values: Sequence[float | None]) -> float | None:
    """Give the geometric mean; None if one is not known, 0 if one is not above 0."""
    known = [one for one in values if one is not None]
    if len(known) < len(values):
        return None
    return statistics.geometric_mean(known) if all(one > 0 for one in known) else 0.0


@dataclass
class Proving:
    """Proves changes."""

    base: Trial
    changes: Sequence[Change]
    repeats: int
    on: Path
    """Folder where the drives' bytes lie meanwhile."""
    where: Where
    """Who runs trials, one on a machine at a time, and where they are kept."""
    label: str = "Proving"
    baselines: int = 1
    """Runs of the baseline, where each change is run once. All but the first come last, so that the
    changes stand between them."""
    _refused: dict[str, str] = field(default_factory=dict)

    def run(self) -> Proof:
        """Run all that is not kept.

        Raises:
            InputError: the baseline cannot be, or two changes have one name.
            RunError: the baseline failed.
            StoppedError: Ctrl-C; what had been run is kept.
        """
        self.base.check()
        return self._gather(self._done)

    def found(self) -> Proof | None:
        """Give what is kept by now, and run nothing; None if the baseline is not."""
        store = self.where.results()
        proof = self._gather(
            lambda tasks: {one.key: one for one in store.known(tasks) if one.ended == "done"}
        )
        return proof if proof.baseline.runs else None

    def _done(self, tasks: Mapping[str, Task]) -> dict[str, Outcome]:
        done = do(list(tasks.values()), self.label, "trials", self.where, self.where.measuring)
        if done.left:
            raise done.stopped()
        return done.outcomes

    def _gather(self, take: Callable[[Mapping[str, Task]], Mapping[str, Outcome]]) -> Proof:
        """Take what comes of all trials; `take` gets tasks by key, and gives outcomes by key."""
        names = [BASELINE, *(one.name for one in self.changes)]
        twice = next((name for at, name in enumerate(names) if name in names[:at]), None)
        if twice is not None:
            raise InputError(f"{twice}: two changes have this name; each needs its own")
        self._refused.clear()
        wanted = {BASELINE: self.base, **self._possible()}
        runs: dict[str, list[Measured]] = {name: [] for name in names}
        # Where the baseline fails, nothing is to be compared with it.
        for repeat, batch in [
            (0, [BASELINE]),
            (0, list(wanted)[1:]),
            *((repeat, list(wanted)) for repeat in range(1, self.repeats)),
            *((repeat, [BASELINE]) for repeat in range(self.repeats, self._of_baseline)),
        ]:
            tasks = {
                name: self._task(wanted[name], name, repeat)
                for name in batch
                if name not in self._refused
            }
            outcomes = take({task.key: task for task in tasks.values()})
            for name, task in tasks.items():
                self._take(runs[name], name, repeat, outcomes.get(task.key))
        proven = [Proven(name, tuple(runs[name]), self._refused.get(name)) for name in names]
        return Proof(proven[0], tuple(proven[1:]))

    @property
    def _of_baseline(self) -> int:
        """Runs of the baseline: of several repeats each has its own."""
        return self.baselines if self.repeats == 1 else self.repeats

    def _task(self, trial: Trial, name: str, repeat: int) -> Task:
        most = self._of_baseline if name == BASELINE else self.repeats
        said = f"{name}, {repeat + 1} of {most}"
        return trial_job.task(replace(trial, seed=trial.seed + repeat), said, self.on)

    def _take(self, runs: list[Measured], name: str, repeat: int, outcome: Outcome | None) -> None:
        if outcome is None:
            return
        if outcome.ended != "done":
            if name == BASELINE:
                raise RunError(outcome.error or outcome.ended)
            self._refused[name] = outcome.error or outcome.ended
        # Runs are paired by their repeat.
        elif len(runs) == repeat:
            runs.append(Measured.of_document(outcome.figures))

    def _possible(self) -> dict[str, Trial]:
        """Give the trials of changes that can be, and note why others cannot."""
        found: dict[str, Trial] = {}
        for one in self.changes:
            try:
                trial = one.of(self.base)
                trial.check()
            except InputError as error:
                self._refused[one.name] = str(error)
                continue
            if trial == self.base:
                self._refused[one.name] = "it changes nothing of what is run"
            else:
                found[one.name] = trial
        return found
