"""SQLite through the standard library."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from .base import Row, Statement, TransactionConflictError, Value

_PREPARED = 400
"""Statements kept prepared: TPC-C's orders of 5 to 15 lines in ten districts are most of them."""
_RETRY_S = 0.005
"""Between attempts at a lock for which SQLite does not wait itself."""


@dataclass(frozen=True)
class SqliteConfig:
    """A database file.

    `journal_mode` and `synchronous` are SQLite's pragmas; the defaults here lose nothing in a power
    cut. `busy_timeout_s` is how long a client waits for another's transaction. `pragmas` are set
    after them on every connection (name -> value); `page_size` among them takes effect only in a
    file that is still empty.
    """

    path: str
    journal_mode: str = "wal"
    synchronous: str = "full"
    busy_timeout_s: float = 10.0
    pragmas: dict[str, str] = field(default_factory=dict)

    @property
    def parallel_load(self) -> bool:
        """SQLite has one writer at a time."""
        return False

    def connect(self) -> SqliteBackend:
        """Open the file, and create it if it is not there."""
        return SqliteBackend(self)


class SqliteBackend:
    """A connection to a SQLite file.

    Transactions that may write begin IMMEDIATE, so that none fails half-way for a lock.
    """

    def __init__(self, config: SqliteConfig) -> None:
        """Open the file and set the pragmas."""
        self._connection = sqlite3.connect(
            config.path,
            timeout=config.busy_timeout_s,
            isolation_level=None,
            cached_statements=_PREPARED,
        )
        # Before the journal mode: a file in WAL mode keeps its page size.
        for name, value in sorted(
            config.pragmas.items(), key=lambda pragma: pragma[0] != "page_size"
        ):
            self._connection.execute(f"PRAGMA {name} = {value}")
        self._set_journal_mode(config)
        self._connection.execute(f"PRAGMA synchronous = {config.synchronous}")

    def _set_journal_mode(self, config: SqliteConfig) -> None:
        """Set it, and wait for others.

        To or from WAL, SQLite does not wait for a connection that holds the write lock.
        """
        deadline = time.monotonic() + config.busy_timeout_s
        while True:
            try:
                self._connection.execute(f"PRAGMA journal_mode = {config.journal_mode}")
            except sqlite3.OperationalError as error:
                if (
                    error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY
                    or time.monotonic() > deadline
                ):
                    raise
                time.sleep(_RETRY_S)
            else:
                return

    def batch(
        self, statements: Sequence[Statement], *, commit: bool = False, read_only: bool = False
    ) -> list[list[Row]]:
        """See `Backend.batch`."""
        try:
            if not self._connection.in_transaction:
                self._connection.execute("BEGIN" if read_only else "BEGIN IMMEDIATE")
            rows = [
                self._connection.execute(sql, parameters).fetchall()
                for sql, parameters in statements
            ]
            if commit:
                self._connection.execute("COMMIT")
        except sqlite3.OperationalError as error:
            self.rollback()
            if error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise TransactionConflictError(str(error)) from error
            raise
        return rows

    def rollback(self) -> None:
        """See `Backend.rollback`."""
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def script(self, statements: Iterable[str]) -> None:
        """See `Backend.script`."""
        for statement in statements:
            self._connection.execute(statement)

    def bulk_load(self, table: str, rows: Iterable[tuple[Value, ...]]) -> None:
        """See `Backend.bulk_load`."""
        columns = len(self._connection.execute(f"PRAGMA table_info({table})").fetchall())
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.executemany(
            f"INSERT INTO {table} VALUES ({', '.join('?' * columns)})", rows
        )
        self._connection.execute("COMMIT")

    def analyze(self) -> None:
        """See `Backend.analyze`."""
        self._connection.execute("ANALYZE")

    def close(self) -> None:
        """See `Backend.close`."""
        self._connection.close()
