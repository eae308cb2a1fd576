"""What a trial runs on its volume: a workload of `flashwright bench`, on a database of ours.

A load is put on the volume, run there, and looked at afterwards. `own_commands` has the other one.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Protocol

from flashwright import written
from flashwright._core import Cancelled, InputError, RunError
from flashwright.advice.actions.synchronous import FRAME_HEADER_BYTES
from flashwright.advice.server_settings import SQLITE_DEFAULTS
from flashwright.volumes import metrics
from flashwright.volumes.metrics import Between, Sample
from flashwright.workloads import registry, session
from flashwright.workloads.busy import Busy
from flashwright.workloads.databases.base import BackendConfig
from flashwright.workloads.databases.cluster import Cluster, Postgres
from flashwright.workloads.databases.embedded import Sqlite
from flashwright.workloads.databases.place import Place, Settings
from flashwright.workloads.databases.server import Server, run_as
from flashwright.workloads.driver import Observer, RunConfig, Unobserved
from flashwright.workloads.measure import RunResult, Windows
from flashwright.workloads.session import BenchPlan, Folder
from flashwright.workloads.supervisor import Supervisor

Say = Callable[[str], None]
_OF_SQLITE = ("journal_mode", "synchronous", "page_size")
"""Pragmas that a database of ours needs to know before it is filled, or sets itself."""


_LONGER = 1.25
"""How much longer SQLite's log may get than `wal_autocheckpoint`, as the commit that reaches that
is written whole."""
MOST_LATE = 0.1
"""Share of the measured time after which a first look at the volumes is too late."""


class Watch(Unobserved):
    """Looks at volumes, and at the machine's processors, when a measurement begins and ends.

    What records the run, if anything does, hears of it through this.
    """

    def __init__(
        self, controls: Sequence[Path], recorder: Observer | None = None, *, has_warm_up: bool
    ) -> None:
        """Do nothing yet; `controls` are the sockets on which the volumes' servers are asked."""
        self._has_warm_up = has_warm_up
        self.begun_ns: int | None = None
        self.busy = Busy()
        self._controls = controls
        self._to: Observer = recorder or Unobserved()
        self._before: list[Sample] = []
        self._after: list[Sample] = []
        self._late_ns = self._measured_ns = 0

    def between(self) -> list[Between]:
        """Give what each volume did while it was measured.

        Raises:
            RunError: nothing was measured; or the first look came so late that it says nothing of
            the time.
        """
        if not self._after:
            raise RunError("nothing was measured on the volume")
        if self._late_ns > MOST_LATE * self._measured_ns:
            raise RunError(
                f"the volumes' servers answered {self._late_ns / 1e9:.1f} s after the measurement "
                f"of {self._measured_ns / 1e9:.1f} s began: the machine is too busy for one so "
                "short"
            )
        return [Between(*both) for both in zip(self._after, self._before, strict=True)]

    def database_ready(self, place: Place, supervisor: Supervisor) -> None:
        """See `Observer`."""
        self._to.database_ready(place, supervisor)
        # Without a warm-up clients begin at once, and some before the measurement is told of.
        self._before = self._look()

    def _look(self) -> list[Sample]:
        return [metrics.read(path) for path in self._controls]

    def warming_up(self, windows: Windows) -> None:
        """See `Observer`."""
        self._to.warming_up(windows)

    def measurement_begins(self, at_ns: int) -> None:
        """See `Observer`."""
        self.begun_ns = at_ns
        self._to.measurement_begins(at_ns)
        self.busy.begin()
        if self._has_warm_up or not self._before:
            self._before = self._look()
        if self._has_warm_up:
            self._late_ns = time.monotonic_ns() - at_ns

    def has_failed(self) -> bool:
        """See `Observer`."""
        return self._to.has_failed()

    def measurement_ends(self, at_ns: int) -> None:
        """See `Observer`."""
        self._measured_ns = at_ns - (self.begun_ns or at_ns)
        self._after = self._look()
        self.busy.end()
        self._to.measurement_ends(at_ns)

    def checkpoint(self, begin_ns: int, end_ns: int) -> None:
        """See `Observer`."""
        self._to.checkpoint(begin_ns, end_ns)

    def run_ends(self) -> None:
        """See `Observer`."""
        self._to.run_ends()


