"""Does tasks: takes what is kept, hands out the rest, tries again what lost its worker."""

from __future__ import annotations

import secrets
import statistics
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from flashwright._core import Cancelled, RunError
from flashwright.engine.pools import Ended, Pool
from flashwright.engine.store import Store, Times
from flashwright.engine.task import Limits, Outcome, Task, version_hash
from flashwright.engine.worker import Order, Reply

if TYPE_CHECKING:
    import pyarrow as pa

TRIES = 3
"""Times that a task may be begun, each but the last lost with its worker."""
_WAIT_SECONDS = 0.2


@dataclass
class Engine:
    """Does tasks, each once; follows as `progress.Tracker` says, in thousandths of tasks."""

    tasks: Sequence[Task]
    store: Store
    make_pool: Callable[[], Pool]
    """Called when there is something to do."""
    limits: Limits = field(default_factory=Limits)
    within: float | None = None
    """Seconds after which no further task is begun."""
    take: Callable[[Outcome], None] = lambda _: None
    """Called with what came of each task, as it ends; first with all that was kept."""
    again: bool = False
    """Whether what failed by an error of its own is tried again, too."""
    said: str = ""
    known: int = 0
    """Tasks that were kept."""
    _done: int = 0
    _share: float = 0.0
    _took: dict[str, list[tuple[float, int]]] = field(default_factory=dict)
    """Seconds and bytes of what was done, by kind."""
    _cancelled: threading.Event = field(default_factory=threading.Event)

    def state(self) -> tuple[int, int]:
        """See `Tracker`."""
        todo = len(self.tasks) - self.known
        return round(1000 * (self._done + self._share)), 1000 * todo

    def cancel(self) -> None:
        """Begin nothing more, and end what is under way."""
        self._cancelled.set()

    def kept(self) -> dict[str, Outcome]:
        """Give what is kept of the tasks and need not be done again, by key."""
        tasks = {task.key: task for task in self.tasks}
        return {
            one.key: one
            for one in self.store.known(tasks)
            if one.is_final
            and not (self.again and one.ended in ("refused", "error"))
            and self._is_whole(one, tasks[one.key])
        }

    def _is_whole(self, outcome: Outcome, task: Task) -> bool:
        """Tell whether an outcome has the tables of a task: what is damaged is done again.

        Whoever asked for it before may have kept fewer.
        """
        if outcome.ended != "done":
            return True
        return set(task.tables) <= set(outcome.tables) and all(
            self.store.table(outcome.key, name) is not None for name in task.tables
        )

    def run(self) -> None:
        """Do all that is not kept. Raises Cancelled, when all that has ended is kept."""
        name, kept = self.store.open(), self.kept()
        self.known = len(kept)
        for outcome in kept.values():
            self.take(outcome)
        left = deque(task for task in self.tasks if task.key not in kept)
        if not left:
            return
        pool = self.make_pool()
        try:
            try:
                self._work(pool, left, name)
            finally:
                pool.close()
                self._note_times()
        except OSError as error:
            raise RunError(f"{self.store.url}: cannot write the store: {error}") from error

    def _note_times(self) -> None:
        for kind, found in self._took.items():
            seconds, most = zip(*found, strict=True)
            times = Times(statistics.median(seconds), max(most), len(found))
            self.store.put_times(kind, times)

    def _work(self, pool: Pool, left: deque[Task], name: str) -> None:
        began, tries = time.monotonic(), dict.fromkeys((task.key for task in left), 0)
        under_way: set[str] = set()
        while left or under_way:
            if self._cancelled.is_set():
                self._take_what_ended(pool)
                raise Cancelled("stopped")
            is_late = self.within is not None and time.monotonic() - began > self.within
            if is_late and not under_way:
                return
            while left and not is_late and pool.room() > 0:
                task = left.popleft()
                tries[task.key] += 1
                pool.submit(self._order(task, name))
                under_way.add(task.key)
            for ended in pool.wait(_WAIT_SECONDS):
                task = ended.order.task
                under_way.discard(task.key)
                outcome = self._outcome(ended)
                if outcome is None and tries[task.key] < TRIES:
                    left.append(task)
                    continue
                if outcome is None:
                    said = f"{ended.died}, {TRIES} times"
                    outcome = Outcome(task.key, "died", {}, error=said)
                    self.store.put(outcome, {})
                self._done += 1
                if outcome.ended == "done":
                    took = self._took.setdefault(task.named, [])
                    took.append((outcome.seconds, outcome.peak_bytes))
                self.take(outcome)
            self._share = min(pool.under_way(), len(under_way))
            self.said = pool.said()

    def _take_what_ended(self, pool: Pool) -> None:
        """Take what workers finished while nobody looked: who is stopped is told of all of it."""
        while found := pool.wait(0):
            for outcome in filter(None, map(self._outcome, found)):
                self._done += outcome.ended != "stopped"
                self.take(outcome)

    def _order(self, task: Task, name: str) -> Order:
        attempt = secrets.token_hex(8)
        return Order(task, self.limits, self.store.url, name, version_hash(), attempt)

    def _outcome(self, ended: Ended) -> Outcome | None:
        """Give what came of a task, kept; None if it lost its worker."""
        reply, order = ended.reply, ended.order
        if reply is None:
            # The worker of one that went over a limit and did not stop kept why before it left.
            kept = self.store.known([order.task.key])
            return next((one for one in kept if one.attempt == order.attempt), None)
        if reply.outcome.ended in ("died", "stopped"):
            return reply.outcome
        if not reply.is_kept:
            self.store.put(reply.outcome, _unpacked(reply))
        return reply.outcome


def _unpacked(reply: Reply) -> dict[str, pa.Table]:
    import pyarrow.ipc  # noqa: PLC0415

    return {
        name: pyarrow.ipc.open_file(content).read_all() for name, content in reply.tables.items()
    }
