"""Places of a database's files on the device, over time.

They are watched while it runs, and read back.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from flashwright._core import InputError, RunError
from flashwright._paths import write_whole
from flashwright.workloads.supervisor import Program, Supervisor

from . import extent_watcher
from .files import FileTable, Named
from .own_areas import Area, Chunk, OwnAreas, own_areas
from .places import FIRST, NOBODY, Change

INTERVAL_S = 0.25
_HEADER, _MAPS, _LOG, _READY = (
    "extents.header.json",
    "extents.jsonl",
    "extents.log",
    "extents.ready",
)
_START_S = 60.0

_DIRECTORY = Named("metadata", "directory")
_TREE_SHIFT = 44
"""Bits of a number that an inode takes, which btrfs counts up from 256 on."""

U64 = npt.NDArray[np.uint64]
I64 = npt.NDArray[np.int64]


class ExtentWatcher:
    """Watches where the files below some folders lie: `prepare`, `start`, `stop`.

    `close` at the end, whatever happened. What it finds is appended to files that begin with
    `extents.` in a folder, so that what a killed recording has can be read.
    """

    def __init__(
        self,
        supervisor: Supervisor,
        folder: Path,
        roots: Sequence[Path],
        interval_s: float = INTERVAL_S,
    ) -> None:
        """Do nothing yet.

        `roots`: whole paths without links. `interval_s`: between two looks, more if looking takes
        more than 2 % of a processor's time.
        """
        self._supervisor, self._folder = supervisor, folder.absolute()
        self._roots = roots
        self._interval_s = interval_s
        self._mount_point, self._kind, self._node = Path("/"), "", Path()
        self._own = OwnAreas("")
        self._program: Program | None = None

    def prepare(self, kind: str, node: Path, mount_point: Path) -> None:
        """Ask what the file system has for itself, before the recording begins.

        It is read from the device. `kind`: its type, such as `ext4`; `node`: its block device.
        """
        self._kind, self._node, self._mount_point = kind, node, mount_point
        self._own = own_areas(kind, node, mount_point)
        self._write_header(self._own)

    def start(self) -> None:
        """Watch from now on, after a first look at everything.

        Raises:
            RunError: the watcher did not start.
        """
        for stale in (self._folder / _MAPS, self._folder / _READY):
            stale.unlink(missing_ok=True)
        plan = {
            "roots": [str(root) for root in self._roots],
            # btrfs gives each subvolume a number of its own.
            "device": None if self._kind == "btrfs" else self._mount_point.stat().st_dev,
            "output": str(self._folder / _MAPS),
            "interval_s": self._interval_s,
            "ready": str(self._folder / _READY),
        }
        command = [sys.executable, "-I", extent_watcher.__file__, json.dumps(plan)]
        self._program = self._supervisor.start(
            command, log=self._folder / _LOG, stop=((15, 60.0), (9, 5.0))
        )
        until = time.monotonic() + _START_S
        while not (self._folder / _READY).exists():
            if self._program.poll() is not None or time.monotonic() > until:
                raise RunError(
                    "the watcher of extents did not start: "
                    f"{(self._folder / _LOG).read_text()[-300:]}"
                )
            time.sleep(0.01)

    @property
    def has_failed(self) -> bool:
        """True if its program has ended by itself; `stop` says why."""
        return self._program is not None and self._program.poll() is not None

    def stop(self) -> None:
        """Look once more, and watch no more.

        Call `os.sync` before it, if what is not written yet shall have its place.

        Raises:
            RunError: the watcher failed.
        """
        if self._program is None:
            return
        program, self._program = self._program, None
        code = program.stop()
        if code != 0:
            said = (self._folder / _LOG).read_text()[-300:].strip()
            raise RunError(f"the watcher of extents ended with {code}: {said or 'it was killed'}")
        if self._kind == "btrfs":
            # It makes chunks as it needs them. Asked of the kernel: nothing is read from the
            # device.
            now = own_areas(self._kind, self._node, self._mount_point)
            there = now.chunks or []
            # Its own addresses are never given twice: what an old one was is still true.
            now.chunks = [*there, *(one for one in self._own.chunks or [] if one not in there)]
            self._write_header(now)

    def close(self) -> None:
        """End, whatever state it is in."""
        if self._program is not None:
            self._program.stop()
            self._program = None

    def _write_header(self, own: OwnAreas) -> None:
        about = {
            "file_system": own.kind,
            "areas": [list(vars(area).values()) for area in own.areas],
            "chunks": None
            if own.chunks is None
            else [list(vars(chunk).values()) for chunk in own.chunks],
            "not_told": own.not_told,
            "geometry": own.geometry,
            "shared_folders": [
                root.parent.stat().st_ino for root in self._roots if not root.is_dir()
            ],
        }
        write_whole(self._folder / _HEADER, json.dumps(about))


@dataclass(frozen=True)
class Extents:
    """Ranges of the device, sorted by `begin`, none overlapping another. All in bytes."""

    begin: U64
    end: U64
    file: npt.NDArray[np.uint32]
    file_offset: U64

    @staticmethod
    def of(ranges: U64) -> Extents:
        """Make them of rows (device offset, length, file, offset in the file).

        Of those that overlap, each begins where the last ends.
        """
        rows = ranges.reshape(-1, 4)
        order = np.lexsort((rows[:, 1], rows[:, 0]))
        begin, length, file, offset = (np.ascontiguousarray(column) for column in rows[order].T)
        end = begin + length
        if len(begin):
            # A block that two files share (a clone, or one map older than the other) is of the one
            # that begins first.
            reach = np.concatenate([np.zeros(1, np.uint64), np.maximum.accumulate(end)[:-1]])
            cut = np.where(reach > begin, reach - begin, 0).astype(np.uint64)
            kept = cut < length
            begin, offset, end, file = (
                (begin + cut)[kept],
                (offset + cut)[kept],
                end[kept],
                file[kept],
            )
        return Extents(begin, end, file.astype(np.uint32), offset)

    def find(self, device_offset: U64) -> I64:
        """Give the number of the range in which each offset lies, -1 if in none."""
        if not len(self.begin):
            return np.full(len(device_offset), -1)
        number = np.searchsorted(self.begin, device_offset, side="right").astype(np.int64) - 1
        return np.where((number >= 0) & (device_offset < self.end[number]), number, -1)


@dataclass
class ExtentHistory:
    """Places of files over time, as far as they were seen.

    `changes`: ranges that files had at a look and not at the one before; `ends` those that they
    have no more. `seen`: time, inode and number of each file that was seen; on btrfs the number of
    the subvolume stands above the inode's, see `inode_number`. `looks`: begin and end of each.
    `shared_folders`: inodes of those in which single files are the database's. `table` is
    `extents.parquet`. `own` is what the file system has for itself, the same all the time; `chunks`
    and `geometry` as in `OwnAreas`. `not_told` says in words what is not known.
    """

    changes: list[Change]
    ends: list[Change]
    seen: list[tuple[int, int, int]]
    looks: list[tuple[int, int]]
    own: Extents
    table: pa.Table
    file_system: str
    chunks: list[Chunk] | None = None
    geometry: dict[str, int] = field(default_factory=dict)
    trees: dict[int, int] = field(default_factory=dict)
    """The subvolume of each device number, on btrfs."""
    shared_folders: list[int] = field(default_factory=list)
    not_told: list[str] = field(default_factory=list)


def inode_number(tree: int, inode: int) -> int:
    """Give a number that no two inodes of a file system share, whose subvolumes have their own."""
    return tree << _TREE_SHIFT | inode


def read_extents(folder: Path, files: FileTable, start_monotonic_ns: int) -> ExtentHistory:
    """Read what an `ExtentWatcher` wrote into a folder, also if it was killed.

    Files are added to `files`. `start_monotonic_ns`: the zero of all times, on the clock
    CLOCK_MONOTONIC.

    Raises:
        InputError: there is nothing, or it is damaged.
    """
    path = folder / _HEADER
    try:
        about = json.loads(path.read_text())
        lines = (folder / _MAPS).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: no recording of where files lie: {error}") from error
    chunks = None if about["chunks"] is None else [Chunk(*values) for values in about["chunks"]]
    history = ExtentHistory([], [], [], [], Extents.of(np.array([], np.uint64)), pa.table({}), "")
    history.file_system, history.chunks = about["file_system"], chunks
    history.geometry, history.not_told = about["geometry"], list(about["not_told"])
    history.shared_folders = about["shared_folders"]
    # Each file's ranges (device offset, length, file, offset in the file), by device and inode.
    current: dict[tuple[int, int], list[tuple[int, int, int, int]]] = {}
    tables = [_table(np.zeros((0, 4), np.uint64), 0)]
    for said in _lines(lines):
        if "ns" in said:
            begin_ns, end_ns = (int(one) - start_monotonic_ns for one in said["ns"])
            history.looks.append((begin_ns, end_ns))
        elif "error" in said:
            history.not_told.append(f"where {said['path']} lies: {said['error']}")
        elif "gone" in said:
            rows = current.pop((said["device"], said["inode"]), [])
            at_ns = history.looks[-1][1] if history.looks else FIRST
            history.ends += [_change(at_ns, row)._replace(owner=NOBODY) for row in rows]
        else:
            named = _DIRECTORY if said["is_directory"] else None
            file = files.number(said["device"], said["inode"], said["path"], named)
            if file is None:
                continue
            at_ns = int(said["asked_ns"]) - start_monotonic_ns
            history.trees[said["device"]] = said["tree"]
            history.seen.append((at_ns, inode_number(said["tree"], said["inode"]), file))
            extents = [part for extent in said["extents"] for part in on_device(extent, chunks)]
            rows = [(device, length, file, at) for at, device, length in extents]
            before = set(current.get((said["device"], said["inode"]), ()))
            current[said["device"], said["inode"]] = rows
            history.ends += [
                _change(at_ns, row)._replace(owner=NOBODY) for row in before.difference(rows)
            ]
            history.changes += [_change(at_ns, row) for row in rows if row not in before]
            tables.append(_table(np.array(rows, np.uint64).reshape(-1, 4), at_ns))
    areas = [Area(*values) for values in about["areas"]]
    own = [
        (area.device_offset, area.length, files.own(Named(area.purpose, area.name)), 0)
        for area in areas
    ]
    history.own, history.table = Extents.of(np.array(own, np.uint64)), pa.concat_tables(tables)
    return history


def _change(time_ns: int, row: tuple[int, int, int, int]) -> Change:
    device, length, file, at = row
    return Change(time_ns, device, device + length, file, at)


def _table(rows: U64, seen_ns: int) -> pa.Table:
    device, length, file, at = rows.T
    columns = {
        "file": file.astype(np.uint32),
        "file_offset": at,
        "device_offset": device,
        "length": length,
    }
    return pa.table({**columns, "seen_ns": np.full(len(rows), seen_ns, np.int64)})


def _lines(lines: Sequence[str]) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(lines):
        try:
            yield json.loads(line)
        except ValueError as error:
            # The last one of a watcher that was killed is cut.
            if number < len(lines) - 1:
                raise InputError(
                    f"{_MAPS}, line {number + 1}: damaged: {error}; right would be lines of JSON"
                ) from error


def on_device(
    extent: Sequence[int], chunks: Sequence[Chunk] | None
) -> Iterator[tuple[int, int, int]]:
    """Give the places of an extent on the device.

    Itself, or where btrfs has its addresses, once for each copy.
    """
    at, address, length = extent
    if chunks is None:
        yield at, address, length
        return
    for chunk in chunks:
        begin, end = (
            max(address, chunk.logical),
            min(address + length, chunk.logical + chunk.length),
        )
        if begin < end:
            yield at + begin - address, chunk.device_offset + begin - chunk.logical, end - begin
