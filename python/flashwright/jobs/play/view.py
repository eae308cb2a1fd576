"""A run of `play` as words, tables and charts look at it: its rows, labelled, with their tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from flashwright.jobs.play import said
from flashwright.jobs.play.names import DIRECT
from flashwright.pages.figures import join_windows
from flashwright.runs import Run

Row = Mapping[str, Any]
Curve = tuple[Sequence[int], Sequence[int]]
"""Upper ends of classes in nanoseconds, and how many requests were in each."""
AGAINST = "against"
KEYS = ("device", "stack", "pace")


class View:
    """A run of `play`.

    `in_words`: stacks go by names in words, instead of what `--stack` takes.
    """

    def __init__(self, run: Run, *, in_words: bool = False) -> None:
        self.run, self.result, self.in_words = run, run.result, in_words
        self._columns: dict[tuple[str, ...], dict[str, list[Any]] | None] = {}
        rows: list[dict[str, Any]] = self.result["runs"]
        # A run that failed does not say at which pace, if there is one that nobody named.
        pace = next((row["pace"] for row in rows if row["pace"] is not None), "")
        rows = [{**row, "pace": row["pace"] or pace} for row in rows]
        specs = [row["stack"] for row in rows if row["stack"] is not None]
        self.stacks = said.stacks(specs) if in_words else {spec: spec for spec in specs}
        """Names of the stacks, by their specs."""
        self.differs = [key for key in KEYS if len({row[key] for row in rows}) > 1]
        if specs and "stack" not in self.differs:
            self.differs.insert(int("device" in self.differs), "stack")
        named = [{**row, "label": self.label(row)} for row in rows]
        self.rows = [row for row in named if row.get("requests") is not None]
        """Rows of the runs that did not fail."""
        self.failed = [row for row in named if row.get("requests") is None]
        self.is_one = len(rows) == 1 and len(self.rows) == 1 and not specs
        self.has_layers = any(spec != DIRECT for spec in specs)

    @cached_property
    def devices(self) -> dict[str, dict[str, Any]]:
        """Devices by their labels."""
        return {one["label"]: one for one in self.result["devices"]}

    def groups(self) -> list[View]:
        """Give the parts that are looked at by themselves: stacks go by device and pace."""
        if not self.has_layers:
            return [self]
        found: dict[tuple[str, str], list[dict[str, Any]]] = {}
        for row in (*self.rows, *self.failed):
            found.setdefault((row["device"], row["pace"]), []).append(row)
        return [
            View(replace(self.run, result={**self.result, "runs": rows}), in_words=self.in_words)
            for rows in found.values()
        ]

    def names(self, row: Row) -> list[str]:
        """Give what distinguishes a row from others: device, stack and pace, as they differ."""
        found = {**row, "stack": self.stacks.get(row["stack"], row["stack"])}
        return [str(found[key]) for key in self.differs]

    def label(self, row: Row) -> str:
        """Name a row: the device, or the stack on it, and what else distinguishes it."""
        names = self.names(row)
        if not {"device", "stack"} & set(self.differs):
            names.insert(0, str(row["device"]))
        return ", ".join(names)

    def part(self, name: str, row: Row) -> pa.Table | None:
        """Give the part of a table that is of a row; None if there is none."""
        table = self.run.tables.get(name)
        if table is None:
            return None
        for key, value in zip(
            KEYS, (row["device"], row["stack"] or DIRECT, row["pace"]), strict=True
        ):
            table = table.filter(pc.field(key) == value)
        return table if table.num_rows else None

    def columns(self, name: str, row: Row) -> dict[str, list[Any]] | None:
        """Give the same as lists."""
        key = (name, row["device"], row["stack"], row["pace"])
        if key not in self._columns:
            found = self.part(name, row)
            self._columns[key] = None if found is None else found.to_pydict()
        return self._columns[key]

    def curves(self, row: Row, of: str = "latency") -> dict[str, Curve]:
        """Give a kind of time by operation: `latency`, `response`, `lateness` or `held`."""
        columns = self.columns("latency", row)
        if columns is None and of == "latency":
            columns = self.columns("latency_histogram", row)
        if columns is None:
            return {}
        ends = columns.get("to_ns", columns.get("value_ns", ()))
        kinds = columns.get("of", [of] * len(ends))
        found: dict[str, Curve] = {}
        for kind, op, end, number in zip(kinds, columns["op"], ends, columns["count"], strict=True):
            if kind == of:
                values, counts = found.setdefault(op, ([], []))
                values.append(end)  # type: ignore[attr-defined]
                counts.append(number)  # type: ignore[attr-defined]
        return found

    def windows(self, row: Row) -> dict[str, list[Any]] | None:
        """Give windows of time with what ended in them, by operation: requests, mean latency."""
        columns = self.columns("windows", row)
        if columns is None:
            columns = _of_over_time(self.columns("over_time", row))
        return join_windows(columns) if columns and columns["start_s"] else None

    @cached_property
    def against(self) -> View | None:
        """The result that it is compared with; None if there is none."""
        if AGAINST not in self.result:
            return None
        prefix = f"{AGAINST}_"
        tables = {
            name.removeprefix(prefix): table
            for name, table in self.run.tables.items()
            if name.startswith(prefix)
        }
        return View(Run(self.run.command, self.result[AGAINST], tables))

    def pairs(self) -> list[tuple[Row, Row]]:
        """Give the rows that are laid beside each other.

        What is alone goes with each; else those go together that are of the same device, stack and
        pace.
        """
        other = self.against
        if other is None:
            return []
        is_alone = len(self.rows) == 1 or len(other.rows) == 1
        return [
            (mine, theirs)
            for mine in self.rows
            for theirs in other.rows
            if is_alone or all(mine[key] == theirs[key] for key in KEYS)
        ]


def _of_over_time(columns: Mapping[str, Sequence[Any]] | None) -> dict[str, list[Any]] | None:
    """Give what a simulated drive did over time as windows of each operation."""
    if columns is None:
        return None
    names = ("start_s", "seconds", "op", "requests", "mean_latency_ns")
    found: dict[str, list[Any]] = {name: [] for name in names}
    for op in said.TIMED:
        for end, length, number, mean in zip(
            *(columns[key] for key in ("seconds", "length_seconds", said.PLURALS[op])),
            columns[f"mean_{op}_ns"],
            strict=True,
        ):
            if number:
                one = (end - length, length, op, number, mean)
                for name, value in zip(names, one, strict=True):
                    found[name].append(value)
    return found
