"""A PostgreSQL server of our own, in a folder, run as an unprivileged user."""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import psycopg

from volume import tool

_CHECKPOINT = re.compile(r"^(\d+\.\d+) .*checkpoint (starting: (.*)|complete: wrote (\d+) buffers)")


def find_binaries() -> Path:
    """Find the folder of PostgreSQL's server programs: beside `postgres` on PATH, or Debian's newest.

    Raises:
        RuntimeError: there is none.
    """
    on_path = shutil.which("postgres")
    if on_path:
        return Path(on_path).resolve().parent
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: float(path.parts[-3]))
    if not installed:
        raise RuntimeError(
            "no PostgreSQL server found: install it (Debian: apt-get install postgresql), or use --postgres-bin"
        )
    return installed[-1].parent


class Server:
    """A cluster in `data`, reached through a socket in `run_dir`, with the log (not on the recorded device)."""

    def __init__(self, binaries: Path, data: Path, run_dir: Path, user: str) -> None:
        """Do nothing yet.

        Raises:
            RuntimeError: there is no such user.
        """
        try:
            account = pwd.getpwnam(user)
        except KeyError:
            raise RuntimeError(
                f"there is no user {user}: PostgreSQL refuses to run as root; name one with --user"
            ) from None
        self._owner = (account.pw_uid, account.pw_gid)
        self._as_user = ["setpriv", f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--clear-groups"]
        self._binaries = binaries
        self.data = data
        self._run_dir = run_dir
        self._process: subprocess.Popen[bytes] | None = None
        self.log = run_dir / "postgresql.log"

    @property
    def conninfo(self) -> str:
        """The libpq connection string."""
        return f"host={self._run_dir} dbname=postgres user=tpcc"

    def version(self) -> str:
        """Give what `postgres --version` says."""
        return tool(self._binaries / "postgres", "--version")

    def initialise(self) -> None:
        """Make the cluster, with page checksums (as a careful user has)."""
        for folder in (self.data, self._run_dir):
            folder.mkdir(exist_ok=True)
            os.chown(folder, *self._owner)
        self.data.chmod(0o700)
        options = (
            "--auth=trust",
            "--username=tpcc",
            "--no-locale",
            "--encoding=UTF8",
            "--data-checksums",
            "--no-instructions",
        )
        tool(*self._as_user, self._binaries / "initdb", "-D", self.data, *options)

    def start(self, settings: dict[str, str], processes_file: Path | None = None) -> None:
        """Start the server, in the control group of `processes_file` if given, and wait until it answers.

        Raises:
            RuntimeError: it ended, or did not answer within a minute; the message has the end of its log.
        """
        own = {
            "listen_addresses": "",
            "unix_socket_directories": str(self._run_dir),
            "log_line_prefix": "%n ",
            "log_checkpoints": "on",
        }
        command = [*self._as_user, str(self._binaries / "postgres"), "-D", str(self.data)]
        for name, value in {**own, **settings}.items():
            command += ["-c", f"{name}={value}"]
        if processes_file is not None:
            command = ["sh", "-c", 'echo $$ > "$0" && exec "$@"', str(processes_file), *command]
        with self.log.open("ab") as log:
            # A session of its own: Ctrl-C must reach the script, which stops the server in an orderly way.
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True
            )
        for _ in range(600):
            if self._process.poll() is not None:
                break
            with contextlib.suppress(psycopg.OperationalError):
                psycopg.connect(self.conninfo).close()
                return
            time.sleep(0.1)
        tail = "\n".join(self.log.read_text().splitlines()[-10:])
        raise RuntimeError(f"the server does not answer; its log ends with\n{tail}")

    def stop(self) -> None:
        """Stop it with a last checkpoint (fast shutdown), or by force after two minutes."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(120)
        except subprocess.TimeoutExpired:
            # SIGQUIT makes the postmaster end its children too; SIGKILL would leave them behind.
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(30)
        finally:
            self._process = None

    def query(self, sql: str) -> list[dict[str, Any]]:
        """Run a statement and give its rows; a command such as CHECKPOINT has none."""
        with psycopg.connect(self.conninfo, autocommit=True) as connection:
            cursor = connection.execute(sql.encode())
            if cursor.description is None:
                return []
            names = [column.name for column in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def checkpoints(self, since: float) -> list[dict[str, float | str | int]]:
        """Give the checkpoints that started or ended after `since` (seconds since 1970), from the log."""
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
