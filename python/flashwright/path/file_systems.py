"""The same benchmark on file systems that update in place, and on those that do not."""

from __future__ import annotations

from collections.abc import Sequence

from flashwright._core import InputError
from flashwright.workloads.session import BenchPlan

from .base import Axis, Level, Study


def _levels(_plan: BenchPlan, given: Sequence[str]) -> list[Level]:
    if given:
        raise InputError("--levels: the study file_systems varies nothing but --file-systems")
    return [Level("", None, lambda plan: plan)]


STUDY = Study(
    name="file_systems",
    summary="file systems that write in place against those that write out of place",
    source="SCHEDULER 5.4.1, figures 5.5 to 5.8",
    axis=Axis("file system"),
    levels=_levels,
    varies_file_systems=True,
)
