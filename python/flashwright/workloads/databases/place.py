"""A database of ours in a folder.

Made, filled, started anew with the settings of a run, and stopped.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from flashwright._core import InputError
from flashwright._paths import open_plain

from .base import BackendConfig

MIB = 1 << 20


@dataclass(frozen=True)
class Settings:
    """What a run sets in a database; None is the database's own default.

    `buffer_share`: of the database's size after the load, above 0. `uncached`: the kernel's page
    cache shall not help. `memory_bytes`: the most that the database may have, its buffers and the
    page cache of its files included. `checkpoint_seconds`: we ask for a checkpoint so often, and
    the database makes none by itself. `wal_on`: a folder for the log alone. `extra`: the database's
    own settings by name.
    """

    buffer_bytes: int | None = None
    buffer_share: float | None = None
    uncached: bool = False
    memory_bytes: int | None = None
    checkpoint_seconds: float | None = None
    full_page_writes: bool | None = None
    wal_on: Path | None = None
    synchronous: str | None = None
    journal_mode: str | None = None
    page_bytes: int | None = None
    extra: Mapping[str, str] = field(default_factory=dict)

    def buffer_of(self, database_bytes: int) -> int | None:
        """Give the size of the buffer for a database of this size."""
        if self.buffer_share is not None:
            return round(self.buffer_share * database_bytes)
        return self.buffer_bytes

    def check_memory(self, buffer_bytes: int) -> None:
        """Raise InputError if buffers of this size do not fit into the memory."""
        if self.memory_bytes is not None and self.memory_bytes <= buffer_bytes:
            raise InputError(
                f"--memory {self.memory_bytes}: it must be more than the database's buffers of "
                f"{buffer_bytes} bytes"
            )


class Place(Protocol):
    """A database of ours. In order: `make`, `open_for_load`, `open_for_run`, `close`."""

    name: str

    def make(self) -> None:
        """Make the empty database.

        Raises:
            InputError: a setting is not for this database, or the folder will not do.
        """

    def open_for_load(self) -> BackendConfig:
        """Start it with settings that load quickly and survive no crash."""

    def open_for_run(self, clients: int) -> BackendConfig:
        """Start it anew with the settings of the run, nothing of it in memory."""

    def size_bytes(self) -> int:
        """Give the size of the database on its disk, without its log."""

    def checkpoint(self) -> None:
        """Write all that is changed in memory to the database's files."""

    def checkpoints(self, since: float) -> list[dict[str, Any]]:
        """Give the checkpoints that it made since (seconds since 1970), where it says."""

    def about(self) -> dict[str, Any]:
        """Tell versions, settings in force, and what is done about the page cache."""

    def files(self) -> list[Path]:
        """Give its files, with the log."""

    def close(self) -> None:
        """Stop it. The files stay until the supervisor removes the folder."""

    def complaint(self) -> str | None:
        """Give what its own log said last of what went wrong; None if nothing, or it keeps none."""

    @property
    def control_group(self) -> Path | None:
        """`cgroup.procs` of the group that clients have to join.

        Where the database lives in their processes.
        """


def evict(files: Iterable[Path]) -> None:
    """Put files, named by whole paths without links, on the disk and out of the page cache.

    What the load left there must not serve the run's reads.
    """
    for path in files:
        with contextlib.suppress(OSError):
            handle = open_plain(path)
            try:
                os.fsync(handle)
                os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(handle)
