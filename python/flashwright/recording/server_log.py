"""Keeps the log that a PostgreSQL server writes while it is recorded, for what-ifs.

Segments are copied when they are full. The server renames one that it needs no more, and writes
over it some segments later: each is opened while it still has its name. A hard link would not do,
as a second name of the same file does not outlive that, either.
"""

from __future__ import annotations

import os
import struct
import threading
from pathlib import Path
from typing import Any

from flashwright._core import InputError, RunError
from flashwright._paths import open_plain, write_whole
from flashwright._text import one_line, size
from flashwright.runs import dump_json

from .server_facts import Asks, counted_of, relations_of, settings_of

WAL, SERVER = "wal", "server.json"
MOST_BYTES = 16 << 30
"""No more of the log is kept than this."""
_LOOK_S = 0.1
_TRIES = 5
"""Times that the server is asked where its log begins, if it moves on meanwhile."""
_BLOCK = 1 << 20
_HEAD = struct.Struct("<HHIQ")
_NEWEST = (15, 18)


class ServerLog:
    """Keeps a server's log in a folder: `begin`, then `end`; `close`, whatever happened."""

    def __init__(self, asks: Asks, data: Path, folder: Path, most_bytes: int = MOST_BYTES) -> None:
        """Ask nothing yet. `data` is the server's data directory; `folder` is the recording's."""
        self._asks, self._data, self._folder = asks, data, folder
        self._most_bytes = most_bytes
        self._before: dict[str, Any] = {}
        self._relations: list[dict[str, Any]] = []
        self._segment_bytes = 0
        self._next = 0
        self._ahead = 0
        self._bytes = 0
        self._open_files: dict[int, int] = {}
        """Segments that are opened and not yet copied."""
        self._has_ended = threading.Event()
        self._copying: threading.Thread | None = None
        self.gap: str | None = None
        """Reason why the log is not whole, in a line."""

    def begin(self) -> None:
        """Ask the server, and keep what it writes from its last redo point on."""
        try:
            (self._folder / WAL).mkdir(exist_ok=True)
            for stale in (*(self._folder / WAL).iterdir(), self._folder / SERVER):
                stale.unlink(missing_ok=True)
            # The first answer waits for a program to start.
            self._asks.state()
            self._relations = self._asks.relations()
            self._find_first()
        except (RunError, InputError, OSError, KeyError, ValueError, TypeError) as error:
            self.gap = one_line(str(error))
            return
        self._copying = threading.Thread(target=self._copy_on, name="log", daemon=True)
        self._copying.start()

    def _find_first(self) -> None:
        """Find the segment of the last redo point, and open it.

        A checkpoint that ends meanwhile moves the redo point on, and the server uses the segment
        again: then it is asked once more.
        """
        for _ in range(_TRIES):
            self._before = self._asks.state()
            self._check()
            server = self._before["server"]
            self._segment_bytes = int(server["segment_bytes"])
            self._next = _lsn(server["redo_lsn"]) // self._segment_bytes
            self._ahead = self._count_ahead(_lsn(server["lsn"]) // self._segment_bytes)
            self._open_written()
            if self._next in self._open_files:
                return

    def _check(self) -> None:
        version = int(self._before["server"]["version"]) // 10_000
        if not _NEWEST[0] <= version <= _NEWEST[1]:
            raise InputError(
                f"logs of PostgreSQL {version} are not read, only of {_NEWEST[0]} to {_NEWEST[1]}"
            )

    def end(self) -> dict[str, Any]:
        """Keep no more; write what is known of the server, and give what was kept.

        Raises RunError if it cannot be written.
        """
        self._has_ended.set()
        if self._copying is not None:
            self._copying.join()
        if self._copying is not None:
            try:
                self._finish()
            except (RunError, OSError, KeyError, ValueError, TypeError) as error:
                self.gap = one_line(str(error))
        kept = sorted((self._folder / WAL).glob("*"))
        return {"segments": len(kept), "bytes": self._bytes, "gap": self.gap}

    def _finish(self) -> None:
        after = self._asks.state()
        # Of relations it counts no more often than once a second.
        relations = relations_of(self._relations, self._asks.relations())
        last = (_lsn(after["server"]["lsn"]) - 1) // self._segment_bytes
        self._open_written()
        while self.gap is None and self._next <= last:
            self._copy()
        before, server = self._before["server"], after["server"]
        if before["started_s"] != server["started_s"]:
            self.gap = "the server was started again while it was recorded"
        document = {
            **{key: before[key] for key in ("version", "block_bytes", "segment_bytes")},
            **{key: before[key] for key in ("has_checksums", "redo_lsn", "redo_time_s")},
            "started_s": before["started_s"],
            "settings": settings_of(self._before),
            "begin": {key: before[key] for key in ("time_s", "lsn")},
            "end": {key: server[key] for key in ("time_s", "lsn")},
            "segments_ahead": self._ahead,
            "relations": relations,
            "counted": counted_of(self._before, after, relations),
            "statistics": {
                name: [self._before.get(name), after.get(name)]
                for name in self._before
                if name != "server"
            },
            "gap": self.gap,
        }
        write_whole(self._folder / SERVER, dump_json(document))

    def close(self) -> None:
        """End, whatever state it is in."""
        self._has_ended.set()
        if self._copying is not None:
            self._copying.join()
        for file in self._open_files.values():
            os.close(file)
        self._open_files.clear()
        self._asks.close()

    def _name(self, number: int) -> str:
        in_4_gib = (1 << 32) // self._segment_bytes
        timeline = int(self._before["server"]["timeline"])
        return f"{timeline:08X}{number // in_4_gib:08X}{number % in_4_gib:08X}"

    def _open(self, number: int) -> int:
        folder = (self._data / "pg_wal").resolve()
        return open_plain(folder / self._name(number), owner=self._data.stat().st_uid)

    def _is_used(self, file: int, number: int) -> bool:
        """Tell whether a file holds this segment, and not one that was there before it."""
        head = os.pread(file, _HEAD.size, 0)
        if len(head) < _HEAD.size:
            return False
        magic, _, _, address = _HEAD.unpack(head)
        return bool(magic >> 8 == 0xD1 and address == number * self._segment_bytes)

    def _count_ahead(self, number: int) -> int:
        count = 0
        while ((self._data / "pg_wal") / self._name(number + count + 1)).exists():
            count += 1
        return count

    def _open_written(self) -> None:
        """Open all segments that the server has begun to write."""
        number = max(self._open_files, default=self._next - 1) + 1
        while True:
            try:
                file = self._open(number)
            except OSError:
                return
            if not self._is_used(file, number):
                # It has its name already, and the content of one before it.
                os.close(file)
                return
            self._open_files[number] = file
            number += 1

    def _copy_on(self) -> None:
        try:
            while not self._has_ended.wait(_LOOK_S):
                self._open_written()
                while self.gap is None and self._next + 1 in self._open_files:
                    self._copy()
        except OSError as error:
            self.gap = f"{error.filename or self._folder}: {error.strerror}"

    def _copy(self) -> None:
        """Copy the next segment."""
        name = self._name(self._next)
        if self._bytes + self._segment_bytes > self._most_bytes:
            self.gap = (
                f"it is longer than {size(self._most_bytes)}, of which no more is kept; record for "
                "a shorter time"
            )
            return
        file = self._open_files.pop(self._next, None)
        if file is None:
            self.gap = f"the server used segment {name} again before it was copied"
            return
        try:
            with (self._folder / WAL / name).open("wb") as out:
                while block := os.read(file, _BLOCK):
                    out.write(block)
                    self._bytes += len(block)
            if not self._is_used(file, self._next):
                (self._folder / WAL / name).unlink()
                self.gap = f"the server used segment {name} again while it was copied"
        finally:
            os.close(file)
        self._next += 1


def _lsn(text: str) -> int:
    high, low = str(text).split("/")
    return int(high, 16) << 32 | int(low, 16)
