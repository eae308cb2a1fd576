"""The supervising process.

One thread, the standard library alone: reads requests as lines of JSON, answers each with a line.
At the end of its input, wanted or not, it stops its programs and undoes what it was told of.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

_PR_SET_PDEATHSIG = 1


class Programs:
    """Programs that were started and have not been seen to end, in order."""

    def __init__(self) -> None:
        self._running: dict[int, tuple[subprocess.Popen[bytes], list[list[float]]]] = {}
        self._codes: dict[int, int] = {}
        self._libc = ctypes.CDLL(None, use_errno=True)

    def start(self, request: dict[str, Any]) -> int:
        """Start a program and give its process id."""
        account, group, stop = request["account"], request["control_group"], request["stop"]
        ours = os.getpid()

        def before() -> None:
            # In this order: the group can be joined only by root, and a change of user forgets the
            # signal of the parent's end.
            if group is not None:
                Path(group).write_text(str(os.getpid()))
            if account is not None and os.geteuid() == 0:
                os.setgroups([])
                os.setgid(account[1])
                os.setuid(account[0])
            self._libc.prctl(_PR_SET_PDEATHSIG, int(stop[0][0]), 0, 0, 0)
            for ignored in _IGNORED:
                signal.signal(ignored, signal.SIG_DFL)
            if os.getppid() != ours:
                os._exit(1)

        # Where the folder of a log is another user's, a link would lead anywhere.
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(request["log"], flags, 0o644), "ab") as log:
            process = subprocess.Popen(
                request["command"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=before,  # noqa: PLW1509  (there is one thread)
                start_new_session=True,
                cwd=request["folder"],
                env={**request["base"], **request["environment"]},
            )
        self._running[process.pid] = (process, stop)
        return process.pid

    def poll(self, pid: int) -> int | None:
        """Give the exit code of a program; None while it runs."""
        if pid in self._running:
            process, _ = self._running[pid]
            code = process.poll()
            if code is None:
                return None
            del self._running[pid]
            self._codes[pid] = code
        return self._codes[pid]

    def stop(self, pid: int) -> int:
        """Stop a program with its signals, and give its exit code."""
        if self.poll(pid) is None:
            process, stop = self._running[pid]
            for number, seconds in stop:
                process.send_signal(int(number))
                try:
                    process.wait(seconds)
                    break
                except subprocess.TimeoutExpired:
                    continue
        return self.poll(pid) or 0

    def stop_all(self) -> None:
        """Stop all, the last first."""
        for pid in reversed(list(self._running)):
            self.stop(pid)


def undo(entry: dict[str, Any]) -> None:
    """Remove a folder, or run a command; what fails does not keep the rest from being undone."""
    if "remove" in entry:
        path = Path(entry["remove"])
        for _ in range(20):
            shutil.rmtree(path, ignore_errors=True)
            if not path.exists():
                return
            # A process that was just ended by force may write for a moment longer.
            time.sleep(0.1)
    else:
        subprocess.run(entry["command"], stdin=subprocess.DEVNULL, capture_output=True, check=False)


def answer(
    request: dict[str, Any], programs: Programs, to_undo: list[dict[str, Any]]
) -> dict[str, Any]:
    """Do what a request says."""
    match request["op"]:
        case "start":
            return {"pid": programs.start(request)}
        case "poll":
            return {"code": programs.poll(request["pid"])}
        case "stop":
            return {"code": programs.stop(request["pid"])}
        case "undo":
            to_undo.append(request)
            return {}
        case "forget":
            to_undo[:] = [entry for entry in to_undo if entry["number"] != request["number"]]
            return {}
    raise ValueError(f"unknown request {request['op']}")


def tidy(programs: Programs, to_undo: list[dict[str, Any]]) -> None:
    """Stop and undo everything."""
    programs.stop_all()
    while to_undo:
        undo(to_undo.pop())


def say(answered: dict[str, Any]) -> None:
    """Write an answer; nobody may be there to read it."""
    try:
        sys.stdout.write(json.dumps(answered) + "\n")
        sys.stdout.flush()
    except OSError:
        pass


_IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE)


def main() -> None:
    """Serve until the end of the input."""
    for ignored in _IGNORED:
        signal.signal(ignored, signal.SIG_IGN)
    programs, to_undo = Programs(), list[dict[str, Any]]()
    for line in sys.stdin:
        request = json.loads(line)
        if request["op"] == "close":
            tidy(programs, to_undo)
            say({})
            continue
        try:
            say(answer(request, programs, to_undo))
        except (OSError, subprocess.SubprocessError) as error:
            say({"error": f"{request.get('command', ['?'])[0]}: {error}"})
    tidy(programs, to_undo)


if __name__ == "__main__":
    main()
