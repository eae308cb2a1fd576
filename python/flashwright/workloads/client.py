"""One client: the loop that draws and runs transactions, in this process or in one of its own.

Imports little: it is what the clients' processes load.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import signal
import threading
import time
from array import array
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from .base import Client, DatabaseLoad, TransactionOutcome
from .databases.base import Backend, BackendConfig, TransactionConflictError

MAX_ATTEMPTS = 100
"""Tries of one transaction before its conflicts count as a failure of the run."""


@dataclass(frozen=True)
class ClientStart:
    """Data that a client needs to begin; see `RunConfig`."""

    database: BackendConfig
    load: DatabaseLoad
    client: int
    clients: int
    seed: int
    stream: int
    seconds: float | None
    transactions: int | None
    warm_up_seconds: float
    think_seconds: float
    window_seconds: float
    control_group: str | None
    keep_transactions: bool


@dataclass
class Counted:
    """Results of one kind in one window.

    Counts, and each response time in nanoseconds (as bytes, which are quick to send).
    """

    committed: int = 0
    rolled_back: int = 0
    conflicts: int = 0
    misses: int = 0
    times: array[int] = field(default_factory=lambda: array("Q"))
    ends: array[int] = field(default_factory=lambda: array("q"))
    commits: array[int] = field(default_factory=lambda: array("B"))
    tries: array[int] = field(default_factory=lambda: array("H"))


@dataclass(frozen=True)
class Spent:
    """Time of a client from the end of its warm-up on."""

    seconds: float
    processor_seconds: float | None
    """That it was at work itself, and SQLite within it; None if that is not known."""


@dataclass
class Batch:
    """Results of a client in one window."""

    client: int
    window: int
    kinds: dict[str, Counted] = field(default_factory=dict)


class _Tally:
    """Counts one client's transactions, and sends each window's when the next begins."""

    def __init__(self, start: ClientStart, begins_ns: int, send: Callable[[Batch], None]) -> None:
        self.done = 0
        self._begins_ns, self._send = begins_ns, send
        self._window_ns = int(start.window_seconds * 1e9)
        self._keep = start.keep_transactions
        self._batch = Batch(start.client, 0)

    def count(
        self, kind: str, begun: int, now: int, outcome: TransactionOutcome, tries: int
    ) -> None:
        """Count a transaction that ended now."""
        window = (now - self._begins_ns) // self._window_ns
        if window != self._batch.window:
            self.flush()
            self._batch = Batch(self._batch.client, window)
        at = self._batch.kinds.get(kind)
        if at is None:
            at = self._batch.kinds[kind] = Counted()
        at.times.append(now - begun)
        at.committed += outcome.committed
        at.rolled_back += not outcome.committed
        at.misses += outcome.misses
        at.conflicts += tries - 1
        if self._keep:
            at.ends.append(now - self._begins_ns)
            at.commits.append(outcome.committed)
            at.tries.append(tries)
        self.done += 1

    def flush(self) -> None:
        """Send what was counted."""
        if self._batch.kinds:
            self._send(self._batch)


def run_client(
    start: ClientStart, start_ns: int, send: Callable[[Batch], None], is_stopped: Callable[[], bool]
) -> Spent:
    """Run one client from `start_ns` on."""
    client = start.load.client(
        seed=start.seed, stream=start.stream, client=start.client, clients=start.clients
    )
    backend = start.database.connect()
    limit = start.transactions if start.transactions is not None else math.inf
    begins_ns = start_ns + int(start.warm_up_seconds * 1e9)
    end_ns = begins_ns + start.seconds * 1e9 if start.seconds is not None else math.inf
    tally = _Tally(start, begins_ns, send)
    now = time.monotonic_ns()
    if now < start_ns:
        time.sleep((start_ns - now) / 1e9)
    worked_before = time.thread_time()
    try:
        now = time.monotonic_ns()
        while tally.done < limit and now < end_ns and not is_stopped():
            kind, request = client.draw()
            begun = time.monotonic_ns()
            outcome, tries = _try(client, backend, request)
            now = time.monotonic_ns()
            if now >= begins_ns:
                tally.count(kind, begun, now, outcome, tries)
            else:
                worked_before = time.thread_time()
            if start.think_seconds > 0:
                _think(client.think_seconds(start.think_seconds), end_ns, is_stopped)
                now = time.monotonic_ns()
    finally:
        backend.close()
    tally.flush()
    seconds = max(time.monotonic_ns() - begins_ns, 1) / 1e9
    return Spent(seconds, time.thread_time() - worked_before)


def _try(client: Client, backend: Backend, request: Any) -> tuple[TransactionOutcome, int]:
    """Run a transaction, again after conflicts; give what it did, and how many tries it took."""
    for attempt in range(1, MAX_ATTEMPTS):
        try:
            return client.execute(backend, request), attempt
        except TransactionConflictError:
            continue
    return client.execute(backend, request), MAX_ATTEMPTS


def _think(seconds: float, end_ns: float, is_stopped: Callable[[], bool]) -> None:
    """Wait, in short pieces, so that a stop does not wait for long thoughts."""
    until = min(time.monotonic_ns() + seconds * 1e9, end_ns)
    while (left := (until - time.monotonic_ns()) / 1e9) > 0 and not is_stopped():
        time.sleep(min(left, 0.2))


class _Ears:
    """Listens to the process that started us: it may say stop, or be gone, and then so are we."""

    def __init__(self, connection: Connection) -> None:
        self.stopped = False
        self._connection = connection
        threading.Thread(target=self._listen, name="listening", daemon=True).start()

    def _listen(self) -> None:
        parent = multiprocessing.parent_process()
        gone = parent.sentinel if parent is not None else None
        while True:
            ready = wait([self._connection] if gone is None else [self._connection, gone])
            if gone in ready:
                os._exit(1)
            try:
                self._connection.recv()
            except (EOFError, OSError):
                os._exit(1)
            self.stopped = True


def client_main(start: ClientStart, connection: Connection) -> None:
    """Run one client in a process of its own.

    Says `ready`, waits for `go`, sends batches, and what it spent at the end.
    """
    # Ctrl-C goes to all processes of a terminal: ours is stopped by the one that started it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        if start.control_group is not None:
            Path(start.control_group).write_text(str(os.getpid()))
        connection.send(("ready", 0))
        try:
            _, start_ns = connection.recv()
        except (EOFError, OSError):
            return
        ears = _Ears(connection)
        spent = run_client(
            start, start_ns, lambda batch: connection.send(("batch", batch)), lambda: ears.stopped
        )
        connection.send(("done", spent))
    except BrokenPipeError:
        return
    except Exception as error:
        # Whoever started it may be gone, and the server with it.
        with suppress(OSError):
            connection.send(("error", f"{type(error).__name__}: {error}"))
