"""Runs a workload's clients, each in a process of its own, and gathers what they did.

The clients begin together; what ends before the warm-up's end is not counted. Times are of the
monotonic clock, which all processes (and the kernel's tracers) share.
"""

from __future__ import annotations

import math
import os
import threading
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any, Protocol

import numpy as np

from flashwright._core import RunError

from .base import DatabaseLoad
from .client import Batch, ClientStart, Spent, client_main, run_client
from .databases.base import BackendConfig
from .databases.place import Place
from .measure import LOG_COLUMNS, ClientPart, RunResult, Windows
from .processes import context
from .supervisor import Supervisor

_SETTLE_SECONDS = 0.05
_STOP_PATIENCE_SECONDS = 15.0


@dataclass(frozen=True)
class RunConfig:
    """A run.

    It ends `seconds` after its warm-up, or after `transactions` from each client, whichever is set
    (or first). `think_seconds` is the mean think time after each transaction; 0 sends as fast as it
    can. `seed` is that of the load. `stream` distinguishes runs on one database. `control_group`
    is the `cgroup.procs` of a group that the clients join. `keep_transactions` keeps begin and end
    of every transaction.
    """

    clients: int = 1
    seconds: float | None = None
    transactions: int | None = None
    warm_up_seconds: float = 0.0
    think_seconds: float = 0.0
    seed: int = 1
    stream: int = 0
    window_seconds: float = 1.0
    control_group: str | None = None
    keep_transactions: bool = False

    def __post_init__(self) -> None:
        """Refuse a run without an end or without clients.

        Raises:
            ValueError: neither `seconds` nor `transactions` is set, or `clients` is below 1.
        """
        if self.seconds is None and self.transactions is None:
            raise ValueError("a run needs an end: set seconds or transactions")
        if self.clients < 1:
            raise ValueError(f"clients is {self.clients}: it must be 1 or more")

    def check(self, load: DatabaseLoad) -> None:
        """Refuse more clients than the workload can have.

        Raises:
            ValueError: there are more.
        """
        most = load.most_clients()
        if most is not None and self.clients > most:
            raise ValueError(f"clients is {self.clients}: at this scale it must be 1 to {most}")


class Observer(Protocol):
    """Hears of a run as it goes. All times are of the monotonic clock, in nanoseconds.

    This is where a recorder comes in: `measurement_begins` and `_ends` bound what it keeps,
    `checkpoint` marks one that we asked for, and with `RunConfig.keep_transactions` the result has
    every transaction's boundaries.
    """

    def database_ready(self, place: Place, supervisor: Supervisor) -> None:
        """Learn that the database is there, filled and started anew.

        Its clients come next.
        """

    def warming_up(self, windows: Windows) -> None:
        """Learn that clients have been started; their windows fill from the warm-up's end on."""

    def measurement_begins(self, at_ns: int) -> None:
        """Learn that what ends from now on is counted."""

    def has_failed(self) -> bool:
        """Tell whether the run is worth nothing any more: asked many times a second.

        `measurement_ends` then says why.
        """

    def measurement_ends(self, at_ns: int) -> None:
        """Learn that the last client has ended."""

    def checkpoint(self, begin_ns: int, end_ns: int) -> None:
        """Learn of a checkpoint that we asked for."""

    def run_ends(self) -> None:
        """Learn that the run is over, whatever came of it."""


class Unobserved:
    """Looks away."""

    def database_ready(self, place: Place, supervisor: Supervisor) -> None:
        """See `Observer`."""

    def warming_up(self, windows: Windows) -> None:
        """See `Observer`."""

    def measurement_begins(self, at_ns: int) -> None:
        """See `Observer`."""

    def has_failed(self) -> bool:
        """See `Observer`."""
        return False

    def measurement_ends(self, at_ns: int) -> None:
        """See `Observer`."""

    def checkpoint(self, begin_ns: int, end_ns: int) -> None:
        """See `Observer`."""

    def run_ends(self) -> None:
        """See `Observer`."""


