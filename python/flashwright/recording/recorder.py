"""One recording: raw streams into a folder, from `start` to `stop`."""

from __future__ import annotations

import json
import platform
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flashwright._core import InputError, RunError, __version__
from flashwright._paths import check_trusted, make_folder, write_whole
from flashwright.outputs import RESULT_FILE
from flashwright.runs import dump_json
from flashwright.sources import REQUESTS_FILE, SAMPLES_FILE
from flashwright.workloads.supervisor import Supervisor

from . import device as devices
from .blktrace import Blktrace
from .block import BUFFER_KIB, BlockTracer, is_there
from .block_pages import pages_in
from .device import BlockDevice
from .drive_counters import Reader
from .tracefs import Tracefs

AUTO = "auto"
TRACERS = (AUTO, BlockTracer.name, Blktrace.name)
RAW = "raw"
BLOCK_STREAM = "block.blktrace"
MARKS = "marks.jsonl"
DRIVE_COUNTERS, OWN_COUNTS, OWN_LOG = "drive_counters", "own_counts", "own_log"
PROCESSORS = "processors"
MARKS_OF_RUN = "marks_of_run.parquet"


@dataclass
class Mark:
    """Something that happened in a recording, by the monotonic clock in nanoseconds."""

    kind: str
    time_ns: int
    end_ns: int
    name: str = ""


class Recorder:
    """Records one device into a folder.

    In order: `prepare`, `start`, `stop`; `close` at the end, whatever happened.
    """

    def __init__(
        self,
        supervisor: Supervisor,
        device: BlockDevice,
        folder: Path,
        *,
        command: list[str],
        tracer: str = AUTO,
        buffer_kib: int = BUFFER_KIB,
        patience_s: float = 0.0,
        may_replace: bool = False,
    ) -> None:
        """Do nothing yet.

        `tracer` is one of `TRACERS`; `patience_s`: how long to wait for another recording on this
        machine.
        """
        self.device = device
        self.folder = folder
        self._supervisor = supervisor
        self._command = command
        self._tracer = tracer
        self._buffer_kib = buffer_kib
        self._patience_s = patience_s
        self._may_replace = may_replace
        self._tracefs: Tracefs | None = None
        self._block: BlockTracer | Blktrace | None = None
        self._drives = Reader([device])
        self._about: dict[str, Any] = {}
        self._begun_ns = 0
        self._received: dict[str, int] = {}

    @property
    def events(self) -> int:
        """Number of events that the kernel has reported so far."""
        return 0 if self._block is None else self._block.events

    @property
    def has_failed(self) -> bool:
        """True if the recording has ended by itself; `stop` says why."""
        return self._block is not None and self._block.has_failed

    @property
    def seconds(self) -> float:
        """Seconds that it has been recording; 0 before `start`."""
        return (time.monotonic_ns() - self._begun_ns) / 1e9 if self._begun_ns else 0.0

    def prepare(self) -> None:
        """Set everything up, so that `start` takes no time.

        Raises:
            InputError: this cannot be recorded here, or the folder will not do.
        """
        check_folder(self.folder, may_replace=self._may_replace)
        # Before anything in the folder is replaced: who is refused, or shares the folder with who
        # records, loses nothing.
        self._tracefs = Tracefs(self._supervisor, self._patience_s)
        self._make_folder()
        self._block = self._choose()
        self._about = {
            "state": "running",
            "flashwright": __version__,
            "command_line": self._command,
            "kernel": platform.release(),
            "device": self.device.about(),
            "tracer": self._block.name,
            "buffer_kib": self._buffer_kib,
        }
        self._write_about()
        self._drives.begin()
        self._block.prepare()

    def start(self) -> None:
        """Record from now on."""
        if self._block is None:
            raise AssertionError("prepare comes before start")
        self._begun_ns = time.monotonic_ns()
        self._received = self.device.received()
        self._block.start()

    def mark(self, mark: Mark) -> None:
        """Note something that happened.

        Raises:
            RunError: it cannot be written.
        """
        path = self.folder / RAW / MARKS
        try:
            with path.open("a", encoding="utf-8") as out:
                out.write(json.dumps(vars(mark)) + "\n")
        except OSError as error:
            raise RunError(f"{path}: {error.strerror}") from error

    def stop(self) -> None:
        """Record no more; the folder holds everything that was seen.

        Raises:
            RunError: a stream could not be written.
        """
        if self._block is None or not self._begun_ns:
            return
        ended_ns = time.monotonic_ns()
        self._block.stop()
        received = self.device.received()
        self.mark(Mark("recording", self._begun_ns, ended_ns))
        self._about |= {
            "state": "stopped",
            "seconds": (ended_ns - self._begun_ns) / 1e9,
            "lost_events": self._block.lost,
            "received": {name: value - self._received[name] for name, value in received.items()},
            "commands": self._block.commands,
            DRIVE_COUNTERS: self._drives.end(),
        }
        self._begun_ns = 0
        self._write_about()

    def add(self, **said: Any) -> None:
        """Add to what is known about the recording."""
        self._about |= said
        self._write_about()

    def close(self) -> None:
        """End, whatever state it is in, and put the kernel's settings back."""
        if self._block is not None:
            self._block.close()
            self._block = None
        if self._tracefs is not None:
            self._tracefs.close()
            self._tracefs = None

    def _choose(self) -> BlockTracer | Blktrace:
        raw = self.folder / RAW
        name = self._tracer
        if name == AUTO:
            name = (
                Blktrace.name
                if not is_there() and shutil.which("blktrace") is not None
                else BlockTracer.name
            )
        if name == Blktrace.name or self._tracefs is None:
            return Blktrace(
                self._supervisor, self.device.path, raw / BLOCK_STREAM, self._buffer_kib
            )
        return BlockTracer(self._tracefs, self.device.trace, raw, self._buffer_kib)

    def _make_folder(self) -> None:
        folder = self.folder
        try:
            # Looked for before it is made, so that no empty folder is left behind.
            there = next(place for place in (folder, *folder.absolute().parents) if place.exists())
            if is_on(there, self.device):
                raise InputError(
                    f"{folder} is on {self.device.path}, which is to be recorded: the recording "
                    "would record itself; choose a folder on another device"
                )
            make_folder(folder)
            check_folder(folder, may_replace=self._may_replace)
            raw = folder / RAW
            make_folder(raw)
            for stale in (*folder.glob("*.parquet"), *raw.iterdir()):
                stale.unlink()
        except OSError as error:
            raise InputError(
                f"{folder}: the recording cannot be written there: {error.strerror}"
            ) from error

    def _write_about(self) -> None:
        document = {"command": "record", "recording": self._about}
        path = self.folder / RESULT_FILE
        try:
            write_whole(path, dump_json(document))
        except OSError as error:
            raise RunError(f"{path}: {error.strerror}") from error


