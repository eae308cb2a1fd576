"""Loads that other settings of a database would have made, from the log that was recorded."""

from __future__ import annotations

import json
import os
import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

from flashwright import _core
from flashwright._core import InputError, Progress
from flashwright.advice import completed, traces
from flashwright.advice import load as loads
from flashwright.advice.completed import Extents, FilePart
from flashwright.advice.load import FLUSH, WRITE, Load
from flashwright.advice.traces import Longs, Requests, in_order
from flashwright.recording.files import PURPOSES

MOST_OFF = 0.1
"""Share by which the bytes of the log may differ from those that the disk got of it.

Data pages are not held against the disk: the kernel holds them back until a checkpoint ends, which
may be after the recording, and the database's log tells when they are due.
"""
_AT_A_TIME = 4
"""Loads that are made at a time at most: each has its requests in memory several times."""
_LOG_FOLDER, _SERVER, _SQLITE = "wal", "server.json", "sqlite.json"
_TRANSACTIONS = "transactions.parquet"
_PACE, _DISK_TIME, _BUSY_PAGE = "pace", "disk_time", "busy_page"
Key = tuple[tuple[str, str], ...]
"""Settings, by name, with the pace and the disk's times where they are not those recorded."""


@dataclass(frozen=True)
class Made:
    """Requests of a load, and what is known of it."""

    requests: Requests
    flushes: int
    """That a commit waits for."""
    work: float = 1.0
    """Transactions over those of the recording."""


class OfLog(ABC):
    """Loads by a job that knows the database's log; each is found once."""

    HAS_CLOCK: ClassVar[bool] = False

    def __init__(self, recording: Path, into: Path, recorded: Load) -> None:
        """Take the folder of the recording, and one for the loads."""
        self._recording, self._into = recording, into
        self._recorded = recorded
        self._lock = threading.Lock()
        self._found: dict[Key, Load | InputError] = {}
        self._numbers = count()

    @cached_property
    def refused(self) -> str | None:
        """Why nothing can be told; None if it can. Finding that out reads the log."""
        try:
            self._check(self.as_recorded)
        except InputError as error:
            return str(error)
        return None

    @cached_property
    def _requests(self) -> Requests:
        """Requests that were recorded."""
        return traces.load(self._recorded.path)

    @cached_property
    def _extents(self) -> Extents:
        return Extents(self._recording)

    @property
    def as_recorded(self) -> Load:
        """Give the load that the log tells for the settings as they were."""
        return self.load({})

    def load(
        self,
        settings: Mapping[str, str],
        pace: float = 1,
        disk_time: float = 1,
        busy_page_us: float = 0,
    ) -> Load:
        """Give the load under these settings, with what the disk gets beside the database's writes.

        Raises:
            InputError: it cannot be told, with the reason.
        """
        others = {_PACE: pace, _DISK_TIME: disk_time}
        asked = dict(settings) | {name: f"{one:.3g}" for name, one in others.items() if one != 1}
        if busy_page_us:
            asked[_BUSY_PAGE] = f"{busy_page_us:.0f}us"
        self.prepare([asked])
        found = self._found[_key(asked)]
        if isinstance(found, InputError):
            raise found
        return found

    def prepare(self, many: Sequence[Mapping[str, str]], progress: Progress | None = None) -> None:
        """Find the loads under several settings at once: the log is looked through but once.

        Raises:
            Cancelled: `progress` was asked to stop.
        """
        with self._lock:
            missing = {_key(one): one for one in many if _key(one) not in self._found}
            if not missing:
                return
            try:
                self._take(list(missing), progress)
            except InputError as error:
                if len(missing) == 1:
                    self._found[next(iter(missing))] = error
                    return
            else:
                return
            # One of them cannot be told; the others can.
            for key in missing:
                try:
                    self._take([key], progress)
                except InputError as error:
                    self._found[key] = error

    def _take(self, keys: Sequence[Key], progress: Progress | None) -> None:
        """Find some; InputError if one of them cannot be told."""
        asked = {f"c{next(self._numbers)}": dict(key) for key in keys}
        with ThreadPoolExecutor(min(_AT_A_TIME, os.cpu_count() or 1)) as pool:
            found = pool.map(self._kept, keys, asked, self._make(asked, progress))
            self._found |= zip(keys, found, strict=True)

    def _kept(self, key: Key, called: str, make: Callable[[], Made]) -> Load:
        made = make()
        path = self._into / f"{called}.load.parquet"
        traces.write(made.requests, path)
        name = ", ".join(f"{one}={value}" for one, value in key) or "as recorded"
        found = loads.of_file(path, name, self._recorded.disk, made.flushes)
        return replace(found, work=made.work)

    def _placed(self, told: Requests, parts: Sequence[FilePart]) -> Requests:
        """Give requests to files as those to the disk."""
        disk = self._recorded.disk
        known = None if disk is None else disk.size_bytes
        return completed.placed(told, parts, self._extents, self._requests, known)

    def _check(self, found: Load) -> None:
        """Raise InputError if it does not explain the log that the disk got."""
        own, told = (one.written_by.get("wal", 0) for one in (self._recorded, found))
        off = told / max(own, 1) - 1
        if abs(off) > MOST_OFF:
            raise InputError(
                f"{told:,} bytes of log follow from it, and the disk got {own:,}: {off:+.0%}, "
                f"where {MOST_OFF:.0%} is the most"
            )

    @abstractmethod
    def _make(
        self, asked: Mapping[str, Mapping[str, str]], progress: Progress | None
    ) -> Iterator[Callable[[], Made]]:
        """Give what makes the load under each settings, whose names are unlike all others.

        Several are made at a time: what all of them need is there before the first.
        """


