"""A database that somebody else has started: its files, and the processes that use them."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from flashwright._core import InputError, RunError
from flashwright._paths import open_plain, read_plain, user_name
from flashwright._text import one_line

from .asking import ask
from .files import POSTGRES_RELATIONS, Named, postgres_relations
from .path import Names

KINDS = ("postgres", "sqlite", "files")
_PID_FILE = "postmaster.pid"
_SQLITE_HEAD = b"SQLite format 3\0"
_SQLITE_ENDS = ("", "-wal", "-journal", "-shm")


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
    """Gaps in what is known of its files, in words."""

    @staticmethod
    def find(
        kind: str, path: Path, pids: tuple[int, ...] = (), *, is_made_by_command: bool = False
    ) -> Running:
        """Find the database.

        `is_made_by_command`: a command is recorded, which may make the file or folder itself.

        Raises InputError if there is none, or a process is not there.
        """
        if kind not in KINDS:
            raise InputError(f"--database {kind}: it must be one of {', '.join(KINDS)}")
        if not path.exists():
            _check_may_be_made(kind, path, is_made_by_command=is_made_by_command)
        for pid in pids:
            if not Path(f"/proc/{pid}").exists():
                raise InputError(f"--pid {pid}: there is no such process")
        resolved = path.resolve()
        if kind == "postgres":
            pids = (_postmaster(resolved), *pids)
        elif kind == "sqlite" and resolved.exists():
            _check_sqlite(resolved)
        return Running(kind, resolved, pids)

    @property
    def place(self) -> Path:
        """Path of the database, or its folder if it is not made yet."""
        return self.path if self.path.exists() else self.path.parent

    @property
    def roots(self) -> list[Path]:
        """Folders and files that are the database's."""
        if self.kind == "sqlite":
            return [Path(f"{self.path}{end}") for end in _SQLITE_ENDS]
        if self.kind == "postgres":
            return [self.path, *self._linked()]
        return [self.path]

    def _linked(self) -> Iterator[Path]:
        """Give what links of a data directory lead to, if it is its owner's own.

        The links are the owner's, who could have root look through anybody's files.
        """
        owner = self.path.stat().st_uid
        if not os.access(self.path, os.R_OK | os.X_OK):
            self._note(f"where the log and tablespaces are: {self.path} is closed to us")
            return
        for link in (self.path / "pg_wal", *sorted((self.path / "pg_tblspc").glob("*"))):
            if not link.is_symlink():
                continue
            target = link.resolve()
            try:
                found = target.lstat().st_uid
            except OSError as error:
                self._note(f"what {target} gets, to which {link} leads: {error.strerror}")
                continue
            if found == owner:
                yield target
            else:
                self._note(
                    f"what {target} gets, to which {link} leads: it belongs to "
                    f"{user_name(found)}, the database to {user_name(owner)}"
                )

    def _note(self, what: str) -> None:
        if what not in self.not_told:
            self.not_told.append(what)

    def names(self) -> Names:
        """Say what its files are for, asking it where it can be asked.

        What it does not tell is noted in `not_told`.
        """
        names = Names(self.roots, "" if self.kind == "files" else self.kind, self.path)
        if self.kind == "postgres":
            try:
                names.relations, refused = _relations(self.path)
            except (InputError, RunError, OSError) as error:
                refused = [str(error)]
            for why in refused:
                self._note(f"which files are of tables and which of indexes: {why}")
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


