"""A load that the database's log tells, as its disk would get it.

The log tells what the database writes to which page of which file. Here those files lie where the
recording saw them, and what the disk got beside them goes with them: reads, and what the file
system writes for itself.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np
import pyarrow.parquet as pq

from flashwright.advice.load import FLUSH, READ, TRIM, WRITE
from flashwright.advice.traces import Bools, Longs, Requests, in_order
from flashwright.recording.files import PURPOSES

OF_SYSTEM = ("journal", "metadata", "temp", "others", "unknown")
"""Purposes of writes that no log of a database tells."""
_LOG, _JOURNAL = PURPOSES.index("wal"), PURPOSES.index("journal")
_EXTENTS, _FILES = "extents.parquet", "files.parquet"
_PAGE = 4096
_HASH = 0x9E3779B97F4A7C15
JOURNAL_BYTES = 32 << 20
"""Room in which a file system's journal goes round: that of ext4 on a disk of a few GiB."""


@dataclass(frozen=True)
class FilePart:
    """A file in a trace that a log tells: bytes of the trace from `begin` on are the file's."""

    path: str
    begin: int
    length: int
    is_log: bool = False
    """Files of a server's log take each other's place, and so have no names of their own here."""


@dataclass(frozen=True)
class Extent:
    """Bytes of a file, and where they lie on the disk."""

    in_file: int
    on_disk: int
    length: int


class Extents:
    """Where files lay while they were recorded."""

    def __init__(self, recording: Path) -> None:
        """Read them; nothing is known of a recording without."""
        self._of_file: dict[str, list[Extent]] = {}
        self._of_log: list[Extent] = []
        self._at_begin: dict[str, int] = {}
        self._first: dict[str, str] = {}
        if not all((recording / name).is_file() for name in (_EXTENTS, _FILES)):
            return
        files = pq.read_table(recording / _FILES, columns=["file", "path", "purpose"]).to_pydict()
        named = {
            number: (path, purpose)
            for number, path, purpose in zip(*files.values(), strict=True)
            if path is not None
        }
        for path, purpose in named.values():
            self._first.setdefault(purpose, path)
        columns = ["file", "file_offset", "device_offset", "length", "seen_ns"]
        table = pq.read_table(recording / _EXTENTS, columns=columns).sort_by("seen_ns")
        latest: dict[str, dict[int, Extent]] = {}
        of_log: dict[int, Extent] = {}
        for number, in_file, on_disk, length, seen_ns in zip(
            *table.to_pydict().values(), strict=True
        ):
            if number not in named or in_file is None:
                continue
            path, purpose = named[number]
            one = Extent(int(in_file), int(on_disk), int(length))
            # What was seen last stays.
            latest.setdefault(_key(path), {})[one.in_file] = one
            if seen_ns <= 0:
                reached = max(one.in_file + one.length, self._at_begin.get(_key(path), 0))
                self._at_begin[_key(path)] = reached
            if purpose == "wal":
                known = of_log.get(one.on_disk)
                if known is None or known.length < one.length:
                    of_log[one.on_disk] = one
        self._of_file = {
            path: sorted(found.values(), key=lambda one: one.in_file)
            for path, found in latest.items()
        }
        self._of_log = list(of_log.values())

    def all(self) -> Iterator[Extent]:
        """Give all of them."""
        for found in self._of_file.values():
            yield from found

    def of(self, path: str) -> list[Extent]:
        """Give those of a file, in order; none of one that was not seen."""
        return self._of_file.get(_key(path), [])

    def first_of(self, purpose: str) -> str | None:
        """Give the path of the first file of a purpose; None without any."""
        return self._first.get(purpose)

    def at_begin(self, path: str) -> int:
        """Give the bytes that a file had when the recording began; 0 of one that was not seen."""
        return self._at_begin.get(_key(path), 0)

    def of_log(self) -> list[Extent]:
        """Give those of the log's files, which take each other's place."""
        return list(self._of_log)


