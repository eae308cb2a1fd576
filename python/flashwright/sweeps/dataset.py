"""The results of a sweep as Parquet, a row a job, that others may read while it is written.

Every file is whole whenever it is opened, all have the same columns, and a job is in one of them.
"""

from __future__ import annotations

import secrets
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

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
"""Share of the time that writing may take."""
_LONGEST_SECONDS = 60.0


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


class Dataset:
    """The results of a sweep; without a folder they are in memory alone."""

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
        self._written: dict[str, pa.Table] = {}
        self._fresh: dict[str, list[dict[str, Any]]] = {}
        self._keys: list[str] = []
        self._parts = 0
        self._is_first = True
        self._next = time.monotonic() + _FIRST_SECONDS

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
        changed = self._widen()
        for place, rows in self._fresh.items():
            self._written[place] = self._joined(self._written.get(place), rows)
        places = self._written if changed else self._fresh
        if self._folder is not None:
            for place in places:
                # A reader has the columns of partitions from the names of folders.
                kept = self._written[place].drop_columns(self._partitions)
                _put(kept, self._folder / RESULTS / place / "part-0.parquet", self._folder)
            self._write_tables(self._folder)
            if self._is_first:
                self._drop_others(self._folder / RESULTS)
        self._is_first = False
        self._fresh, self._keys = {}, []
        took = time.monotonic() - began
        self._next = time.monotonic() + min(max(_FIRST_SECONDS, took / _SHARE), _LONGEST_SECONDS)

    def _widen(self) -> bool:
        """Find the columns with all that is new, and bring what is there to them if they change."""
        import pyarrow as pa  # noqa: PLC0415

        types = dict(self._types)
        for rows in self._fresh.values():
            for found in rows:
                for name, value in found.items():
                    types[name] = _wider(types.get(name), value)
        if types == self._types:
            return False
        self._types = types
        schema = self._schema()
        for place, table in self._written.items():
            columns = [
                table[one.name].cast(one.type)
                if one.name in table.column_names
                else pa.nulls(table.num_rows, one.type)
                for one in schema
            ]
            self._written[place] = pa.table(columns, schema=schema)
        return True

    def _schema(self) -> pa.Schema:
        import pyarrow as pa  # noqa: PLC0415

        kinds = {bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string()}
        return pa.schema([(name, kinds[kind or float]) for name, kind in self._types.items()])

    def _joined(self, before: pa.Table | None, rows: list[dict[str, Any]]) -> pa.Table:
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
        fresh = pa.table(columns, schema=schema)
        return fresh if before is None else pa.concat_tables([before, fresh])

    def _write_tables(self, folder: Path) -> None:
        import pyarrow as pa  # noqa: PLC0415

        if self._is_first:
            shutil.rmtree(folder / TABLES, ignore_errors=True)
        for name in self._tables if self._keys else ():
            found = []
            for key in self._keys:
                table = self._store.table(key, name)
                if table is not None:
                    found.append(table.add_column(0, "task", pa.array([key] * table.num_rows)))
            if found:
                whole = pa.concat_tables(found, promote_options="permissive")
                _put(whole, folder / TABLES / name / f"part-{self._parts}.parquet", folder)
        self._parts += bool(self._keys)

    def _drop_others(self, results: Path) -> None:
        """Remove what is of an earlier sweep in the same folder, divided in another way."""
        own = {results / place / "part-0.parquet" for place in self._written}
        for file in results.rglob("*.parquet"):
            if file not in own:
                file.unlink(missing_ok=True)

    def table(self) -> pa.Table:
        """Give all rows."""
        import pyarrow as pa  # noqa: PLC0415

        self.write()
        return pa.concat_tables(self._written.values()) if self._written else pa.table({})


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
