"""Cleaning of an out-of-place file system at intervals.

It collects live data from segments that are mostly dead.
"""

from __future__ import annotations

import subprocess
import threading
import time
from pathlib import Path

from flashwright.workloads.supervisor import Supervisor

CLEANERS = {
    "btrfs": (
        ("btrfs", "balance", "start", "-dusage=50", "-musage=50"),
        ("btrfs", "balance", "cancel"),
    ),
}
"""Commands that clean a file system once and that stop this, each without the mount point: btrfs
moves live data out of block groups that are at most half full (btrfs-balance(8)). nilfs2 and f2fs
clean by themselves, and are not driven from here.
"""


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
        """Note the mount point, and have a cleaning of it ended if we are killed."""
        self._mount_point = mount_point
        supervisor.undo(*self._cancel, mount_point)

    def start(self) -> None:
        """Begin; the first cleaning comes after one interval."""
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
