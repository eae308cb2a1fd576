"""Where the files of a database lie on the device, over time.

Watched while it runs, and read back.
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

INTERVAL_S = 0.25
_HEADER, _MAPS, _LOG, _READY = (
    "extents.header.json",
    "extents.jsonl",
    "extents.log",
    "extents.ready",
)
_START_S = 60.0

_DIRECTORY = Named("metadata", "directory")

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
        self._program: Program | None = None

    def prepare(self, kind: str, node: Path, mount_point: Path) -> None:
        """Ask what the file system has for itself, before the recording begins.

        It is read from the device. `kind`: its type, such as `ext4`; `node`: its block device.
        """
        self._kind, self._node, self._mount_point = kind, node, mount_point
        self._write_header(own_areas(kind, node, mount_point))

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
        """Whether its program has ended by itself; `stop` says why."""
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
            self._write_header(own_areas(self._kind, self._node, self._mount_point))

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
    """The maps of all files.

    `maps[n]` as it was seen last at `times_ns[n]`, and `table`, which is `extents.parquet`. `own`
    is what the file system has for itself, the same all the time. `not_told` says in words what is
    not known.
    """

    times_ns: I64
    maps: list[Extents]
    own: Extents
    table: pa.Table
    file_system: str
    not_told: list[str] = field(default_factory=list)


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
    not_told: list[str] = list(about["not_told"])
    chunks = None if about["chunks"] is None else [Chunk(*values) for values in about["chunks"]]
    # (device offset, length, file, offset in the file) of each file, by device and inode.
    current: dict[tuple[int, int], U64] = {}
    times, maps = list[int](), list[Extents]()
    new, tables = list[U64](), [_table(np.zeros((0, 4), np.uint64), 0)]
    is_changed = True
    for said in _lines(lines):
        if "ns" in said:
            at_ns = int(said["ns"][0]) - start_monotonic_ns
            if is_changed:
                times.append(at_ns)
                maps.append(
                    Extents.of(np.concatenate([np.zeros((0, 4), np.uint64), *current.values()]))
                )
                tables += [_table(rows, at_ns) for rows in new]
            times[-1], is_changed = at_ns, False
            new.clear()
        elif "error" in said:
            not_told.append(f"where {said['path']} lies: {said['error']}")
        elif "gone" in said:
            is_changed |= current.pop((said["device"], said["inode"]), None) is not None
        else:
            named = _DIRECTORY if said["is_directory"] else None
            file = files.number(said["device"], said["inode"], said["path"], named)
            if file is None:
                continue
            extents = [part for extent in said["extents"] for part in _on_device(extent, chunks)]
            rows = np.array(
                [(device, length, file, at) for at, device, length in extents], np.uint64
            ).reshape(-1, 4)
            current[said["device"], said["inode"]] = rows
            new.append(rows)
            is_changed = True
    areas = [Area(*values) for values in about["areas"]]
    own = [
        (area.device_offset, area.length, files.own(Named(area.purpose, area.name)), 0)
        for area in areas
    ]
    history = ExtentHistory(
        np.array(times, np.int64),
        maps,
        Extents.of(np.array(own, np.uint64)),
        pa.concat_tables(tables),
        about["file_system"],
    )
    history.not_told += not_told
    return history


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


def _on_device(
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