def _key(path: str) -> str:
    """Name a file as it is named in any data directory: a relation by database and number."""
    parts = PurePosixPath(path).parts
    return "/".join(parts[-2:] if parts[-2:-1] == ("global",) else parts[-3:])


@dataclass
class _Room:
    """Space for a trace's files on the disk: where they were, and else the widest gap."""

    extents: Extents
    of_log: list[Extent]
    """Extents of the log that no file of the trace has taken."""
    at: int
    """From where on nothing lies on the disk."""

    @staticmethod
    def of(extents: Extents, recorded: Requests, disk_bytes: int | None) -> _Room:
        known = [(one.on_disk, one.on_disk + one.length) for one in extents.all()]
        ends = np.array(known, np.int64).reshape(-1, 2)
        begins = np.concatenate([recorded.offset, ends[:, 0]])
        behind = np.concatenate([recorded.offset + recorded.length, ends[:, 1]])
        order = np.argsort(begins)
        reached = np.append(0, np.maximum.accumulate(behind[order]))
        end = int(reached[-1])
        if disk_bytes is None:
            return _Room(extents, extents.of_log(), end)
        gaps = np.append(begins[order], max(end, disk_bytes)) - reached
        return _Room(extents, extents.of_log(), int(reached[np.argmax(gaps)]))

    def take(self, length: int) -> int:
        """Give a place in the gap."""
        at = -(-self.at // _PAGE) * _PAGE
        self.at = at + length
        return at

    def extents_of(self, part: FilePart) -> list[Extent]:
        """Give where a file was; for a file of the log the places that are left of the log."""
        if not part.is_log:
            return self.extents.of(part.path)
        taken, left = [], part.length
        while left > 0 and self.of_log:
            one = self.of_log.pop(0)
            length = min(one.length, left)
            taken.append(Extent(part.length - left, one.on_disk, length))
            left -= length
        return taken


def placed(
    told: Requests,
    parts: Sequence[FilePart],
    extents: Extents,
    recorded: Requests,
    disk_bytes: int | None,
) -> Requests:
    """Give requests to files as requests to the disk that these lie on.

    What of a file was not seen there gets room of its own, behind all files or between them.
    """
    room = _Room.of(extents, recorded, disk_bytes)
    offsets = np.sort(told.offset[told.op != FLUSH])
    ordered = sorted((one for one in parts if _is_used(one, offsets)), key=lambda one: one.begin)
    pieces = [piece for part in ordered for piece in _pieces(part, room)]
    if not pieces:
        return told
    begin, to, length = (np.array(column, np.int64) for column in zip(*pieces, strict=True))
    return _moved(told, begin, to, length)


def _is_used(part: FilePart, offsets: Longs) -> bool:
    first, end = np.searchsorted(offsets, [part.begin, part.begin + part.length])
    return bool(first < end)


def _pieces(part: FilePart, room: _Room) -> Iterator[tuple[int, int, int]]:
    """Give a file in the trace as pieces: begin there, begin on the disk, bytes."""
    at = 0
    for one in room.extents_of(part):
        first, end = max(at, one.in_file), min(one.in_file + one.length, part.length)
        if end <= first:
            continue
        if first > at:
            yield part.begin + at, room.take(first - at), first - at
        yield part.begin + first, one.on_disk + first - one.in_file, end - first
        at = end
    if at < part.length:
        yield part.begin + at, room.take(part.length - at), part.length - at


def _moved(told: Requests, begin: Longs, to: Longs, length: Longs) -> Requests:
    """Move each request to its piece; one over several pieces becomes one for each."""
    rest = told.taken(told.op == FLUSH)
    left, done = told.taken(told.op != FLUSH), []
    while len(left.op):
        piece = np.maximum(np.searchsorted(begin, left.offset, side="right") - 1, 0)
        within = left.offset - begin[piece]
        fits = np.minimum(left.length, np.maximum(length[piece] - within, 0))
        # What lies behind all pieces is of no file: it stays where it is.
        is_known = fits > 0
        take = np.where(is_known, fits, left.length)
        done.append(
            Requests(
                left.time_ns,
                left.op,
                np.where(is_known, to[piece] + within, left.offset),
                take,
                left.stream,
            )
        )
        more = take < left.length
        left = Requests(
            left.time_ns[more],
            left.op[more],
            (left.offset + take)[more],
            (left.length - take)[more],
            left.stream[more],
        )
    return in_order([*done, rest])


def beside(
    recorded: Requests, told: Collection[int], reads: float = 1.0, pace: float = 1.0
) -> Requests:
    """Give what the disk got beside what a log tells: `reads` of all reads, trims, other writes.

    Those are of the file system, and of purposes that are not among those `told`: what the log
    could tell, and has no write of, is not written. Reads can get fewer; more for a transaction
    than were recorded are not known. They come `pace` times as fast, and are gone through again
    until the recording's time is over; the rest is taken to come by the clock.
    """
    of_system = [PURPOSES.index(name) for name in OF_SYSTEM]
    named = [one for one in (*told, _LOG) if one not in of_system]
    is_kept = ((recorded.op == WRITE) & ~np.isin(recorded.stream, named)) | (recorded.op == TRIM)
    is_read = (recorded.op == READ) & _some(len(recorded.op), reads / pace)
    if pace == 1:
        return recorded.taken(is_kept | is_read)
    return in_order([recorded.taken(is_kept), _at_pace(recorded, is_read, pace)])


def _at_pace(recorded: Requests, is_wanted: Bools, pace: float) -> Requests:
    begin, end = int(recorded.time_ns[0]), int(recorded.time_ns[-1])
    wanted, passes = recorded.taken(is_wanted), []
    for number in range(math.ceil(pace)):
        at_ns = begin + ((wanted.time_ns - begin + number * (end - begin)) / pace).astype(np.int64)
        one = wanted.taken(at_ns <= end)
        one.time_ns = at_ns[at_ns <= end]
        passes.append(one)
    return in_order(passes)


def _some(rows: int, share: float) -> Bools:
    """Choose a share of rows, the same at each call, without a pattern."""
    if share >= 1:
        return np.ones(rows, bool)
    mixed = (np.arange(rows, dtype=np.uint64) * np.uint64(_HASH)) >> np.uint64(32)
    chosen: Bools = mixed < np.uint64(max(0.0, share) * 2**32)
    return chosen


def with_journal(others: Requests, at_ns: Longs, blocks: int, less_bytes: float) -> Requests:
    """Change what a file system writes to its journal.

    `less_bytes` of it are not written, and at each of the times `at_ns` it commits so many
    `blocks` of 4 KiB: all but the last, then that.
    """
    of_journal = (others.op == WRITE) & (others.stream == _JOURNAL)
    if less_bytes > 0 and of_journal.any():
        whole = float(others.length[of_journal].sum())
        left = _some(len(others.op), 1 - less_bytes / whole)
        others = others.taken(~of_journal | left)
        of_journal = (others.op == WRITE) & (others.stream == _JOURNAL)
    if not blocks or not len(at_ns):
        return others
    begin = int(others.offset[of_journal].min()) if of_journal.any() else _free(others)
    first = np.arange(len(at_ns)) * blocks % (JOURNAL_BYTES // _PAGE - blocks)
    sizes = [size for size in (blocks - 1, 1) if size]
    made = []
    for nth, size in enumerate(sizes):
        ahead = 0 if nth == 0 else blocks - 1
        made.append(
            Requests(
                at_ns,
                np.full(len(at_ns), WRITE),
                begin + (first + ahead) * _PAGE,
                np.full(len(at_ns), size * _PAGE),
                np.full(len(at_ns), _JOURNAL),
            )
        )
    return in_order([others, *made])


def _free(others: Requests) -> int:
    return int((others.offset + others.length).max(initial=0))
