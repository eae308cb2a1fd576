"""A database on a mounted volume over an emulated drive: what it reaches, and whether it is whole.

What need not wait for the drive does not: the database is made, filled and checked with the volume
mounted over the file that holds the drive's bytes. Between, the volume is mounted over the drive,
on the wall clock, and the workload runs.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flashwright import _core
from flashwright._core import InputError, RunError
from flashwright.volumes import metrics, mounting
from flashwright.volumes.metrics import Between
from flashwright.volumes.places import Mounted
from flashwright.workloads import registry, session
from flashwright.workloads.databases.base import BackendConfig
from flashwright.workloads.databases.cluster import Cluster
from flashwright.workloads.databases.place import Place
from flashwright.workloads.driver import RunConfig, Unobserved
from flashwright.workloads.measure import RunResult
from flashwright.workloads.session import BenchPlan, Folder
from flashwright.workloads.supervisor import Supervisor

Say = Callable[[str], None]

MIB = 1 << 20
SEED = 1
BUFFER_BYTES = 32 * MIB
FILLER_BYTES = 64 * MIB
"""Size of the file that is written again and again until a log has to clean."""
_CLEANINGS = "layer_cleanings_total"
_MOST_FILLINGS = 1000
_CLOSING_SECONDS = 1800.0
"""A slow drive takes long to be given all that a buffer holds."""


@dataclass(frozen=True)
class EmulatedDrive:
    """An emulated drive: a profile, cut down so that a log on it is turned over sooner."""

    profile: str
    size: str
    state: str

    def device(self, data: Path) -> str:
        """Give the device whose bytes are in `data`."""
        given = f"size={self.size},state={self.state},data={data},seed={SEED}"
        return f"emulated(profile={self.profile},{given})"


@dataclass(frozen=True)
class DatabaseRun:
    """A run on a database.

    `workload` is as in `flashwright bench`; `seconds` are measured, after `warm_up` seconds.
    """

    workload: str
    database: str
    clients: int
    seconds: float
    warm_up: float
    checkpoint_seconds: float | None

    def plan(self, on: Path) -> BenchPlan:
        """Give the plan that puts the database into `on`.

        Raises:
            InputError: there is no such workload, it has no such parameters, or fewer clients than
            these.
        """
        workload, _, load = registry.find(self.workload)
        config = RunConfig(self.clients, self.seconds, warm_up_seconds=self.warm_up, seed=SEED)
        try:
            config.check(load)
        except ValueError as error:
            raise InputError(f"{self.workload}: {error}") from error
        database = session.DATABASES[self.database](
            buffer=BUFFER_BYTES, checkpoint=self.checkpoint_seconds
        )
        return BenchPlan(workload, load, database, config, Folder(on))


@dataclass(frozen=True)
class Outcome:
    """Outcome of a load on a stack."""

    result: RunResult
    between: Between
    """The volume during the measurement."""
    checks: tuple[str, ...]
    """Programs that checked the database and the volume afterwards, and found no damage."""

    @property
    def cleanings(self) -> int | None:
        """Segments that logs freed meanwhile; None if there is no log."""
        levels = [labels for labels, _ in self.between.now.of(_CLEANINGS)]
        if not levels:
            return None
        return round(sum(self.between.grown(_CLEANINGS, **one) for one in levels))


class _Watch(Unobserved):
    """Reads the volume's metrics when the measurement begins and when it ends."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._before: metrics.Sample | None = None
        self._after: metrics.Sample | None = None

    def measurement_begins(self, at_ns: int) -> None:  # noqa: ARG002  (an observer's)
        """See `Observer`."""
        self._before = metrics.read(self._path)

    def measurement_ends(self, at_ns: int) -> None:  # noqa: ARG002  (an observer's)
        """See `Observer`."""
        self._after = metrics.read(self._path)

    def between(self) -> Between:
        """Give what the volume did while it was measured.

        Raises:
            RunError: nothing was measured.
        """
        if self._after is None:
            raise RunError("nothing was measured on the volume")
        return Between(self._after, self._before)


