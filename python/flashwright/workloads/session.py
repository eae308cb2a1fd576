"""One run from nothing to its result.

A database made, filled, started anew, run on, checked, and removed.
"""

from __future__ import annotations

import platform
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from flashwright import written
from flashwright._core import Cancelled, InputError, RunError
from flashwright._paths import make_folder
from flashwright.written import FOLDER, setting

from . import driver, pgbench
from .base import DatabaseLoad, Violation, Workload
from .checkpoints import Checkpointer
from .databases.base import BackendConfig
from .databases.cluster import Cluster, Postgres
from .databases.embedded import Embedded, Sqlite
from .databases.place import Place, Settings
from .driver import Observer, RunConfig, Unobserved
from .measure import RunResult, Windows
from .supervisor import Supervisor

DATABASES: dict[str, type[Settings]] = {one.name: one for one in (Sqlite, Postgres)}
"""All databases. One is a class of settings beside its place, and a name here."""


def databases_listing() -> list[dict[str, Any]]:
    """Give all databases as `flashwright list` does."""
    summaries = {name: (str(one.__doc__).rstrip("."), "") for name, one in DATABASES.items()}
    return written.listing(DATABASES, summaries)


class Ground(Protocol):
    """Place that a database can be put on."""

    def make(self, supervisor: Supervisor) -> Path:
        """Make it, and give the folder for the database.

        Raises:
            InputError: it cannot be made here.
            RunError: a program of the system failed.
        """


@dataclass(frozen=True)
class Folder:
    """A folder: there already, or to be made."""

    path: Path = setting("Where the database goes, into a folder of its own.", FOLDER)

    def make(self, supervisor: Supervisor) -> Path:  # noqa: ARG002  (a ground's)
        """See `Ground`."""
        return self.path


@dataclass(frozen=True)
class BenchPlan:
    """Plan of a run.

    In the folder of `ground` the database gets one of its own, or with `keep` that itself, in which
    it stays.
    """

    workload: Workload
    load: DatabaseLoad
    database: Settings
    config: RunConfig
    ground: Ground
    keep: bool = False


@dataclass
class Finding:
    """Results of a run.

    Checkpoints are in seconds of the measurement; `violations` is None if nothing was checked.
    """

    result: RunResult
    database_bytes: int
    database_bytes_at_end: int
    load_seconds: float
    buffer_bytes: int | None
    place: dict[str, Any]
    checkpoints: list[dict[str, Any]]
    violations: list[Violation] | None
    kept_in: Path | None = None
    driver: str = "flashwright"


@dataclass
class Stage:
    """Stage of a run, for those who watch.

    `done` of `total` units of loading, then seconds or transactions.
    """

    name: str = "Making the database"
    done: float = 0.0
    total: float = 0.0
    unit: str = ""
    windows: Windows | None = None
    measured_from: float | None = None