@dataclass(frozen=True)
class Ran:
    """What a load did, and the database's checkpoints meanwhile."""

    result: RunResult
    checkpoints: list[dict[str, Any]]
    readers: frozenset[str] = frozenset()
    """Kinds of transactions that write nothing."""


class TrialLoad(Protocol):
    """Something that runs on a volume. In order: `fill`, `measure`, `check`.

    The volume is another mount for each of them, in the same folder.
    """

    def fill(self) -> None:
        """Put it on the volume.

        Raises:
            Cancelled: it was stopped.
        """

    def measure(self, watch: Watch) -> Ran:
        """Run it, and tell `watch` of it."""

    def check(self) -> list[str]:
        """Look whether all is whole, and give the names of what did.

        Raises:
            RunError: it is not.
        """


@dataclass(frozen=True)
class BenchLoad:
    """A workload as `flashwright bench` has it."""

    plan: BenchPlan
    place: Place
    supervisor: Supervisor
    base: Path
    """Folder of the database, which the filling makes."""
    say: Say
    stop: threading.Event

    @staticmethod
    def of(plan: BenchPlan, base: Path, supervisor: Supervisor, say: Say, stop: Any) -> BenchLoad:
        """Look for what it needs.

        Raises:
            InputError: a program is missing.
        """
        place = session.place_of(plan.database, base, supervisor)
        if isinstance(place, Cluster):
            need_checkers(place.server)
        return BenchLoad(plan, place, supervisor, base, say, stop)

    def fill(self) -> None:
        """See `TrialLoad`."""

        def report(done: int, total: int) -> None:
            if self.stop.is_set():
                raise Cancelled("stopped before the run began")
            self.say(f"loading {self.plan.workload.name}: {done} of {total}")

        self.base.mkdir(mode=0o755)
        try:
            self.place.make()
            session.fill(self.plan, self.place, report)
        finally:
            self.place.close()
        if isinstance(self.plan.database, Sqlite):
            grow_log(self.base / "database.sqlite", self.plan.database)

    def _open(self, clients: int) -> BackendConfig:
        # A server that is to be started anew has to run.
        self.place.open_for_load()
        return self.place.open_for_run(clients)

    def measure(self, watch: Watch) -> Ran:
        """See `TrialLoad`."""
        try:
            database = self._open(self.plan.config.clients)
            watch.database_ready(self.place, self.supervisor)
            self.say(f"running {self.plan.workload.name} for {self.plan.config.seconds:g} s")
            result, marks = session.measure(
                self.plan, self.place, database, self.supervisor, watch, self.stop
            )
            checkpoints = session.checkpoints_of(self.place, watch.begun_ns, marks)
        finally:
            self.place.close()
        return Ran(result, checkpoints, self.plan.workload.readers)

    def check(self) -> list[str]:
        """See `TrialLoad`."""
        try:
            backend = self._open(1).connect()
            try:
                violations = self.plan.load.violations(backend)
            finally:
                backend.close()
            if violations:
                raise RunError(f"the database is not consistent: {violations[0]}")
            found = [f"{self.plan.workload.name}'s conditions"]
            if isinstance(self.place, Cluster):
                return [*found, *check_cluster(self.place.server)]
            return [*found, *check_sqlite(self.base / "database.sqlite")]
        finally:
            self.place.close()


def plan_of(
    workload: str, database: str, settings: Mapping[str, str], config: RunConfig, on: Path
) -> BenchPlan:
    """Give the plan of a workload on a database that is put into `on`.

    Raises:
        InputError: there is no such workload or database, it has no such settings, or fewer clients
        than these.
    """
    kind, _, load = registry.find(workload)
    try:
        config.check(load)
    except ValueError as error:
        raise InputError(f"{workload}: {error}") from error
    return BenchPlan(kind, load, database_of(database, settings), config, Folder(on))


