"""Records the system calls on files of a database's processes.

By the events that the kernel has for them. An instance of the tracer of our own, so that others may
trace beside us, limited to the database's processes and their children. What is not seen: writes
through memory maps, and offsets of `io_uring` requests.
"""

from __future__ import annotations

import json
import os
import platform
import secrets
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from flashwright._core import NOT_WANTED_FILE, InputError, Progress, RunError, decode_calls
from flashwright.workloads.supervisor import Program, Supervisor

from . import call_copier
from .files import FileTable
from .tools import need_root, tool
from .tracefs import INSTANCE_OPTIONS, REMOVE_INSTANCE, ROOT

BUFFER_KIB = 8192
"""Size of the kernel's buffer, for each processor: some 90,000 calls. The copier empties it four
times a second.
"""

_PAIRED = (
    *(
        "pread64",
        "pwrite64",
        "preadv",
        "pwritev",
        "preadv2",
        "pwritev2",
        "read",
        "write",
        "readv",
        "writev",
    ),
    *(
        "fsync",
        "fdatasync",
        "sync_file_range",
        "fallocate",
        "ftruncate",
        "copy_file_range",
        "open",
        "openat",
        "lseek",
    ),
)
_EVENTS = (
    *(f"syscalls/sys_{side}_{name}" for name in _PAIRED for side in ("enter", "exit")),
    *(f"syscalls/sys_exit_{name}" for name in ("openat2", "creat", "dup", "dup2", "dup3")),
    *(f"syscalls/sys_enter_{name}" for name in ("close", "close_range")),
    *(f"io_uring/io_uring_{name}" for name in ("submit_req", "file_get", "complete")),
    "sched/sched_process_fork",
)
_OPENS = tuple(f"syscalls/sys_exit_{name}" for name in ("open", "openat", "openat2", "creat"))
_NEEDED = "syscalls/sys_enter_pwrite64"
_START_S = 10.0
_TOLD_AT_END = ("lost_events", "lost_opens")
_HEADER, _STARTED, _END = "calls.header.json", "calls.copier.json", "calls.end.json"
_UNKNOWN_OFFSET = np.uint64(2**64 - 1)
_UNKNOWN_FILE = np.uint32(2**32 - 1)


def threads_of(processes: Iterable[int], without: int) -> list[int]:
    """Give all threads of these processes and of their children, and theirs.

    But not what comes from the process `without`.
    """
    children: dict[int, list[int]] = {}
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                # The command, in brackets, may hold anything.
                parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            children.setdefault(parent, []).append(int(path.name))
    waiting, found = list(processes), list[int]()
    while waiting:
        process = waiting.pop()
        found.append(process)
        waiting += [child for child in children.get(process, []) if child != without]
    threads = []
    for process in found:
        try:
            threads += [int(path.name) for path in Path(f"/proc/{process}/task").iterdir()]
        except OSError:
            continue
    return threads


