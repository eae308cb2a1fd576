"""Makes the transactions of a recorded SQLite database: of its log, or of calls on its journal.

In a log each page has its number, which the watcher has read; the recorded calls say when, and that
none is missing. In a rollback mode a transaction is what the database got from one header of the
journal to the next; whether the first page changed but for its count of changes is not told there.
"""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flashwright._text import several

from .calls import CallsFound
from .files import FileTable
from .sqlite_log import ABOUT, ROWS

TABLE, FACTS = "transactions", "sqlite.json"
_LOG_HEADER, _FRAME_HEADER = 32, 24
_ZEROED = 28
"""Bytes of a journal's header that PERSIST overwrites at a commit."""
_LEAST_HEADER = 512
"""Bytes of a journal's header: those of a sector, at least."""
_UNKNOWN = 2**32 - 1
_NOT_TOLD_BY_CONNECTION = (
    "PRAGMA cache_size and wal_autocheckpoint, which each connection sets for itself"
)
_SCHEMA = pa.schema(
    {
        "transaction": pa.uint64(),
        "time_ns": pa.int64(),
        "connection": pa.uint32(),
        "page": pa.uint32(),
        "pages_before": pa.uint32(),
        "pages_after": pa.uint32(),
        "free_for": pa.uint32(),
    }
)


@dataclass
class SqliteFound:
    """The transactions of a recording, and the facts beside them."""

    table: pa.Table
    facts: dict[str, Any]


@dataclass
class _Calls:
    """Calls on one kind of file, in the order of time."""

    time_ns: np.ndarray[Any, np.dtype[np.int64]]
    name: list[str]
    offset: np.ndarray[Any, np.dtype[np.int64]]
    length: np.ndarray[Any, np.dtype[np.int64]]
    pid: np.ndarray[Any, np.dtype[np.uint32]]
    file: list[str]

    def __len__(self) -> int:
        return len(self.name)


def sqlite_transactions(
    folder: Path, calls: CallsFound, files: FileTable, database: Path, start_monotonic_ns: int
) -> SqliteFound | None:
    """Give the transactions of a recording; None if no watcher wrote into its folder.

    `start_monotonic_ns`: the zero of the recording's times.
    """
    try:
        about = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
    except OSError:
        return None
    ends = {"": "database", "-wal": "log", "-journal": "journal"}
    kinds = {f"{database}{end}": kind for end, kind in ends.items()}
    by_number = {number: kinds[path] for number, path in enumerate(files.paths()) if path in kinds}
    ours = _ours(calls.table, by_number)
    rows = _rows(folder / ROWS)
    journalled = any(
        kind == "journal" and offset == 0 and length >= _LEAST_HEADER and "write" in name
        for kind, offset, length, name in zip(
            ours.file, ours.offset, ours.length, ours.name, strict=True
        )
    )
    if rows.num_rows and journalled:
        found = _of_log(rows, ours, about, start_monotonic_ns)
        found.facts["gaps"].append("the journal mode changed between a log and a rollback journal")
    elif rows.num_rows or not journalled:
        found = _of_log(rows, ours, about, start_monotonic_ns)
    else:
        found = _of_journal(ours, about)
        unseen = _unseen_journals(calls.table, ours)
        if unseen:
            found.facts["gaps"].append(
                f"{several(unseen, 'journal')} of a transaction closed before anybody could look "
                "which file it was: the machine was too busy"
            )
    lost = {name: calls.counts.get(name) for name in ("lost_events", "gaps", "missed_events")}
    if any(lost.values()):
        found.facts["gaps"].append(f"the kernel lost calls: {lost}")
    return found


def _unseen_journals(table: pa.Table, ours: _Calls) -> int:
    """Count headers of journals that a connection wrote into files which are not known."""
    unknown = table.filter(
        pc.and_(
            pc.is_null(table["file"]),
            pc.is_in(table["pid"], pa.array(np.unique(ours.pid), pa.uint32())),
        )
    )
    return sum(
        offset == 0 and length is not None and length >= _LEAST_HEADER and "write" in name
        for offset, length, name in zip(
            unknown["offset"].to_pylist(),
            unknown["length"].to_pylist(),
            unknown["call"].cast(pa.string()).to_pylist(),
            strict=True,
        )
    )


