"""Records the requests of a block device with the kernel's ftrace `blk` tracer, as a blktrace stream.

blktrace(8) needs relay files in debugfs, which a locked-down kernel refuses; the tracer in tracefs needs only root. What it writes
is read by everything that reads blktrace. About 2 us of a processor's time for each request.
"""

from __future__ import annotations

import fcntl
import os
import re
import select
import threading
import time
from pathlib import Path

from flashwright._core import InputError, RunError

from .tracefs import ROOT, Tracefs, commands, current, lost_events

ACTIONS = "queue,issue,complete,requeue,notify"
"""`queue` (Q) is what the file system sends, before it is merged and split; `issue` (D) is what the device gets; `complete` (C)
gives the latency."""
BUFFER_KIB = 16_384
"""Of the kernel's buffer, for each processor: some 170,000 events."""
_ONE_READ = 1 << 16
_IDLE_S = 0.05
_LOST_END = b"EVENTS]\n"
_LOST = re.compile(rb"CPU:\d+ \[LOST (?:\d+ )?EVENTS\]\n")
"""Linux kernel/trace/trace.c, print_trace_line."""
_TIDY_S = 5.0


def is_there() -> bool:
    """Tell whether the kernel has the tracer; tracefs has to be mounted."""
    tracers = ROOT / "available_tracers"
    return tracers.exists() and "blk" in tracers.read_text().split()


def _free_tracer() -> str:
    """Give the tracer that is set; wait a moment for one that was killed, whose supervisor is about to put it back."""
    deadline = time.monotonic() + _TIDY_S
    while (tracer := current(ROOT / "current_tracer")) == "blk" and time.monotonic() < deadline:
        time.sleep(_IDLE_S)
    return tracer


def without_losses(data: bytes) -> bytes:
    """Take out the lines of text that the kernel puts between binary records where it lost some; how many, it tells at the end.

    `data` is what one read of trace_pipe gave: lines are whole in it.
    """
    return _LOST.sub(b"", data) if _LOST_END in data else data


class BlockTracer:
    """Writes every event of one device into a file, from `start` to `stop`. In order: `prepare`, `start`, `stop`, `close`."""

    name = "ftrace"

    def __init__(self, tracefs: Tracefs, device_trace: Path, output: Path, buffer_kib: int = BUFFER_KIB) -> None:
        """Do nothing yet. `device_trace`: the folder `trace` of the device in /sys. `output` is appended to as events come."""
        self._tracefs = tracefs
        self._device = device_trace
        self._output = output
        self._buffer_kib = buffer_kib
        self._stopping = threading.Event()
        self._reader: threading.Thread | None = None
        self._reader_error: BaseException | None = None
        self.bytes = 0
        self.lost = 0
        self.commands: dict[int, str] = {}

    def prepare(self) -> None:
        """Set the tracer up, so that `start` takes no time.

        Raises:
            InputError: somebody else is tracing, or the kernel has no such tracer.
        """
        tracer = _free_tracer()
        if tracer != "nop":
            raise InputError(f"{ROOT}/current_tracer is {tracer}: end the other tracing first (write nop into it)")
        if not is_there():
            raise InputError("this kernel has no blk tracer: it needs CONFIG_BLK_DEV_IO_TRACE")
        if not (self._device / "enable").exists():
            raise InputError(f"{self._device}: the device cannot be traced")
        if current(self._device / "enable") != "0":
            raise InputError(f"{self._device}/enable is on: end the other tracing first (write 0 into it)")
        for path, value in (
            # First, and so put back last: when it is free again, the supervisor of a recording that was killed has done the rest.
            (ROOT / "current_tracer", "blk"),
            (ROOT / "trace_clock", "mono"),
            (ROOT / "buffer_size_kb", str(self._buffer_kib)),
            (ROOT / "options/bin", "1"),
            # With it, every record would begin with ftrace's own header, which no reader of blktrace knows.
            (ROOT / "options/context-info", "0"),
            (ROOT / "tracing_on", "1"),
        ):
            self._tracefs.set(path, value)
        (ROOT / "trace").write_text("")
        self._tracefs.at_end(self._device / "enable", "0")
        self._reader = threading.Thread(target=self._read, name="trace reader", daemon=True)
        self._reader.start()

    def start(self) -> None:
        """Record from now on."""
        # The kernel begins as soon as it knows what to record.
        (self._device / "act_mask").write_text(ACTIONS)
        (self._device / "enable").write_text("1")

    def stop(self) -> None:
        """Record no more, and wait until all that was seen is in the file; `bytes`, `lost` and `commands` are right then.

        Raises:
            RunError: the file could not be written.
        """
        (self._device / "enable").write_text("0")
        self._join()
        self.lost = lost_events()
        self.commands = commands()
        if self._reader_error is not None:
            raise RunError(f"{self._output}: {self._reader_error}") from self._reader_error

    def close(self) -> None:
        """End, whatever state it is in. The settings go back with the `Tracefs`."""
        if self._reader is not None:
            if (self._device / "enable").exists():
                (self._device / "enable").write_text("0")
            self._join()

    def _join(self) -> None:
        if self._reader is not None:
            self._stopping.set()
            self._reader.join()
            self._reader = None

    def _read(self) -> None:
        try:
            pipe = os.open(ROOT / "trace_pipe", os.O_RDONLY | os.O_NONBLOCK)
            try:
                with self._output.open("wb", buffering=0) as out:
                    # Of this process alone, and gone with it: whoever would finish the recording sees that it goes on.
                    fcntl.lockf(out, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    while True:
                        # Asked before the read: what was traced before `stop` is still read after it.
                        last = self._stopping.is_set()
                        try:
                            data = os.read(pipe, _ONE_READ)
                        except BlockingIOError:
                            data = b""
                        if data:
                            data = without_losses(data)
                            out.write(data)
                            self.bytes += len(data)
                        elif last:
                            return
                        else:
                            select.select([pipe], [], [], _IDLE_S)
            finally:
                os.close(pipe)
        except BaseException as error:
            self._reader_error = error