class Session(Unobserved):
    """Runs a plan, in any thread; `stop` ends it early, from any other.

    `recorder` hears of the measurement as `Observer` says: what records a run hangs in there.
    `place` is the database, once it is made, and `stage` says where the run is.
    """

    def __init__(self, plan: BenchPlan, recorder: Observer | None = None) -> None:
        self.plan = plan
        self.stage = Stage()
        self.place: Place | None = None
        self._recorder = recorder or Unobserved()
        self._stop = threading.Event()
        self._begins_ns: int | None = None

    def stop(self) -> None:
        """Ask for the end.

        A load is given up; of a run that has begun, what was measured so far is the result.
        """
        self._stop.set()

    # Events that the driver reports: for the stage, and on to the recorder.

    def warming_up(self, windows: Windows) -> None:
        """See `Observer`."""
        warm = self.plan.config.warm_up_seconds
        self.stage = Stage(
            "Warming up" if warm > 0 else "Running", 0.0, warm, "s", windows, time.monotonic()
        )
        self._recorder.warming_up(windows)

    def measurement_begins(self, at_ns: int) -> None:
        """See `Observer`."""
        self._begins_ns = at_ns
        config = self.plan.config
        total = (
            config.seconds
            if config.seconds is not None
            else (config.transactions or 0) * config.clients
        )
        unit = "s" if config.seconds is not None else "transactions"
        self.stage = Stage("Running", 0.0, total, unit, self.stage.windows, at_ns / 1e9)
        self._recorder.measurement_begins(at_ns)

    def has_failed(self) -> bool:
        """See `Observer`."""
        return self._recorder.has_failed()

    def measurement_ends(self, at_ns: int) -> None:
        """See `Observer`."""
        self._recorder.measurement_ends(at_ns)

    def checkpoint(self, begin_ns: int, end_ns: int) -> None:
        """See `Observer`."""
        self._recorder.checkpoint(begin_ns, end_ns)

    # The run.

    def run(self) -> Finding:
        """Run the plan, and leave nothing behind, whatever happens.

        Raises:
            InputError: something asked for cannot be.
            RunError: the database or a client failed.
            Cancelled: it was stopped before the run began.
        """
        plan = self.plan
        try:
            plan.config.check(plan.load)
        except ValueError as error:
            raise InputError(str(error)) from error
        with database_errors(), ExitStack() as stack:
            supervisor = stack.enter_context(Supervisor())
            stack.callback(self._recorder.run_ends)
            folder = self._folder(supervisor)
            place = place_of(plan.database, folder, supervisor)
            self.place = place
            stack.callback(place.close)
            place.make()
            begun = time.monotonic()
            self._fill(place)
            load_seconds = time.monotonic() - begun
            database_bytes = place.size_bytes()
            self.stage = Stage("Starting it anew")
            self._check_stop()
            database = place.open_for_run(plan.config.clients)
            self._recorder.database_ready(place, supervisor)
            result, marks = measure(plan, place, database, supervisor, self, self._stop)
            about, violations = place.about(), None
            if not self._stop.is_set():
                self.stage = Stage("Checking the database")
                violations = self._violations(database)
            return Finding(
                result=result,
                database_bytes=database_bytes,
                database_bytes_at_end=place.size_bytes(),
                load_seconds=load_seconds,
                buffer_bytes=plan.database.buffer_of(database_bytes),
                place=about,
                checkpoints=checkpoints_of(place, self._begins_ns, marks),
                violations=violations,
                kept_in=folder if plan.keep else None,
                driver="pgbench" if scripts_of(plan) is not None else "flashwright",
            )

    def _check_stop(self) -> None:
        if self._stop.is_set():
            raise Cancelled("stopped before the run began")

    def _folder(self, supervisor: Supervisor) -> Path:
        if not isinstance(self.plan.ground, Folder):
            self.stage = Stage("Making the volume")
        on = self.plan.ground.make(supervisor)
        self._check_stop()
        try:
            if self.plan.keep:
                make_folder(on)
                if any(on.iterdir()):
                    raise InputError(f"{on}: --keep needs an empty folder for the database")
                on.chmod(0o711)
                return on.absolute()
            return supervisor.folder(on, "flashwright-")
        except OSError as error:
            raise InputError(f"{on}: no folder can be made there: {error.strerror}") from error

    def _fill(self, place: Place) -> None:
        name = f"Loading {self.plan.workload.name}"

        def report(done: int, total: int) -> None:
            self._check_stop()
            self.stage = Stage(name, done, total)

        fill(self.plan, place, report)
        self._check_stop()

    def _violations(self, database: BackendConfig) -> list[Violation]:
        backend = database.connect()
        try:
            return self.plan.load.violations(backend)
        finally:
            backend.close()