def _ours(table: pa.Table, by_number: dict[int, str]) -> _Calls:
    mine = table.filter(
        pc.and_(
            pc.is_in(table["file"], pa.array(list(by_number), pa.uint32())),
            pc.greater_equal(table["result"], 0),
        )
    )
    names = mine["call"].cast(pa.string()).to_pylist()
    return _Calls(
        mine["time_ns"].to_numpy(),
        names,
        pc.fill_null(mine["offset"].cast(pa.int64(), safe=False), -1).to_numpy(),
        mine["length"].to_numpy().astype(np.int64),
        mine["pid"].to_numpy().astype(np.uint32),
        [by_number[number] for number in mine["file"].to_pylist()],
    )


def _rows(path: Path) -> pa.Table:
    """Read what the watcher wrote, as far as it came: it may have been killed."""
    batches = []
    try:
        with pa.ipc.open_stream(path) as stream:
            schema = stream.schema
            with contextlib.suppress(pa.ArrowInvalid):
                batches.extend(stream)
    except (OSError, pa.ArrowInvalid):
        return pa.table({"commit": pa.array([], pa.uint64())})
    return pa.Table.from_batches(batches, schema)


@dataclass
class _Frames:
    """Writes of headers of frames in a log, in the order of time."""

    time_ns: np.ndarray[Any, np.dtype[np.int64]]
    offset: np.ndarray[Any, np.dtype[np.int64]]
    pid: np.ndarray[Any, np.dtype[np.uint32]]


def _of_log(
    rows: pa.Table, calls: _Calls, about: dict[str, Any], start_monotonic_ns: int
) -> SqliteFound:
    header, nature = about.get("header", {}), about.get("nature", {})
    page_size = about.get("page_size") or header.get("page_size") or 0
    facts: dict[str, Any] = {
        "page_size": page_size,
        "journal_mode": "wal",
        "synchronous": _synchronous_of_log(calls),
        "wal_autocheckpoint": None,
        "cache_size": None,
        "encoding": header.get("encoding"),
        "first_page_told": True,
        "skips_freed": bool(nature.get("skips_freed")),
        "auto_vacuum_full": bool(nature.get("auto_vacuum_full", header.get("auto_vacuum_full"))),
        "gaps": [],
        "not_told": [_NOT_TOLD_BY_CONNECTION],
    }
    if about.get("failed"):
        facts["gaps"].append(f"the log could not be read to the end: {about['failed']}")
    if "stopped_ns" not in about:
        facts["gaps"].append("the recording was killed before the log was read to its end")
    if not rows.num_rows:
        facts["not_told"].append("any transaction: none was committed")
        return SqliteFound(_SCHEMA.empty_table(), facts)
    is_first = np.diff(rows["commit"].to_numpy().astype(np.int64), prepend=-1) > 0
    begins = np.flatnonzero(is_first)
    commits = {name: rows[name].to_numpy()[begins] for name in rows.column_names}
    matched = _match(commits, _frame_writes(calls), page_size, start_monotonic_ns)
    doubts = about.get("doubts", [])
    if matched.missed:
        why = f": {doubts[0][1]}" if doubts else ""
        facts["gaps"].append(
            f"{matched.missed} frames were written to the log that no look at it found{why}"
        )
    elif doubts and matched.without_calls:
        facts["gaps"].append(doubts[0][1])
    if matched.without_calls:
        facts["not_told"].append(
            f"the times of {matched.without_calls} commits whose calls were not recorded: theirs "
            "are those of the looks that found them"
        )
    each = rows["commit"].to_numpy().astype(np.int64) - int(commits["commit"][0])
    is_kept = each >= matched.before
    free_for = rows["free_for"].to_numpy()
    columns = {
        "transaction": pa.array((each - matched.before).astype(np.uint64), mask=~is_kept),
        "time_ns": pa.array(matched.time_ns[each]),
        "connection": pa.array(matched.pid[each], mask=matched.pid[each] == 0),
        "page": rows["page"].combine_chunks(),
        "pages_before": rows["pages_before"].combine_chunks().cast(pa.uint32()),
        "pages_after": rows["pages_after"].combine_chunks().cast(pa.uint32()),
        "free_for": pa.array(free_for, mask=free_for == _UNKNOWN),
    }
    table = pa.table(columns).cast(_SCHEMA).filter(pa.array(is_kept))
    return SqliteFound(table, facts)


