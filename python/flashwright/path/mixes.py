"""Which transactions there are: mostly reading, or mostly writing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from flashwright._core import InputError
from flashwright.workloads.base import choose_mix
from flashwright.workloads.session import BenchPlan

from .base import Axis, Level, Study

_OF_TABLE_5_1 = ("read_intensive", "normal", "write_intensive")


def _level(name: str) -> Level:
    def change(plan: BenchPlan) -> BenchPlan:
        return replace(
            plan,
            load=replace(  # type: ignore[type-var]
                plan.load, mix=choose_mix(plan.workload.mixes, name)
            ),
        )

    return Level(name, None, change)


def _levels(plan: BenchPlan, given: Sequence[str]) -> list[Level]:
    mixes = plan.workload.mixes
    names = [name.replace("-", "_") for name in given]
    for name in names:
        if name not in mixes or names.count(name) > 1:
            wrong = "is named twice" if name in mixes else f"is no mix of {plan.workload.name}"
            raise InputError(f"--levels of mixes: `{name}` {wrong}; it has {', '.join(mixes)}")
    if not names:
        names = [name for name in _OF_TABLE_5_1 if name in mixes] or list(mixes)
    return [_level(name) for name in names]


STUDY = Study(
    name="mixes",
    summary="mixes of transactions, from reading to writing",
    source="SCHEDULER 5.4.2, table 5.1 and figure 5.11",
    axis=Axis("mix of transactions"),
    levels=_levels,
)
