"""Written by `make jobs` from crates/jobs: change it there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class ModeWrites:
    """What one mode would have written."""

    bounds: tuple[str, ...]
    """Why a figure is a bound, in words."""
    checkpoints: int
    """Checkpoints."""
    commits: int
    """Commits."""
    database_bytes: int
    """Bytes written to the database."""
    journal_bytes: int
    """Bytes written to the rollback journal."""
    journal_mode: Literal["wal", "delete", "truncate", "persist", "memory", "off"]
    """`PRAGMA journal_mode`."""
    log_bytes: int
    """Bytes written to the log."""
    longest_log_bytes: int
    """Longest that the log was, in bytes."""
    lost: str
    """What is lost, and when."""
    name: str
    """Its name."""
    synchronous: Literal["off", "normal", "full", "extra"]
    """`PRAGMA synchronous`."""
    syncs: Syncs
    """Syncs by file."""
    total_bytes: int
    """All bytes written."""
    total_bytes_at_most: int | None
    """All bytes written at most, where it is not known which transactions change the first
    page; then the figures above are the least.
    """
    trace: TraceWritten | None
    """The trace that was written."""
    transactions_in_one: int
    """Recorded transactions in one."""
    wal_autocheckpoint: int | None
    """Frames of the log from which a commit makes a checkpoint; none without a log."""


@dataclass(frozen=True, kw_only=True)
class Syncs:
    """Syncs of each file."""

    database: int
    """Of the database."""
    folder: int
    """Of the folder."""
    journal: int
    """Of the rollback journal."""
    log: int
    """Of the log."""


@dataclass(frozen=True, kw_only=True)
class TraceWritten:
    """A trace of a mode's writes: stream 1 the database, 2 the log, 3 the journal."""

    end_bytes: int
    """One behind the last byte named."""
    flushes: int
    """Flushes in it."""
    path: str
    """Its file."""
    requests: int
    """Requests in it."""
    written_bytes: int
    """Bytes that they write: whole blocks of 4 KiB, as the kernel's page cache writes them."""


@dataclass(frozen=True, kw_only=True)
class WhatSqliteWrites:
    """What a SQLite database would have written in each mode."""

    cache_pages: int
    """Pages that the cache holds."""
    content_hash: str
    """Identity of the transactions: the hash of their file."""
    left_out: int
    """Transactions before them that were left out."""
    modes: tuple[ModeWrites, ...]
    """What each mode would have written, as asked."""
    most_pages: int
    """Most pages that the database has."""
    not_told: tuple[str, ...]
    """Gaps in what is known, in words."""
    page_size: int
    """Bytes of a page."""
    pages_written: int
    """Pages that they write; one that two of them write counts twice."""
    recorded_in: Literal["wal", "delete", "truncate", "persist", "memory", "off"]
    """Journal mode in which they were recorded."""
    seconds: float | None
    """Time from the first commit to the last, in seconds; none of a log, which has no times."""
    transactions: int
    """Transactions that were taken."""
