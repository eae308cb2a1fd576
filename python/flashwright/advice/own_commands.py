"""What a trial runs on its volume: a command of the user's own, on a scratch copy of the data.

The data is a file of SQLite, a cluster of PostgreSQL whose server does not run, or any other file
or folder. The command finds the copy by variables of its environment; of a cluster a server of ours
runs on it. What is measured is one run of the command. What it leaves in memory is written back
after its end: that counts as bytes, not as time.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import sqlite3
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from flashwright._core import Cancelled, InputError, RunError
from flashwright.recording.command import Command
from flashwright.recording.tools import tool
from flashwright.workloads.databases.place import evict
from flashwright.workloads.databases.server import (
    Server,
    find_binaries,
    run_as,
    server_account,
)
from flashwright.workloads.measure import KindResult, RunResult
from flashwright.workloads.supervisor import Supervisor

from .trial_loads import (
    Ran,
    Say,
    Watch,
    check_cluster,
    check_pragmas,
    check_sqlite,
    need_checkers,
)

DATA = "FLASHWRIGHT_DATA"
"""Variable with the path of the copy."""
_SQLITE_HEAD = b"SQLite format 3\0"
_SQLITE_BESIDE = ("-wal", "-journal")
_STAYS_IN_FILE = ("page_size", "journal_mode")
"""Pragmas that a file of SQLite keeps; all others are those of whoever opens it."""
_LOOK_SECONDS = 0.05
_PORT = "5432"
_OVERRULED = {
    "port": _PORT,
    "ssl": "off",
    "archive_mode": "off",
    "logging_collector": "off",
    "external_pid_file": "",
    "synchronous_standby_names": "",
}
"""Settings of a user's own cluster that lead out of its copy, or keep us from it."""
_UNIT = "command"
_OURS = 2
"""Transactions of ours between two looks: the first look itself, and a checkpoint."""
_COMMITTED = (
    "SELECT sum(xact_commit + xact_rollback)::bigint AS n FROM pg_stat_database "
    "WHERE datname IS NOT NULL"
)


class Data(Enum):
    """Kinds of data."""

    POSTGRES = "postgres"
    SQLITE = "sqlite"
    OTHER = "files"


@dataclass(frozen=True)
class OwnCommand:
    """A command, and the data that it works on: never on itself, on a copy."""

    words: tuple[str, ...]
    data: str
    """Path."""

    def __str__(self) -> str:
        """Name it for people."""
        return " ".join(self.words)

    def kind(self) -> Data:
        """Tell what the data is.

        Raises:
            InputError: it is not there.
        """
        path = Path(self.data)
        if path.is_dir():
            return Data.POSTGRES if (path / "PG_VERSION").is_file() else Data.OTHER
        try:
            with path.open("rb") as file:
                head = file.read(len(_SQLITE_HEAD))
        except OSError as error:
            raise InputError(f"{path}: {error.strerror}; right would be data to copy") from error
        return Data.SQLITE if head == _SQLITE_HEAD else Data.OTHER

    def identity(self) -> str:
        """Give a hash of what the data is by names, sizes and times of its files."""
        path = Path(self.data)
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        said = [(str(one), one.stat().st_size, one.stat().st_mtime_ns) for one in files]
        return hashlib.sha256(repr(said).encode()).hexdigest()

    def check(self, settings: Mapping[str, str], room_bytes: int) -> None:
        """Refuse what cannot be, before anything is made.

        Raises:
            InputError: there is no such program or data, the data does not fit, is in use, or has
            parts that a copy would not have; or it has no such setting.
        """
        if not self.words or shutil.which(self.words[0]) is None:
            raise InputError(f"{self}: no such program; right would be a command with its words")
        path, kind = Path(self.data), self.kind()
        files = [one for one in path.rglob("*") if one.is_file()] if path.is_dir() else [path]
        size = sum(one.stat().st_size for one in files)
        if size > room_bytes * 0.8:
            raise InputError(
                f"{path}: its {size:,} bytes need a drive of {size * 5 // 4:,} or more, and this "
                f"has {room_bytes:,}"
            )
        if kind is Data.OTHER and settings:
            raise InputError(f"{path}: it is no database that is known, and has no settings")
        if kind is Data.SQLITE:
            check_pragmas(settings)
            for name in settings:
                if name not in _STAYS_IN_FILE:
                    raise InputError(
                        f"{name}: a file of SQLite does not keep it: set it in what opens the file"
                    )
        if kind is Data.POSTGRES:
            _check_cluster(path)


