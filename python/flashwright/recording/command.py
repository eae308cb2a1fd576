"""The command that a recording is of: started by it, waited for, and ended with it."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence

from flashwright._core import InputError
from flashwright.workloads.supervisor import Supervisor

_KEEPER = """
import ctypes, os, resource, signal, sys
gate, ended, program, *arguments = sys.argv[1:]
gate, ended = int(gate), int(ended)
os.set_inheritable(ended, False)
os.set_inheritable(gate, False)
become_reaper = 36
ctypes.CDLL(None).prctl(become_reaper, 1, 0, 0, 0)
if not os.read(gate, 1):
    sys.exit(1)
own = os.fork()
if own == 0:
    try:
        os.execv(program, [program, *arguments])
    except OSError as error:
        sys.stderr.write(f"{program}: cannot be started: {error.strerror}\\n")
        os._exit(126)
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, signal.SIG_IGN)
while True:
    pid, status = os.wait()
    if pid == own:
        break
os.close(ended)
while os.read(gate, 1):
    pass
code = os.waitstatus_to_exitcode(status)
if code >= 0:
    sys.exit(code)
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
signal.signal(-code, signal.SIG_DFL)
os.kill(os.getpid(), -code)
"""
"""Starts a program as soon as a byte comes, and never if none comes any more.

It stays for a while after the program's end, so that the kernel's counters of the program, and of
all that this has started, can still be read: they are added to those of the keeper, which takes
care of orphans too. It ends as the program has ended.
"""
_SIGNALS = ((signal.SIGINT, 5.0), (signal.SIGTERM, 5.0), (signal.SIGKILL, 5.0))


class Command:
    """A program behind a gate: `begin`, then `has_ended` or `stop`.

    `close` at the end, whatever happened, which gives its exit code.
    """

    def __init__(self, supervisor: Supervisor, words: Sequence[str], *, is_quiet: bool) -> None:
        """Start all but the program itself.

        `is_quiet`: what it prints goes to standard error, as standard output is taken.

        Raises:
            InputError: there is no such program.
            RunError: the supervisor is gone.
        """
        program = shutil.which(words[0])
        if program is None:
            raise InputError(f"{words[0]}: cannot be started: no such program")
        gate, self._gate = os.pipe()
        self._ended, ended = os.pipe()
        # A session of its own: Ctrl-C is for us, and we pass it on.
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _KEEPER, str(gate), str(ended), program, *words[1:]],
            start_new_session=True,
            pass_fds=[gate, ended],
            stdout=sys.stderr if is_quiet else None,
        )
        os.close(gate)
        os.close(ended)
        self._supervisor = supervisor
        # It begins when the supervisor knows of it.
        self._number: int | None = supervisor.undo("kill", "-TERM", "--", f"-{self.pid}")

    @property
    def pid(self) -> int:
        """The process whose children it and all that it starts are."""
        return self._process.pid

    def begin(self) -> None:
        """Let it begin."""
        with contextlib.suppress(BrokenPipeError):
            os.write(self._gate, b"\n")

    def has_ended(self, wait_s: float = 0.0) -> bool:
        """Tell whether it has ended, or does within `wait_s` seconds."""
        return bool(select.select([self._ended], [], [], wait_s)[0])

    def stop(self) -> None:
        """End it, by Ctrl-C first."""
        for number, patience_s in _SIGNALS:
            if self.has_ended():
                break
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, number)
            self.has_ended(patience_s)

    def close(self) -> int:
        """Let go of it, whatever state it is in; its exit code, or less than 0: minus a signal.

        Raises RunError if the supervisor is gone.
        """
        if self._number is not None:
            self.stop()
            os.close(self._gate)
            self._process.wait()
            os.close(self._ended)
            number, self._number = self._number, None
            self._supervisor.forget(number)
        return self._process.returncode
