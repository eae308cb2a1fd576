"""A database that somebody else has started: its files, and the processes that use them."""

from __future__ import annotations

import csv
import io
import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from flashwright._core import InputError, RunError

from .files import POSTGRES_RELATIONS, Named, postgres_relations
from .path import Names

KINDS = ("postgres", "sqlite", "files")
_PID_FILE = "postmaster.pid"
_SQLITE_HEAD = b"SQLite format 3\0"
_SQLITE_ENDS = ("", "-wal", "-journal", "-shm")
_PSQL_S = 30.0


@dataclass(frozen=True)
class Running:
    """A database that runs, or may be run at any moment.

    `kind`: `postgres` with its data directory, `sqlite` with its file, or `files` with any folder
    or file of a program's. `pids`: processes that are its own whatever they have open.
    """

    kind: str
    path: Path
    pids: tuple[int, ...] = ()
    not_told: list[str] = field(default_factory=list)
    """What is not known of its files, in words."""

    @staticmethod
    def find(kind: str, path: Path, pids: tuple[int, ...] = ()) -> Running:
        """Find the database.

        Raises InputError if there is none, or a process is not there.
        """
        if kind not in KINDS:
            raise InputError(f"--database {kind}: it must be one of {', '.join(KINDS)}")
        if not path.exists():
            raise InputError(f"--database {kind} {path}: no such file or folder")
        for pid in pids:
            if not Path(f"/proc/{pid}").exists():
                raise InputError(f"--pid {pid}: there is no such process")
        resolved = path.resolve()
        if kind == "postgres":
            pids = (_postmaster(resolved), *pids)
        elif kind == "sqlite":
            _check_sqlite(resolved)
        return Running(kind, resolved, pids)

    @property
    def roots(self) -> list[Path]:
        """Folders and files that are the database's."""
        if self.kind == "sqlite":
            return [Path(f"{self.path}{end}") for end in _SQLITE_ENDS]
        if self.kind == "postgres":
            linked = [self.path / "pg_wal", *(self.path / "pg_tblspc").glob("*")]
            return [self.path, *(one.resolve() for one in linked if one.is_symlink())]
        return [self.path]

    def names(self) -> Names:
        """Say what its files are for, asking it where it can be asked.

        What it does not tell is noted in `not_told`.
        """
        names = Names(self.roots, "" if self.kind == "files" else self.kind, self.path)
        if self.kind == "postgres":
            try:
                names.relations = _relations(self.path)
            except (RunError, OSError, subprocess.SubprocessError) as error:
                said = f"which files are of tables and which of indexes: {error}"
                if said not in self.not_told:
                    self.not_told.append(said)
        names.not_told = list(self.not_told)
        return names

    def processes(self) -> list[int]:
        """Give the processes whose calls are the database's now, without their children.

        Those that were named, a server's first one, and all that have one of its files open.
        """
        known = set(self.pids)
        if self.kind != "postgres":
            # Ourselves, as what we start is traced as our child.
            known |= {pid for pid in _having_open(self.roots) if pid != os.getpid()}
        return sorted(known)


def _having_open(roots: list[Path]) -> Iterator[int]:
    whole = {str(root) for root in roots}
    below = tuple(f"{root}/" for root in roots)
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        try:
            links = [os.readlink(fd) for fd in os.scandir(process / "fd")]  # noqa: PTH115
        except OSError:
            # It is gone, or of the kernel.
            continue
        names = (link.removesuffix(" (deleted)") for link in links)
        if any(name in whole or name.startswith(below) for name in names):
            yield int(process.name)


def _pid_lines(data: Path) -> list[str]:
    path = data / _PID_FILE
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        is_there = (data / "PG_VERSION").is_file()
        what = (
            "no server runs on it: start it first"
            if is_there
            else "no data directory of PostgreSQL, which has a PG_VERSION; `SHOW data_directory` "
            "says where it is"
        )
        raise InputError(f"--database postgres {data}: {what}") from None
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error


def _postmaster(data: Path) -> int:
    """Give the server's first process, of which all others are children."""
    pid = int(_pid_lines(data)[0])
    try:
        place = Path(f"/proc/{pid}/cwd").resolve(strict=True)
    except OSError:
        place = None
    # It changes into its data directory; a process of that number that is elsewhere is another's.
    if place != data:
        raise InputError(
            f"--database postgres {data}: no server runs on it: process {pid} of its {_PID_FILE} "
            "is gone; start it first"
        )
    return pid


def _check_sqlite(path: Path) -> None:
    try:
        with path.open("rb") as file:
            head = file.read(len(_SQLITE_HEAD))
    except OSError as error:
        raise InputError(f"--database sqlite {path}: {error.strerror}") from error
    # A database that was just made is empty.
    if head not in (b"", _SQLITE_HEAD):
        raise InputError(
            f"--database sqlite {path}: no database of SQLite, which begins with `SQLite format 3`"
        )


def _relations(data: Path) -> dict[str, Named]:
    """Ask a server what is in each file, as the user that it belongs to.

    Variables such as PGUSER and PGPASSWORD are psql's.

    Raises RunError if it does not tell.
    """
    found: dict[str, Named] = {}
    for row in _rows(data, "postgres", "SELECT datname FROM pg_database WHERE datallowconn"):
        found |= postgres_relations(_rows(data, str(row["datname"]), POSTGRES_RELATIONS))
    return found


def _psql(server: int) -> str:
    """Find psql: the server's own, or one that is installed."""
    beside = Path(f"/proc/{server}/exe").resolve().parent / "psql"
    newest = sorted(Path("/usr/lib/postgresql").glob("*/bin/psql"))
    installed = shutil.which("psql") or (str(newest[-1]) if newest else None)
    program = str(beside) if beside.is_file() else installed
    if program is None:
        raise RunError("psql is not installed (Debian: apt-get install postgresql-client)")
    return program


def _rows(data: Path, database: str, sql: str) -> list[Mapping[str, str | None]]:
    lines = _pid_lines(data)
    port, sockets = (lines[3], lines[4]) if len(lines) > 4 else ("5432", "")
    try:
        owner = pwd.getpwuid(data.stat().st_uid).pw_name
    except KeyError as error:
        raise RunError(f"{data} belongs to a user without a name") from error
    command = [
        _psql(int(lines[0])),
        "--no-psqlrc",
        "--csv",
        "--no-password",
        "-p",
        port,
        "-d",
        database,
    ]
    command += ["-h", sockets] if sockets else []
    done = subprocess.run(
        ["runuser", "-u", owner, "--", *command, "-c", sql],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_PSQL_S,
        check=False,
        cwd="/",
    )
    if done.returncode != 0:
        said = " ".join(done.stderr.split())
        raise RunError(f"psql as {owner}: {said or f'exit {done.returncode}'}")
    rows = csv.DictReader(io.StringIO(done.stdout))
    return [{name: value or None for name, value in row.items()} for row in rows]
