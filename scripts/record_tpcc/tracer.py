"""Records the requests of a block device with the kernel's ftrace `blk` tracer, as a blktrace stream (version 1).

blktrace(8) needs relay files in debugfs, which a locked-down kernel refuses; the tracer in tracefs needs only root.
"""

from __future__ import annotations

import os
import select
import threading
from pathlib import Path

import pyarrow as pa

from volume import tool

_TRACEFS = Path("/sys/kernel/tracing")
_ACTIONS = "issue,complete,requeue,notify"
"""`issue` (D) is what the device gets, after merging and splitting; `complete` (C) gives its latency."""


class LostEventsError(RuntimeError):
    """The kernel's buffer ran over: the recording has holes, and must not be used."""


class BlockTracer:
    """Writes every event of one device into a zstd file from `start` to `stop`. `close` puts all settings back."""

    def __init__(self, device: str, output: Path, buffer_kib_per_cpu: int) -> None:
        """Do nothing yet. `device` is a kernel name such as `loop0`."""
        self._device_trace = Path(f"/sys/block/{device}/trace")
        self._output = output
        self._buffer_kib = buffer_kib_per_cpu
        self._mounted_tracefs = False
        self._saved: list[tuple[Path, str]] = []
        self._stopping = threading.Event()
        self._reader: threading.Thread | None = None
        self._reader_error: BaseException | None = None
        self.bytes = 0

    def start(self) -> None:
        """Switch the tracer on.

        Raises:
            RuntimeError: tracefs cannot be mounted, or someone else is tracing.
        """
        if not (_TRACEFS / "current_tracer").exists():
            tool("mount", "-t", "tracefs", "nodev", _TRACEFS)
            self._mounted_tracefs = True
        tracer = (_TRACEFS / "current_tracer").read_text().strip()
        if tracer != "nop":
            raise RuntimeError(
                f"{_TRACEFS}/current_tracer is {tracer}: end the other tracing first (write nop into it)"
            )
        if "blk" not in (_TRACEFS / "available_tracers").read_text().split():
            raise RuntimeError("this kernel has no blk tracer: it needs CONFIG_BLK_DEV_IO_TRACE")
        self._set(_TRACEFS / "trace_clock", "mono")
        self._set(_TRACEFS / "buffer_size_kb", str(self._buffer_kib))
        self._set(_TRACEFS / "current_tracer", "blk")
        self._set(_TRACEFS / "options/bin", "1")
        # With it, every record would begin with ftrace's own header, which no reader of blktrace knows.
        self._set(_TRACEFS / "options/context-info", "0")
        (_TRACEFS / "trace").write_text("")
        self._reader = threading.Thread(target=self._read, name="trace reader")
        self._reader.start()
        (self._device_trace / "act_mask").write_text(_ACTIONS)
        self._saved.append((self._device_trace / "enable", "0"))
        (self._device_trace / "enable").write_text("1")

    def stop(self) -> None:
        """Switch the tracer off and wait until all that it saw is in the file.

        Raises:
            LostEventsError: the buffer ran over.
        """
        (self._device_trace / "enable").write_text("0")
        self._join()
        if self._reader_error is not None:
            raise self._reader_error
        lost = self.lost_events()
        if lost:
            raise LostEventsError(
                f"the kernel lost {lost} events: use a larger --trace-buffer-kib than {self._buffer_kib}"
            )

    def lost_events(self) -> int:
        """Count the events that found no room in the buffer since it was last emptied, over all CPUs."""
        lost = 0
        for stats in _TRACEFS.glob("per_cpu/cpu*/stats"):
            for line in stats.read_text().splitlines():
                name, _, value = line.partition(":")
                if name in ("overrun", "commit overrun", "dropped events"):
                    lost += int(value)
        return lost

    def commands(self) -> dict[int, str]:
        """Give the command of each process id that the kernel remembers."""
        lines = (_TRACEFS / "saved_cmdlines").read_text().splitlines()
        return {int(pid): command for pid, _, command in (line.partition(" ") for line in lines)}

    def close(self) -> None:
        """Put back every setting, whatever state the tracing is in."""
        try:
            self._join()
        finally:
            while self._saved:
                path, value = self._saved.pop()
                if path.exists():
                    path.write_text(value)
            if self._mounted_tracefs:
                tool("umount", _TRACEFS)
                self._mounted_tracefs = False

    def _set(self, path: Path, value: str) -> None:
        old = path.read_text().strip()
        if "[" in old:
            old = old.partition("[")[2].partition("]")[0]
        self._saved.append((path, old.split()[0]))
        path.write_text(value)

    def _join(self) -> None:
        if self._reader is not None:
            self._stopping.set()
            self._reader.join()
            self._reader = None

    def _read(self) -> None:
        try:
            pipe = os.open(_TRACEFS / "trace_pipe", os.O_RDONLY | os.O_NONBLOCK)
            try:
                with pa.CompressedOutputStream(pa.OSFile(str(self._output), "wb"), "zstd") as out:
                    while True:
                        # Asked before the read: what was traced before `stop` is still read after it.
                        last = self._stopping.is_set()
                        try:
                            data = os.read(pipe, 1 << 16)
                        except BlockingIOError:
                            data = b""
                        if data:
                            out.write(data)
                            self.bytes += len(data)
                        elif last:
                            return
                        else:
                            select.select([pipe], [], [], 0.05)
            finally:
                os.close(pipe)
        except BaseException as error:
            self._reader_error = error
