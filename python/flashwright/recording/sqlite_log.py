"""Watches the log of a SQLite database while it is recorded.

Read are the log (`-wal`) as it grows and, once, the database's header. Nothing is asked of SQLite,
and no lock is taken: the database does what it would do without us.
"""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from flashwright._core import InputError, SqliteLog
from flashwright._paths import open_plain

ROWS, ABOUT = "sqlite.rows.arrow", "sqlite.about.json"
LOOK_S = 0.002
"""Time between two looks: a log that is restarted is whole until as much was written again."""
_WORK_SHARE = 0.1
"""Looking takes no more of a processor than this."""
_SCHEMA = pa.schema(
    {
        "commit": pa.uint64(),
        "look_ns": pa.int64(),
        "log": pa.uint64(),
        "first_frame": pa.uint64(),
        "frames": pa.uint64(),
        "pages_before": pa.uint64(),
        "pages_after": pa.uint64(),
        "page": pa.uint32(),
        "free_for": pa.uint32(),
    }
)
_HEADER_BYTES = 100


def header_of(database: Path) -> dict[str, Any]:
    """Give what a database's header says; empty of one that is not made yet.

    Raises OSError if it cannot be read.
    """
    try:
        with os.fdopen(open_plain(database), "rb") as file:
            header = file.read(_HEADER_BYTES)
            length = os.fstat(file.fileno()).st_size
    except FileNotFoundError:
        return {}
    if len(header) < _HEADER_BYTES:
        return {}

    def number(at: int) -> int:
        return int.from_bytes(header[at : at + 4], "big")

    page_size = int.from_bytes(header[16:18], "big")
    page_size = 65536 if page_size == 1 else page_size
    encodings = {1: "UTF-8", 2: "UTF-16le", 3: "UTF-16be"}
    return {
        "page_size": page_size,
        "is_wal": header[18] == 2,
        "encoding": encodings.get(number(56)),
        "auto_vacuum_full": number(52) != 0 and number(64) == 0,
        "pages": length // page_size if page_size else 0,
    }


class LogWatcher:
    """Writes the transactions of a log into a folder: `start`, `stop`; `close` at the end."""

    def __init__(self, folder: Path, database: Path) -> None:
        """Do nothing yet. `folder`: that of the raw streams."""
        self._folder, self._database = folder, database
        self._log_path = Path(f"{database}-wal")
        self._about: dict[str, Any] = {"doubts": [], "failed": None}
        self._has_ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._log: SqliteLog | None = None
        self._inode: tuple[int, int] | None = None
        self._commits = 0
        self._first_log = 0
        self._rows: pa.ipc.RecordBatchStreamWriter | None = None

    def start(self) -> None:
        """Watch from now on. What the log holds already is no transaction of the recording."""
        try:
            self._about["header"] = header_of(self._database)
            self._take(is_counted=False)
        except (OSError, InputError) as error:
            self._about["failed"] = str(error)
        self._about["started_ns"] = time.monotonic_ns()
        self._write_about()
        self._rows = pa.ipc.new_stream(self._folder / ROWS, _SCHEMA)
        self._thread = threading.Thread(target=self._watch, name="sqlite log", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Watch no more, after a last look."""
        self._has_ended.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
            self._look()
            self._about["stopped_ns"] = time.monotonic_ns()
            if self._log is not None:
                self._about["nature"] = self._log.nature
                self._about["page_size"] = self._log.page_bytes
            self._write_about()
        if self._rows is not None:
            self._rows.close()
            self._rows = None

    def close(self) -> None:
        """End, whatever state it is in."""
        self.stop()

    def _write_about(self) -> None:
        (self._folder / ABOUT).write_text(json.dumps(self._about), encoding="utf-8")

    def _watch(self) -> None:
        pause = LOOK_S
        while not self._has_ended.wait(pause):
            begun = time.thread_time()
            self._look()
            pause = max(LOOK_S, (time.thread_time() - begun) / _WORK_SHARE)

    def _look(self) -> None:
        if self._about["failed"] is not None:
            return
        try:
            self._take(is_counted=True)
        except (OSError, InputError) as error:
            self._about["failed"] = str(error)
            self._write_about()

    def _take(self, *, is_counted: bool) -> None:
        """Take what has come since the last look: of a log that is gone what it still has."""
        if self._log is not None:
            self._keep(self._log.look(), is_counted=is_counted)
        try:
            found = self._log_path.lstat()
        except FileNotFoundError:
            return
        inode = (found.st_dev, found.st_ino)
        if inode == self._inode or found.st_size == 0:
            return
        log = open_plain(self._log_path)
        try:
            inode = (os.fstat(log).st_dev, os.fstat(log).st_ino)
            at = f"/proc/self/fd/{log}"
            if self._log is None:
                base = open_plain(self._database)
                try:
                    opened = SqliteLog(at, f"/proc/self/fd/{base}")
                finally:
                    os.close(base)
                if opened.page_bytes == 0:
                    return
                self._log = opened
            else:
                # What came since it was looked at last; nobody writes it any more.
                self._keep(self._log.look(), is_counted=is_counted)
                self._log.reopen(at)
        finally:
            os.close(log)
        self._inode = inode
        self._keep(self._log.look(), is_counted=is_counted)

    def _keep(self, found: dict[str, Any], *, is_counted: bool) -> None:
        now = time.monotonic_ns()
        if found["doubt"] is not None and is_counted:
            self._about["doubts"].append([now, found["doubt"]])
            self._write_about()
        count = len(found["frames"])
        if not is_counted or self._rows is None or not count:
            return
        frames = found["frames"].astype(np.int64)
        commits = np.arange(self._commits, self._commits + count, dtype=np.uint64)
        self._commits += count
        each = ("log", "first_frame", "frames", "pages_before", "pages_after")
        columns = {
            "commit": np.repeat(commits, frames),
            "look_ns": np.full(int(frames.sum()), now),
            **{name: np.repeat(found[name], frames) for name in each},
            "page": found["page"],
            "free_for": found["free_for"],
        }
        self._rows.write_batch(
            pa.record_batch([pa.array(columns[name]) for name in _SCHEMA.names], _SCHEMA)
        )
