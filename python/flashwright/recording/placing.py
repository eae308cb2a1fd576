"""Records how a file system gives places on its device to files, while something writes.

The kernel's events of ext4, XFS and btrfs say which inode gets which blocks, before they are
written; those of the block layer, which writes are of the file system's own data; and those of its
journal, whose changes a write of it carries. An instance of the tracer of our own, limited to one
file system.
"""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from flashwright._core import InputError, Progress, RunError, decode_fields
from flashwright.workloads.supervisor import Supervisor

from . import call_copier
from .call_copier import Pages
from .device import BlockDevice
from .tracefs import INSTANCE_OPTIONS, REMOVE_INSTANCE, ROOT

BUFFER_KIB = 8192
"""Size of the kernel's buffer, for each processor: some 150,000 events. We empty it four times a
second.
"""
_HEADER, _END = "placing.header.json", "placing.end.json"
_LOOK_S = 0.25
_BUSY_S, _BUSY_SHARE = 0.01, 1 / 8
"""The pause after a look that found so much of the buffer full."""
OWN_WRITES = "block/block_bio_queue"
_DEVICE, _OWN = "dev == {number}", 'dev == {number} && rwbs ~ "*W*" && rwbs ~ "*M*"'
_PLACED = f"{_DEVICE} && startblock < {0xFFFFFFFFE0000}"
"""Space that is only promised has numbers from there on (isnullstartblock of XFS)."""
EVENTS: dict[str, dict[str, tuple[str, ...]]] = {
    "ext4": {
        "ext4/ext4_allocate_blocks": ("ino", "block", "len", "logical", "flags"),
        "ext4/ext4_allocate_inode": ("ino", "dir"),
        "ext4/ext4_free_inode": ("ino",),
        "ext4/ext4_mark_inode_dirty": ("ino",),
        "jbd2/jbd2_handle_start": ("tid",),
        "jbd2/jbd2_handle_stats": ("tid", "dirtied_blocks"),
        "jbd2/jbd2_start_commit": ("transaction",),
        "jbd2/jbd2_end_commit": ("transaction",),
    },
    "xfs": {
        "xfs/xfs_iext_insert": ("ino", "startblock", "blockcount", "startoff"),
        "xfs/xfs_bmap_post_update": ("ino", "startblock", "blockcount", "startoff"),
        "xfs/xfs_create": ("dp_ino",),
        "xfs/xfs_iget_miss": ("ino",),
        "xfs/xfs_iget_hit": ("ino",),
        "xfs/xfs_iget_recycle": ("ino",),
        "xfs/xfs_iunlink_remove": ("agno", "agino"),
        "xfs/xfs_inode_pin": ("ino",),
        "xfs/xfs_inode_unpin": ("ino",),
    },
    "btrfs": {
        "btrfs/btrfs_ordered_extent_add": (
            *("fsid", "root_objectid", "ino", "start", "disk_len", "file_offset"),
        ),
        "btrfs/btrfs_inode_new": ("fsid", "root_objectid", "ino"),
        "btrfs/btrfs_inode_evict": ("fsid", "root_objectid", "ino"),
        "btrfs/btrfs_sync_file": ("fsid", "root_objectid", "ino"),
        "btrfs/btrfs_transaction_commit": ("fsid",),
    },
}
"""Events that are recorded of each file system, with the fields that are read; ext3 and ext2 are
mounted by the driver of ext4 on most systems.
"""
_FILTERS = {
    OWN_WRITES: _OWN,
    "xfs/xfs_iext_insert": _PLACED,
    "xfs/xfs_bmap_post_update": _PLACED,
}
_OWN_FIELDS = ("sector", "nr_sector", "rwbs")

U64 = npt.NDArray[np.uint64]
I64 = npt.NDArray[np.int64]


def kind_of(file_system: str) -> str:
    """Give the key of `EVENTS` of a file system; its own name if there is none."""
    return "ext4" if file_system in ("ext2", "ext3") else file_system


