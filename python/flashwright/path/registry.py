"""All studies. One is a file here, and a line below."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from flashwright._core import InputError
from flashwright.recording import device as devices
from flashwright.recording import file_systems as known
from flashwright.recording.tools import PACKAGES, need
from flashwright.workloads.session import BenchPlan

from . import buffers, cleaning, commits, endurance, file_systems, intervals, mixes, schedulers
from .base import Study, Variant, on_file_system, volume_of

CHECKPOINTS = 4
"""In a run on PostgreSQL, if no interval is given."""

STUDIES: dict[str, Study] = {
    study.name: study
    for study in (
        file_systems.STUDY,
        buffers.STUDY,
        mixes.STUDY,
        schedulers.STUDY,
        intervals.STUDY,
        commits.STUDY,
        cleaning.STUDY,
        endurance.STUDY,
    )
}


def find(name: str) -> Study:
    """Find the study of this name; `file-systems` is `file_systems`.

    Raises:
        InputError: there is none.
    """
    try:
        return STUDIES[name.replace("-", "_")]
    except KeyError:
        raise InputError(f"unknown study `{name}`; known are: {', '.join(STUDIES)}") from None


def listing() -> list[dict[str, Any]]:
    """Tell all studies as `flashwright list` does."""
    return [
        {
            "name": study.name,
            "usage": study.name,
            "summary": study.summary,
            "source": study.source,
            "aliases": [],
            "params": [],
        }
        for study in STUDIES.values()
    ]


def file_systems_of(study: Study, given: Sequence[str]) -> tuple[list[str], list[str]]:
    """Give the file systems that a study runs on, and remarks on others.

    There is one on each that it leaves out though we know it.

    Raises:
        InputError: one that was asked for is not known, not in this kernel, or has no program that
        makes it.
    """
    if given:
        for name in given:
            need(known.find(name).make[0])
            if list(given).count(name) > 1:
                raise InputError(f"--file-systems: {name} is named twice")
        return list(given), []
    remarks, there = [], []
    for one in known.ALL:
        if not one.is_there():
            remarks.append(f"{one.name} is left out: this kernel does not have it.")
        elif shutil.which(one.make[0]) is None:
            package = PACKAGES.get(one.make[0], one.make[0])
            remarks.append(
                f"{one.name} is left out: {one.make[0]} is not installed (Debian: apt-get install "
                f"{package})."
            )
        else:
            there.append(one)
    if study.varies_file_systems:
        return [one.name for one in there], remarks
    if study.file_systems is not None:
        own = [one.name for one in there if one.name in study.file_systems]
        if not own:
            raise InputError(
                f"the study {study.name} is for {', '.join(study.file_systems)}: "
                f"{' '.join(remarks)}"
            )
        return own, []
    usual = [one for one in there if one.name in ("ext4", "btrfs", "f2fs", "nilfs2")]
    chosen = [
        next((one.name for one in usual if one.out_of_place is kind), None)
        for kind in (False, True)
    ]
    return [name for name in chosen if name is not None], []


def variants_of(
    study: Study, plan: BenchPlan, file_systems: Sequence[str], levels: Sequence[str]
) -> list[Variant]:
    """Give every cell of a study: its levels on each file system.

    Raises:
        InputError: a level is wrong, or cannot be on one of the file systems.
    """
    volume = volume_of(plan)
    for name in file_systems:
        least = known.find(name).least_bytes
        if volume.device is None and volume.size_bytes < least:
            raise InputError(
                f"a volume of {volume.size_bytes:,} bytes: {name} needs {least:,} at least"
            )
    return [
        Variant(
            level,
            name,
            known.find(name).out_of_place,
            with_checkpoints(level.change(on_file_system(plan, name))),
        )
        for name in file_systems
        for level in study.levels(plan, levels)
    ]


def with_checkpoints(plan: BenchPlan) -> BenchPlan:
    """Have PostgreSQL make checkpoints in a short run.

    By itself it would write nearly none of its pages in it.
    """
    settings, seconds = plan.settings, plan.config.seconds
    if plan.database != "postgres" or settings.checkpoint_seconds is not None or seconds is None:
        return plan
    return replace(plan, settings=replace(settings, checkpoint_seconds=seconds / CHECKPOINTS))


def volume_bytes_of(plan: BenchPlan) -> int:
    """Give the size of the device that a plan's database is on.

    Raises:
        InputError: it has no volume of its own.
    """
    wrapped = (
        plan.ground if isinstance(plan.ground, schedulers.Scheduled | cleaning.Cleaned) else None
    )
    ground = volume_of(plan) if wrapped is None else wrapped.volume
    return ground.size_bytes if ground.device is None else devices.find(ground.device).size_bytes
