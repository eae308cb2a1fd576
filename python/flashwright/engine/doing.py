"""Does tasks that a command is made of: followed, stopped by Ctrl-C, and each done once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from flashwright._core import Cancelled
from flashwright.engine.engine import Engine
from flashwright.engine.pools import Pool
from flashwright.engine.store import Store
from flashwright.engine.task import Outcome, Task
from flashwright.engine.where import Where
from flashwright.progress import StoppedError, follow


@dataclass
class Done:
    """What came of tasks."""

    store: Store
    planned: int
    what: str
    """What a task is of, in the plural: `volumes`."""
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
        kept = f"{self.what}; all that is finished is kept in {self.store.url}"
        return StoppedError(len(self.outcomes), self.planned, kept, None)


def do(
    tasks: Sequence[Task],
    label: str,
    what: str,
    where: Where,
    make_pool: Callable[[], Pool] | None = None,
) -> Done:
    """Do tasks, but for those of which results are kept; Ctrl-C keeps what has ended.

    Raises InputError, RunError if no task can be done at all.
    """
    unique = {task.key: task for task in tasks}
    done = Done(where.results(), len(unique), what)

    def take(outcome: Outcome) -> None:
        if outcome.ended != "stopped":
            done.outcomes[outcome.key] = outcome

    pool = make_pool or where.pool
    engine = Engine(list(unique.values()), done.store, pool, take=take, again=True)

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
