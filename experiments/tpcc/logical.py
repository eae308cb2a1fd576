"""What a server asks of its file system: bytes and calls of its processes, as the kernel counts.

SCHEDULER 5.4 traces them in the kernel and calls them logical; physical is what the drive gets.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from flashwright._core import RunError
from flashwright.workloads.databases.cluster import Cluster
from flashwright.workloads.databases.place import Place
from flashwright.workloads.driver import Unobserved
from flashwright.workloads.supervisor import Supervisor

_COUNTS = {"rchar": "read_bytes", "wchar": "write_bytes", "syscr": "reads", "syscw": "writes"}
"""Of proc(5), `/proc/PID/io`. Sockets are not in it."""
_PERIOD_SECONDS = 0.25
_LEAST_SHARE = 0.5
"""Share of the measured time that has to be counted."""


@dataclass(frozen=True)
class _Sample:
    seconds: float
    by_process: Mapping[int, Mapping[str, int]]


class LogicalIo(Unobserved):
    """Counts while a run is measured, until the first of its processes ends: clients end with it.

    What a process did counts from its first sample.
    """

    def __init__(self) -> None:
        """Do nothing yet."""
        self._postmaster = 0
        self._first: _Sample | None = None
        self._last: _Sample | None = None
        self._ends = threading.Event()
        self._thread: threading.Thread | None = None

    def database_ready(self, place: Place, supervisor: Supervisor) -> None:  # noqa: ARG002
        """See `Observer`."""
        if not isinstance(place, Cluster):
            raise RunError("only a server of PostgreSQL is counted")
        note = place.server.data / "postmaster.pid"
        self._postmaster = int(note.read_text(encoding="utf-8").split()[0])

    def measurement_begins(self, at_ns: int) -> None:  # noqa: ARG002
        """See `Observer`."""
        self._first = self._sample()
        self._thread = threading.Thread(target=self._count, daemon=True)
        self._thread.start()

    def measurement_ends(self, at_ns: int) -> None:  # noqa: ARG002
        """See `Observer`."""
        self._stop()

    def run_ends(self) -> None:
        """See `Observer`."""
        self._stop()

    def rates(self, measured_seconds: float) -> dict[str, float]:
        """Give bytes and calls a second.

        Raises:
            RunError: processes ended so early that it says nothing of the run.
        """
        if self._first is None or self._last is None:
            raise RunError("no process of the server was counted")
        seconds = self._last.seconds - self._first.seconds
        if seconds < _LEAST_SHARE * measured_seconds:
            raise RunError(
                f"the server's processes were counted for {seconds:.1f} s of "
                f"{measured_seconds:.1f} s: one of them ended"
            )
        found = dict.fromkeys(_COUNTS.values(), 0.0)
        for pid, before in self._first.by_process.items():
            for name in found:
                found[name] += (self._last.by_process[pid][name] - before[name]) / seconds
        return found

    def _stop(self) -> None:
        self._ends.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _count(self) -> None:
        while not self._ends.wait(_PERIOD_SECONDS):
            sample = self._sample()
            if self._first is None or self._first.by_process.keys() - sample.by_process.keys():
                return
            self._last = sample

    def _sample(self) -> _Sample:
        now = time.monotonic()
        return _Sample(now, {pid: one for pid in self._processes() if (one := _io(pid))})

    def _processes(self) -> list[int]:
        children = Path(f"/proc/{self._postmaster}/task/{self._postmaster}/children")
        with contextlib.suppress(OSError):
            return [self._postmaster, *map(int, children.read_text(encoding="ascii").split())]
        return []


def _io(pid: int) -> dict[str, int]:
    """Give the counts of a process; nothing if it has ended."""
    with contextlib.suppress(OSError):
        lines = Path(f"/proc/{pid}/io").read_text(encoding="ascii").splitlines()
        given = dict(line.split(": ") for line in lines)
        return {name: int(given[own]) for own, name in _COUNTS.items()}
    return {}
