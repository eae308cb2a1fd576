"""A worker: does one task after another, within their limits, and keeps what came of each.

`main` takes orders from standard input and answers on standard output; on Ray `do` is called by
itself.
"""

from __future__ import annotations

import importlib
import os
import pickle
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO, cast

from flashwright._core import Cancelled, FlashwrightError, InputError, Progress
from flashwright._text import size
from flashwright.engine.store import Store
from flashwright.engine.task import (
    Found,
    Kind,
    Limits,
    Outcome,
    Task,
    input_of,
    replaced,
    version_hash,
)
from flashwright.progress import hidden
from flashwright.runs import plain

LOOK_SECONDS = 0.05
"""Between two looks at what a task takes."""
GRACE_SECONDS = 20.0
"""Time for a task that is told to stop to come to a clean point; then its worker ends."""
SAY_SECONDS = 0.5
"""Between two words of a worker on how far it is."""
_LENGTH_BYTES = 8
_PAGE_BYTES = os.sysconf("SC_PAGESIZE")
EXIT_OVER = 71
"""Exit code of a worker whose task went over a limit and did not stop."""
EXIT_SPENT = 72
"""Exit code of a worker that is asked for more after a task that took too much memory."""
_spent = threading.Event()


@dataclass(frozen=True)
class Order:
    """A task, and how it is to be done."""

    task: Task
    limits: Limits
    store: str
    """URL of the store."""
    store_name: str
    """Its name, by which one that is really another is known."""
    version: str
    """See `version_hash`: other code would give other results."""
    attempt: str
    """Name of this order alone."""


@dataclass
class Reply:
    """What came of an order."""

    outcome: Outcome
    is_kept: bool = False
    """True if the worker has put it into the store, or it has no place there."""
    tables: dict[str, bytes] = field(default_factory=dict)
    """Tables as Arrow IPC files, where whoever ordered has to keep them."""


def do(
    order: Order,
    paths: Mapping[str, str] | None = None,
    following: Callable[[Progress], None] | None = None,
) -> Reply:
    """Do a task, and keep what came of it if the store is to be seen from here.

    `paths` say where inputs lie on this machine. `following` is handed the progress.
    """
    # The first time it takes a moment, which is not the task's.
    is_other = order.version != version_hash()
    began = time.monotonic()
    progress = Progress()
    if following is not None:
        following(progress)
    store = Store(order.store)
    watch = _Watch(order, progress, began)
    if is_other:
        said = "this worker has another version of flashwright; right would be the same everywhere"
        return Reply(watch.outcome("died", said))
    found = Found({})
    with watch.looking(store):
        ended, error, found = _done(order.task, paths or {}, progress)
    changed = _changed(order.task, paths or {}) if ended == "done" else None
    if changed is not None:
        return Reply(watch.outcome("died", f"{changed}: it changed while it was read"))
    outcome = watch.outcome(ended, error)
    if watch.over is not None and ended == "stopped":
        outcome = watch.over
    elif ended == "done":
        outcome.figures = plain(found.figures)
        outcome.tables = order.task.tables
    if outcome.ended == "memory":
        _spent.set()
    return _kept(store, order, outcome, found)


def leave_if_spent() -> None:
    """End this process if a task before took too much memory.

    It may be held still, and the next task is not to blame.
    """
    if _spent.is_set():
        os._exit(EXIT_SPENT)


def _changed(task: Task, paths: Mapping[str, str]) -> str | None:
    """Name an input whose content is another one by now: what came of it is of neither.

    What came by its content, and lies in `paths`, cannot change.
    """
    for one in task.inputs:
        if one.path in paths:
            continue
        try:
            if input_of(one.path).sha256 == one.sha256:
                continue
        except InputError:
            pass
        return one.path
    return None


def _done(
    task: Task, paths: Mapping[str, str], progress: Progress
) -> tuple[str, str | None, Found]:
    kind = cast("Kind", importlib.import_module(task.kind))
    back = {here: there for there, here in paths.items()}
    try:
        with hidden():
            return "done", None, kind.do(replaced(task.settings, paths), progress)
    except Cancelled:
        return "stopped", None, Found({})
    except FlashwrightError as error:
        said = str(error)
        for here, there in back.items():
            said = said.replace(here, there)
        return "refused" if isinstance(error, InputError) else "error", said, Found({})
    except MemoryError:
        return "memory", "it ran out of memory", Found({})
    except BaseException as error:
        # A bug of one job is no reason to lose the others; a panic of the core is no Exception.
        return "error", f"{type(error).__name__}: {error}", Found({})


