"""Names the tasks of a fleet, a job a volume."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from flashwright._core import Cancelled
from flashwright._text import several
from flashwright.engine.task import Task
from flashwright.fleet.stores import Fleet, Volume
from flashwright.progress import follow


@dataclass
class _Naming:
    """Follows the reading of volumes, by whose contents their tasks are named: a Tracker."""

    total: int
    done: int = 0
    _stopped: threading.Event = field(default_factory=threading.Event)

    def state(self) -> tuple[int, int]:
        """Give the volumes that are read, and all."""
        return self.done, self.total

    def cancel(self) -> None:
        """Stop before the next volume."""
        self._stopped.set()

    def name(self, fleet: Fleet, task_of: Callable[[Volume], Task]) -> list[Task]:
        """Give the task of each volume."""
        found = []
        for volume in fleet.volumes:
            if self._stopped.is_set():
                raise Cancelled("stopped")
            fleet.check(volume)
            found.append(task_of(volume))
            self.done += 1
        return found


def named(fleet: Fleet, task_of: Callable[[Volume], Task]) -> list[Task]:
    """Give the task of each volume: it is named by what the volume holds, which is read for that.

    Raises InputError if files are missing; StoppedError.
    """
    naming = _Naming(len(fleet.volumes))
    label = f"Reading {several(len(fleet.volumes), 'volume')}"
    return follow(label, "volumes", naming, lambda: naming.name(fleet, task_of))


def content_of(tasks: Sequence[Task]) -> str:
    """Name what tasks read: the volumes' contents, wherever they lie."""
    hashes = sorted(one.sha256 for task in tasks for one in task.inputs)
    return hashlib.sha256("".join(hashes).encode()).hexdigest()
