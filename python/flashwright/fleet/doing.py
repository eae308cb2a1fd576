"""Does the tasks of a fleet, a job a volume, on this machine or on a Ray cluster."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from flashwright._core import Cancelled
from flashwright.engine.engine import Engine
from flashwright.engine.store import Store
from flashwright.engine.task import Outcome, Task
from flashwright.engine.where import Where
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