def grow_log(path: Path, database: Sqlite) -> None:
    """Make SQLite's log as long as it gets until a checkpoint, with nothing in it.

    It grows but once in a program that runs for long, and each commit until then makes the file
    system write, too: on a slow drive a run of a minute would see little else.
    """
    frames = int(database.extra.get("wal_autocheckpoint", SQLITE_DEFAULTS["wal_autocheckpoint"]))
    if database.journal_mode != "wal" or frames <= 0:
        return
    connection = sqlite3.connect(path)
    try:
        connection.execute("PRAGMA journal_mode=WAL")
        (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
    finally:
        connection.close()
    with path.with_name(f"{path.name}-wal").open("wb") as log:
        log.write(bytes(round(_LONGER * frames) * (page_bytes + FRAME_HEADER_BYTES)))
        log.flush()
        os.fsync(log.fileno())


def database_of(text: str, settings: Mapping[str, str]) -> Settings:
    """Give a database as it is written, with settings by its own names over that.

    Raises:
        InputError: there is no such database, or it has no such setting.
    """
    base = written.read(text, session.DATABASES, "database")
    given = dict(settings)
    own: dict[str, Any] = {}
    if isinstance(base, Sqlite):
        check_pragmas(given)
        known = {one.name: one for one in fields(base)}
        for name in _OF_SQLITE:
            if name not in given:
                continue
            try:
                own[name] = written.of(known[name]).kind.take(given.pop(name))
            except InputError as error:
                raise InputError(f"{name}: {error}") from None
    return replace(base, extra={**base.extra, **given}, **own)


def with_log_on(database: Settings, folder: Path) -> Settings:
    """Give a database whose log lies in a folder elsewhere.

    Raises:
        InputError: its log is beside its data, always.
    """
    if not isinstance(database, Postgres):
        raise InputError(
            f"{database.name}: its log lies beside its data; only that of postgres can be on a "
            "drive of its own"
        )
    return replace(database, wal_on=folder)


def check_pragmas(settings: Mapping[str, str]) -> None:
    """Refuse what is no pragma of SQLite, which would pass over it in silence.

    Raises:
        InputError: one is none.
    """
    with contextlib.closing(sqlite3.connect(":memory:")) as base:
        known = {name for (name,) in base.execute("pragma pragma_list")}
    for name in settings:
        if name not in known:
            raise InputError(
                f"{name}: SQLite has no such pragma; right would be one such as "
                f"{', '.join(_OF_SQLITE)} or wal_autocheckpoint"
            )


def need_checkers(server: Server) -> None:
    """Look for PostgreSQL's programs that look at a database afterwards.

    Raises:
        InputError: one is missing.
    """
    for program in ("pg_amcheck", "pg_checksums"):
        if not (server.binaries / program).exists():
            raise InputError(
                f"{server.binaries}: it has no {program}, which looks at the database "
                "afterwards (Debian: apt-get install postgresql)"
            )


def check_sqlite(path: Path) -> list[str]:
    """Let SQLite look at a database; gives the name of what did.

    Raises:
        RunError: it is not whole.
    """
    with contextlib.closing(sqlite3.connect(path)) as base:
        said = base.execute("pragma integrity_check").fetchone()[0]
    if said != "ok":
        raise RunError(f"SQLite's integrity_check: {said}")
    return ["integrity_check"]


def check_cluster(server: Server, database: str = "postgres") -> list[str]:
    """Let PostgreSQL's tools look at a cluster whose server runs, and stop it.

    Gives the names of what did. Pages have checksums only if the cluster was made so.

    Raises:
        RunError: it is not whole.
    """
    has_checksums = server.query("SHOW data_checksums")[0]["data_checksums"] == "on"
    server.query("CREATE EXTENSION IF NOT EXISTS amcheck")
    run_as(
        server.account,
        *(server.binaries / "pg_amcheck", "--host", server.sockets),
        *("--username", "flashwright", "--heapallindexed", database),
    )
    server.stop()
    if not has_checksums:
        return ["pg_amcheck"]
    run_as(server.account, server.binaries / "pg_checksums", "--check", "-D", server.data)
    return ["pg_amcheck", "pg_checksums"]
