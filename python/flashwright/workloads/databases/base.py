"""Interface between the driver and a database.

A backend is one file here and one line in `databases/__init__.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

Value = int | str | None
Row = tuple[Any, ...]
Statement = tuple[str, tuple[Value, ...]]
"""SQL with `?` for each parameter, and the parameters."""


class TransactionConflictError(Exception):
    """The database took the transaction back because of another one.

    It may be tried again from its start.
    """


class Backend(Protocol):
    """One connection. Not to be shared between threads or processes."""

    def batch(
        self, statements: Sequence[Statement], *, commit: bool = False, read_only: bool = False
    ) -> list[list[Row]]:
        """Run statements in order, and return the rows of each.

        In as few round trips as the database allows. Begins a transaction if none is open, and
        commits it at the end if `commit` is set. `read_only` promises that the transaction will not
        write, so that a database with one writer at a time need not keep others from it.

        Raises:
            TransactionConflictError: deadlock or lock time-out; the transaction is already rolled
            back.
        """

    def rollback(self) -> None:
        """Take the open transaction back."""

    def script(self, statements: Iterable[str]) -> None:
        """Run statements without parameters, each in a transaction of its own."""

    def bulk_load(self, table: str, rows: Iterable[tuple[Value, ...]]) -> None:
        """Add rows (all columns, in the table's order) by the fastest road, in one transaction."""

    def analyze(self) -> None:
        """Bring the planner's statistics up to date after a load."""

    def close(self) -> None:
        """Close the connection."""


class BackendConfig(Protocol):
    """Place and settings of a database; can be sent to another process."""

    @property
    def parallel_load(self) -> bool:
        """True if several connections may load at the same time."""

    def connect(self) -> Backend:
        """Open a connection."""
