"""How much the database keeps in its own buffer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from flashwright import _core
from flashwright._core import InputError
from flashwright._text import size
from flashwright.workloads.session import BenchPlan

from .base import Axis, Level, Study, numbers

MIB = 1 << 20
_DEFAULT_BYTES = (MIB, 4 * MIB, 16 * MIB, 64 * MIB)


def _level(buffer_bytes: int) -> Level:
    def change(plan: BenchPlan) -> BenchPlan:
        return replace(
            plan, settings=replace(plan.settings, buffer_bytes=buffer_bytes, buffer_share=None)
        )

    return Level(size(buffer_bytes), buffer_bytes / MIB, change)


def _levels(plan: BenchPlan, given: Sequence[str]) -> list[Level]:
    if plan.settings.buffer_bytes is not None or plan.settings.buffer_share is not None:
        raise InputError(
            "the study buffers varies the buffer: leave out --buffer and --buffer-share; --levels "
            "1M,4M,16M names sizes"
        )
    found = (
        numbers("buffers", given, _core.parse_bytes, "a size in bytes, such as 4M")
        if given
        else _DEFAULT_BYTES
    )
    return [_level(int(one)) for one in found]


STUDY = Study(
    name="buffers",
    summary="the database's buffer, from small to large",
    source="SCHEDULER 5.4.2, figure 5.10",
    axis=Axis("buffer of the database, MiB", is_log=True),
    levels=_levels,
)