class CallRecorder:
    """Records calls into a folder: `prepare`, `start`, `stop`.

    `close` at the end, whatever happened. The files begin with `calls.`, and are appended to as
    calls come: what a killed recording has can be read.
    """

    def __init__(self, supervisor: Supervisor, folder: Path, buffer_kib: int = BUFFER_KIB) -> None:
        """Do nothing yet. `buffer_kib`: of the kernel's memory, for each processor."""
        name = f"flashwright-{secrets.token_hex(4)}"
        self._calls, self._opens = ROOT / "instances" / name, ROOT / "instances" / f"{name}-opens"
        self._supervisor, self._folder, self._buffer_kib = supervisor, folder.absolute(), buffer_kib
        self._copier: Program | None = None
        self._page_bytes = 4096
        self.lost_events = 0

    def prepare(self) -> None:
        """Make the instances and write down how their events are laid out.

        So that `start` takes no time.

        Raises:
            InputError: this kernel, or this user, cannot.
        """
        need_root("recording system calls")
        if not (ROOT / "instances").exists():
            if not ROOT.is_dir():
                raise InputError("this kernel has no tracefs: it needs CONFIG_FTRACE")
            self._supervisor.undo("umount", ROOT)
            tool("mount", "-t", "tracefs", "nodev", ROOT)
        if not (ROOT / "events" / _NEEDED).exists():
            raise InputError(
                "this kernel has no events of system calls: it needs CONFIG_FTRACE_SYSCALLS"
            )
        try:
            self._make(self._calls, _EVENTS, buffer_kib=self._buffer_kib)
            self._make(self._opens, _OPENS, buffer_kib=64, watch="ret >= 0")
            (self._opens / "buffer_percent").write_text("0")
        except OSError as error:
            raise InputError(
                f"{error.filename}: the kernel does not take this: {error.strerror}"
            ) from error
        header = (self._calls / "events/header_page").read_text()
        events = [path for event in _EVENTS if (path := self._calls / "events" / event).exists()]
        about = {
            "header_page": header,
            "formats": [(event / "format").read_text() for event in events],
            "byte_order": sys.byteorder,
            "clock": "mono",
            "instance": self._calls.name,
            "processors": len(list(self._calls.glob("per_cpu/cpu*"))),
            "buffer_kib": self._buffer_kib,
            "kernel": platform.release(),
            "prepared_monotonic_ns": time.monotonic_ns(),
        }
        self._page_bytes = sum(_field(header, "data"))
        (self._folder / _HEADER).write_text(json.dumps(about, indent=1))

    def start(self, processes: Iterable[int]) -> None:
        """Record from now on.

        These processes, all threads and children that they have, and those that they will have.
        What the supervisor has started is left out unless it is named: the copier would record
        itself.

        Raises:
            RunError: the copier did not start.
        """
        (self._folder / _STARTED).unlink(missing_ok=True)
        threads = "\n".join(map(str, threads_of(processes, self._supervisor.pid)))
        for instance in (self._calls, self._opens):
            # Without any, the kernel would take the calls of all processes.
            (instance / "set_event_pid").write_text(threads)
        program = Path(call_copier.__file__)
        command: list[str | Path] = [
            sys.executable,
            "-I",
            program,
            self._calls,
            self._opens,
            self._folder,
            str(self._page_bytes),
        ]
        self._copier = self._supervisor.start(
            command, log=self._folder / "calls.log", stop=((15, 20.0), (9, 5.0))
        )
        until = time.monotonic() + _START_S
        while not (self._folder / _STARTED).exists():
            if self._copier.poll() is not None or time.monotonic() > until:
                raise RunError(
                    "the copier of system calls did not start: "
                    f"{(self._folder / 'calls.log').read_text()[-300:]}"
                )
            time.sleep(0.01)

    def add(self, processes: Iterable[int]) -> None:
        """Record the calls of these processes, too: all threads and children that they have.

        A process that has ended meanwhile is passed over.
        """
        for instance in (self._calls, self._opens):
            for thread in threads_of(processes, self._supervisor.pid):
                # Opened so that those that are there stay: truncating it would remove them.
                pids = os.open(instance / "set_event_pid", os.O_WRONLY)
                try:
                    with suppress(OSError):
                        os.write(pids, str(thread).encode())
                finally:
                    os.close(pids)

    @property
    def has_failed(self) -> bool:
        """True if its program has ended by itself; `stop` says why."""
        return self._copier is not None and self._copier.poll() is not None

    def stop(self) -> None:
        """Record no more; the folder then has all that was seen.

        `lost_events` is what the kernel had no room for.

        Raises:
            RunError: the copier failed.
        """
        if self._copier is None:
            return
        copier, self._copier = self._copier, None
        code = copier.stop()
        if code != 0:
            said = (self._folder / "calls.log").read_text()[-300:].strip()
            raise RunError(
                f"the copier of system calls ended with {code}: {said or 'it was killed'}"
            )
        self.lost_events = int(json.loads((self._folder / _END).read_text())["lost_events"])

    def close(self) -> None:
        """End, whatever state it is in, and remove the instances."""
        if self._copier is not None:
            self._copier.stop()
            self._copier = None
        for instance in (self._calls, self._opens):
            call_copier.remove(instance)

    def _make(
        self, instance: Path, events: Iterable[str], *, buffer_kib: int, watch: str | None = None
    ) -> None:
        self._supervisor.undo("sh", "-c", REMOVE_INSTANCE, "sh", instance)
        instance.mkdir()
        (instance / "tracing_on").write_text("0")
        (instance / "trace_clock").write_text("mono")
        (instance / "buffer_size_kb").write_text(str(buffer_kib))
        for option, value in INSTANCE_OPTIONS.items():
            (instance / "options" / option).write_text(value)
        # Nobody, until `start` tells whom: calls of all processes would cost them time before it.
        (instance / "set_event_pid").write_text(str(os.getpid()))
        for event in events:
            folder = instance / "events" / event
            if folder.exists():
                if watch is not None:
                    (folder / "filter").write_text(watch)
                (folder / "enable").write_text("1")


def _field(header: str, name: str) -> tuple[int, int]:
    """Give offset and size of a field of `header_page`."""
    for line in header.splitlines():
        words = [part.strip() for part in line.strip().removeprefix("field:").split(";")]
        if words[0].endswith(f" {name}"):
            said = dict(word.split(":") for word in words[1:] if word)
            return int(said["offset"]), int(said["size"])
    raise RunError(f"the kernel's header_page has no field `{name}`")


