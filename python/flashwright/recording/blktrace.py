"""Records with blktrace(8).

Where its relay files are allowed, and the kernel's ftrace has no `blk` tracer.
"""

from __future__ import annotations

import re
import signal
import time
from pathlib import Path

from flashwright._core import InputError, RunError
from flashwright.workloads.supervisor import Program, Supervisor

from .tools import need

_ACTIONS = ("queue", "issue", "complete", "requeue", "notify")
_DROPPED = re.compile(r"(\d+) (?:events? )?dropped", re.IGNORECASE)
_EVENT_BYTES = 48
_BEGIN_S = 2.0
_STOP = ((signal.SIGINT, 20.0), (signal.SIGTERM, 5.0), (signal.SIGKILL, 5.0))


class Blktrace:
    """Writes the events of one device, a file for each processor.

    As `BlockTracer`, but that it takes a moment to begin.
    """

    name = "blktrace"

    def __init__(self, supervisor: Supervisor, device: Path, output: Path, buffer_kib: int) -> None:
        """Do nothing yet. The files are `output` with `.0`, `.1` and so on at their ends."""
        self._supervisor = supervisor
        self._device = device
        self._output = output
        self._buffer_kib = buffer_kib
        self._program: Program | None = None
        self._log = output.with_name("blktrace.log")
        self.lost = 0
        self.commands: dict[int, str] = {}

    @property
    def events(self) -> int:
        """About how many there were so far: each takes 48 bytes, and seldom more."""
        files = self._output.parent.glob(f"{self._output.name}.*")
        return sum(path.stat().st_size for path in files) // _EVENT_BYTES

    @property
    def has_failed(self) -> bool:
        """True if it has ended by itself."""
        return self._program is not None and self._program.poll() is not None

    def prepare(self) -> None:
        """See `BlockTracer`.

        Raises:
            InputError: it is not installed.
        """
        need("blktrace")

    def start(self) -> None:
        """Record from now on, or a moment later.

        Raises:
            InputError: blktrace cannot trace here; the message has its own words.
        """
        actions = [word for action in _ACTIONS for word in ("-a", action)]
        name = self._output.name.removesuffix(".blktrace")
        command = [
            "blktrace",
            "-d",
            str(self._device),
            *actions,
            "-D",
            str(self._output.parent),
            "-o",
            name,
        ]
        # Eight sub-buffers for each processor, of this many KiB.
        command += ["-n", "8", "-b", str(max(self._buffer_kib // 8, 64))]
        self._program = self._supervisor.start(command, log=self._log, stop=_STOP)
        deadline = time.monotonic() + _BEGIN_S
        while (
            time.monotonic() < deadline
            and not self._output.with_name(f"{self._output.name}.0").exists()
        ):
            if self._program.poll() is not None:
                break
            time.sleep(0.02)
        if self._program.poll() is not None:
            raise InputError(f"blktrace cannot trace {self._device} here: {self._words()}")

    def stop(self) -> None:
        """Record no more; the files hold all that was seen.

        Raises:
            RunError: it had ended by itself; the message has its own words.
        """
        if self._program is None:
            return
        has_failed = self.has_failed
        self._program.stop()
        self._program = None
        if has_failed:
            raise RunError(f"blktrace ended by itself: {self._words()}")
        self.lost = sum(
            int(number) for number in _DROPPED.findall(self._log.read_text(errors="replace"))
        )

    def close(self) -> None:
        """End, whatever state it is in."""
        if self._program is not None:
            self._program.stop()
            self._program = None

    def _words(self) -> str:
        return " ".join(self._log.read_text(errors="replace").split()) or "it ended without a word"