def _check_cluster(path: Path) -> None:
    for name, why in (
        ("postmaster.pid", "a server runs on it, or was killed: stop it first"),
        ("standby.signal", "it is a standby"),
        ("recovery.signal", "it is a backup that is not recovered"),
    ):
        if (path / name).exists():
            raise InputError(f"{path}: {why} ({name})")
    if any((path / "pg_tblspc").iterdir()):
        raise InputError(f"{path}: it has tablespaces, which a copy would share with it")


@dataclass
class CommandLoad:
    """A command on a copy of the data."""

    command: OwnCommand
    settings: Mapping[str, str]
    base: Path
    """Folder of the copy, which the filling makes."""
    log: Path | None
    """Where the copy's log goes, if elsewhere."""
    supervisor: Supervisor
    say: Say
    stop: threading.Event
    server: Server | None = None

    @staticmethod
    def of(
        command: OwnCommand,
        settings: Mapping[str, str],
        base: Path,
        log: Path | None,
        supervisor: Supervisor,
        say: Say,
        stop: threading.Event,
    ) -> CommandLoad:
        """Look for what it needs.

        Raises:
            InputError: a program is missing, or the log cannot be elsewhere.
        """
        load = CommandLoad(command, settings, base, log, supervisor, say, stop)
        kind = command.kind()
        if kind is not Data.POSTGRES:
            if log is not None:
                raise InputError(f"{command.data}: only a log of PostgreSQL can be elsewhere")
            return load
        version = (Path(command.data) / "PG_VERSION").read_text(encoding="ascii").strip()
        account = server_account()
        run_dir = supervisor.folder(Path("/tmp"), "flashwright-run-")  # noqa: S108
        load.server = Server(
            find_binaries(None, account, int(version)), load.copy, run_dir, supervisor, account
        )
        need_checkers(load.server)
        return load

    @property
    def copy(self) -> Path:
        """The copy of the data."""
        return self.base / Path(self.command.data).name

    def fill(self) -> None:
        """See `TrialLoad`."""
        self.base.mkdir(mode=0o755)
        source = Path(self.command.data)
        self.say(f"copying {source}")

        def copied(from_path: str, to_path: str) -> str:
            if self.stop.is_set():
                raise Cancelled("stopped before the run began")
            return shutil.copy2(from_path, to_path)

        try:
            if source.is_dir():
                # What links lead to is copied, not shared.
                shutil.copytree(source, self.copy, copy_function=copied)
            else:
                copied(str(source), str(self.copy))
                for end in _SQLITE_BESIDE:
                    beside = source.with_name(source.name + end)
                    if beside.exists():
                        copied(str(beside), f"{self.copy}{end}")
        except (OSError, shutil.Error) as error:
            raise RunError(f"{source}: it cannot be copied: {error}") from error
        if self.server is not None:
            self._make_ours(self.server)
        elif self.settings:
            self._set_pragmas()

    def _make_ours(self, server: Server) -> None:
        """Let our server's user in: as its owner, and as a role of the database."""
        if self.log is not None:
            shutil.move(self.copy / "pg_wal", self.log / "wal")
            (self.copy / "pg_wal").symlink_to(self.log / "wal")
        for name in ("postgresql.conf", "pg_ident.conf"):
            # Those of Debian's clusters lie elsewhere.
            (self.copy / name).touch()
        server.run_dir.chmod(0o711)
        server.sockets.mkdir(mode=0o700)
        (server.run_dir / "hba.conf").write_text("local all all trust\n", encoding="ascii")
        if server.account is not None:
            own = server.account
            for top in (self.copy, server.sockets, *([self.log / "wal"] if self.log else [])):
                for path in (top, *top.rglob("*")):
                    os.chown(path, own.uid, own.gid, follow_symlinks=False)
        self.copy.chmod(0o700)
        # In single-user mode nobody is asked who they are.
        run_as(
            server.account,
            *("sh", "-c", 'echo "$1" | "$2" --single -D "$3" -c archive_mode=off postgres', "sh"),
            "CREATE ROLE flashwright SUPERUSER LOGIN;",
            *(server.binaries / "postgres", self.copy),
        )

    def _set_pragmas(self) -> None:
        with contextlib.closing(sqlite3.connect(self.copy, isolation_level=None)) as base:
            if "page_size" in self.settings:
                # A file in WAL mode keeps its page size.
                base.execute("PRAGMA journal_mode = delete")
                base.execute(f"PRAGMA page_size = {int(self.settings['page_size'])}")
                base.execute("VACUUM")
            mode = self.settings.get("journal_mode")
            if mode is not None:
                said = base.execute(f"PRAGMA journal_mode = {mode}").fetchone()[0]
                if said != mode:
                    raise InputError(f"journal_mode={mode}: SQLite makes {said} of it")

    def _start(self, server: Server) -> None:
        hba = {"hba_file": str(server.run_dir / "hba.conf")}
        ident = {"ident_file": str(self.copy / "pg_ident.conf")}
        server.start({**_OVERRULED, **hba, **ident, **self.settings})

    def measure(self, watch: Watch) -> Ran:
        """See `TrialLoad`. A transaction is one of PostgreSQL's, or else a run of the command."""
        variables = {DATA: str(self.copy)}
        before = 0
        if self.server is not None:
            self._start(self.server)
            variables |= {"PGHOST": str(self.server.sockets), "PGPORT": _PORT}
            variables |= {"PGUSER": "flashwright", "PGDATABASE": "postgres"}
        try:
            if self.server is not None:
                before = self.server.query(_COMMITTED)[0]["n"]
            else:
                files = [self.copy] if self.copy.is_file() else list(self.copy.rglob("*"))
                evict(path.resolve() for path in files if path.is_file())
            seconds = self._run(watch, variables)
            done = 1
            if self.server is not None:
                done = max(self.server.query(_COMMITTED)[0]["n"] - before - _OURS, 0)
        finally:
            self._close()
        unit = "transaction" if self.server is not None else _UNIT
        # When each of them begins and ends is not seen.
        return Ran(RunResult(seconds, {unit: KindResult(committed=done)}), [])

    def _run(self, watch: Watch, variables: Mapping[str, str]) -> float:
        """Run the command, and give its seconds.

        Raises:
            RunError: it failed.
            Cancelled: it was stopped.
        """
        given = [f"{name}={value}" for name, value in variables.items()]
        command = Command(self.supervisor, ["env", *given, *self.command.words], is_quiet=True)
        try:
            self.say(f"running {self.command}")
            begun_ns = time.monotonic_ns()
            watch.measurement_begins(begun_ns)
            command.begin()
            while not command.has_ended(_LOOK_SECONDS):
                if self.stop.is_set():
                    raise Cancelled("stopped within a run of the command")
            ended_ns = time.monotonic_ns()
            self._write_back()
            watch.measurement_ends(time.monotonic_ns())
        finally:
            code = command.close()
        if code != 0:
            raise RunError(f"{self.command}: exit {code}: its run is no measurement")
        return (ended_ns - begun_ns) / 1e9

    def _write_back(self) -> None:
        if self.server is not None:
            self.server.query("CHECKPOINT")
        for folder in (self.base, *([] if self.log is None else [self.log])):
            tool("sync", "--file-system", folder)

    def _close(self) -> None:
        if self.server is not None:
            self.server.stop()

    def check(self) -> list[str]:
        """See `TrialLoad`: by the database's own tools, as far as it has some."""
        if self.server is not None:
            self._start(self.server)
            try:
                return check_cluster(self.server)
            finally:
                self._close()
        return check_sqlite(self.copy) if self.command.kind() is Data.SQLITE else []


def about(command: OwnCommand) -> dict[str, Any]:
    """Give a command as JSON holds it, with what its data is."""
    return {"words": list(command.words), "data": command.data, "identity": command.identity()}
