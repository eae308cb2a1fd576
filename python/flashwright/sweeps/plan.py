"""The jobs of a sweep: each point of its design with each seed, as a task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import Any

from flashwright._core import InputError
from flashwright.engine.task import Task, task_of
from flashwright.sweeps import design, kinds
from flashwright.sweeps.design import Levels, Point
from flashwright.sweeps.file import ALL, Range, SweepFile, Value
from flashwright.sweeps.kinds import rust

SEED = "seed"


@dataclass(frozen=True)
class Planned:
    """A job of a sweep."""

    point: Point
    seed: int | None
    """The seed that it is done with; None of a kind that has none."""
    task: Task


@dataclass(frozen=True)
class Plan:
    """All jobs of a sweep, in the order of its design."""

    file: SweepFile
    axes: Levels
    jobs: list[Planned]

    @cached_property
    def unique(self) -> dict[str, Planned]:
        """The jobs by the key of their task: two points may come to the same."""
        found: dict[str, Planned] = {}
        for job in self.jobs:
            found.setdefault(job.task.key, job)
        return found

    @property
    def goal(self) -> str | None:
        """The figure that is looked for."""
        own = getattr(kinds.load(self.file.document.job), "GOAL", (None, None))
        return self.file.document.goal or own[0]

    @property
    def better(self) -> str:
        """Whether `less` or `more` of the goal is better."""
        asked = self.file.document.better
        if asked is None and self.file.document.goal is None:
            asked = getattr(kinds.load(self.file.document.job), "GOAL", (None, None))[1]
        return asked or "less"


def plan(file: SweepFile) -> Plan:
    """Make the jobs of a sweep. Raises InputError, naming the axis or the option, in one line."""
    kind = _in_file(file, "", lambda: kinds.load(file.document.job))
    axes = {name: _axis(file, kind, name) for name in file.document.axes}
    for name, axis in axes.items():
        design.check_axis(file, name, axis)
    jobs = []
    for point in design.points(file, axes):
        for number in range(file.document.replications):
            settings = _settings(file, kind, point, number)
            inputs, tables = kind.inputs(settings), file.document.tables
            task = task_of(kind.__name__, settings, inputs, tables)
            jobs.append(Planned(point, settings.get(SEED), task))
    return Plan(file, axes, jobs)


def _axis(file: SweepFile, kind: ModuleType, name: str) -> Range | list[Value]:
    axis = file.document.axes[name]
    if not isinstance(axis, str):
        return axis
    every = getattr(kind, "levels", lambda _: None)(name) if axis == ALL else None
    if every is None:
        said = f"{axis!r}: right would be a list, or {{low = ..., high = ...}}"
        raise file.wrong(f"axes.{name}", said)
    return list(every)


def _settings(file: SweepFile, kind: ModuleType, point: Point, number: int) -> dict[str, Any]:
    whole = {name: value for name, value in point.items() if "." not in name}
    asked: dict[str, Any] = {**file.document.fixed, **whole}
    if kind is rust:
        asked[rust.JOB] = file.document.job
    if number:
        asked[SEED] = int(asked.get(SEED, 1)) + number
    found: dict[str, Any] = _in_file(file, point, lambda: kind.settings(asked))
    if number and found.get(SEED) != asked[SEED]:
        raise file.wrong("replications", "this job has no seed; right would be 1")
    for name in (one for one in point if one not in whole):
        option, _, key = name.partition(".")
        keyed = getattr(kind, "keyed", None)
        if keyed is None:
            raise file.wrong(f"axes.{name}", "this job has no keys within options")
        found = _in_file(file, (name,), _setting(keyed, found, option, key, point[name]))
    return found


def _setting(keyed: Any, found: Mapping[str, Any], option: str, key: str, value: Value) -> Any:
    return lambda: keyed(found, option, key, value)


def _in_file(file: SweepFile, axes: Any, call: Any) -> Any:
    """Call, and say of an error where in the file it comes from."""
    try:
        return call()
    except InputError as error:
        if str(error).startswith(f"{file.name}: "):
            raise
        option = str(getattr(error, "option", "")).partition("[")[0]
        keyed = axes[0] if isinstance(axes, tuple) else option
        where = f"axes.{keyed}: " if keyed and keyed in axes else "fixed: " if option else ""
        said = str(error)
        if isinstance(axes, tuple):
            said = said.removeprefix(f"{axes[0]}: ")
        raise InputError(f"{file.name}: {where}{said}") from None