def recorded_bytes(folder: Path) -> int:
    """Give the size of what the kernel reported, in the folder of an unfinished recording."""
    raw = folder / RAW
    return sum(path.stat().st_size for path in (*raw.glob(f"{BLOCK_STREAM}*"), *pages_in(raw)))


def check_folder(folder: Path, *, may_replace: bool = False, **others: Path | None) -> None:
    """Refuse a folder for a recording before any work is done.

    `others` are folders by what they are for, which it must not be. What was recorded cannot be had
    again, as a simulation can: so a recording is replaced only where `may_replace` says so.

    Raises:
        InputError: it holds a recording or what is no run, it is one of the others, or another user
        may put links there.
    """
    try:
        check_trusted(folder)
        if folder.exists() and any(folder.iterdir()) and not (folder / RESULT_FILE).is_file():
            raise InputError(f"{folder}: the folder is not empty and no run folder; choose another")
        is_one = any((folder / name).exists() for name in (REQUESTS_FILE, SAMPLES_FILE))
        if not may_replace and is_one:
            raise InputError(
                f"{folder} holds a recording, which would be lost: choose another folder, or "
                "remove it"
            )
        if not may_replace and recorded_bytes(folder):
            raise InputError(
                f"{folder} holds a recording that was killed: `flashwright record --finish "
                f"{folder}`, or choose another folder"
            )
    except OSError as error:
        raise InputError(
            f"{folder}: the recording cannot be written there: {error.strerror}"
        ) from error
    for what, other in others.items():
        if other is not None and other.resolve() == folder.resolve():
            raise InputError(
                f"--record {folder}: that is the folder of the {what}, too; choose another"
            )


def is_on(folder: Path, device: BlockDevice) -> bool:
    """Tell whether a folder lies on a device."""
    try:
        return devices.find(folder).number == device.number
    except InputError:
        return False
