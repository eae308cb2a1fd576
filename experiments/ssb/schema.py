"""Tables and indexes of the benchmark in PostgreSQL, and how rows get there.

LINEORDER has a B+-tree on each foreign key, dimensions one on their primary key. The primary key of
LINEORDER, which no query reads, has none. The trees keep an entry for each row
(`deduplicate_items=off`), as those of PostgreSQL 8.3 did. Rows are frozen as they are loaded, so
that no query writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from experiments.ssb import generator
from experiments.ssb.generator import Rows

Say = Callable[[str], None]

PAGE_BYTES = 8192
_WIDTHS = {
    "lo_orderpriority": 15,
    "lo_shippriority": 1,
    "lo_shipmode": 10,
    "d_date": 18,
    "d_dayofweek": 9,
    "d_month": 9,
    "d_yearmonth": 7,
    "d_lastdayinweekfl": 1,
    "d_lastdayinmonthfl": 1,
    "d_holidayfl": 1,
    "d_weekdayfl": 1,
    **{f"{one}_{name}": width for one in "cs" for name, width in (("city", 10), ("nation", 15))},
    **{f"{one}_{name}": width for one in "cs" for name, width in (("region", 12), ("phone", 15))},
    "c_mktsegment": 10,
    "p_mfgr": 6,
    "p_category": 7,
    "p_brand1": 9,
    "p_container": 10,
}
"""Characters of columns of fixed width; other texts are `varchar`, as the specification says."""
TREES: Mapping[str, str] = {
    "lo_orderdate": "lineorder_orderdate",
    "lo_custkey": "lineorder_custkey",
    "lo_suppkey": "lineorder_suppkey",
    "lo_partkey": "lineorder_partkey",
}
"""Names of the B+-trees on foreign keys, by column."""
KEYS: Mapping[str, str] = {
    "dates": "d_datekey",
    "customer": "c_custkey",
    "supplier": "s_suppkey",
    "part": "p_partkey",
}
"""Primary keys of the dimensions."""


def dimensions(scale: float, seed: int) -> dict[str, Rows]:
    """Draw all dimensions, by the names of their tables."""
    return {
        "dates": generator.dates(),
        "customer": generator.customers(scale, seed),
        "supplier": generator.suppliers(scale, seed),
        "part": generator.parts(scale, seed),
    }


def create_table(name: str, rows: Rows) -> str:
    """Give the statement that makes a table for such rows."""

    def kind(column: str) -> str:
        if rows[column].dtype.kind != "S":
            return "integer"
        width = _WIDTHS.get(column)
        return f"char({width})" if width else f"varchar({max(rows[column].dtype.itemsize, 25)})"

    columns = ", ".join(f"{column} {kind(column)} NOT NULL" for column in rows)
    return f"CREATE TABLE {name} ({columns})"


def binary(rows: Rows) -> bytes:
    """Give rows of fixed width as PostgreSQL's COPY reads them in its binary format."""
    fields: list[tuple[str, Any]] = [("fields", ">i2")]
    for name, column in rows.items():
        fields += [(f"{name} bytes", ">i4")]
        fields += [(name, column.dtype if column.dtype.kind == "S" else ">i4")]
    packed = np.empty(len(next(iter(rows.values()))), fields)
    packed["fields"] = len(rows)
    for name, column in rows.items():
        packed[f"{name} bytes"] = column.dtype.itemsize
        packed[name] = column
    return packed.tobytes()


_HEAD = b"PGCOPY\n\xff\r\n\x00" + bytes(8)
_TAIL = b"\xff\xff"


def _text(rows: Rows) -> bytes:
    columns = [
        [value.decode() for value in column.tolist()]
        if column.dtype.kind == "S"
        else [str(value) for value in column.tolist()]
        for column in rows.values()
    ]
    return ("\n".join(map("\t".join, zip(*columns, strict=True))) + "\n").encode()


def load(connection: Any, scale: float, seed: int, say: Say) -> None:
    """Make the tables, fill them and build the indexes, through a connection of psycopg.

    One chunk of LINEORDER is in memory at a time.
    """
    for name, rows in dimensions(scale, seed).items():
        say(f"loading {name}")
        _fill(connection, name, rows, "", [_text(rows)])
        connection.execute(f"ALTER TABLE {name} ADD PRIMARY KEY ({KEYS[name]})")
    total = generator.chunks(scale)
    first = generator.lineorders(scale, seed, 0)

    def pieces() -> Iterable[bytes]:
        yield _HEAD
        for number, rows in enumerate(generator.all_lineorders(scale, seed)):
            say(f"loading lineorder: chunk {number + 1} of {total}")
            yield binary(rows)
        yield _TAIL

    _fill(connection, "lineorder", first, ", FORMAT BINARY", pieces())
    for column, tree in TREES.items():
        say(f"building {tree}")
        connection.execute(
            f"CREATE INDEX {tree} ON lineorder ({column}) WITH (deduplicate_items = off)"
        )
    say("analysing")
    connection.execute("VACUUM ANALYZE")
    connection.execute("CREATE EXTENSION IF NOT EXISTS pageinspect")


def _fill(connection: Any, name: str, rows: Rows, more: str, pieces: Iterable[bytes]) -> None:
    with connection.transaction(), connection.cursor() as cursor:
        # Rows can be frozen only by the transaction that made the table.
        cursor.execute(create_table(name, rows))
        with cursor.copy(f"COPY {name} FROM STDIN (FREEZE{more})") as copy:
            for piece in pieces:
                copy.write(piece)
