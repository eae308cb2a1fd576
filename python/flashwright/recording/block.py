"""Records the requests of a block device with the kernel's ftrace `blk` tracer.

blktrace(8) needs relay files in debugfs, which a locked-down kernel refuses; the tracer in tracefs
needs only root. While it records, whole pages of the kernel's buffer move into a file for each
processor, unread; `block_pages` makes a blktrace stream of them afterwards. What it costs is in
docs/recording.md.
"""

from __future__ import annotations

import errno
import threading
import time
from pathlib import Path

from flashwright._core import InputError, RunError

from .block_pages import Header, name_of
from .call_copier import Pages
from .tracefs import ROOT, Tracefs, at_hand, commands, current, entries, lost_events

ACTIONS = "queue,issue,complete,requeue,notify"
"""`queue` (Q) is what the file system sends, before it is merged and split; `issue` (D) is what the
device gets; `complete` (C) gives the latency.
"""
BUFFER_KIB = 16_384
"""Size of the kernel's buffer, for each processor: some 300,000 events."""
_LOOK_S = 0.25
"""Between two looks at the buffer: what came since is lost if we are killed."""
_BUSY_S = 0.01
"""The same, where a look found a good part of the buffer full."""
_BUSY_SHARE = 1 / 8
_TIDY_S = 5.0


def is_there() -> bool:
    """Tell whether the kernel has the tracer, as far as we may look."""
    with at_hand() as root:
        tracers = root / "available_tracers"
        return tracers.exists() and "blk" in tracers.read_text().split()


def _free_tracer() -> str:
    """Give the tracer that is set.

    Wait a moment for one that was killed, whose supervisor is about to put it back.
    """
    deadline = time.monotonic() + _TIDY_S
    while (tracer := current(ROOT / "current_tracer")) == "blk" and time.monotonic() < deadline:
        time.sleep(0.05)
    return tracer


class BlockTracer:
    """Writes every event of one device into files, from `start` to `stop`.

    In order: `prepare`, `start`, `stop`, `close`.
    """

    name = "ftrace"

    def __init__(
        self, tracefs: Tracefs, device_trace: Path, raw: Path, buffer_kib: int = BUFFER_KIB
    ) -> None:
        """Do nothing yet.

        `device_trace`: the folder `trace` of the device in /sys. The files in `raw` are appended to
        as events come.
        """
        self._tracefs = tracefs
        self._device = device_trace
        self._raw = raw
        self._buffer_kib = buffer_kib
        self._stopping = threading.Event()
        self._reader: threading.Thread | None = None
        self._reader_error: OSError | None = None
        self._header: Header | None = None
        self.lost = 0
        self.commands: dict[int, str] = {}

    @property
    def events(self) -> int:
        """Number of events so far."""
        return entries() if self._reader is not None else 0

    @property
    def has_failed(self) -> bool:
        """True if the files can no longer be written; `stop` says why."""
        return self._reader_error is not None

    def prepare(self) -> None:
        """Set the tracer up, so that `start` takes no time.

        Raises:
            InputError: somebody else is tracing, or the kernel has no such tracer.
            RunError: the files cannot be written.
        """
        tracer = _free_tracer()
        if tracer != "nop":
            raise InputError(
                f"{ROOT}/current_tracer is {tracer}: end the other tracing first (write nop into "
                "it)"
            )
        if not is_there():
            raise InputError("this kernel has no blk tracer: it needs CONFIG_BLK_DEV_IO_TRACE")
        if not (self._device / "enable").exists():
            raise InputError(f"{self._device}: the device cannot be traced")
        if current(self._device / "enable") != "0":
            raise InputError(
                f"{self._device}/enable is on: end the other tracing first (write 0 into it)"
            )
        header = Header.of_kernel()
        for path, value in (
            # First, and so put back last: when it is free again, the supervisor of a recording that
            # was killed has done the rest.
            (ROOT / "current_tracer", "blk"),
            (ROOT / "trace_clock", "mono"),
            (ROOT / "buffer_size_kb", str(self._buffer_kib)),
            (ROOT / "tracing_on", "1"),
        ):
            self._tracefs.set(path, value)
        (ROOT / "trace").write_text("")
        self._tracefs.at_end(self._device / "enable", "0")
        try:
            self._header = header.write(self._raw)
            pages = [
                Pages(cpu, self._raw / name_of(cpu), header.page_bytes)
                for cpu in sorted(ROOT.glob("per_cpu/cpu*"))
            ]
        except OSError as error:
            raise RunError(f"{error.filename or self._raw}: {error.strerror}") from error
        self._reader = threading.Thread(
            target=self._read, args=(pages,), name="trace reader", daemon=True
        )
        self._reader.start()

    def start(self) -> None:
        """Record from now on."""
        # The kernel begins as soon as it knows what to record.
        (self._device / "act_mask").write_text(ACTIONS)
        (self._device / "enable").write_text("1")

    def stop(self) -> None:
        """Record no more, and wait until all that was seen is in the files.

        `lost` and `commands` are right then.

        Raises:
            RunError: the files could not be written.
        """
        (self._device / "enable").write_text("0")
        self._join()
        self.lost = lost_events()
        self.commands = commands()
        error = self._reader_error
        if error is not None:
            said = "the disk is full" if error.errno == errno.ENOSPC else error.strerror
            raise RunError(
                f"{self._raw}: {said}, and the recording ended there; `flashwright record --finish "
                f"{self._raw.parent}` makes tables of what it has"
            ) from error

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
        if self._header is not None:
            self._header.close()
            self._header = None

    def _read(self, cpus: list[Pages]) -> None:
        much = self._buffer_kib * 1024 * _BUSY_SHARE
        try:
            while True:
                # Asked before the look: what was traced before `stop` is still taken after it.
                last = self._stopping.is_set()
                moved = max(cpu.take_all() for cpu in cpus)
                if last and not moved:
                    break
                self._stopping.wait(_BUSY_S if moved > much else 0.0 if last else _LOOK_S)
        except OSError as error:
            self._reader_error = error
        for cpu in cpus:
            try:
                cpu.close()
            except OSError as error:
                self._reader_error = self._reader_error or error