@dataclass
class CallsFound:
    """The calls of a recording: `calls.parquet`, and what is not in it.

    `counts`: calls, other_calls (on sockets, pipes, files of others), unresolved_calls (their file
    was never seen), unplaced_calls (reads and writes without an offset), unpaired_enters,
    unpaired_exits, contradicted_files, events, other_events, gaps, missed_events and cut_bytes
    (given by the pages), torn_sightings (lines cut off), lost_events (by the kernel at the end;
    None if the copier was killed), lost_opens (of files that could not be looked at when they were
    opened).
    """

    table: pa.Table
    counts: dict[str, int | None]
    from_ns: int
    """Begin of the recording of calls, in the table's time."""
    to_ns: int
    """End of it; of a copier that was killed, the end of the last call."""


def read_calls(
    folder: Path, files: FileTable, start_monotonic_ns: int, progress: Progress | None = None
) -> CallsFound:
    """Read what a `CallRecorder` wrote into a folder, also if it was killed.

    Files are added to `files`. `start_monotonic_ns`: the zero of the table's times, on the clock
    CLOCK_MONOTONIC. Rows are in the order of their beginnings.

    Raises:
        InputError: there is no such recording, or it is damaged; the message has the file and its
        byte. Cancelled: it was asked to stop.
    """
    path = folder / _HEADER
    try:
        about = json.loads(path.read_text())
        begun = json.loads((folder / _STARTED).read_text())
    except (OSError, ValueError) as error:
        raise InputError(f"{folder}: no recording of system calls: {error}") from error
    if about["byte_order"] != "little":
        raise InputError(f"{path}: recorded on a big-endian machine, whose pages are not read")
    threads, seen, torn = _sightings(folder / "calls.sightings.jsonl", files)
    pages = sorted(folder.glob("calls.cpu*.pages"))
    said = decode_calls(pages, about["header_page"], about["formats"], threads, seen, progress)
    counts = {name: value for name, value in said.items() if isinstance(value, int)}
    table = _table(said, start_monotonic_ns)
    ends = said["time_ns"] + said["duration_ns"]
    end: dict[str, Any] = {
        **dict.fromkeys(_TOLD_AT_END),
        "stopped_monotonic_ns": int(ends.max(initial=start_monotonic_ns)),
    }
    if (folder / _END).exists():
        end = json.loads((folder / _END).read_text())
    return CallsFound(
        table,
        {
            "calls": table.num_rows,
            **counts,
            "torn_sightings": torn,
            **{name: end[name] for name in _TOLD_AT_END},
        },
        begun["started_monotonic_ns"] - start_monotonic_ns,
        end["stopped_monotonic_ns"] - start_monotonic_ns,
    )


Sightings = tuple[
    npt.NDArray[np.uint64],
    npt.NDArray[np.uint64],
    npt.NDArray[np.uint32],
    npt.NDArray[np.uint32],
    npt.NDArray[np.uint32],
]


def _sightings(path: Path, files: FileTable) -> tuple[list[tuple[int, int]], Sightings, int]:
    """Read what the copier saw.

    Threads with their processes, looks at open files, and lines that are not complete.
    """
    threads, rows, torn = [], [], 0
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            try:
                said: dict[str, Any] = json.loads(line)
            except ValueError:
                # The last one of a copier that was killed.
                torn += 1
                continue
            if "thread" in said:
                threads.append((said["thread"], said["process"]))
                continue
            number = None
            if "path" in said:
                number = files.number(said["device"], said["inode"], said["path"])
            rows.append(
                (
                    *said["ns"],
                    said["process"],
                    said["fd"],
                    NOT_WANTED_FILE if number is None else number,
                )
            )
    columns = np.array(rows, np.uint64).reshape(-1, 5).T
    begin, end, process, fd, file = (np.ascontiguousarray(column) for column in columns)
    return (
        threads,
        (begin, end, process.astype(np.uint32), fd.astype(np.uint32), file.astype(np.uint32)),
        torn,
    )


def _table(said: dict[str, Any], start_monotonic_ns: int) -> pa.Table:
    # The kernel's clock stays far below 2^63; a page that is not what it seems must not stop the
    # rest.
    order = np.argsort(said["time_ns"], kind="stable")
    time_ns = said["time_ns"].astype(np.int64)[order] - start_monotonic_ns

    def names(column: str, known: list[str]) -> pa.DictionaryArray:
        return pa.DictionaryArray.from_arrays(pa.array(said[column][order]), pa.array(known))

    file, offset = said["file"][order], said["offset"][order]
    return pa.table(
        {
            "time_ns": time_ns,
            "duration_ns": said["duration_ns"][order],
            "call": names("call", said["call_names"]),
            "op": names("op", said["op_names"]),
            "file": pa.array(file, mask=file == _UNKNOWN_FILE),
            "offset": pa.array(offset, mask=offset == _UNKNOWN_OFFSET),
            "length": said["length"][order],
            "result": said["result"][order],
            "pid": said["pid"][order],
        }
    )
