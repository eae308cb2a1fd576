"""Proof of advice: a database runs as things stand and with each change, on emulated drives.

All are run once, then all again: what drifts on the machine favours none. Each run is kept as soon
as it is there, so that a proof that was stopped goes on where it was.
"""

from __future__ import annotations

import math
import statistics
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from flashwright._core import Cancelled, FlashwrightError, InputError
from flashwright.intervals import t_975
from flashwright.kept import Kept

from . import trials
from .own_commands import OwnCommand
from .trials import Drive, Measured, Trial

BASELINE = "baseline"
"""Name of the trial as things stand."""
_KEY = "trial"


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

        Each run is compared with the baseline of its own repeat, which had the same seed.
        """
        pairs = []
        for changed, base in zip(change.runs, self.baseline.runs, strict=False):
            both = figure.of(changed), figure.of(base)
            if both[0] is None or both[1] is None:
                return None
            pairs.append((both[0], both[1]))
        return Ratio.of(pairs)

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


RunTrial = Callable[[Trial, Path, Callable[[str], None], threading.Event], Measured]


@dataclass
class Proving:
    """Proves changes; follows as `Tracker` says, in any thread."""

    base: Trial
    changes: Sequence[Change]
    repeats: int
    folder: Path
    """Where the drives' bytes lie meanwhile."""
    kept: Kept
    say: Callable[[str], None] = lambda _: None
    run_trial: RunTrial = trials.run
    stop: threading.Event = field(default_factory=threading.Event)
    _done: int = 0
    _said: str = ""
    _refused: dict[str, str] = field(default_factory=dict)

    def state(self) -> tuple[int, int]:
        """See `Tracker`: runs."""
        refused = len(self._refused)
        return self._done, self.repeats * (1 + len(self.changes) - refused)

    def preparation(self) -> tuple[int, int]:
        """See `Tracker`."""
        return 0, 0

    def cancel(self) -> None:
        """See `Tracker`."""
        self.stop.set()

    def label(self) -> str:
        """Say what is being done."""
        return self._said

    def run(self) -> Proof:
        """Run all that is not kept.

        Raises:
            InputError: the baseline cannot be, or two changes have one name.
            RunError: the baseline failed.
            Cancelled: it was stopped; what had been run is kept.
        """
        self.base.check()
        return self._gather(self._one)

    def found(self) -> Proof | None:
        """Give what is kept by now, and run nothing; None if the baseline is not."""
        proof = self._gather(self._kept)
        return proof if proof.baseline.runs else None

    def _gather(self, take: Callable[[Trial, str], Measured | None]) -> Proof:
        names = [BASELINE, *(one.name for one in self.changes)]
        twice = next((name for at, name in enumerate(names) if name in names[:at]), None)
        if twice is not None:
            raise InputError(f"{twice}: two changes have this name; each needs its own")
        wanted = {BASELINE: self.base, **self._possible()}
        runs: dict[str, list[Measured]] = {name: [] for name in names}
        self._done = 0
        for repeat in range(self.repeats):
            for name in [name for name in wanted if name not in self._refused]:
                said = f"{name}, {repeat + 1} of {self.repeats}"
                trial = wanted[name]
                try:
                    found = take(replace(trial, seed=trial.seed + repeat), said)
                except Cancelled:
                    raise
                except FlashwrightError as error:
                    if name == BASELINE:
                        raise
                    self._refused[name] = str(error)
                    continue
                # Runs are paired by their repeat.
                if found is not None and len(runs[name]) == repeat:
                    runs[name].append(found)
                    self._done += 1
        proven = [Proven(name, tuple(runs[name]), self._refused.get(name)) for name in names]
        return Proof(proven[0], tuple(proven[1:]))

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

    def _kept(self, trial: Trial, _said: str) -> Measured | None:
        key = trial.key(_KEY)
        if not self.kept.has(key):
            return None
        return self._one(trial, _said)

    def _one(self, trial: Trial, said: str) -> Measured:
        def measure() -> dict[str, Any]:
            if self.stop.is_set():
                raise Cancelled("stopped between two trials")
            return {"measured": self.run_trial(trial, self.folder, say, self.stop).document()}

        def say(what: str) -> None:
            self._said = f"{said}: {what}"
            self.say(self._said)

        found = self.kept.remember(trial.key(_KEY), measure)
        return Measured.from_document(found["measured"])
