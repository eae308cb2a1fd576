"""The results of a sweep as Parquet, a row a job, that others may read while it is written.

Every file is whole whenever it is opened, all have the same columns, and a job is in one of them.
Only where a new figure comes up, or one turns out to be no whole number, files are written again.
"""

from __future__ import annotations

import secrets
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from flashwright.engine.task import Outcome
from flashwright.sweeps.plan import SEED, Planned

if TYPE_CHECKING:
    import pyarrow as pa

    from flashwright.engine.store import Store

RESULTS, TABLES = "results", "tables"
"""Folders in the run folder."""
_ABSENT = "__HIVE_DEFAULT_PARTITION__"
_FIRST_SECONDS = 1.0
_SHARE = 0.05
"""Share of the time that writing may take, and by which pauses grow."""
_LONGEST_SECONDS = 600.0


def column(axis: str) -> str:
    """Name the column of an axis: `on.op` needs no quotes in SQL as `on_op`."""
    return axis.replace(".", "_")


def row(job: Planned, outcome: Outcome) -> dict[str, Any]:
    """Give the row of a job. A figure that is called as an axis is has `_found` behind its name."""
    found: dict[str, Any] = {column(axis): value for axis, value in job.point.items()}
    found.setdefault(SEED, job.seed)
    found |= {
        "task": outcome.key,
        "ended": outcome.ended,
        "error": outcome.error,
        "seconds_taken": outcome.seconds,
        "peak_bytes": outcome.peak_bytes,
    }
    taken = set(found)
    figures = outcome.figures.items()
    return found | {f"{name}_found" if name in taken else name: one for name, one in figures}


@dataclass
class _Part:
    """Rows that were written together: a file of their own, which only new columns change."""

    place: str
    number: int
    rows: pa.Table | None
    """The rows; None where they are in the file alone."""


