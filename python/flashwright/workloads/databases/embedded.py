"""SQLite as a place for a workload: one file, in the clients' own processes."""

from __future__ import annotations

import sqlite3
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flashwright import _core
from flashwright._core import InputError
from flashwright._text import size
from flashwright.written import Kind, choice, setting

from ..supervisor import Supervisor
from .memory import MemoryGroup
from .place import MIB, Settings, evict
from .sqlite import SqliteConfig

_PAGES = tuple(1 << power for power in range(9, 17))


def _page(text: str) -> int | None:
    found = _core.parse_bytes(text)
    return found if found in _PAGES else None


@dataclass(frozen=True)
class Sqlite(Settings):
    """SQLite: in our own process, nothing to install."""

    name = "sqlite"
    log_room_bytes = 1 << 29
    synchronous: str = setting(
        "How far a commit waits for the disk.",
        choice("off", "normal", "full", "extra"),
        "full",
    )
    journal_mode: str = setting(
        "Where changes lie until they last.", choice("wal", "delete", "truncate", "persist"), "wal"
    )
    page_size: int | None = setting(
        "Bytes of a page.",
        Kind("BYTES", "a power of two from 512 to 65536", _page, size),
        None,
        title="page of the database",
        is_log=True,
    )

    def __post_init__(self) -> None:
        """See `Settings`: also refuses checkpoints without a log that has some."""
        super().__post_init__()
        if self.checkpoint is not None and self.journal_mode != "wal":
            raise InputError(
                "checkpoint needs journal_mode=wal: with the others every commit writes to the "
                "database"
            )


class Embedded:
    """A SQLite file in a folder of its own."""

    def __init__(self, folder: Path, settings: Sqlite, supervisor: Supervisor) -> None:
        """Do nothing yet."""
        self.path = folder / "database.sqlite"
        self._settings = settings
        self._supervisor = supervisor
        self._group: MemoryGroup | None = None
        self._config: SqliteConfig | None = None
        self._checkpoints: list[dict[str, Any]] = []

    @property
    def control_group(self) -> Path | None:
        """See `Place`."""
        return None if self._group is None else self._group.processes_file

    def make(self) -> None:
        """See `Place`: whoever loads it makes the file."""

    def open_for_load(self) -> SqliteConfig:
        """See `Place`."""
        size = self._settings.page_size
        page = {} if size is None else {"page_size": str(size)}
        return SqliteConfig(
            str(self.path), "memory", "off", pragmas={**page, "cache_size": "-262144"}
        )

    def open_for_run(self, clients: int) -> SqliteConfig:
        """See `Place`. The buffer is divided among the clients, as each has a cache of its own."""
        evict([self.path.resolve()])
        settings = self._settings
        pragmas = dict(settings.extra)
        buffer = settings.buffer_of(self.size_bytes())
        if buffer is not None:
            pragmas["cache_size"] = str(-max(1, buffer // clients // 1024))
        if settings.checkpoint is not None:
            pragmas["wal_autocheckpoint"] = "0"
        held = buffer or 2 * MIB * clients
        settings.check_memory(held)
        limit = settings.memory
        if settings.direct_io and limit is None:
            limit = held * 2 + (64 + 32 * clients) * MIB
        if limit is not None:
            self._group = MemoryGroup(limit, self._supervisor)
        self._config = SqliteConfig(
            str(self.path),
            settings.journal_mode,
            settings.synchronous,
            60.0,
            pragmas,
        )
        return self._config

    def size_bytes(self) -> int:
        """See `Place`."""
        return self.path.stat().st_size

    def checkpoint(self) -> None:
        """See `Place`. Waits for writers, and for readers of old pages."""
        begun = time.time()
        connection = sqlite3.connect(self.path, timeout=60, isolation_level=None)
        try:
            _, pages, moved = connection.execute("PRAGMA wal_checkpoint(FULL)").fetchone()
        finally:
            connection.close()
        self._checkpoints.append(
            {
                "start_s": begun,
                "end_s": time.time(),
                "cause": "asked for",
                "pages": moved,
                "pages_in_log": pages,
            }
        )

    def checkpoints(self, since: float) -> list[dict[str, Any]]:
        """See `Place`: those that were asked for; SQLite does not tell of its own."""
        return [
            {
                **one,
                "start_s": round(one["start_s"] - since, 3),
                "end_s": round(one["end_s"] - since, 3),
            }
            for one in self._checkpoints
            if one["end_s"] >= since
        ]

    def about(self) -> dict[str, Any]:
        """See `Place`."""
        if self._config is None:
            return {}
        connection = self._config.connect()
        names = (
            "page_size",
            "journal_mode",
            "synchronous",
            "cache_size",
            "wal_autocheckpoint",
            "page_count",
        )
        try:
            values = {
                name: connection.batch([(f"PRAGMA {name}", ())], commit=True)[0][0][0]
                for name in names
            }
        finally:
            connection.close()
        cache = "the kernel's, as on any file"
        if self._group is not None:
            cache += f", limited by a control group ({self._group.limit_file}) for the clients"
        return {
            "version": f"SQLite {sqlite3.sqlite_version}",
            "settings": values,
            "page_cache": cache,
        }

    def files(self) -> list[Path]:
        """See `Place`."""
        found = [Path(f"{self.path}{end}") for end in ("", "-wal", "-shm", "-journal")]
        return [path for path in found if path.exists()]

    def complaint(self) -> str | None:
        """See `Place`: it keeps no log."""
        return None

    def close(self) -> None:
        """See `Place`."""
        if self._group is not None:
            self._group.close()
            self._group = None
