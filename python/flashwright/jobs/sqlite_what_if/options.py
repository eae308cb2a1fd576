"""Written by `make jobs` from crates/jobs: change it there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypedDict


class FileLayout(TypedDict, total=False):
    """First bytes of the files on a device."""

    database: int
    """First byte of the database."""
    discard: bool
    """Trim the place of a journal that is deleted or cut, as a file system does that was told
    to discard.
    """
    journal: int | None
    """First byte of the journal; left out, that of the log."""
    log: int | None
    """First byte of the log; left out, the first MiB behind the database."""


class SqliteMode(TypedDict, total=False):
    """A mode of SQLite, and how many transactions it makes one."""

    journal_mode: Literal["wal", "delete", "truncate", "persist", "memory", "off"]
    """`PRAGMA journal_mode`."""
    name: str | None
    """Its name, also of its trace; left out, it is made of what follows."""
    page_size: int | str | None
    """`PRAGMA page_size`: that of the recording."""
    synchronous: Literal["off", "normal", "full", "extra"]
    """`PRAGMA synchronous`."""
    transactions_in_one: int | str
    """Recorded transactions in one."""
    wal_autocheckpoint: int | str
    """`PRAGMA wal_autocheckpoint`: frames of the log from which a commit makes a checkpoint; 0
    for never.
    """


class SqliteWhatIf(TypedDict, total=False):
    """Computes what a SQLite database would have written in other modes, from recorded
    transactions.
    """

    before: int | str
    """Leave the first N transactions out."""
    modes: str | Sequence[SqliteMode]
    """Modes that are asked about."""
    cache_size: int | None
    """`PRAGMA cache_size`: pages, or KiB if it is negative. [default: as recorded; else -2000,
    SQLite's own]
    """
    traces: str | None
    """Folder into which the writes of each mode go in time and place, as NAME.parquet."""
    layout: FileLayout
    """Places of the files in these traces."""