@dataclass
class _Run:
    """A load on a stack, step by step."""

    drive: EmulatedDrive
    stack: str
    load: DatabaseRun
    folder: Path
    say: Say
    stop: threading.Event
    supervisor: Supervisor
    plan: BenchPlan = field(init=False)
    place: Place = field(init=False)

    def __post_init__(self) -> None:
        self.plan = self.load.plan(self.base)
        self.place = session.place_of(self.plan.database, self.base, self.supervisor)
        if not isinstance(self.place, Cluster):
            return
        binaries = self.place.server.binaries
        for program in ("pg_amcheck", "pg_checksums"):
            if not (binaries / program).exists():
                raise InputError(
                    f"{binaries}: it has no {program}, which looks at the database "
                    "afterwards (Debian: apt-get install postgresql)"
                )

    @property
    def base(self) -> Path:
        """Folder of the database."""
        return self.directory / "db"

    @property
    def directory(self) -> Path:
        """Mount point of the volume."""
        return self.folder / "mount"

    @property
    def data(self) -> Path:
        """The file with the drive's bytes."""
        return self.folder / "drive"

    def play(self) -> Outcome:
        """See `play`."""
        device = self.drive.device(self.data)
        _core.create_volume(device, self.stack, seed=SEED)
        self.directory.mkdir()
        with _mounted(str(self.data), self.directory) as mounted:
            self._fill(mounted)
        self.say("opening the volume over the drive")
        with _mounted(device, self.directory) as mounted:
            result, between = self._measure(mounted)
            self.say("closing the volume")
        with _mounted(str(self.data), self.directory):
            checks = self._check()
        self.say("reading all of the volume")
        found: dict[str, Any] = _core.check_volume(str(self.data))
        if found["bad_bytes"]:
            raise RunError(f"volume info --check: {found['bad'][0]}")
        return Outcome(result, between, (*checks, "volume info --check"))

    def _fill(self, mounted: Mounted) -> None:
        def report(done: int, total: int) -> None:
            if self.stop.is_set():
                raise _core.Cancelled("stopped before the run began")
            self.say(f"loading {self.plan.workload.name}: {done} of {total}")

        self.base.mkdir(mode=0o755)
        try:
            self.place.make()
            session.fill(self.plan, self.place, report)
        finally:
            self.place.close()
        use_up_logs(mounted, self.say)

    def _open(self, clients: int) -> BackendConfig:
        # A server that is to be started anew has to run.
        self.place.open_for_load()
        return self.place.open_for_run(clients)

    def _measure(self, mounted: Mounted) -> tuple[RunResult, Between]:
        watch = _Watch(mounted.place.control)
        try:
            database = self._open(self.plan.config.clients)
            self.say(f"running {self.plan.workload.name} for {self.load.seconds:g} s")
            result, _ = session.measure(
                self.plan, self.place, database, self.supervisor, watch, self.stop
            )
        finally:
            self.place.close()
        return result, watch.between()

    def _check(self) -> list[str]:
        """Let the workload and the database's own tools look at what is there.

        Raises:
            RunError: it is not whole.
        """
        self.say("checking the database")
        try:
            backend = self._open(1).connect()
            try:
                violations = self.plan.load.violations(backend)
            finally:
                backend.close()
            if violations:
                raise RunError(f"the database is not consistent: {violations[0]}")
            tools = self._check_sqlite if self.load.database == "sqlite" else self._check_cluster
            return [f"{self.plan.workload.name}'s conditions", *tools()]
        finally:
            self.place.close()

    def _check_sqlite(self) -> list[str]:
        with contextlib.closing(sqlite3.connect(self.base / "database.sqlite")) as base:
            said = base.execute("pragma integrity_check").fetchone()[0]
        if said != "ok":
            raise RunError(f"SQLite's integrity_check: {said}")
        return ["integrity_check"]

    def _check_cluster(self) -> list[str]:
        from flashwright.workloads.databases.server import run_as  # noqa: PLC0415

        server: Any = self.place.server  # type: ignore[attr-defined]
        server.query("CREATE EXTENSION IF NOT EXISTS amcheck")
        run_as(
            server.account,
            *(server.binaries / "pg_amcheck", "--host", server.sockets),
            *("--username", "flashwright", "--heapallindexed", "postgres"),
        )
        server.stop()
        run_as(server.account, server.binaries / "pg_checksums", "--check", "-D", server.data)
        return ["pg_amcheck", "pg_checksums"]


def play(
    drive: EmulatedDrive,
    stack: str,
    load: DatabaseRun,
    folder: Path,
    say: Say = lambda _: None,
    stop: threading.Event | None = None,
) -> Outcome:
    """Make the volume, run the load on it, check all, and leave nothing.

    `folder` is where the drive's bytes are kept meanwhile. Once `stop` is set, what was measured
    until then is the outcome, which is checked as any.

    Raises:
        InputError: no root, a program is missing, or the stack does not fit on the drive.
        RunError: something is not whole, or failed.
        Cancelled: it was stopped before anything was measured.
    """
    with tempfile.TemporaryDirectory(dir=folder, prefix="flashwright-") as own:
        # The server of a database may run as another user, and has to get through.
        Path(own).chmod(0o711)
        with Supervisor() as supervisor:
            stop = stop or threading.Event()
            run = _Run(drive, stack, load, Path(own), say, stop, supervisor)
            with session.database_errors():
                return run.play()


@contextlib.contextmanager
def _mounted(device: str, directory: Path) -> Iterator[Mounted]:
    mounted = mounting.mount(mounting.MountPlan(device, directory, "ext4"))
    try:
        yield mounted
    except BaseException:
        with contextlib.suppress(RunError):
            mounting.unmount(mounted, _CLOSING_SECONDS)
        raise
    mounting.unmount(mounted, _CLOSING_SECONDS)


def use_up_logs(mounted: Mounted, say: Say) -> None:
    """Write to the volume until each log in its stack has begun to clean.

    The file that is written for it stays.

    Raises:
        RunError: one does not clean, however much is written.
    """
    levels = [labels for labels, _ in metrics.read(mounted.place.control).of(_CLEANINGS)]
    block = os.urandom(MIB)
    with (Path(mounted.directory) / "filler").open("wb") as filler:
        for filling in range(_MOST_FILLINGS):
            now = metrics.read(mounted.place.control)
            if all(now.number(_CLEANINGS, **one) for one in levels):
                return
            say(f"writing until its log cleans: {filling * FILLER_BYTES // MIB} MiB")
            filler.seek(0)
            for _ in range(FILLER_BYTES // MIB):
                filler.write(block)
            filler.flush()
            os.fdatasync(filler.fileno())
    raise RunError(f"{mounted.device}: its log has not begun to clean")
