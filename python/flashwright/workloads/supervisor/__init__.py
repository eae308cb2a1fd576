"""Makes sure that nothing is left behind.

A process beside ours that starts programs for us, and tidies up when we are gone. It lives on when
we are killed, sees the end of its pipe, stops what it has started, and undoes the rest (folders
removed, commands run) in reverse order. When it is killed itself, its programs get a signal from
the kernel, and our next word to it fails.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from flashwright._core import InputError, RunError
from flashwright._paths import check_trusted

_PROGRAM = Path(__file__).parent / "__main__.py"
STOP_AT_ONCE: tuple[tuple[int, float], ...] = ((signal.SIGTERM, 5.0), (signal.SIGKILL, 5.0))


@dataclass(frozen=True)
class Account:
    """A user of the system, by numbers."""

    uid: int
    gid: int


_PASSED_ON = ("LANG", "LC_ALL", "LC_MESSAGES", "TZ")
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def clean_environment() -> dict[str, str]:
    """Give the environment of a program that runs as another user, who may read all of it.

    The PATH is the system's, as ours may lead into folders that are closed to that user.
    """
    kept = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    return {"PATH": _PATH, **kept}


class Supervisor:
    """The process beside ours. Used as a context: its end undoes everything."""

    def __init__(self) -> None:
        """Start it."""
        # A session of its own: Ctrl-C is for us to deal with. Isolated, and without our package: it
        # is there at once.
        self._process = subprocess.Popen(
            [sys.executable, "-I", str(_PROGRAM)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            text=True,
        )
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._to_undo: dict[int, Path | list[str]] = {}

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def __enter__(self) -> Supervisor:
        """Give itself."""
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        """Undo everything, and end it. Its own trouble does not hide that of the work."""
        try:
            self._ask(op="close")
        except RunError:
            # It was killed, and its programs got a signal from the kernel: the rest is left to us.
            for entry in reversed(self._to_undo.values()):
                _undo(entry)
            if error is None:
                raise
        finally:
            with contextlib.suppress(OSError):
                self._pipe(self._process.stdin).close()
            self._process.wait()
            self._pipe(self._process.stdout).close()

    def start(
        self,
        command: Sequence[str | Path],
        *,
        log: Path,
        account: Account | None = None,
        control_group: Path | None = None,
        stop: Sequence[tuple[int, float]] = STOP_AT_ONCE,
        folder: Path | None = None,
        environment: dict[str, str] | None = None,
    ) -> Program:
        """Start a program, its output appended to `log`.

        `account`: the user that it runs as; ours if None. `control_group`: the `cgroup.procs` of a
        group that it joins. `stop`: signals that end it, each with the seconds after which the next
        is sent; the first is also what it gets when the supervisor is killed. `folder`: its working
        folder. `environment`: variables beside ours; with an account beside `clean_environment`.

        Raises:
            RunError: it cannot be started, or the supervisor is gone.
        """
        said = self._ask(
            op="start",
            command=[str(word) for word in command],
            log=str(log),
            account=None if account is None else [account.uid, account.gid],
            control_group=None if control_group is None else str(control_group),
            stop=[[int(number), seconds] for number, seconds in stop],
            folder=None if folder is None else str(folder),
            environment=environment or {},
            # Who becomes another user takes nothing of ours along.
            base=dict(os.environ) if account is None else clean_environment(),
        )
        return Program(self, int(said["pid"]))

    def folder(self, parent: Path, prefix: str, mode: int = 0o711) -> Path:
        """Make a folder of our own in `parent`, which is removed at the end.

        Raises:
            InputError: another user may put something else in its place.
            RunError: the supervisor is gone.
            OSError: the folder cannot be made.
        """
        try:
            check_trusted(parent)
        except PermissionError as error:
            raise InputError(f"{parent}: {error.strerror}") from error
        path = parent.absolute() / f"{prefix}{secrets.token_hex(4)}"
        # Told first: between the two we may be killed.
        self._will_undo(path)
        path.mkdir(mode=mode)
        path.chmod(mode)
        return path

    def undo(self, *command: str | Path) -> int:
        """Have a command run at the end.

        Say so before doing what it undoes; it must do no harm if there is nothing to undo. Gives a
        number for `forget`.

        Raises:
            RunError: the supervisor is gone.
        """
        return self._will_undo([str(word) for word in command])

    def forget(self, number: int) -> None:
        """Do not run a command of `undo` any more: it is undone already.

        Raises:
            RunError: the supervisor is gone.
        """
        del self._to_undo[number]
        self._ask(op="forget", number=number)

    def _will_undo(self, entry: Path | list[str]) -> int:
        number = next(self._numbers)
        said = {"remove": str(entry)} if isinstance(entry, Path) else {"command": entry}
        self._ask(op="undo", number=number, **said)
        self._to_undo[number] = entry
        return number

    def _ask(self, **request: Any) -> dict[str, Any]:
        with self._lock:
            try:
                self._pipe(self._process.stdin).write(json.dumps(request) + "\n")
                self._pipe(self._process.stdin).flush()
                line = self._pipe(self._process.stdout).readline()
            except (OSError, ValueError):
                line = ""
        if not line:
            raise RunError("the supervising process was killed: the run is given up")
        said: dict[str, Any] = json.loads(line)
        if "error" in said:
            raise RunError(said["error"])
        return said

    @staticmethod
    def _pipe(pipe: Any) -> Any:
        if pipe is None:
            raise AssertionError("the supervisor was started with pipes")
        return pipe


def _undo(entry: Path | list[str]) -> None:
    """Remove a folder, in which a program may write for a moment longer, or run a command."""
    if isinstance(entry, list):
        subprocess.run(entry, stdin=subprocess.DEVNULL, capture_output=True, check=False)
        return
    for _ in range(50):
        shutil.rmtree(entry, ignore_errors=True)
        if not entry.exists():
            return
        time.sleep(0.1)


class Program:
    """A program that the supervisor has started."""

    def __init__(self, supervisor: Supervisor, pid: int) -> None:
        self._supervisor = supervisor
        self.pid = pid

    def poll(self) -> int | None:
        """Give its exit code, negative after a signal; None while it runs."""
        code: int | None = self._supervisor._ask(op="poll", pid=self.pid)["code"]
        return code

    def wait(self, seconds: float) -> int | None:
        """Wait for its end; give its exit code, or None if it still runs after so long."""
        until = time.monotonic() + seconds
        while (code := self.poll()) is None and time.monotonic() < until:
            time.sleep(0.02)
        return code

    def stop(self) -> int:
        """Stop it as `start` was asked to, and give its exit code."""
        code: int = self._supervisor._ask(op="stop", pid=self.pid)["code"]
        return code
