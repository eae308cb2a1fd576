"""How often the database writes out what it has changed: the interval of its checkpoints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from flashwright._core import InputError
from flashwright.workloads.session import BenchPlan

from .base import Axis, Level, Study, numbers

_DEFAULT_SHARES = (1 / 8, 1 / 4, 1 / 2)
"""Of the run, if nothing is said: SCHEDULER 7.2's 30 to 600 s are of runs of 10 minutes and more.
"""


def seconds_of(text: str) -> float | None:
    """Read seconds; None if the text is no number."""
    try:
        return float(text.strip().removesuffix("s"))
    except ValueError:
        return None


def _level(seconds: float) -> Level:
    def change(plan: BenchPlan) -> BenchPlan:
        return replace(plan, settings=replace(plan.settings, checkpoint_seconds=seconds))

    return Level(f"{seconds:g} s", seconds, change)


def _levels(plan: BenchPlan, given: Sequence[str]) -> list[Level]:
    seconds = plan.config.seconds
    if seconds is None:
        raise InputError(
            "the study intervals needs runs of a certain length: give --duration and not "
            "--transactions"
        )
    found = numbers("intervals", given, seconds_of, "seconds, such as 30")
    late = [one for one in found if one >= seconds]
    if late:
        raise InputError(
            f"--levels of intervals: in runs of {seconds:g} s there is no checkpoint each "
            f"{late[0]:g} s; take a longer --duration"
        )
    return [
        _level(one) for one in found or [round(seconds * share, 3) for share in _DEFAULT_SHARES]
    ]


STUDY = Study(
    name="intervals",
    summary="the interval of the database's checkpoints",
    source="SCHEDULER 7.2.2 (30 to 600 s); 5.4.1, figure 5.9 varies that of a file system's "
    "cleaner",
    axis=Axis("seconds between checkpoints", is_log=True),
    levels=_levels,
)