class Gathering:
    """Puts together what the clients send."""

    def __init__(self, load: DatabaseLoad, config: RunConfig) -> None:
        self.kinds = list(load.mix.weights)
        self.windows = Windows(self.kinds, config.window_seconds)
        self.spent: list[Spent] = []
        self.transactions = 0
        self._keep = config.keep_transactions
        self._log: list[dict[str, Any]] = []

    def take(self, batch: Batch) -> None:
        """Add a client's batch."""
        for kind, counted in batch.kinds.items():
            times = np.frombuffer(counted.times, np.uint64)
            part = ClientPart(
                counted.committed, counted.rolled_back, counted.conflicts, counted.misses, times
            )
            self.windows.add(batch.window, kind, part)
            self.transactions += len(times)
            if self._keep:
                ends = np.frombuffer(counted.ends, np.int64)
                self._log.append(
                    {
                        "client": np.full(len(times), batch.client, np.int32),
                        "kind": np.full(len(times), self.kinds.index(kind), np.int32),
                        "start_ns": ends - times.astype(np.int64),
                        "end_ns": ends,
                        "committed": np.frombuffer(counted.commits, np.uint8).astype(bool),
                        "tries": np.frombuffer(counted.tries, np.uint16),
                    }
                )

    def result(self, *, is_complete: bool) -> RunResult:
        """Give all that was gathered."""
        seconds = max((one.seconds for one in self.spent), default=1e-9)
        worked = [one.processor_seconds for one in self.spent if one.processor_seconds is not None]
        log: dict[str, Any] = {}
        if self._log:
            log = {name: np.concatenate([part[name] for part in self._log]) for name in LOG_COLUMNS}
            order = np.argsort(log["end_ns"], kind="stable")
            log = {name: column[order] for name, column in log.items()}
            log["kind"] = np.array([str(kind) for kind in self.kinds])[log["kind"]]
        return RunResult(
            seconds,
            self.windows.kinds,
            self.windows.columns(seconds),
            self.windows.response_map(seconds),
            log,
            is_complete,
            sum(worked) if worked else None,
        )


def run(
    database: BackendConfig,
    load: DatabaseLoad,
    config: RunConfig,
    observer: Observer | None = None,
    stop: threading.Event | None = None,
) -> RunResult:
    """Run all clients to their ends; `stop` ends them early.

    With one client, and `transactions` as the end, the same seed does the same to the database each
    time. A single client runs in this process, unless it has to be in a control group of its own.

    Raises:
        ValueError: there are too many clients.
        RunError: a client failed in a process of its own. A single client's error comes as it is.
    """
    config.check(load)
    observer = observer or Unobserved()
    stop = stop or threading.Event()
    gathering = Gathering(load, config)
    if config.clients == 1 and config.control_group is None:
        _run_here(database, load, config, gathering, observer, stop)
    else:
        _Processes(database, load, config).run(gathering, observer, stop)
    return gathering.result(is_complete=not stop.is_set())


def _run_here(
    database: BackendConfig,
    load: DatabaseLoad,
    config: RunConfig,
    gathering: Gathering,
    observer: Observer,
    stop: threading.Event,
) -> None:
    observer.warming_up(gathering.windows)
    start_ns = time.monotonic_ns()
    begins_ns = start_ns + int(config.warm_up_seconds * 1e9)
    failed: list[BaseException] = []

    def begin() -> None:
        try:
            observer.measurement_begins(begins_ns)
        except BaseException as error:
            # Of a thread of its own nobody would learn it. There is nothing to measure any more.
            failed.append(error)

    begun = threading.Timer(config.warm_up_seconds, begin)
    begun.daemon = True
    if config.warm_up_seconds > 0:
        begun.start()
    else:
        observer.measurement_begins(begins_ns)
    try:
        spent = run_client(
            _start(database, load, config, 0),
            start_ns,
            gathering.take,
            lambda: bool(failed) or stop.is_set() or observer.has_failed(),
        )
        gathering.spent.append(spent)
    finally:
        begun.cancel()
        if begun.ident is not None:
            # It may be at it just now: what begins is to begin before it ends.
            begun.join()
    if failed:
        raise failed[0]
    ended_ns = time.monotonic_ns()
    if begins_ns > ended_ns:
        # Stopped in its warm-up.
        observer.measurement_begins(ended_ns)
    observer.measurement_ends(ended_ns)