class Dataset:
    """The results of a sweep; without a folder they are in memory alone.

    What is new goes into files of its own, as some readers open a file twice.
    """

    def __init__(
        self,
        folder: Path | None,
        store: Store,
        partitions: Sequence[str] = (),
        tables: Sequence[str] = (),
    ) -> None:
        self._folder, self._store = folder, store
        self._partitions = [column(axis) for axis in partitions]
        self._tables = list(tables)
        self._types: dict[str, Any] = {}
        self._parts: list[_Part] = []
        self._fresh: dict[str, list[dict[str, Any]]] = {}
        self._keys: list[str] = []
        self._number = 0
        self._began = time.monotonic()
        self._next = self._began + _FIRST_SECONDS

    def add(self, job: Planned, outcome: Outcome) -> None:
        """Take what came of a job; from time to time all is written."""
        found = row(job, outcome)
        self._fresh.setdefault(self._place(found), []).append(found)
        if outcome.tables:
            self._keys.append(outcome.key)
        if time.monotonic() >= self._next:
            self.write()

    def _place(self, found: Mapping[str, Any]) -> str:
        """Give the folder of a row's partition, as Hive names it."""
        parts = []
        for name in self._partitions:
            value = found[name]
            parts.append(f"{name}={_ABSENT if value is None else quote(_text(value), safe='')}")
        return "/".join(parts)

    def write(self) -> None:
        """Write what is new. Raises OSError."""
        began = time.monotonic()
        if self._folder is not None and not self._number:
            # Of an earlier run: all that it had comes again, from the store.
            for name in (RESULTS, TABLES):
                shutil.rmtree(self._folder / name, ignore_errors=True)
        if self._widen():
            for part in self._parts:
                self._put(part, self._with_columns(self._rows_of(part)))
        for place, rows in self._fresh.items():
            part = _Part(place, self._number, None)
            self._put(part, self._table(rows))
            self._parts.append(part)
        if self._folder is not None and self._keys:
            self._write_tables(self._folder)
        self._number += 1
        self._fresh, self._keys = {}, []
        now = time.monotonic()
        pause = max(_FIRST_SECONDS, (now - began) / _SHARE, (now - self._began) * _SHARE)
        self._next = now + min(pause, _LONGEST_SECONDS)

    def _file(self, part: _Part) -> Path:
        assert self._folder is not None  # noqa: S101  (who asks has looked)
        return self._folder / RESULTS / part.place / f"part-{part.number}.parquet"

    def _put(self, part: _Part, rows: pa.Table) -> None:
        if self._folder is None:
            part.rows = rows
            return
        # A reader has the columns of partitions from the names of folders.
        _put(rows.drop_columns(self._partitions), self._file(part), self._folder)

    def _rows_of(self, part: _Part) -> pa.Table:
        """Give the rows of a part, with the columns of partitions."""
        if part.rows is not None:
            return part.rows
        import pyarrow as pa  # noqa: PLC0415
        import pyarrow.parquet as pq  # noqa: PLC0415

        found = pq.ParquetFile(self._file(part)).read()
        for step in part.place.split("/") if part.place else ():
            name, _, said = step.partition("=")
            values = [None if said == _ABSENT else unquote(said)] * found.num_rows
            found = found.append_column(name, pa.array(values, pa.string()))
        return found

    def _widen(self) -> bool:
        """Find the columns with all that is new; tell whether they are others now."""
        before = dict(self._types)
        for rows in self._fresh.values():
            for found in rows:
                for name, value in found.items():
                    self._types[name] = _wider(self._types.get(name), value)
        return self._types != before

    def _with_columns(self, rows: pa.Table) -> pa.Table:
        import pyarrow as pa  # noqa: PLC0415

        schema = self._schema()
        columns = [
            rows[one.name].cast(one.type)
            if one.name in rows.column_names
            else pa.nulls(rows.num_rows, one.type)
            for one in schema
        ]
        return pa.table(columns, schema=schema)

    def _schema(self) -> pa.Schema:
        import pyarrow as pa  # noqa: PLC0415

        kinds = {bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string()}
        return pa.schema([(name, kinds[kind or float]) for name, kind in self._types.items()])

    def _table(self, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
        import pyarrow as pa  # noqa: PLC0415

        schema = self._schema()
        columns = []
        for one in schema:
            values = [found.get(one.name) for found in rows]
            if pa.types.is_string(one.type):
                values = [None if value is None else _text(value) for value in values]
            elif pa.types.is_floating(one.type):
                values = [None if value is None else float(value) for value in values]
            columns.append(pa.array(values, one.type))
        return pa.table(columns, schema=schema)

    def _write_tables(self, folder: Path) -> None:
        import pyarrow as pa  # noqa: PLC0415

        for name in self._tables:
            found = []
            for key in self._keys:
                table = self._store.table(key, name)
                if table is not None:
                    found.append(table.add_column(0, "task", pa.array([key] * table.num_rows)))
            if found:
                whole = pa.concat_tables(found, promote_options="permissive")
                _put(whole, folder / TABLES / name / f"part-{self._number}.parquet", folder)

    def table(self) -> pa.Table:
        """Give all rows."""
        import pyarrow as pa  # noqa: PLC0415

        self.write()
        found = [self._with_columns(self._rows_of(part)) for part in self._parts]
        return pa.concat_tables(found) if found else pa.table({})


def _text(value: Any) -> str:
    return value if isinstance(value, str) else str(value).lower() if value is True else str(value)


def _wider(before: type | None, value: Any) -> type | None:
    """Give the type that holds what a column has and a new value; None is nothing so far."""
    if value is None or before is str:
        return before
    now = type(value)
    if before is None or before is now:
        return now
    return float if {before, now} == {int, float} else str


def _put(table: pa.Table, file: Path, folder: Path) -> None:
    """Write a file as a whole. Until then it is in a `folder` where readers do not look."""
    import pyarrow.parquet as pq  # noqa: PLC0415

    file.parent.mkdir(parents=True, exist_ok=True)
    part = folder / f".{RESULTS}.{secrets.token_hex(8)}.part"
    try:
        pq.write_table(table, part, compression="zstd")
        part.replace(file)
    finally:
        part.unlink(missing_ok=True)
