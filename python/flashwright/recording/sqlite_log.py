"""Watches the log of a SQLite database while it is recorded.

Read are the log (`-wal`) as it grows and, once, the database's header. Nothing is asked of SQLite,
and no lock is taken: the database does what it would do without us. The watcher is a process of its
own: in one that uses the database, closing the file would take SQLite's locks away.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import flashwright
from flashwright._core import InputError, RunError, SqliteLog
from flashwright._paths import open_plain
from flashwright.workloads.supervisor import Program, Supervisor

ROWS, ABOUT = "sqlite.rows.arrow", "sqlite.about.json"
LOOK_S = 0.002
"""Time between two looks: a log that is restarted is whole until as much was written again."""
_WORK_SHARE = 0.1
"""Looking takes no more of a processor than this, as long as it is often enough."""
_MOST_PAUSE_S = 0.01
_START_S = 30.0
_PROGRAM = """
import sys
sys.path.insert(0, sys.argv.pop(1))
from flashwright.recording.sqlite_log import main
main()
"""
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


class LogRecorder:
    """Runs a watcher beside a recording: `start`, `stop`; `close` at the end."""

    def __init__(self, supervisor: Supervisor, folder: Path, database: Path) -> None:
        """Do nothing yet. `folder`: that of the raw streams."""
        self._supervisor, self._folder, self._database = supervisor, folder.absolute(), database
        self._program: Program | None = None

    def start(self) -> None:
        """Watch from now on.

        Raises RunError if the watcher does not start.
        """
        (self._folder / ABOUT).unlink(missing_ok=True)
        package = Path(flashwright.__file__).parents[1]
        command: list[str | Path] = [sys.executable, "-I", "-c", _PROGRAM]
        command += [package, self._folder, self._database]
        log = self._folder / "sqlite.log"
        self._program = self._supervisor.start(command, log=log, stop=((15, 20.0), (9, 5.0)))
        until = time.monotonic() + _START_S
        while not (self._folder / ABOUT).exists():
            if self._program.poll() is not None or time.monotonic() > until:
                raise RunError(
                    f"the watcher of SQLite's log did not start: {log.read_text()[-300:]}"
                )
            time.sleep(0.01)

    def stop(self) -> None:
        """Watch no more, after a last look. What failed is said by what the watcher wrote."""
        if self._program is not None:
            self._program.stop()
            self._program = None

    def close(self) -> None:
        """End, whatever state it is in."""
        self.stop()


class LogWatcher:
    """Writes the transactions of a log into a folder: `begin`, `look` often, `end`."""

    def __init__(self, folder: Path, database: Path) -> None:
        """Do nothing yet. `folder`: that of the raw streams."""
        self._folder, self._database = folder, database
        self._log_path = Path(f"{database}-wal")
        self._about: dict[str, Any] = {"doubts": [], "failed": None}
        self._log: SqliteLog | None = None
        self._inode: tuple[int, int] | None = None
        self._commits = 0
        self._rows: pa.ipc.RecordBatchStreamWriter | None = None

    def begin(self) -> None:
        """Watch from now on. What the log holds already is no transaction of the recording."""
        try:
            self._about["header"] = header_of(self._database)
            self._take(is_counted=False)
        except (OSError, InputError) as error:
            self._about["failed"] = str(error)
        self._rows = pa.ipc.new_stream(self._folder / ROWS, _SCHEMA)
        self._write_about()

    def end(self) -> None:
        """Watch no more, after a last look."""
        self.look()
        self._about["stopped_ns"] = time.monotonic_ns()
        if self._log is not None:
            self._about["nature"] = self._log.nature
            self._about["page_size"] = self._log.page_bytes
        self._write_about()
        if self._rows is not None:
            self._rows.close()
            self._rows = None

    def _write_about(self) -> None:
        # Whole or not at all: who reads it may be early.
        part = self._folder / f"{ABOUT}.part"
        part.write_text(json.dumps(self._about), encoding="utf-8")
        part.replace(self._folder / ABOUT)

    def look(self) -> None:
        """Take what has come since the last look."""
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


def main() -> None:
    """Watch until asked to end. Arguments: the folder, and the database."""
    ended: list[bool] = []
    signal.signal(signal.SIGTERM, lambda *_: ended.append(True))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    watcher = LogWatcher(Path(sys.argv[1]), Path(sys.argv[2]))
    # On a busy machine others would run for longer than a log lives.
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    watcher.begin()
    while not ended:
        begun = time.thread_time()
        watcher.look()
        worked = time.thread_time() - begun
        time.sleep(min(max(LOOK_S, worked / _WORK_SHARE), _MOST_PAUSE_S))
    watcher.end()
