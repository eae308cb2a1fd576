"""A database of ours in a folder.

Made, filled, started anew with the settings of a run, and stopped.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

from flashwright import _core
from flashwright._core import InputError
from flashwright._paths import open_plain
from flashwright._text import size
from flashwright.written import TRUTH, Kind, number, others, seconds, setting
from flashwright.written import size as bytes_of

from .base import BackendConfig

MIB = 1 << 20


def _size_or_share(text: str) -> int | float | None:
    if text.endswith("%"):
        share = number(0, is_open=True).read(text[:-1])
        return share / 100 if share is not None and share <= 100 else None
    return _core.parse_bytes(text) or None


def _said(value: float) -> str:
    return f"{100 * value:g} %" if isinstance(value, float) else size(value)


_BUFFER = Kind(
    "BYTES|SHARE",
    "a size in bytes, such as 64Mi, or a share, such as 10%",
    _size_or_share,
    _said,
    MIB,
    "MiB",
)


@dataclass(frozen=True)
class Settings:
    """Settings of a database, written with its name; None is the database's own default.

    A database has a class of these for itself. `buffer` is a share if it is a float: of the
    database's size after the load.
    """

    name: ClassVar[str]
    log_room_bytes: ClassVar[int]
    """Bytes of a volume for its logs, and for all else that is not its data."""
    buffer: int | float | None = setting(
        "Of the database: shared_buffers; in SQLite cache_size, divided among the clients. A share "
        "is of the database after the load.",
        _BUFFER,
        None,
        title="buffer of the database",
        is_log=True,
    )
    memory: int | None = setting(
        "Limit the database with its buffers and the page cache of its files, by a control group. "
        "Needs root.",
        bytes_of(),
        None,
        is_log=True,
    )
    direct_io: bool = setting(
        "Keep the page cache out: PostgreSQL 16 and newer by direct I/O, all others by a small "
        "control group.",
        TRUTH,
        default=False,
        title="direct I/O",
    )
    checkpoint: float | None = setting(
        "Ask for a full checkpoint so often; the database makes none by itself.",
        seconds(0.1),
        None,
        title="seconds between checkpoints",
        is_log=True,
    )
    extra: Mapping[str, str] = setting(
        "Any other setting of PostgreSQL, or pragma of SQLite.", others("set.")
    )

    def __post_init__(self) -> None:
        """Refuse settings that contradict each other.

        Raises:
            InputError: buffers do not fit into the memory.
        """
        if isinstance(self.buffer, int):
            self.check_memory(self.buffer)

    def buffer_of(self, database_bytes: int) -> int | None:
        """Give the size of the buffer for a database of this size."""
        if isinstance(self.buffer, float):
            return round(self.buffer * database_bytes)
        return self.buffer

    def check_memory(self, buffer_bytes: int) -> None:
        """Raise InputError if buffers of this size do not fit into the memory."""
        if self.memory is not None and self.memory <= buffer_bytes:
            raise InputError(
                f"memory={self.memory}: it must be more than the database's buffers of "
                f"{buffer_bytes} bytes"
            )


class Place(Protocol):
    """A database of ours. In order: `make`, `open_for_load`, `open_for_run`, `close`."""

    def make(self) -> None:
        """Make the empty database.

        Raises:
            InputError: the folder will not do.
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
