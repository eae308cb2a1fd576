"""Asks a database of somebody else's what its files hold, as the user that it belongs to.

A program of its own: it begins as we are, loads what it needs, and gives up all rights but the
owner's before it reads anything of the owner's. A question comes as a line of JSON on standard
input, the answer goes as one to standard output; each further line asks the same again. Bytes that
are no UTF-8 are surrogates in both.
"""

from __future__ import annotations

import base64
import json
import os
import resource
import sqlite3
import sys
from array import array
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any
from urllib.parse import quote

try:
    from psycopg import pq
except ImportError:
    # It is of an optional part, and SQLite needs it not.
    pq = None  # type: ignore[assignment]

_MOST_BYTES = 4 << 30
"""A server that is not what it seems may answer without end."""
_SETTINGS = (
    "-c search_path=pg_catalog -c statement_timeout=20000 -c default_transaction_read_only=on"
)
"""The owner of a database may have set a search path that finds functions of theirs first."""
_DATABASES = b"SELECT datname FROM pg_catalog.pg_database WHERE datallowconn"
_FIRST = b"postgres"


class SaidError(Exception):
    """Error that the owner's database reports."""


def become(uid: int, gid: int) -> None:
    """Give up all rights but a user's, for good."""
    if os.geteuid() == 0 and uid != 0:
        os.setgroups([])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)


def conninfo(keywords: dict[str, bytes]) -> bytes:
    """Give the connection string of these keywords: whatever a value has, it stays a value."""
    return b" ".join(
        name.encode() + b"='" + value.replace(b"\\", b"\\\\").replace(b"'", b"\\'") + b"'"
        for name, value in keywords.items()
    )


@contextmanager
def connected(keywords: dict[str, bytes]) -> Iterator[Any]:
    """Connect to a PostgreSQL server.

    Raises SaidError if it does not let us.
    """
    connection = pq.PGconn.connect(conninfo(keywords))
    try:
        if connection.status != pq.ConnStatus.OK:
            raise SaidError(one_line(connection.error_message))
        yield connection
    finally:
        connection.finish()


def rows(connection: Any, sql: bytes) -> Iterator[dict[str, str | None]]:
    """Give the rows of a query.

    Raises SaidError if it fails.
    """
    result = connection.exec_(sql)
    if result.status != pq.ExecStatus.TUPLES_OK:
        raise SaidError(one_line(result.error_message or connection.error_message))
    names = [result.fname(column).decode() for column in range(result.nfields)]
    for row in range(result.ntuples):
        values = (result.get_value(row, column) for column in range(len(names)))
        yield {
            name: None if value is None else text(value)
            for name, value in zip(names, values, strict=True)
        }


def keywords_of(asked: dict[str, Any]) -> dict[str, bytes]:
    """Give how to connect to a server, but for the name of the database.

    Raises SaidError if the driver is missing.
    """
    if pq is None:
        raise SaidError(
            "the Python package psycopg is missing: pip install 'flashwright[postgres]'"
        )
    return {
        **{name: raw(value) for name, value in asked["keywords"].items()},
        "client_encoding": b"UTF8",
        "connect_timeout": b"10",
        "options": _SETTINGS.encode(),
    }


def of_postgres(asked: dict[str, Any]) -> dict[str, Any]:
    """Answer which relations are in all databases that may be asked.

    Raises SaidError if the server does not answer at all.
    """
    keywords = keywords_of(asked)
    with connected(keywords | {"dbname": _FIRST}) as connection:
        databases = [row["datname"] or "" for row in rows(connection, _DATABASES)]
    found, not_told = [], []
    for name in databases:
        try:
            with connected(keywords | {"dbname": raw(name)}) as connection:
                found += list(rows(connection, raw(asked["sql"])))
        except SaidError as error:
            not_told.append(f"database {name!r}: {error}")
    return {"rows": found, "not_told": not_told}


def of_postgres_statistics(asked: dict[str, Any]) -> dict[str, Any]:
    """Answer what a server counts of itself: `sql`, and the views that this version has.

    Raises SaidError if the server does not answer.
    """
    with connected(keywords_of(asked) | {"dbname": _FIRST}) as connection:
        found = {"server": next(rows(connection, raw(asked["sql"])))["all"]}
        server = parent_of(connection.backend_pid)
        for name, sql in asked["views"].items():
            exists = f"SELECT to_regclass('pg_catalog.{name}')::text AS there"
            if next(rows(connection, exists.encode()))["there"] is not None:
                found[name] = next(rows(connection, raw(sql)))["all"]
    return {"found": found, "server": server}


def parent_of(pid: int) -> int | None:
    """Give the parent of a process; None if there is no such process here.

    Of a backend that is the server: over a socket another one than was meant may have answered.
    """
    try:
        with open(f"/proc/{pid}/stat", errors="replace") as file:  # noqa: PTH123
            # The name stands in brackets and may hold anything.
            return int(file.read().rpartition(")")[2].split()[1])
    except OSError:
        return None


def of_sqlite(asked: dict[str, Any]) -> dict[str, Any]:
    """Answer what each page of a database of SQLite holds, from page 1 on.

    `names` of tables and indexes with their kinds, and for each page the number of its name, -1
    for none. `pages` is None where this SQLite was built without `dbstat`.

    Raises SaidError if SQLite cannot read it.
    """
    # Read-only: whoever closes a database last else moves its log into it.
    where = f"file:{quote(os.fsencode(asked['path']))}?mode=ro"
    try:
        with closing(sqlite3.connect(where, uri=True)) as connection:
            connection.text_factory = lambda value: value.decode(errors="replace")
            options = connection.execute("PRAGMA compile_options").fetchall()
            if ("ENABLE_DBSTAT_VTAB",) not in options:
                return {"pages": None}
            page_bytes, count = (
                connection.execute(f"PRAGMA {name}").fetchone()[0]
                for name in ("page_size", "page_count")
            )
            kinds = dict(
                connection.execute(
                    "SELECT name, CASE type WHEN 'index' THEN 'index' ELSE 'heap' END FROM "
                    "sqlite_schema"
                ).fetchall()
            )
            kinds |= dict.fromkeys(("sqlite_schema", "sqlite_master"), "catalog")
            numbers: dict[str, int] = {}
            pages = array("i", [-1]) * count
            for name, page in connection.execute("SELECT name, pageno FROM dbstat"):
                if 1 <= page <= count:
                    pages[page - 1] = numbers.setdefault(name, len(numbers))
    except sqlite3.Error as error:
        raise SaidError(f"SQLite says: {error}") from error
    return {
        "page_bytes": page_bytes,
        "names": [[name, kinds.get(name, "other")] for name in numbers],
        "pages": base64.b64encode(pages.tobytes()).decode(),
    }


def raw(value: str) -> bytes:
    """Give the bytes of a text."""
    return value.encode(errors="surrogateescape")


def text(value: bytes) -> str:
    """Give bytes as a text."""
    return value.decode(errors="surrogateescape")


def one_line(said: bytes) -> str:
    """Give what libpq says as one line."""
    return " ".join(said.decode(errors="replace").split())


ASKED: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "postgres": of_postgres,
    "postgres_statistics": of_postgres_statistics,
    "sqlite": of_sqlite,
}


def main() -> None:
    """Read a question, become the owner, and answer as often as it is asked."""
    asked = json.loads(sys.stdin.readline())
    become(asked["uid"], asked["gid"])
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_BYTES, _MOST_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    while True:
        try:
            answer = ASKED[asked["of"]](asked)
        except SaidError as error:
            answer = {"error": str(error)}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
        if not sys.stdin.readline():
            break


if __name__ == "__main__":
    main()