def _kept(store: Store, order: Order, outcome: Outcome, found: Found) -> Reply:
    missing = [name for name in outcome.tables if name not in found.tables]
    if missing:
        # Whoever asked is wrong, and not the job: others who do it shall find no error.
        there = ", ".join(found.tables) or "none"
        said = f"it has no table {missing[0]}; there is {there}"
        wrong = replace(outcome, ended="error", error=said, figures={}, tables=())
        return Reply(wrong, is_kept=True)
    kept = {name: found.tables[name] for name in outcome.tables}
    if store.is_the_one(order.store_name):
        try:
            store.put(outcome, kept)
        except OSError as error:
            return Reply(replace(outcome, ended="died", error=f"cannot keep it: {error}"))
        return Reply(outcome, is_kept=True)
    return Reply(outcome, tables={name: _packed(table) for name, table in kept.items()})


def _packed(table: object) -> bytes:
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.ipc  # noqa: PLC0415

    sink = pa.BufferOutputStream()
    found = cast("pa.Table", table)
    with pyarrow.ipc.new_file(sink, found.schema) as writer:
        writer.write_table(found)
    return bytes(sink.getvalue().to_pybytes())


def held_bytes() -> int:
    """Give the memory that this process holds now, in bytes."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * _PAGE_BYTES


class _Watch:
    """Looks at what a task takes, and stops it when that is more than it may."""

    def __init__(self, order: Order, progress: Progress, began: float) -> None:
        self._order, self._progress, self._began = order, progress, began
        self._peak = 0
        self.over: Outcome | None = None

    def outcome(self, ended: str, error: str | None) -> Outcome:
        seconds = time.monotonic() - self._began
        self._peak = max(self._peak, held_bytes())
        key, attempt = self._order.task.key, self._order.attempt
        return Outcome(key, ended, {}, (), error, seconds, self._peak, attempt)

    @contextmanager
    def looking(self, store: Store) -> Iterator[None]:
        """Look from time to time, in a thread."""
        ended = threading.Event()
        thread = threading.Thread(target=self._look, args=(store, ended), daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def _look(self, store: Store, ended: threading.Event) -> None:
        while not ended.wait(LOOK_SECONDS):
            over = self._over()
            if over is None:
                continue
            self.over = over
            self._progress.cancel()
            if ended.wait(GRACE_SECONDS):
                return
            if store.is_the_one(self._order.store_name):
                store.put(self.over, {})
            os._exit(EXIT_OVER)

    def _over(self) -> Outcome | None:
        limits, held = self._order.limits, held_bytes()
        self._peak = max(self._peak, held)
        if limits.memory_bytes is not None and held > limits.memory_bytes:
            said = (
                f"ended: it held {size(held)} of memory, and may hold {size(limits.memory_bytes)}"
            )
            return self.outcome("memory", said)
        if limits.seconds is not None and time.monotonic() - self._began > limits.seconds:
            return self.outcome("time", f"ended: it took longer than {limits.seconds:g} s")
        return None


def send(stream: BinaryIO, message: object) -> None:
    """Write a message, led by its length."""
    content = pickle.dumps(message)
    stream.write(len(content).to_bytes(_LENGTH_BYTES, "little") + content)
    stream.flush()


def receive(stream: BinaryIO) -> object:
    """Read a message; None at the end of the stream."""
    length = stream.read(_LENGTH_BYTES)
    if len(length) < _LENGTH_BYTES:
        return None
    content = stream.read(int.from_bytes(length, "little"))
    # Both ends are processes of ours, over a pipe that nobody else has.
    return pickle.loads(content)  # noqa: S301


def _take(orders: queue.SimpleQueue[Order]) -> None:
    """Read orders; end the worker when whoever ordered is gone."""
    while True:
        order = receive(sys.stdin.buffer)
        if order is None:
            os._exit(0)
        orders.put(cast("Order", order))


def _say(
    progress: Progress, answers: BinaryIO, lock: threading.Lock, ended: threading.Event
) -> None:
    while not ended.wait(SAY_SECONDS):
        with lock:
            send(answers, progress.state())


def main() -> None:
    """Do orders until there are no more."""
    # What a job prints shall not get between the answers.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    orders: queue.SimpleQueue[Order] = queue.SimpleQueue()
    threading.Thread(target=_take, args=(orders,), daemon=True).start()
    lock = threading.Lock()
    while True:
        order, ended = orders.get(), threading.Event()
        leave_if_spent()
        words: list[threading.Thread] = []

        def follow(progress: Progress, ended: threading.Event = ended) -> None:
            thread = threading.Thread(
                target=_say, args=(progress, answers, lock, ended), daemon=True
            )
            thread.start()
            words.append(thread)  # noqa: B023  (it is called before the next order)

        reply = do(order, following=follow)
        ended.set()
        for thread in words:
            thread.join()
        with lock:
            send(answers, reply)
