"""Plans of probes: experiments, their order, and the device's time that each gets."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from flashwright import _core
from flashwright._core import InputError

QUICK, FULL, ONLY = "quick", "full", "only"
MINUTES = {QUICK: 2.0, FULL: 30.0}
"""Device time of a set, if nothing else is asked for."""


@dataclass(frozen=True)
class Step:
    """One experiment of a plan."""

    spec: str
    """Experiment with all its parameters."""
    entry: dict[str, Any]
    """Entry in `_core.variants("experiment")`."""
    budget_seconds: float

    @property
    def name(self) -> str:
        """Name of the experiment."""
        return str(self.entry["name"])

    @property
    def label(self) -> str:
        """Name for people, with its parameters only if they are not the usual ones."""
        return self.name if self.spec == _usual(self.name) else self.spec

    @property
    def file(self) -> str:
        """The name of its file in a run folder."""
        return file_of(self.spec)

    @property
    def writes(self) -> bool:
        """True if it writes to the region."""
        return bool(self.entry["writes"])


@dataclass(frozen=True)
class ProbePlan:
    """Experiments in the order in which they run, and those that are left out.

    Each of the latter with the reason.
    """

    set_name: str
    steps: tuple[Step, ...]
    left_out: tuple[tuple[str, str], ...] = ()

    @property
    def budget_seconds(self) -> float:
        """Device time of all."""
        return sum(step.budget_seconds for step in self.steps)


def _usual(name: str) -> str:
    return str(_core.experiment(name)["spec"])


def label_of(spec: str) -> str:
    """Give how people call the experiment of a finding.

    A name that is not known any more stays as it is.
    """
    name = spec.partition("(")[0]
    try:
        return name if spec == _usual(name) else spec
    except InputError:
        return spec


def file_of(spec: str) -> str:
    """Name the file of a finding.

    By the experiment, and by its parameters too if they are not the usual ones.
    """
    name = spec.partition("(")[0]
    digest = hashlib.sha256(spec.encode()).hexdigest()[:8]
    return f"{name}.json" if label_of(spec) == name else f"{name}-{digest}.json"


def make(
    set_name: str, only: Sequence[str], minutes: float | None, *, may_write: bool
) -> ProbePlan:
    """Choose the experiments of a set, or those that are named.

    Puts them in order, and shares out the time. What writes is left out if nothing may be written.
    Each of `only` gets what it gets of a full set if no time is given.

    Raises InputError if a name or a parameter is unknown, or nothing is left.
    """
    every = _core.variants("experiment")
    chosen = [_core.experiment(spec) for spec in only]
    if not only:
        chosen = [
            _core.experiment(entry["name"])
            for entry in every
            if set_name == FULL or entry["is_quick"]
        ]
    twice = {
        entry["spec"]
        for entry in chosen
        if sum(entry["spec"] == other["spec"] for other in chosen) > 1
    }
    if twice:
        raise InputError(f"--only: {', '.join(sorted(twice))} is asked for twice")
    reason = "it writes to the device, which --write allows"
    left_out = [(entry["name"], reason) for entry in chosen if entry["writes"] and not may_write]
    if only and left_out:
        raise InputError(f"--only {left_out[0][0]}: {reason}; that destroys what is in the region")
    chosen = in_order([entry for entry in chosen if may_write or not entry["writes"]])
    if not chosen:
        raise InputError(
            f"no experiment of the {set_name} set runs without --write; `flashwright list "
            "experiment` has all of them"
        )
    shared = every if only and minutes is None else chosen
    whole = 60 * (minutes or MINUTES[FULL if only else set_name])
    each = whole / sum(entry["weight"] for entry in shared)
    steps = tuple(Step(entry["spec"], entry, entry["weight"] * each) for entry in chosen)
    return ProbePlan(ONLY if only else set_name, steps, tuple(left_out))


def in_order(entries: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Put experiments behind those whose findings they use.

    Otherwise they stay in the order of the registry.
    """
    rank = {entry["name"]: number for number, entry in enumerate(_core.variants("experiment"))}
    left = sorted(entries, key=lambda entry: rank[entry["name"]])
    ordered: list[dict[str, Any]] = []
    while left:
        waiting = {entry["name"] for entry in left}
        ready = next(
            (entry for entry in left if not waiting & set(entry["after"]) - {entry["name"]}), None
        )
        if ready is None:
            raise AssertionError(f"experiments wait for each other: {', '.join(sorted(waiting))}")
        left.remove(ready)
        ordered.append(ready)
    return ordered
