"""How often an out-of-place file system cleans.

Collects what is live in segments that are mostly dead.
"""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from flashwright._core import InputError
from flashwright.recording.tools import need
from flashwright.recording.volume import VolumePlan
from flashwright.workloads.session import BenchPlan
from flashwright.workloads.supervisor import Supervisor

from .base import Axis, Level, Study, numbers, volume_of
from .intervals import seconds_of

CLEANERS = {
    "btrfs": (
        ("btrfs", "balance", "start", "-dusage=50", "-musage=50"),
        ("btrfs", "balance", "cancel"),
    ),
}
"""What cleans a file system once and what ends that, each without the mount point: btrfs moves what
is live out of block groups that are at most half full (btrfs-balance(8)). nilfs2 and f2fs clean by
themselves, and are not driven from here.
"""
OFF = "off"
_DEFAULTS = (OFF, "10", "1")
"""SCHEDULER 5.4.1: off, moderate, severe."""


@dataclass(frozen=True)
class Cleaned:
    """A volume that is to be cleaned so often while it is measured."""

    volume: VolumePlan
    seconds: float

    def make(self, supervisor: Supervisor, on: Path) -> Path:
        """Make the volume: see `VolumePlan.make`."""
        return self.volume.make(supervisor, on)


class Cleaner:
    """A thread that cleans a mounted file system at intervals, and counts what came of it.

    From `start` to `stop`, after `prepare`.
    """

    def __init__(self, file_system: str, seconds: float) -> None:
        self.done = self.failed = 0
        self.busy_seconds = 0.0
        self.first_error = ""
        self._begin, self._cancel = CLEANERS[file_system]
        self._seconds = seconds
        self._mount_point = Path()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def prepare(self, supervisor: Supervisor, mount_point: Path) -> None:
        """Learn where, and have what goes on there ended if we are killed."""
        self._mount_point = mount_point
        supervisor.undo(*self._cancel, mount_point)

    def start(self) -> None:
        """Begin; the first time comes after one interval."""
        self._thread = threading.Thread(target=self._work, name="cleaner", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End, after the cleaning that is under way."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _work(self) -> None:
        due = time.monotonic() + self._seconds
        while not self._stopping.wait(max(0.0, due - time.monotonic())):
            begun = time.monotonic()
            command = [*self._begin, str(self._mount_point)]
            ended = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
            )
            self.busy_seconds += time.monotonic() - begun
            self.done += ended.returncode == 0
            if ended.returncode != 0:
                self.failed += 1
                self.first_error = self.first_error or " ".join(
                    (ended.stderr or ended.stdout).split()
                )
            # One that takes longer than the interval is followed by the next at its next multiple.
            while due <= time.monotonic():
                due += self._seconds


def _level(seconds: float | None) -> Level:
    def change(plan: BenchPlan) -> BenchPlan:
        volume = volume_of(plan)
        if volume.file_system not in CLEANERS:
            raise InputError(
                f"{volume.file_system} has no cleaner that can be asked: the study cleaning is for "
                f"{', '.join(CLEANERS)}"
            )
        need(CLEANERS[volume.file_system][0][0])
        return plan if seconds is None else replace(plan, ground=Cleaned(volume, seconds))

    return Level(OFF if seconds is None else f"{seconds:g} s", None, change)


def _levels(plan: BenchPlan, given: Sequence[str]) -> list[Level]:
    texts = list(given or _DEFAULTS)
    known = numbers(
        "cleaning",
        [text for text in texts if text != OFF],
        seconds_of,
        "`off`, or seconds, such as 10",
    )
    if texts.count(OFF) > 1:
        raise InputError("--levels of cleaning: `off` is named twice")
    length = plan.config.seconds
    late = [one for one in known if length is not None and one >= length]
    if late:
        raise InputError(
            f"--levels of cleaning: in runs of {length:g} s nothing is cleaned each {late[0]:g} s; "
            "take a longer --duration"
        )
    return [_level(None if text == OFF else seconds_of(text)) for text in texts]


STUDY = Study(
    name="cleaning",
    summary="how often an out-of-place file system is cleaned (btrfs: balance)",
    source="SCHEDULER 5.4.1, figure 5.9, of nilfs2",
    axis=Axis("seconds between cleanings"),
    levels=_levels,
    file_systems=tuple(CLEANERS),
)