def checkpoints_of(
    place: Place, begins_ns: int | None, marks: list[tuple[int, int]]
) -> list[dict[str, Any]]:
    """Give the checkpoints of a run by the clock of its measurement, which begins at `begins_ns`.

    Those that the database reports, or else those that we asked for.
    """
    if begins_ns is None:
        return []
    said = place.checkpoints(time.time() - (time.monotonic_ns() - begins_ns) / 1e9)
    if said:
        return said
    return [
        {
            "start_s": round((begin - begins_ns) / 1e9, 3),
            "end_s": round((end - begins_ns) / 1e9, 3),
            "cause": "asked for",
        }
        for begin, end in marks
    ]


def place_of(database: Settings, folder: Path, supervisor: Supervisor) -> Place:
    """Give the database that is to be made in a folder.

    Raises:
        InputError: its programs are missing.
    """
    if isinstance(database, Sqlite):
        return Embedded(folder, database, supervisor)
    if isinstance(database, Postgres):
        # A socket's path must be short, and the server's own log must not be on the device that is
        # measured.
        run_dir = supervisor.folder(Path("/tmp"), "flashwright-run-")  # noqa: S108
        return Cluster(folder, run_dir, database, supervisor)
    raise AssertionError(f"no such database: {database}")


def scripts_of(plan: BenchPlan) -> Any:
    """Give what pgbench runs in place of our own clients; None if they do."""
    by_pgbench = plan.workload.by_pgbench
    if not isinstance(plan.database, Postgres) or by_pgbench is None:
        return None
    return by_pgbench(plan.load)


def _server_of(place: Place) -> Any:
    # pgbench is asked for only where the place is a Cluster.
    return place.server  # type: ignore[attr-defined]


def fill(plan: BenchPlan, place: Place, report: Callable[[int, int], None]) -> None:
    """Load the data of a plan into its place, which is made, and open for loading then.

    `report` hears how many units of how many are there, and may raise to end it.
    """
    database = place.open_for_load()
    report(0, 0)
    scripts = scripts_of(plan)
    if scripts is not None and scripts.initialise is not None:
        pgbench.fill(_server_of(place), scripts)
    else:
        plan.load.fill(database, plan.config.seed, min(driver.processors(), 8), report)


def measure(
    plan: BenchPlan,
    place: Place,
    database: BackendConfig,
    supervisor: Supervisor,
    observer: Observer,
    stop: threading.Event,
) -> tuple[RunResult, list[tuple[int, int]]]:
    """Run the clients of a plan on a place that is open for the run.

    Also gives begin and end of each checkpoint that we asked for, on the monotonic clock.
    """
    interval = plan.database.checkpoint
    checkpointer = None if interval is None else Checkpointer(place, interval, observer)
    config = plan.config
    if place.control_group is not None:
        config = replace(config, control_group=str(place.control_group))
    scripts = scripts_of(plan)
    with database_errors(place), checkpointer or nullcontext():
        if scripts is not None:
            server = _server_of(place)
            run = pgbench.PgbenchRun(server, supervisor, plan.load, scripts, config)
            result = run.run(observer, stop)
        else:
            result = driver.run(database, plan.load, config, observer, stop)
    return result, [] if checkpointer is None else checkpointer.marks


@contextmanager
def database_errors(place: Place | None = None) -> Iterator[None]:
    """Have an error of the database itself, such as a full volume, end the run in one line.

    With `place`, the line has what the database's log says of it.

    Raises:
        RunError: in its place.
    """
    try:
        yield
    except Exception as error:
        # PostgreSQL's client is an optional part.
        of_postgres = getattr(sys.modules.get("psycopg"), "Error", sqlite3.Error)
        if isinstance(error, sqlite3.Error | of_postgres):
            said = None if place is None else place.complaint()
            log = "" if said is None else f"; its log says: {said}"
            raise RunError(f"the database: {' '.join(str(error).split())}{log}") from error
        raise


def versions() -> dict[str, str]:
    """Tell what a result depends on besides the database."""
    return {
        "python": platform.python_version(),
        "kernel": platform.release(),
        "sqlite": sqlite3.sqlite_version,
    }