def _key(settings: Mapping[str, str]) -> Key:
    return tuple(sorted(one for one in settings.items() if one[0] not in _AS_LEAST))


_AS_LEAST = ("commit_siblings",)
"""Settings that are taken to have their least value: with it every commit waits its delay."""


_PLAIN_BYTES = {"max_wal_size": 1 << 20, "shared_buffers": 8192}
"""Bytes of a number without a unit."""
_UNITS = {"B": 1, "kB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}
_OFF = ("off", "false", "no", "0")
_SWITCHES = ("full_page_writes", "synchronous_commit")


def as_job(settings: Mapping[str, str]) -> dict[str, str | bool | int]:
    """Give settings in PostgreSQL's words as the job takes them: its MB are of 2^20 bytes."""
    made: dict[str, str | bool | int] = {}
    for name, value in settings.items():
        text = value.strip()
        if name in _SWITCHES:
            made[name] = text.lower() not in _OFF
        elif name in _PLAIN_BYTES:
            made[name] = _bytes(name, text)
        else:
            made[name] = text
    return made


def _bytes(name: str, text: str) -> int:
    found = re.fullmatch(r"(\d+)\s*(\w*)", text)
    if found is None or found[2] not in ("", *_UNITS):
        raise InputError(
            f"{name} = {text}: it is no size; write a number, with {', '.join(_UNITS)} behind it"
        )
    return int(found[1]) * (_UNITS[found[2]] if found[2] else _PLAIN_BYTES[name])


class OfPostgres(OfLog):
    """Loads of a PostgreSQL server, by `postgres_what_if`."""

    HAS_CLOCK: ClassVar[bool] = True
    _fitted: Mapping[str, Any] | None = None
    """What the job found by trying; None before the first."""

    def _make(
        self, asked: Mapping[str, Mapping[str, str]], progress: Progress | None
    ) -> Iterator[Callable[[], Made]]:
        found = self._told(asked, progress)
        recorded = found["recorded"]["modelled"]
        _ = self._requests, self._extents
        for name, figures in zip(asked, found["candidates"], strict=True):
            yield partial(self._whole, name, recorded, figures, float(asked[name].get(_PACE, 1.0)))

    def _whole(
        self, name: str, recorded: Mapping[str, Any], figures: Mapping[str, Any], pace: float
    ) -> Made:
        files = pq.read_table(self._into / f"{name}.files.parquet").to_pylist()
        purposes = {int(one["file"]): PURPOSES.index(one["purpose"]) for one in files}
        parts = [
            FilePart(one["path"], one["offset"], one["length"], one["purpose"] == "wal")
            for one in files
        ]
        told = self._placed(_taken(self._into / f"{name}.parquet", purposes), parts)
        reads = _reads(recorded, figures, pace)
        others = completed.beside(self._requests, set(purposes.values()), reads, pace)
        work = 1.0 if pace == 1 else figures["commits"] / max(recorded["commits"], 1)
        return Made(in_order([others, told]), 1, work)

    def _told(
        self, asked: Mapping[str, Mapping[str, str]], progress: Progress | None = None
    ) -> dict[str, Any]:
        """Do the job, and keep what it finds by trying."""
        flushes = self._recorded.requests.get("flush", 0)
        fit: dict[str, Any] = {}
        noted = json.loads((self._recording / _SERVER).read_text(encoding="utf-8"))
        if self._fitted is not None:
            fit = {"fitted": self._fitted}
        elif flushes and str(noted["settings"].get("synchronous_commit")).lower() not in _OFF:
            fit = {"flushes": flushes}
        job = {
            "log": str(self._recording / _LOG_FOLDER),
            "facts": str(self._recording / _SERVER),
            "candidates": [{"name": name, **as_job(one)} for name, one in asked.items()],
            "traces": str(self._into),
            # Commits that come while the log is flushed share the next flush: as many follow as the
            # disk got. The time that one takes stays for other settings. A disk that keeps what it
            # has acknowledged gets none.
            **fit,
        }
        outcome, _, _ = _core.run_job("postgres_what_if", json.dumps(job).encode(), progress)
        found: dict[str, Any] = json.loads(outcome)
        self._fitted = found["fitted"]
        return found


def _reads(before: Mapping[str, Any], after: Mapping[str, Any], pace: float) -> float:
    """Give the pages that are read as a share of those that the model reads as recorded.

    Where it reads none, each transaction reads as many as was recorded.
    """
    if after["page_reads"] is None or not before["page_reads"]:
        return pace
    return float(after["page_reads"]) / float(before["page_reads"])


class OfSqlite(OfLog):
    """Loads of a SQLite database, by `sqlite_what_if`."""

    def _make(
        self, asked: Mapping[str, Mapping[str, str]], progress: Progress | None
    ) -> Iterator[Callable[[], Made]]:
        found = self._told(asked, progress)
        _ = self._requests, self._extents, self._commits_as_recorded
        for name, mode in zip(asked, found["modes"], strict=True):
            yield partial(self._whole, name, mode, found["recorded_in"])

    def _whole(self, name: str, mode: Mapping[str, Any], recorded_in: str) -> Made:
        told = self._trace(name)
        before_ns, blocks_before = self._commits_as_recorded
        # Those of a log that grows are left out: it grows but once.
        at_ns, blocks = before_ns[:0], 0
        if mode["journal_mode"] != "wal":
            at_ns, blocks = self._file_system_commits(told, mode)
            if recorded_in == mode["journal_mode"]:
                blocks = blocks_before
        parts = list(self._parts(told))
        told.stream = np.take(_OF_SQLITE, told.stream)
        others = completed.beside(self._requests, _TOLD_OF_SQLITE)
        if len(at_ns) * blocks != len(before_ns) * blocks_before:
            less_bytes = _BLOCK * blocks_before * len(before_ns)
            others = completed.with_journal(others, at_ns, blocks, less_bytes)
        return Made(in_order([others, self._placed(told, parts)]), _flushes(mode))

    def _told(
        self, asked: Mapping[str, Mapping[str, str]], progress: Progress | None = None
    ) -> dict[str, Any]:
        noted = json.loads((self._recording / _SQLITE).read_text(encoding="utf-8"))
        as_noted = {
            key: noted[key]
            for key in ("journal_mode", "synchronous", "wal_autocheckpoint")
            if noted.get(key) is not None
        }
        job = {
            "transactions": str(self._recording / _TRANSACTIONS),
            "before": self._before,
            "modes": [{"name": name, **as_noted, **one} for name, one in asked.items()],
            "traces": str(self._into),
        }
        outcome, _, _ = _core.run_job("sqlite_what_if", json.dumps(job).encode(), progress)
        found: dict[str, Any] = json.loads(outcome)
        return found

    @cached_property
    def _before(self) -> int:
        """Give the transactions of the warm-up: calls are recorded from its begin on."""
        columns = ["transaction", "time_ns"]
        table = pq.read_table(self._recording / _TRANSACTIONS, columns=columns)
        early = table.filter(pc.less(table["time_ns"], 0))
        return len(pc.unique(early["transaction"]))

    def _trace(self, name: str) -> Requests:
        path = self._into / f"{name}.parquet"
        told = traces.load(path)
        path.unlink()
        return told

    @cached_property
    def _commits_as_recorded(self) -> tuple[Longs, int]:
        """Give the commits of the file system as recorded, which says how many blocks each has."""
        mode = self._told({"recorded": {}})["modes"][0]
        at_ns, blocks = self._file_system_commits(self._trace("recorded"), mode)
        if len(at_ns) >= _LEAST_COMMITS:
            written = self._recorded.written_by.get("journal", 0)
            blocks = max(1, min(_MOST_BLOCKS, round(written / len(at_ns) / _BLOCK)))
        return at_ns, blocks

    def _file_system_commits(self, told: Requests, mode: Mapping[str, Any]) -> tuple[Longs, int]:
        """Give when the file system has to commit, too, and the blocks that it writes then.

        It does where a file is made, cut or deleted with each commit, and at a sync of a log that
        has grown.
        """
        if mode["journal_mode"] == "wal":
            return self._syncs_of_grown_log(told), _BLOCKS_OF_GROWTH
        at_ns = told.time_ns[(told.op == FLUSH) & (told.stream == _JOURNAL_STREAM)]
        commits = int(mode["commits"]) if len(at_ns) else 0
        # A commit has one flush of its journal, or two.
        chosen = at_ns[np.arange(commits) * len(at_ns) // max(commits, 1)]
        return chosen, _BLOCKS_OF_JOURNAL.get(mode["journal_mode"], 0)

    def _syncs_of_grown_log(self, told: Requests) -> Longs:
        of_log = told.taken(told.stream == _LOG_STREAM)
        is_write = of_log.op == WRITE
        if not is_write.any():
            return of_log.time_ns[:0]
        begin = int(of_log.offset[is_write].min())
        database = self._extents.first_of("heap") or ""
        there = begin + self._extents.at_begin(database + _ENDINGS[_LOG_STREAM - 1])
        ends = np.where(is_write, of_log.offset + of_log.length, 0)
        reached = np.maximum(np.maximum.accumulate(ends), there)[~is_write]
        has_grown = np.diff(reached, prepend=there) > 0
        grown: Longs = of_log.time_ns[~is_write][has_grown]
        return grown

    def _parts(self, told: Requests) -> Iterator[FilePart]:
        """Give the files of a trace: each begins at its first byte that is written.

        That is the file's first: of a log and a journal the header, of a database its first page,
        or else one near it.
        """
        database = self._extents.first_of("heap") or ""
        for stream, ending in enumerate(_ENDINGS, 1):
            own = (told.stream == stream) & (told.op == WRITE)
            if database and own.any():
                begin = 0 if stream == 1 else int(told.offset[own].min())
                end = int((told.offset + told.length)[own].max())
                yield FilePart(database + ending, begin, end - begin)


def _flushes(mode: Mapping[str, Any]) -> int:
    """Give the flushes that a commit in a mode of SQLite waits for; those of checkpoints aside."""
    syncs: Mapping[str, int] = mode["syncs"]
    of_commits = syncs["log"] if mode["journal_mode"] == "wal" else sum(syncs.values())
    return max(1, round(of_commits / max(int(mode["commits"]), 1)))


_BLOCK = 4096
_BLOCKS_OF_JOURNAL = {"delete": 8, "truncate": 11, "persist": 3}
"""Blocks that ext4 writes to its journal for each commit in a mode of SQLite.

Measured: 500 transactions of TPC-B each, ext4 of 4 KiB blocks, Linux 6. Other file systems are
taken to write as much.
"""
_BLOCKS_OF_GROWTH = 5
"""The same at a sync of a log that has grown."""
_LEAST_COMMITS, _MOST_BLOCKS = 50, 16
"""Commits of a file system from which a recording tells how many blocks they write, and the most.
"""
_LOG_STREAM, _JOURNAL_STREAM = 2, 3
_ENDINGS = ("", "-wal", "-journal")
"""Of the names of SQLite's files, by their stream in a trace, from 1 on."""
_OF_SQLITE = np.array([PURPOSES.index(name) for name in ("other", "heap", "wal", "wal")])
"""Purposes of the streams of a trace of SQLite: of none, the database, the log, the journal."""
_TOLD_OF_SQLITE = [PURPOSES.index(name) for name in ("heap", "index", "catalog", "other", "wal")]
"""Purposes of pages of a database and its log in a recording."""


def _taken(path: Path, purposes: Mapping[int, int]) -> Requests:
    """Read a trace with the purpose of each request in place of the number of its file."""
    told = traces.load(path)
    known = np.full(int(told.stream.max(initial=0)) + 1, PURPOSES.index("other"), np.int64)
    for number, purpose in purposes.items():
        if number < len(known):
            known[number] = purpose
    told.stream = known[told.stream]
    path.unlink()
    return told


def of_recording(home: Path, into: Path, recorded: Load, database: str | None) -> OfLog | None:
    """Give the loads of a recording that has the database's log; None if it has none."""
    if database == "postgres" and (home / _LOG_FOLDER).is_dir() and (home / _SERVER).is_file():
        return OfPostgres(home, into, recorded)
    if database == "sqlite" and (home / _TRANSACTIONS).is_file():
        return OfSqlite(home, into, recorded)
    return None
