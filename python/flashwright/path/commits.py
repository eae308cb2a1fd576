"""How often the file system commits its own metadata: the interval of its transactions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from flashwright._core import InputError
from flashwright.recording import file_systems
from flashwright.workloads.session import BenchPlan

from .base import Axis, Level, Study, numbers, volume_of
from .intervals import seconds_of

HAVE_COMMIT = ("ext4", "btrfs")
"""File systems whose mount option `commit` is an interval in seconds (ext4(5), btrfs(5)); 5 and 30
by default.
"""
_DEFAULT_SECONDS = (1.0, 5.0, 30.0)


def _level(seconds: float) -> Level:
    def change(plan: BenchPlan) -> BenchPlan:
        volume = volume_of(plan)
        if volume.file_system not in HAVE_COMMIT:
            raise InputError(
                f"{volume.file_system} has no interval of commits: the study commits is for "
                f"{', '.join(HAVE_COMMIT)}"
            )
        options = volume.mount_options
        if options is None:
            options = file_systems.find(volume.file_system).options
        return replace(
            plan, ground=replace(volume, mount_options=f"{options},commit={seconds:.0f}")
        )

    return Level(f"{seconds:g} s", seconds, change)


def _levels(_plan: BenchPlan, given: Sequence[str]) -> list[Level]:
    found = numbers("commits", given, seconds_of, "whole seconds, such as 5")
    for one in found:
        if one != int(one):
            raise InputError(f"--levels of commits: {one:g} should be whole seconds")
    return [_level(one) for one in found or _DEFAULT_SECONDS]


STUDY = Study(
    name="commits",
    summary="the interval at which the file system commits (ext4, btrfs)",
    source="ours; as SCHEDULER 5.4.1, figure 5.9 varies nilfs2's cleaner",
    axis=Axis("seconds between the file system's commits", is_log=True),
    levels=_levels,
    file_systems=HAVE_COMMIT,
)