class PlaceTracer:
    """Records into a folder, from `start` to `stop`; `close` at the end, whatever happened.

    The files begin with `placing.`. What it cannot record is said, not raised: `read_placing` then
    has `not_told`.
    """

    def __init__(self, supervisor: Supervisor, folder: Path, buffer_kib: int = BUFFER_KIB) -> None:
        """Do nothing yet. `buffer_kib`: of the kernel's memory, for each processor."""
        self._instance = ROOT / "instances" / f"flashwright-{secrets.token_hex(4)}-places"
        self._supervisor, self._folder, self._buffer_kib = supervisor, folder, buffer_kib
        self._stopping = threading.Event()
        self._reader: threading.Thread | None = None
        self._error: OSError | None = None

    def start(self, file_system: str, device: BlockDevice) -> None:
        """Record from now on what the file system on a device does."""
        kind = kind_of(file_system)
        events = {**EVENTS.get(kind, {}), OWN_WRITES: _OWN_FIELDS}
        major, minor = map(int, device.number.split(":"))
        about = {"kind": kind, "start_bytes": device.start_bytes, "events": [], "not_told": None}
        if kind not in EVENTS:
            about["not_told"] = f"{file_system} has no events of the kernel that are understood"
        try:
            if about["not_told"] is None:
                self._make(events, major << 20 | minor, kind, about)
        except OSError as error:
            about["not_told"] = f"{error.filename}: the kernel does not take this: {error.strerror}"
        (self._folder / _HEADER).write_text(json.dumps(about))
        if about["not_told"] is not None:
            return
        pages = [
            Pages(cpu, self._folder / f"placing.{cpu.name}.pages", page_bytes_of(self._instance))
            for cpu in sorted(self._instance.glob("per_cpu/cpu*"))
        ]
        (self._instance / "tracing_on").write_text("1")
        self._reader = threading.Thread(
            target=self._read, args=(pages,), name="places", daemon=True
        )
        self._reader.start()

    def _make(
        self,
        events: Mapping[str, tuple[str, ...]],
        number: int,
        kind: str,
        about: dict[str, object],
    ) -> None:
        missing = [name for name in events if not (ROOT / "events" / name).is_dir()]
        if missing:
            about["not_told"] = f"this kernel has no event {missing[0]} ({kind})"
            return
        instance = self._instance
        self._supervisor.undo("sh", "-c", REMOVE_INSTANCE, "sh", instance)
        instance.mkdir()
        (instance / "tracing_on").write_text("0")
        (instance / "trace_clock").write_text("mono")
        (instance / "buffer_size_kb").write_text(str(self._buffer_kib))
        for option, value in INSTANCE_OPTIONS.items():
            (instance / "options" / option).write_text(value)
        for name in events:
            folder = instance / "events" / name
            # btrfs's events have no number of a device; those of others are passed over later.
            if not name.startswith("btrfs/"):
                wanted = _FILTERS.get(name, _DEVICE)
                (folder / "filter").write_text(wanted.format(number=number))
            (folder / "enable").write_text("1")
        about["header_page"] = (instance / "events/header_page").read_text()
        about["events"] = [
            [name, (instance / "events" / name / "format").read_text()] for name in events
        ]

    def _read(self, cpus: list[Pages]) -> None:
        try:
            while True:
                # Asked before the look: what was traced before `stop` is still taken after it.
                last = self._stopping.is_set()
                moved = max(cpu.take_all() for cpu in cpus)
                if last and not moved:
                    break
                much = self._buffer_kib * 1024 * _BUSY_SHARE
                self._stopping.wait(_BUSY_S if moved > much else 0.0 if last else _LOOK_S)
        except OSError as error:
            self._error = error
        for cpu in cpus:
            try:
                cpu.close()
            except OSError as error:
                self._error = self._error or error

    @property
    def has_failed(self) -> bool:
        """True if the files can no longer be written; `stop` says why."""
        return self._error is not None

    def stop(self) -> None:
        """Record no more; the folder then has all that was seen.

        Raises:
            RunError: the files could not be written.
        """
        if self._reader is None:
            return
        (self._instance / "tracing_on").write_text("0")
        self._join()
        lost = call_copier.losses(self._instance)
        (self._folder / _END).write_text(json.dumps({"lost_events": lost}))
        if self._error is not None:
            raise RunError(f"{self._folder}: {self._error.strerror}")

    def _join(self) -> None:
        if self._reader is not None:
            self._stopping.set()
            self._reader.join()
            self._reader = None

    def close(self) -> None:
        """End, whatever state it is in, and remove the instance."""
        self._join()
        call_copier.remove(self._instance)