def _check_may_be_made(kind: str, path: Path, *, is_made_by_command: bool) -> None:
    what = f"--database {kind} {path}"
    if kind == "postgres":
        raise InputError(f"{what}: no such folder; `SHOW data_directory` says where it is")
    if not path.resolve().parent.is_dir():
        raise InputError(f"{what}: no such folder as {path.resolve().parent}")
    if not is_made_by_command:
        raise InputError(
            f"{what}: no such file or folder; if it is to be made, give the command that makes it, "
            "after --"
        )


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
        return read_plain(path, owner=data.stat().st_uid).splitlines()
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
    if not os.access(data, os.X_OK):
        return _by_command_line(data)
    first = _pid_lines(data)[:1]
    if not first or not (first[0].isascii() and first[0].strip().isdecimal()):
        raise InputError(
            f"{data / _PID_FILE}: its first line is no process; right would be that of a server "
            "that runs"
        )
    pid = int(first[0])
    place: Path | None = None
    try:
        place = Path(f"/proc/{pid}/cwd").resolve(strict=True)
    except PermissionError:
        # Only its own user and root see it: others take the word of who owns the folder.
        is_owners = Path(f"/proc/{pid}").stat().st_uid == data.stat().st_uid
        place = data if is_owners else None
    except OSError:
        pass
    # It changes into its data directory; a process of that number that is elsewhere is another's.
    if place != data:
        raise InputError(
            f"--database postgres {data}: no server runs on it: process {pid} of its {_PID_FILE} "
            "is gone; start it first"
        )
    return pid


def _by_command_line(data: Path) -> int:
    """Give the server of a folder that is closed to us: its first process names it."""
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        try:
            words = (process / "cmdline").read_bytes().decode(errors="surrogateescape").split("\0")
        except OSError:
            continue
        named = [
            word.removeprefix("-D") or following
            for word, following in itertools.pairwise(words)
            if word.startswith("-D")
        ]
        if named and Path(named[0]).resolve() == data:
            return int(process.name)
    raise InputError(
        f"--database postgres {data}: it is closed to this user, and no server that runs names it "
        f"by -D; right would be to run as {user_name(data.stat().st_uid)} or with sudo"
    )


def _check_sqlite(path: Path) -> None:
    try:
        with os.fdopen(open_plain(path), "rb") as file:
            head = file.read(len(_SQLITE_HEAD))
    except OSError as error:
        raise InputError(f"--database sqlite {path}: {error.strerror}") from error
    # A database that was just made is empty.
    if head not in (b"", _SQLITE_HEAD):
        raise InputError(
            f"--database sqlite {path}: no database of SQLite, which begins with `SQLite format 3`"
        )


def _relations(data: Path) -> tuple[dict[str, Named], list[str]]:
    """Ask a server what is in each file, as the user that the data directory belongs to.

    The role is PGUSER, or that user; no other variable counts, and a password comes from that
    user's own ~/.pgpass. Also gives which databases did not tell, in words.

    Raises:
        RunError: it does not tell at all.
        InputError, OSError: its postmaster.pid cannot be read.
    """
    owner = data.stat().st_uid
    if owner == 0:
        raise RunError(f"{data} belongs to root, and no server of PostgreSQL runs as root")
    name = user_name(owner)
    port, sockets = address(data)
    keywords = {
        "host": sockets,
        "port": port,
        "user": os.environ.get("PGUSER") or name,
        # Before anything is sent to it: another user may listen in /tmp while the server is down.
        "requirepeer": name,
    }
    answer = ask(owner, "postgres", keywords=keywords, sql=POSTGRES_RELATIONS)
    try:
        rows = [{key: _plain(value) for key, value in row.items()} for row in answer["rows"]]
        return postgres_relations(rows), [one_line(str(one)) for one in answer["not_told"]]
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise RunError(f"its answer is none that a server gives: {error!r}") from None


def _plain(value: object) -> object:
    """Give a name as text that any file can hold."""
    return (
        value.encode(errors="surrogateescape").decode(errors="backslashreplace")
        if isinstance(value, str)
        else value
    )


def address(data: Path) -> tuple[str, str]:
    """Give port and folder of a server's socket, as its owner says.

    Raises RunError if it has none.
    """
    port, sockets, *_ = *_pid_lines(data)[3:5], "", ""
    if not (port.isascii() and port.isdecimal() and 0 < int(port) < 1 << 16):
        raise RunError(f"{data / _PID_FILE}: line 4 is no port: {one_line(port)!r}")
    # Anything else would be a host name to libpq; a comma begins a second one.
    if not sockets.startswith(("/", "@")) or "," in sockets:
        raise RunError(
            f"{data / _PID_FILE}: line 5 is no folder of a Unix socket, the only way that it is "
            f"asked: {one_line(sockets)!r}"
        )
    return port, sockets
