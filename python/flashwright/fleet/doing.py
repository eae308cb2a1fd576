"""Does the tasks of a fleet, a job a volume, on this machine or on a Ray cluster."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from flashwright._core import Cancelled
from flashwright._text import several
from flashwright.engine.engine import Engine
from flashwright.engine.store import Store
from flashwright.engine.task import Outcome, Task
from flashwright.engine.where import Where
from flashwright.fleet.stores import Fleet, Volume
from flashwright.progress import StoppedError, follow


@dataclass
class Done:
    """What came of tasks."""

    store: Store
    planned: int
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    """Of those that have ended, by key."""
    known: int = 0
    """Those that were kept from before."""
    stop: StoppedError[Any] | None = None

    @property
    def left(self) -> int:
        """Tasks that nothing came of so far."""
        return self.planned - len(self.outcomes)

    def stopped(self) -> StoppedError[Any]:
        """Give the stop with what is kept."""
        kept = f"volumes; all that is finished is kept in {self.store.url}"
        return StoppedError(len(self.outcomes), self.planned, kept, None)


@dataclass
class _Naming:
    """Follows the reading of volumes, by whose contents their tasks are named: a Tracker."""

    total: int
    done: int = 0
    _stopped: threading.Event = field(default_factory=threading.Event)

    def state(self) -> tuple[int, int]:
        """Give the volumes that are read, and all."""
        return self.done, self.total

    def preparation(self) -> tuple[int, int]:
        """Tell of none."""
        return 0, 0

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


def do(tasks: Sequence[Task], label: str, where: Where) -> Done:
    """Do tasks, but for those of which results are kept; Ctrl-C keeps what has ended.

    Raises RunError if no task can be done at all.
    """
    store = where.results()
    done = Done(store, len(tasks))

    def take(outcome: Outcome) -> None:
        if outcome.ended != "stopped":
            done.outcomes[outcome.key] = outcome

    engine = Engine(tasks, store, where.pool, take=take, again=True)

    def said() -> str:
        return f"{label}, {engine.said}" if engine.said else label

    try:
        follow(said, "", engine, engine.run)
    except StoppedError as stop:
        done.stop = stop
    except Cancelled:
        pass
    done.known = engine.known
    return done
