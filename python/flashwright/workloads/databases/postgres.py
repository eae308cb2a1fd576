"""PostgreSQL through psycopg 3 (the optional extra `postgres`).

Statements are prepared on the server at their first use, and a batch is one round trip (libpq's
pipeline mode), its BEGIN and COMMIT included: New-Order takes two, where one statement at a time
would take thirty or more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

import psycopg
from psycopg.types.numeric import Int4Dumper

from .base import Row, Statement, TransactionConflictError, Value


@dataclass(frozen=True)
class PostgresConfig:
    """A libpq connection string, such as `host=/tmp port=5432 dbname=tpcc user=postgres`."""

    conninfo: str

    @property
    def parallel_load(self) -> bool:
        """COPY runs in several connections at once."""
        return True

    def connect(self) -> PostgresBackend:
        """Open a connection.

        Raises:
            psycopg.OperationalError: the server cannot be reached.
        """
        return PostgresBackend(self)


class PostgresBackend:
    """A connection to a PostgreSQL server, at its default isolation level (READ COMMITTED)."""

    def __init__(self, config: PostgresConfig) -> None:
        """Connect."""
        self._connection = psycopg.connect(config.conninfo, prepare_threshold=0)
        # TPC-C has most: 11 x 3 widths of order (5 to 15 lines) and the fixed statements all stay
        # prepared.
        self._connection.prepared_max = 200
        # psycopg picks int2, int4 or int8 by value, and would prepare each statement once for each
        # combination.
        self._connection.adapters.register_dumper(int, Int4Dumper)

    def batch(
        self,
        statements: Sequence[Statement],
        *,
        commit: bool = False,
        read_only: bool = False,  # noqa: ARG002  (readers keep nobody from anything here)
    ) -> list[list[Row]]:
        """See `Backend.batch`."""
        connection = self._connection
        try:
            with connection.pipeline():
                cursors = [
                    connection.execute(_psycopg_sql(sql), parameters)
                    for sql, parameters in statements
                ]
                if commit:
                    connection.commit()
            return [cursor.fetchall() if cursor.description else [] for cursor in cursors]
        except (psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure) as error:
            connection.rollback()
            raise TransactionConflictError(str(error)) from error

    def rollback(self) -> None:
        """See `Backend.rollback`."""
        self._connection.rollback()

    def script(self, statements: Iterable[str]) -> None:
        """See `Backend.script`."""
        for statement in statements:
            self._connection.execute(statement.encode())
            self._connection.commit()

    def bulk_load(self, table: str, rows: Iterable[tuple[Value, ...]]) -> None:
        """See `Backend.bulk_load`."""
        with (
            self._connection.cursor() as cursor,
            cursor.copy(f"COPY {table} FROM STDIN".encode()) as copy,
        ):
            lines: list[str] = []
            for row in rows:
                # The load's strings hold letters, digits and spaces only: nothing that COPY would
                # have escaped.
                lines.append("\t".join("\\N" if value is None else str(value) for value in row))
                if len(lines) == 1000:
                    copy.write("\n".join(lines) + "\n")
                    lines.clear()
            if lines:
                copy.write("\n".join(lines) + "\n")
        self._connection.commit()

    def analyze(self) -> None:
        """See `Backend.analyze`.

        Vacuums as well, so that the load's rows are not all visited again during the run.
        """
        self._connection.autocommit = True
        self._connection.execute("VACUUM (ANALYZE)")
        self._connection.autocommit = False

    def close(self) -> None:
        """See `Backend.close`."""
        self._connection.close()


@cache
def _psycopg_sql(sql: str) -> bytes:
    return sql.replace("?", "%s").encode()