def _frame_writes(calls: _Calls) -> _Frames:
    is_frame = np.array(
        [
            kind == "log" and "write" in name and length == _FRAME_HEADER
            for kind, name, length in zip(calls.file, calls.name, calls.length, strict=True)
        ],
        bool,
    )
    return _Frames(calls.time_ns[is_frame], calls.offset[is_frame], calls.pid[is_frame])


@dataclass
class _Matched:
    """Commits with the calls that wrote them."""

    time_ns: np.ndarray[Any, np.dtype[np.int64]]
    pid: np.ndarray[Any, np.dtype[np.uint32]]
    before: int
    """Commits before the first whose calls were recorded."""
    without_calls: int
    missed: int
    """Frames that calls wrote, and no commit has."""


def _match(
    commits: dict[str, Any], frames: _Frames, page_size: int, start_monotonic_ns: int
) -> _Matched:
    """Find for each commit the writes of its frames, in order: both go by time."""
    looks = commits["look_ns"] - start_monotonic_ns
    first = commits["first_frame"].astype(np.int64)
    count = commits["frames"].astype(np.int64)
    time_ns, pid = looks.copy(), np.zeros(len(looks), np.uint32)
    frame = _FRAME_HEADER + page_size
    at, missed, found = 0, 0, np.zeros(len(looks), bool)
    for number in range(len(looks)):
        wanted = _LOG_HEADER + (first[number] + np.arange(count[number])) * frame
        end = int(np.searchsorted(frames.time_ns, looks[number], "right"))
        try_at = at
        while try_at + count[number] <= end:
            if np.array_equal(frames.offset[try_at : try_at + count[number]], wanted):
                missed += try_at - at
                at = try_at + int(count[number])
                time_ns[number], pid[number] = frames.time_ns[at - 1], frames.pid[at - 1]
                found[number] = True
                break
            try_at += 1
    # An open transaction may follow the last commit.
    rest = frames.offset[at:]
    end = _LOG_HEADER + (first[-1] + count[-1]) * frame
    if len(rest) and not np.array_equal(rest, end + np.arange(len(rest)) * frame):
        missed += len(rest)
    # Calls may be recorded a little later than the log is watched.
    before = int(np.argmax(found)) if found.any() else 0
    without = int((~found[before:]).sum())
    return _Matched(np.maximum.accumulate(time_ns), pid, before, without, missed)


def _synchronous_of_log(calls: _Calls) -> str | None:
    """Tell by how often the log was synced; EXTRA does in a log what FULL does."""
    syncs = sum(
        kind == "log" and name in ("fsync", "fdatasync")
        for kind, name in zip(calls.file, calls.name, strict=True)
    )
    headers = int(
        sum(
            kind == "log" and "write" in name and length == _LOG_HEADER
            for kind, name, length in zip(calls.file, calls.name, calls.length, strict=True)
        )
    )
    database = sum(
        kind == "database" and name in ("fsync", "fdatasync")
        for kind, name in zip(calls.file, calls.name, strict=True)
    )
    if syncs == 0:
        return "off" if headers else None
    # NORMAL syncs each header and each checkpoint.
    return "full" if syncs > headers + database + 1 else "normal" if headers else None


@dataclass
class _Open:
    """A transaction in a rollback mode that goes on."""

    pages: set[int] = field(default_factory=set)
    time_ns: int = 0
    pid: int = 0
    syncs: int = 0
    after: int | None = None


