"""Volumes of trials: on an emulated drive, mounted for a while, and never left mounted."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flashwright import _core
from flashwright._core import InputError, RunError
from flashwright.volumes import metrics, mounting, places
from flashwright.volumes.metrics import Between
from flashwright.volumes.places import Mounted
from flashwright.workloads.supervisor import Supervisor

MIB = 1 << 20
FILLER_BYTES = 64 * MIB
"""Size of the file that is written again and again until a log has to clean."""
CLEANINGS = "layer_cleanings_total"
_MOST_FILLINGS = 1000
_CLOSING_SECONDS = 1800.0
"""A slow drive takes long to be given all that a buffer holds."""
_OWN_OPTIONS = {"ext4": ("noinit_itable",)}
"""By file system: without this one, an ext4 that was just made writes its inode tables while it is
measured."""
_TAKE_AWAY = (
    "import sys; from pathlib import Path; from flashwright.advice.trial_volumes import take_away; "
    "take_away(Path(sys.argv[1]))"
)
_HELD_SECONDS = 300.0
"""How long a volume may be held by what we know nothing of: the mount namespace of another program,
such as a build in a container, has copies of all mounts."""
_ENDED_SECONDS = 10.0
"""How long processes that were just ended may still hold a file."""
_LOOK_SECONDS = 0.5


@dataclass(frozen=True)
class Volume:
    """A volume over an emulated drive, and where it is mounted."""

    device: str
    """The drive."""
    data: Path
    """The file with the drive's bytes."""
    directory: Path
    stack: str
    mount_options: str
    seed: int
    supervisor: Supervisor
    file_system: str = "ext4"

    def make(self) -> None:
        """Make the volume, and the directory to mount it on.

        Raises:
            InputError: there is no such stack, or it does not fit on the drive.
        """
        _core.create_volume(self.device, self.stack, seed=self.seed)
        self.directory.mkdir()

    @contextlib.contextmanager
    def mounted(self, *, on_drive: bool) -> Iterator[Mounted]:
        """Mount it on the drive, or on the file with its bytes, which waits for nothing."""
        words = (sys.executable, "-c", _TAKE_AWAY, self.directory)
        number = self.supervisor.undo(*words)
        device = self.device if on_drive else str(self.data)
        own = _OWN_OPTIONS.get(self.file_system, ())
        options = ",".join((self.mount_options, *own))
        plan = mounting.MountPlan(device, self.directory, self.file_system, options)
        mounted = mounting.mount(plan)
        try:
            yield mounted
        except BaseException:
            # What cannot be unmounted yet is left to the supervisor, which tries again.
            with contextlib.suppress(RunError):
                mounting.unmount(mounted, _CLOSING_SECONDS)
                self.supervisor.forget(number)
            raise
        _unmount(mounted, _HELD_SECONDS)
        self.supervisor.forget(number)

    def check(self) -> None:
        """Read all of it.

        Raises:
            RunError: something of it is bad.
        """
        found: dict[str, Any] = _core.check_volume(str(self.data))
        if found["bad_bytes"]:
            raise RunError(f"volume info --check: {found['bad'][0]}")


def _unmount(mounted: Mounted, seconds: float) -> None:
    """Unmount a volume, and wait so long for who holds it.

    Raises:
        RunError: it is held still, or its server did not close it well.
    """
    end = time.monotonic() + seconds
    while True:
        try:
            mounting.unmount(mounted, _CLOSING_SECONDS)
        except RunError:
            # There is no note of one that is unmounted, but was not closed well.
            if time.monotonic() > end or places.noted(mounted.uuid) is None:
                raise
            time.sleep(_LOOK_SECONDS)
        else:
            return


def take_away(directory: Path) -> None:
    """Unmount a volume of a trial, whatever holds it: its data is of no use to anybody.

    Who holds it is waited for. After a while its server is killed, which takes all else along.

    Raises:
        RunError: something is mounted over it or below it.
    """
    try:
        mounted = places.find(str(directory))
    except InputError:
        return
    with contextlib.suppress(RunError):
        _unmount(mounted, _ENDED_SECONDS)
        return
    if mounted.is_served:
        os.kill(mounted.pid, signal.SIGKILL)
    while mounted.is_served:
        time.sleep(_LOOK_SECONDS)
    mounting.unmount(mounted, _CLOSING_SECONDS)


def cleanings(between: Between) -> int | None:
    """Give the segments that logs of a volume freed; None if it has no log."""
    levels = [labels for labels, _ in between.now.of(CLEANINGS)]
    if not levels:
        return None
    return round(sum(between.grown(CLEANINGS, **one) for one in levels))


def use_up_logs(mounted: Mounted, say: Callable[[str], None]) -> None:
    """Write to the volume until each log in its stack has begun to clean.

    The file that is written for it stays.

    Raises:
        RunError: one does not clean, however much is written.
    """
    levels = [labels for labels, _ in metrics.read(mounted.place.control).of(CLEANINGS)]
    if not levels:
        return
    block = os.urandom(MIB)
    with (Path(mounted.directory) / "filler").open("wb") as filler:
        for filling in range(_MOST_FILLINGS):
            now = metrics.read(mounted.place.control)
            if all(now.number(CLEANINGS, **one) for one in levels):
                return
            say(f"writing until its log cleans: {filling * FILLER_BYTES // MIB} MiB")
            filler.seek(0)
            for _ in range(FILLER_BYTES // MIB):
                filler.write(block)
            filler.flush()
            os.fdatasync(filler.fileno())
    raise RunError(f"{mounted.device}: its log has not begun to clean")
