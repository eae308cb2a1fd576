"""How long a drive would live under each database and file system.

At the rate that was measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from flashwright._core import InputError
from flashwright.recording.volume import LOG_ROOM_BYTES
from flashwright.workloads.session import DATABASES, BenchPlan

from .base import Axis, Level, Study, volume_of


def _level(name: str) -> Level:
    def change(plan: BenchPlan) -> BenchPlan:
        volume = volume_of(plan)
        more = (
            max(0, LOG_ROOM_BYTES[name] - LOG_ROOM_BYTES[plan.database])
            if volume.device is None
            else 0
        )
        return replace(
            plan, database=name, ground=replace(volume, size_bytes=volume.size_bytes + more)
        )

    return Level(name, None, change)


def _levels(plan: BenchPlan, given: Sequence[str]) -> list[Level]:
    for name in given:
        if name not in DATABASES or list(given).count(name) > 1:
            wrong = "is named twice" if name in DATABASES else "is no database"
            raise InputError(
                f"--levels of endurance: `{name}` {wrong}; write one or more of "
                f"{', '.join(DATABASES)}"
            )
    return [_level(name) for name in given or [plan.database]]


STUDY = Study(
    name="endurance",
    summary="years that a drive lives at the measured rate, by database and file system",
    source="SCHEDULER 5.5, tables 5.3 and 5.4",
    axis=Axis("database"),
    levels=_levels,
    needs_life=True,
)