def _start(
    database: BackendConfig, load: DatabaseLoad, config: RunConfig, client: int
) -> ClientStart:
    return ClientStart(
        database=database,
        load=load,
        client=client,
        clients=config.clients,
        seed=config.seed,
        stream=config.stream,
        seconds=config.seconds,
        transactions=config.transactions,
        warm_up_seconds=config.warm_up_seconds,
        think_seconds=config.think_seconds,
        window_seconds=config.window_seconds,
        control_group=config.control_group,
        keep_transactions=config.keep_transactions,
    )


class _Processes:
    """The clients' processes. They end when this one does, however it ends."""

    def __init__(self, database: BackendConfig, load: DatabaseLoad, config: RunConfig) -> None:
        made_in = context()
        self._config = config
        self._connections: dict[Connection, int] = {}
        self._processes = []
        for client in range(config.clients):
            ours, theirs = made_in.Pipe()
            process = made_in.Process(
                target=client_main,
                args=(_start(database, load, config, client), theirs),
                daemon=True,
            )
            process.start()
            theirs.close()
            self._connections[ours] = client
            self._processes.append(process)

    def run(self, gathering: Gathering, observer: Observer, stop: threading.Event) -> None:
        """Run them to their ends."""
        try:
            self._wait_until_ready(stop)
            observer.warming_up(gathering.windows)
            start_ns = time.monotonic_ns() + int(_SETTLE_SECONDS * 1e9)
            self._send(("go", start_ns))
            self._gather(
                gathering, observer, stop, start_ns + int(self._config.warm_up_seconds * 1e9)
            )
        finally:
            self._end()

    def _wait_until_ready(self, stop: threading.Event) -> None:
        waiting = set(self._connections)
        while waiting and not stop.is_set():
            for connection in wait(list(waiting), timeout=0.2):
                self._receive(connection)  # type: ignore[arg-type]
                waiting.discard(connection)

    def _gather(
        self, gathering: Gathering, observer: Observer, stop: threading.Event, begins_ns: int
    ) -> None:
        running = set(self._connections)
        told_begin = told_stop = False
        patience = math.inf
        while running and time.monotonic() < patience:
            if not told_begin and time.monotonic_ns() >= begins_ns:
                observer.measurement_begins(begins_ns)
                told_begin = True
            if (stop.is_set() or observer.has_failed()) and not told_stop:
                self._send(("stop", 0))
                told_stop, patience = True, time.monotonic() + _STOP_PATIENCE_SECONDS
            for connection in wait(list(running), timeout=0.1):
                message = self._receive(connection)  # type: ignore[arg-type]
                if isinstance(message, Batch):
                    gathering.take(message)
                else:
                    gathering.spent.append(message)
                    running.discard(connection)
        ended_ns = time.monotonic_ns()
        if not told_begin:
            # Stopped in its warm-up, whose end may be far away.
            observer.measurement_begins(min(begins_ns, ended_ns))
        observer.measurement_ends(ended_ns)

    def _receive(self, connection: Connection) -> Any:
        client = self._connections[connection]
        try:
            what, value = connection.recv()
        except (EOFError, OSError):
            raise RunError(
                f"client {client} ended without a word; was it killed, or out of memory?"
            ) from None
        if what == "error":
            raise RunError(f"client {client}: {value}")
        return value

    def _send(self, message: tuple[str, int]) -> None:
        for connection in self._connections:
            try:
                connection.send(message)
            except OSError as error:
                raise RunError(
                    f"client {self._connections[connection]} is gone: {error.strerror}"
                ) from error

    def _end(self) -> None:
        for connection in self._connections:
            connection.close()
        for process in self._processes:
            process.join(2)
            if process.is_alive():
                process.kill()
                process.join()


def processors() -> int:
    """Count the processors that this process may use."""
    return len(os.sched_getaffinity(0))