def page_bytes_of(instance: Path) -> int:
    """Give the bytes of a page of an instance's buffer, with its head."""
    layout = (instance / "events/header_page").read_text()
    data = next(line for line in layout.splitlines() if line.split(";")[0].endswith(" data"))
    said = dict(word.strip().split(":") for word in data.split(";")[1:] if ":" in word)
    return int(said["offset"]) + int(said["size"])


@dataclass
class Event:
    """The events of one kind, by time: nanoseconds of CLOCK_MONOTONIC, thread, and fields."""

    time_ns: I64
    thread: I64
    fields: dict[str, I64]

    def only(self, kept: npt.NDArray[np.bool_]) -> Event:
        """Give some of them."""
        fields = {name: column[kept] for name, column in self.fields.items()}
        return Event(self.time_ns[kept], self.thread[kept], fields)

    def __getitem__(self, name: str) -> I64:
        return self.fields[name]

    def __len__(self) -> int:
        return len(self.time_ns)


def _is_own(rwbs: I64) -> npt.NDArray[np.bool_]:
    """Tell which texts have an M; the numbers are their first eight bytes.

    The kernel's filter looks behind their ends too.
    """
    letters = rwbs.astype("<i8").view(np.uint8).reshape(-1, 8)
    is_within = np.minimum.accumulate(letters != 0, axis=1)
    found: npt.NDArray[np.bool_] = ((letters == ord("M")) & is_within).any(axis=1)
    return found


@dataclass
class Placing:
    """Events that a `PlaceTracer` has recorded.

    `events`: by name, all that the file system has, or none. `lost`: events that the kernel had no
    room for, None if that is not known (it was killed). `not_told`: why there are no events, in
    words.
    """

    kind: str
    start_bytes: int = 0
    events: dict[str, Event] = field(default_factory=dict)
    lost: int | None = 0
    not_told: str | None = None

    @property
    def is_whole(self) -> bool:
        """True if every change of places was seen."""
        return bool(self.events) and self.lost == 0


def read_placing(folder: Path, progress: Progress | None = None) -> Placing:
    """Read what a `PlaceTracer` wrote into a folder, also if it was killed.

    Raises:
        InputError: it is damaged. Cancelled: it was asked to stop.
    """
    path = folder / _HEADER
    try:
        about = json.loads(path.read_text())
        found = Placing(about["kind"], about["start_bytes"], not_told=about["not_told"])
        names, formats = [one[0] for one in about["events"]], [one[1] for one in about["events"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: no recording of places: {error}") from error
    if found.not_told is not None:
        return found
    wanted = {**EVENTS[found.kind], OWN_WRITES: _OWN_FIELDS}
    kinds, counts = decode_fields(
        sorted(folder.glob("placing.cpu*.pages")),
        about["header_page"],
        [(text, wanted[name]) for name, text in zip(names, formats, strict=True)],
        progress,
    )
    for name, (time_ns, thread, *columns) in zip(names, kinds, strict=True):
        fields = {
            key: column.view(np.int64) for key, column in zip(wanted[name], columns, strict=True)
        }
        found.events[name] = Event(time_ns.view(np.int64), thread.astype(np.int64), fields)
    writes = found.events[OWN_WRITES]
    found.events[OWN_WRITES] = writes.only(_is_own(writes["rwbs"]))
    end = folder / _END
    found.lost = None
    if end.exists():
        found.lost = max(json.loads(end.read_text())["lost_events"], counts["missed_events"])
    return found