class _Journal:
    """Goes through the calls on journal and database."""

    def __init__(self, page_size: int, pages: int) -> None:
        self._page_size, self._pages = page_size, pages
        self._open: _Open | None = None
        self.rows: list[tuple[int, int, int, int, int, int]] = []
        self.count = 0
        self.unknown_pages = 0
        self.ends: Counter[str] = Counter()
        self.syncs: Counter[int] = Counter()

    def take(self, kind: str, name: str, time_ns: int, offset: int, length: int, pid: int) -> None:
        """Take the next call."""
        is_write = "write" in name
        if kind == "journal":
            self._journal(name, offset, length, is_write=is_write)
        elif kind == "database" and is_write:
            self._database(time_ns, offset, length, pid)
        elif kind == "database" and name == "ftruncate" and self._open is not None:
            self._open.after = offset // self._page_size

    def _journal(self, name: str, offset: int, length: int, *, is_write: bool) -> None:
        if is_write and offset == 0 and length >= _LEAST_HEADER:
            self.close()
            self._open = _Open()
        elif is_write and offset == 0 and length == _ZEROED:
            self.ends["persist"] += 1
        elif name == "ftruncate":
            self.ends["truncate"] += 1
        elif name in ("fsync", "fdatasync") and self._open is not None:
            self._open.syncs += 1

    def _database(self, time_ns: int, offset: int, length: int, pid: int) -> None:
        if self._open is None:
            self.unknown_pages += 1
            return
        first, last = offset // self._page_size, (offset + length - 1) // self._page_size
        self._open.pages.update(range(first + 1, last + 2))
        self._open.time_ns, self._open.pid = time_ns, pid

    def close(self) -> None:
        """End the transaction that is open; one that wrote no page was rolled back."""
        open_, self._open = self._open, None
        if open_ is None or not open_.pages:
            return
        before = self._pages
        after = open_.after if open_.after else max(before, *open_.pages)
        for page in sorted(open_.pages):
            self.rows.append((self.count, open_.time_ns, open_.pid, page, before, after))
        self.count += 1
        self._pages = after
        self.syncs[open_.syncs] += 1

    def mode(self) -> str:
        """Tell the journal mode by how transactions end."""
        return self.ends.most_common(1)[0][0] if self.ends else "delete"

    def synchronous(self) -> str | None:
        """Tell by the syncs of the journal in a transaction; those of its folder are not seen."""
        if not self.syncs:
            return None
        usual = self.syncs.most_common(1)[0][0]
        normal = 2 if self.mode() == "persist" else 1
        return "off" if usual == 0 else "normal" if usual <= normal else "full"


def _of_journal(calls: _Calls, about: dict[str, Any]) -> SqliteFound:
    header = about.get("header", {})
    journal = _Journal(header.get("page_size") or 4096, header.get("pages", 0))
    for row in zip(
        calls.file,
        calls.name,
        calls.time_ns.tolist(),
        calls.offset.tolist(),
        calls.length.tolist(),
        calls.pid.tolist(),
        strict=True,
    ):
        journal.take(*row)
    journal.close()
    gaps = []
    if not header:
        gaps.append("the database was made while it was recorded, so its pages are not known")
    not_told = [
        _NOT_TOLD_BY_CONNECTION,
        "which pages were free before a transaction, and which it freed",
    ]
    if journal.unknown_pages:
        not_told.append(f"{journal.unknown_pages} writes before the first journal was seen")
    columns = list(zip(*journal.rows, strict=True)) or [()] * 6
    names = ("transaction", "time_ns", "connection", "page", "pages_before", "pages_after")
    arrays = {
        name: pa.array(column, _SCHEMA.field(name).type)
        for name, column in zip(names, columns, strict=True)
    }
    arrays["free_for"] = pa.nulls(len(journal.rows), pa.uint32())
    facts = {
        "page_size": header.get("page_size") or 4096,
        "journal_mode": journal.mode(),
        "synchronous": journal.synchronous(),
        "wal_autocheckpoint": None,
        "cache_size": None,
        "encoding": header.get("encoding"),
        "first_page_told": False,
        "skips_freed": False,
        "auto_vacuum_full": bool(header.get("auto_vacuum_full")),
        "gaps": gaps,
        "not_told": not_told,
    }
    return SqliteFound(pa.table(arrays, _SCHEMA), facts)
