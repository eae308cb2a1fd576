"""What a study is.

Levels of one factor, each a change of a plan, on one or several file systems.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from flashwright._core import InputError
from flashwright.recording.volume import VolumePlan
from flashwright.workloads.session import BenchPlan

Change = Callable[[BenchPlan], BenchPlan]


@dataclass(frozen=True)
class Level:
    """One setting of a study's factor.

    `value` is its place on a numeric axis; None on one of names.
    """

    name: str
    value: float | None
    change: Change


@dataclass(frozen=True)
class Axis:
    """What a study varies: `title` for the axis of its figures, with the unit.

    `is_log` where levels are ratios.
    """

    title: str
    is_log: bool = False


@dataclass(frozen=True)
class Study:
    """A study.

    `levels` reads what the user gave, or gives the default levels of a plan if that is nothing.
    `varies_file_systems`: by default it runs on every file system there is. `file_systems`: those
    it can be on at all, if not all; it runs on them by default. The others run on one in place and
    one out of place. `needs_life`: it is about the life of a drive.
    """

    name: str
    summary: str
    source: str
    axis: Axis
    levels: Callable[[BenchPlan, Sequence[str]], list[Level]]
    varies_file_systems: bool = False
    file_systems: tuple[str, ...] | None = None
    needs_life: bool = False


@dataclass(frozen=True)
class Variant:
    """One cell of a study: a level on a file system."""

    level: Level
    file_system: str
    is_out_of_place: bool
    plan: BenchPlan

    @property
    def label(self) -> str:
        """Name it in one word or two."""
        return f"{self.file_system} {self.level.name}".strip()


def volume_of(plan: BenchPlan) -> VolumePlan:
    """Give the volume that a plan puts its database on.

    Raises:
        InputError: it has none of its own.
    """
    if not isinstance(plan.ground, VolumePlan):
        raise InputError(
            "a study needs a volume of its own for each run: leave out --on DIR, or give --volume"
        )
    return plan.ground


def on_file_system(plan: BenchPlan, name: str) -> BenchPlan:
    """Put the database of a plan on another file system."""
    return replace(plan, ground=replace(volume_of(plan), file_system=name))


def numbers(
    study: str, texts: Sequence[str], read: Callable[[str], float | None], example: str
) -> list[float]:
    """Read levels that are numbers.

    Raises:
        InputError: one is none, or named twice.
    """
    found = []
    for text in texts:
        value = read(text)
        if value is None or value <= 0:
            raise InputError(f"--levels of {study}: `{text}` should be {example}")
        if value in found:
            raise InputError(f"--levels of {study}: `{text}` is named twice")
        found.append(value)
    return found
