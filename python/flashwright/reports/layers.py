"""The report of stacks of layers: what each gains and loses against the device alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from flashwright._text import count, significant, size, span
from flashwright.reports import layer_figures as figures
from flashwright.reports import layer_words as words
from flashwright.reports import replay_words
from flashwright.reports.figures import Colours
from flashwright.reports.page import Fact, Figure, Page, Section, Table
from flashwright.runs import Run

MOST_FACTS = 4


def page(run: Run) -> Page:
    """Build the report."""
    named = words.names(run.result["stacks"])
    specs = {name: spec for spec, name in named.items()}
    run = _renamed(run, named)
    result = run.result
    drives = words.drives(result)
    return Page(
        kind="layers",
        title=words.title(result, ", ".join(drives)),
        headline=words.headline(result),
        facts=_facts(result),
        sections=[
            *_all_drives(result),
            *(
                section
                for number, drive in enumerate(drives)
                for section in _sections(
                    run, drive, f"d{number}", "" if len(drives) == 1 else f"{drive}: ", specs
                )
            ),
        ],
        provenance=result["provenance"],
        remarks=[*words.choices(result), *words.remarks(result)],
    )


def _renamed(run: Run, named: Mapping[str, str]) -> Run:
    """Give the run with the names of its stacks in words instead of their specs."""
    result = {
        **run.result,
        "stacks": [named[spec] for spec in run.result["stacks"]],
        "results": [{**row, "stack": named[row["stack"]]} for row in run.result["results"]],
    }
    tables = dict(run.tables)
    for key, table in run.tables.items():
        if "stack" in table.column_names:
            names = pa.array([named.get(spec, spec) for spec in table["stack"].to_pylist()])
            tables[key] = table.set_column(table.column_names.index("stack"), "stack", names)
    return replace(run, result=result, tables=tables)


def _all_drives(result: dict[str, Any]) -> list[Section]:
    if len(words.drives(result)) == 1:
        return []
    note = "Below 1 the device alone is faster."
    return [Section("All devices", [Table(words.BY_DRIVE, *words.by_drive(result), note=note)])]


def _facts(result: dict[str, Any]) -> list[Fact]:
    done = [row for row in result["results"] if row["error"] is None]
    several = len(words.drives(result)) > 1
    return [
        Fact(
            f"{row['drive']}: {row['stack']}" if several else row["stack"],
            span(row["total_write_seconds"]),
            "of writing"
            if row["verdict"] is None or row["verdict"]["times_faster"] is None
            else "of writing: the device alone takes "
            f"{significant(row['verdict']['times_faster'])} times as long",
        )
        for row in done[:MOST_FACTS]
    ]


def _sections(
    run: Run, drive: str, key: str, prefix: str, specs: Mapping[str, str]
) -> list[Section]:
    result = run.result
    rows = [row for row in words.rows_of(result, drive) if row["error"] is None]
    if not rows:
        return []
    colours = Colours(result["stacks"])
    verdicts = [
        cells
        for row in rows
        if row["verdict"] is not None
        for cells in (
            (row["stack"], row["verdict"]["line"]),
            ("as --stack", specs[row["stack"]]),
        )
    ]
    answers: list[Figure | Table | None] = [
        Table("Verdicts", (("stack", "left"), ("against the device alone", "prose")), verdicts)
        if verdicts
        else None,
        figures.writing(rows, key),
        *(figures.tails(run, drive, op, key, colours) for op in ("read", "write", "flush")),
        figures.amplification(rows, key),
    ]
    rate = figures.over_time(run, drive, key, colours)
    inside = [*figures.levels(run, drive, key, colours), *figures.sums(run, drive, key)]
    tables = [
        _gains(rows),
        Table(
            "Stacks", words.COLUMNS, [words.cells(row, rows) for row in rows], note=words.EXPLAINED
        ),
        _durations(rows),
        Table(
            "Response times",
            words.LATENCY_COLUMNS,
            [line for row in rows for line in words.latencies(row)],
            folded=True,
        ),
        _counted(rows),
        _known(result, drive),
    ]
    return [
        Section(
            f"{prefix}What is gained and lost", [block for block in answers if block is not None]
        ),
        Section(f"{prefix}Over time", [rate] if rate else []),
        *(
            [
                Section(
                    f"{prefix}Inside the layers",
                    inside,
                    folded=True,
                    summary="what each layer held and counted while the trace was played",
                )
            ]
            if inside
            else []
        ),
        Section(f"{prefix}All figures", [table for table in tables if table is not None]),
    ]


def _gains(rows: Sequence[dict[str, Any]]) -> Table | None:
    lines = []
    for row in rows:
        first = True
        for kind in ("gain", "lost"):
            for found in (row["verdict"] or {}).get(kind, []):
                text = "gained" if kind == "gain" else "lost"
                lines.append(
                    (
                        row["stack"] if first else "",
                        text,
                        found["text"],
                        significant(found["ratio"]),
                    )
                )
                first = False
    if not lines:
        return None
    columns = (("stack", "left"), ("", "left"), ("what", "left"), ("to device alone", "right"))
    note = "What differs by 2 % or less is neither gained nor lost; any loss of capacity is listed."
    return Table("Gained and lost", columns, lines, note=note)


def _durations(rows: Sequence[dict[str, Any]]) -> Table:
    columns = (
        ("stack", "left"),
        ("playing", "right"),
        ("writing back at the end", "right"),
        ("flushes below", "right"),
        ("reads below", "right"),
        ("erases", "right"),
        ("capacity", "right"),
    )
    lines = [
        (
            row["stack"],
            span(row["seconds"]),
            span(row["drain_seconds"]),
            count(row["flushes_below"]),
            f"{count(row['reads_below'])}, {size(row['reads_below_bytes'])}",
            count(row["erases"]),
            size(row["capacity_bytes"]),
        )
        for row in rows
    ]
    return Table(
        "How long it took, and what else the device did",
        columns,
        lines,
        note="In the device's time.",
        folded=True,
    )


def _counted(rows: Sequence[dict[str, Any]]) -> Table | None:
    lines = [line for row in rows for line in words.counters(row)]
    return (
        Table(
            "Counted in the layers",
            words.COUNTER_COLUMNS,
            lines,
            note="What is zero is left out.",
            folded=True,
        )
        if lines
        else None
    )


def _known(result: dict[str, Any], drive: str) -> Table:
    device = next(one for one in result["devices"] if one["label"] == drive)
    facts, totals = device["facts"], result["trace"]["totals"]
    lines = [("trace", replay_words.trace_line(result["trace"]))]
    lines += [(f"SHA-256 of {one['name']}", one["sha256"]) for one in result["trace"]["sources"]]
    lines += [
        ("its highest address", f"{totals['end_bytes']:,}".replace(",", "\u202f")),
        ("region", replay_words.region_line({"region": device["region"]})),
        ("remap", result["remap"]),
        ("what layers know of the device", facts["origin"]),
    ]
    lines += [(name.replace("_", " "), _told(value)) for name, value in facts["values"].items()]
    lines += [("not sure, or not known", remark) for remark in facts["remarks"]]
    return Table("What was played, on what", (("", "left"), ("", "prose")), lines, folded=True)


def _told(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(
            f"{key.replace('_', ' ')} {significant(number)}" for key, number in value.items()
        )
    if isinstance(value, list):
        return "; ".join(
            f"{significant(at_zero)} ns + {significant(slope)} ns a byte"
            for _, at_zero, slope in value
        )
    return f"{value:,}".replace(",", "\u202f")
