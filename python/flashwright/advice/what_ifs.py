"""Loads that other settings of a database would have made, from the log that was recorded."""

from __future__ import annotations

import json
import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from flashwright import _core
from flashwright._core import InputError
from flashwright.advice import load as loads
from flashwright.advice.load import Load
from flashwright.recording.files import PURPOSES

MOST_OFF = 0.1
"""Share by which the bytes of the log may differ from those that the disk got of it.

Data pages are not held against the disk: the kernel holds them back until a checkpoint ends, which
may be after the recording, and the database's log tells when they are due.
"""
MOST_FLUSHES, HALVINGS = 4.0, 6
"""Longest flush that is tried, in mean waits of commits; and how often the range is halved."""
_LOG_FOLDER, _SERVER, _SQLITE = "wal", "server.json", "sqlite.json"
_TRANSACTIONS = "transactions.parquet"


class OfLog(ABC):
    """Loads by a job that knows the database's log; each is found once."""

    def __init__(self, recording: Path, into: Path, recorded: Load) -> None:
        """Take the folder of the recording, and one for the loads."""
        self._recording, self._into = recording, into
        self._recorded = recorded
        self._lock = threading.Lock()
        self._found: dict[tuple[tuple[str, str], ...], Load] = {}
        self.refused: str | None = None
        try:
            self._check(self.as_recorded)
        except InputError as error:
            self.refused = str(error)

    @property
    def as_recorded(self) -> Load:
        """Give the load that the log tells for the settings as they were."""
        return self.load({})

    def load(self, settings: Mapping[str, str]) -> Load:
        """Give the load under these settings.

        Raises:
            InputError: it cannot be told, with the reason.
        """
        key = tuple(sorted(settings.items()))
        with self._lock:
            if key not in self._found:
                number = len(self._found)
                path = self._into / f"what-if-{number}.parquet"
                self._make(dict(settings), path, f"c{number}")
                name = ", ".join(f"{one}={value}" for one, value in key) or "as recorded"
                self._found[key] = loads.of_file(path, name, self._recorded.disk)
            return self._found[key]

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
    def _make(self, settings: dict[str, str], path: Path, name: str) -> None:
        """Write the load; `name` is unlike that of any other."""


_PLAIN_BYTES = {"max_wal_size": 1 << 20, "shared_buffers": 8192}
"""Bytes of a number without a unit."""
_UNITS = {"B": 1, "kB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}
_SWITCHES = ("full_page_writes", "synchronous_commit")


def as_job(settings: Mapping[str, str]) -> dict[str, str | bool | int]:
    """Give settings in PostgreSQL's words as the job takes them: its MB are of 2^20 bytes."""
    made: dict[str, str | bool | int] = {}
    for name, value in settings.items():
        text = value.strip()
        if name in _SWITCHES:
            made[name] = text.lower() not in ("off", "false", "no", "0")
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

    def _make(self, settings: dict[str, str], path: Path, name: str) -> None:
        asked = {
            "log": str(self._recording / _LOG_FOLDER),
            "facts": str(self._recording / _SERVER),
            "candidates": [{"name": name, **as_job(settings)}],
            "traces": str(self._into),
            **_flush_time(self._flush_seconds),
        }
        _core.run_job("postgres_what_if", json.dumps(asked).encode(), None)
        files = pq.read_table(self._into / f"{name}.files.parquet").to_pydict()
        purposes = {
            int(number): PURPOSES.index(purpose)
            for number, purpose in zip(files["file"], files["purpose"], strict=True)
        }
        with_purposes(self._into / f"{name}.parquet", purposes, path)

    @cached_property
    def _flush_seconds(self) -> float:
        """Time of a flush: commits that come meanwhile share the next one. 0 if none is needed.

        Fitted, by halving, so that as many bytes of log follow as the disk got. It stays for other
        settings.
        """
        own = self._recorded.written_by.get("wal", 0)
        commits = self._recorded.commits
        low, high = 0.0, MOST_FLUSHES * (0.0 if commits is None else commits.mean)
        if not high or self._log_bytes(low) <= own:
            return 0.0
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if self._log_bytes(middle) > own else (low, middle)
        return (low + high) / 2

    def _log_bytes(self, flush_seconds: float) -> int:
        asked = {
            "log": str(self._recording / _LOG_FOLDER),
            "facts": str(self._recording / _SERVER),
            "candidates": [{"name": "fit"}],
            **_flush_time(flush_seconds),
        }
        outcome, _, _ = _core.run_job("postgres_what_if", json.dumps(asked).encode(), None)
        return int(json.loads(outcome)["candidates"][0]["log_file_bytes"])


def _flush_time(seconds: float) -> dict[str, float]:
    """Give the setting of the job: without any, each commit has a flush of its own."""
    return {"flush_time": seconds} if seconds else {}


class OfSqlite(OfLog):
    """Loads of a SQLite database, by `sqlite_what_if`."""

    def _make(self, settings: dict[str, str], path: Path, name: str) -> None:
        noted = json.loads((self._recording / _SQLITE).read_text(encoding="utf-8"))
        as_noted = {
            key: noted[key]
            for key in ("journal_mode", "synchronous", "wal_autocheckpoint")
            if noted.get(key) is not None
        }
        asked = {
            "transactions": str(self._recording / _TRANSACTIONS),
            "modes": [{"name": name, **as_noted, **settings}],
            "traces": str(self._into),
        }
        _core.run_job("sqlite_what_if", json.dumps(asked).encode(), None)
        with_purposes(self._into / f"{name}.parquet", _OF_SQLITE, path)


_OF_SQLITE = {1: PURPOSES.index("heap"), 2: PURPOSES.index("wal"), 3: PURPOSES.index("wal")}
"""Purposes of the streams of a trace of SQLite: the database, the log, the journal."""


def with_purposes(source: Path, purposes: Mapping[int, int], target: Path) -> None:
    """Write a trace again, with the purpose of each request in place of the number of its file."""
    table = pq.read_table(source)
    stream = table["stream"].to_numpy()
    known = np.full(int(stream.max(initial=0)) + 1, PURPOSES.index("other"), np.uint32)
    for number, purpose in purposes.items():
        if number < len(known):
            known[number] = purpose
    at = table.schema.get_field_index("stream")
    kind = table.schema.field(at)
    pq.write_table(table.set_column(at, kind, pa.array(known[stream], kind.type)), target)
    source.unlink()


def of_recording(home: Path, into: Path, recorded: Load, database: str | None) -> OfLog | None:
    """Give the loads of a recording that has the database's log; None if it has none."""
    if database == "postgres" and (home / _LOG_FOLDER).is_dir() and (home / _SERVER).is_file():
        return OfPostgres(home, into, recorded)
    if database == "sqlite" and (home / _TRANSACTIONS).is_file():
        return OfSqlite(home, into, recorded)
    return None
