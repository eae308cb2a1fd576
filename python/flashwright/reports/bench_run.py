"""Report of `bench` on a single run.

Throughput over time, and the time that each kind of transaction took.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

from flashwright._text import count, percent, short_count, short_time, significant, size, span
from flashwright.pages.figures import Colours, Windows, axes, time_axis, title
from flashwright.pages.heat_map import TABLE, heat_map
from flashwright.pages.page import Fact, Figure, Table
from flashwright.runs import Run

TIMES = ("mean_ns", "p50_ns", "p95_ns", "p99_ns", "p999_ns", "p9999_ns", "max_ns")


def facts(result: dict[str, Any]) -> list[Fact]:
    """Give the figures of the answer."""
    responses, database = result["responses"], result["database"]
    return [
        Fact(
            "transactions a second",
            significant(result["transactions_per_second"]),
            f"{short_count(result['tpm'])} a minute",
        ),
        Fact(
            "median response",
            short_time(responses["p50_ns"]),
            f"mean {short_time(responses['mean_ns'])}",
        ),
        Fact(
            "99 % within",
            short_time(responses["p99_ns"]),
            f"the longest took {short_time(responses['max_ns'])}",
        ),
        Fact("database", size(database["bytes"]), f"{size(database['bytes_at_end'])} at the end"),
    ]


def figures(run: Run) -> list[Figure]:
    """Give throughput and response times, over time and by kind."""
    found = (_over_time(run), _response_over_time(run), _response_map(run), _responses(run))
    return [one for one in found if one]


def tables(result: dict[str, Any]) -> list[Table]:
    """Give the tables of the only run."""
    return [kinds_table(result), *_checkpoints(result), _settings_table(result)]


def headline(result: dict[str, Any]) -> str:
    """Give the answer in a sentence or two."""
    run, mix = result["settings"]["run"], result["workload"]["mix"]["name"]
    clients = run["clients"]
    text = (
        f"{count(result['transactions'])} transactions in {span(result['seconds'])} by {clients} "
        f"client{'s' if clients > 1 else ''} (mix {mix}): "
        f"{significant(result['transactions_per_second'])} a second"
    )
    if result["transactions"]:
        responses = result["responses"]
        text += (
            f"; half of them within {short_time(responses['p50_ns'])}, 99 % within "
            f"{short_time(responses['p99_ns'])}"
        )
    consistency = result["consistency"]
    if not consistency["checked"]:
        return f"{text}. The run was stopped before its end; the database was not checked."
    return f"{text}. " + (
        "The database is consistent."
        if consistency["holds"]
        else "The database is NOT consistent: " + "; ".join(consistency["violations"])
    )


def remarks(result: dict[str, Any]) -> list[str]:
    """Say what to know when reading the figures of the only run."""
    found = [] if result["complete"] else ["The run was stopped before its end."]
    if result["database"]["driver"] == "pgbench":
        found.append(
            "pgbench ran it: it does not say what a transaction found, so misses are not counted."
        )
    return [*found, f"Page cache: {result['database'].get('page_cache', 'not known')}."]


def _kind_rows(result: dict[str, Any]) -> list[list[str]]:
    total = max(result["transactions"], 1)
    rows = [
        [
            kind.replace("_", " "),
            count(found["count"]),
            percent(found["count"] / total),
            *(short_time(found[name]) for name in TIMES),
            count(found["conflicts"]),
            count(found["rolled_back"]),
        ]
        for kind, found in result["kinds"].items()
    ]
    kinds = result["kinds"].values()
    sums = [count(sum(kind[name] for kind in kinds)) for name in ("conflicts", "rolled_back")]
    times = [short_time(result["responses"][name]) for name in TIMES]
    return [*rows, ["all", count(result["transactions"]), "", *times, *sums]]


def kinds_table(result: dict[str, Any]) -> Table:
    """Give what each kind of transaction did."""
    headings = (
        "count",
        "share",
        "mean",
        "p50",
        "p95",
        "p99",
        "p99.9",
        "p99.99",
        "max",
        "retries",
        "rolled back",
    )
    return Table(
        "Transactions",
        (("transaction", "left"), *((heading, "right") for heading in headings)),
        _kind_rows(result),
        note="Response times hold conflicts and the tries after them; quantiles are at most 0.8 % "
        "too large.",
    )


def _checkpoints(result: dict[str, Any]) -> list[Table]:
    rows = [
        [
            "–" if "start_s" not in one else f"{one['start_s']:.2f}",  # noqa: RUF001
            "–" if "end_s" not in one else f"{one['end_s']:.2f}",  # noqa: RUF001
            str(one.get("cause", "")),
            count(one.get("buffers", one.get("pages"))),
        ]
        for one in result["checkpoints"]
    ]
    columns = (
        ("begin, s", "right"),
        ("end, s", "right"),
        ("cause", "left"),
        ("pages written", "right"),
    )
    return [Table("Checkpoints", columns, rows, folded=len(rows) > 12)] if rows else []


def _settings_table(result: dict[str, Any]) -> Table:
    in_force = result["database"].get("settings", {})
    rows = [[str(name), str(value)] for name, value in sorted(in_force.items())]
    return Table("Settings in force", (("setting", "left"), ("value", "left")), rows, folded=True)


def _windows(run: Run) -> dict[str, list[Any]]:
    return dict(run.tables["windows"].to_pydict())


def _over_time(run: Run) -> Figure | None:
    columns = _windows(run)
    kinds = list(run.result["kinds"])
    colours = Colours(kinds)
    by_kind: dict[str, tuple[list[float], list[float]]] = {kind: ([], []) for kind in kinds}
    total: dict[float, float] = {}
    windows = Windows(columns["start_s"], columns["seconds"])
    for start, seconds, kind, number in zip(
        *(columns[name] for name in ("start_s", "seconds", "kind", "count")), strict=True
    ):
        if not windows.is_drawn(start):
            continue
        by_kind[kind][0].append(start)
        by_kind[kind][1].append(number / seconds)
        total[start] = total.get(start, 0.0) + number / seconds
    if len(total) < 2:
        return None
    series = [
        ("all", list(total), list(total.values())),
        *((kind, *xy) for kind, xy in by_kind.items()),
    ]
    data = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": name.replace("_", " "),
            "x": x,
            "y": y,
            "line": {
                "color": "@ink" if name == "all" else colours[name],
                "width": 2.4 if name == "all" else 1.4,
                "dash": "solid" if name == "all" else colours.dash(name),
            },
        }
        for name, x, y in series
        if any(y) and (name == "all" or len(kinds) > 1)
    ]
    rates = list(total.values())
    reading = (
        f"Between {significant(min(rates))} and {significant(max(rates))} transactions a second."
    )
    if run.result["checkpoints"]:
        reading += " The shaded stretches are checkpoints."
    reading += windows.note
    layout = axes(
        title("seconds of the measurement"),
        title("transactions a second", rangemode="tozero"),
        shapes=_shapes(run),
    )
    return Figure("throughput", "Throughput over time", reading, data, layout)


def _shapes(run: Run) -> list[dict[str, Any]]:
    return [
        {
            "type": "rect",
            "xref": "x",
            "yref": "paper",
            "x0": max(one["start_s"], 0),
            "x1": max(one["end_s"], one["start_s"] + 0.05),
            "y0": 0,
            "y1": 1,
            "fillcolor": "@c3",
            "opacity": 0.18,
            "line": {"width": 0},
        }
        for one in run.result["checkpoints"]
        if one.get("end_s", 0) > 0 and "start_s" in one
    ]


def _response_over_time(run: Run) -> Figure | None:
    columns = _windows(run)
    kinds = list(run.result["kinds"])
    colours = Colours(kinds)
    windows = Windows(columns["start_s"], columns["seconds"])
    data = []
    for kind in kinds:
        rows = [
            (start, p99 / 1e6)
            for start, name, p99 in zip(
                columns["start_s"], columns["kind"], columns["p99_ns"], strict=True
            )
            if name == kind and p99 and windows.is_drawn(start)
        ]
        if len(rows) > 1:
            drawn = {"color": colours[kind], "width": 1.4, "dash": colours.dash(kind)}
            x, y = zip(*rows, strict=True)
            data.append(
                {
                    "type": "scatter",
                    "mode": "lines",
                    "name": kind.replace("_", " "),
                    "x": list(x),
                    "y": list(y),
                    "line": drawn,
                }
            )
    if not data:
        return None
    layout = axes(
        title("seconds of the measurement"),
        title("ms, 99th percentile of a window", type="log"),
        shapes=_shapes(run),
    )
    reading = (
        "What 99 % of a window's transactions did not exceed, by kind. Peaks that come at "
        f"intervals are checkpoints at work.{windows.note}"
    )
    return Figure("response-over-time", "Response times over time", reading, data, layout)


def _response_map(run: Run) -> Figure | None:
    # Folders of earlier versions have none.
    table = run.tables.get(TABLE)
    if table is None:
        return None
    seconds = "seconds of the measurement"
    drawn = heat_map(table, run.result["kinds"], "response-map", "transactions", seconds)
    if drawn is None:
        return None
    layout = {**drawn.layout, "shapes": _shapes(run)}
    return replace(drawn, title="Response times over time", layout=layout)


def _responses(run: Run) -> Figure | None:
    columns = run.tables["responses"].to_pydict()
    kinds = list(run.result["kinds"])
    colours = Colours(kinds)
    data = []
    for kind in kinds:
        rows = [
            (high, number)
            for name, high, number in zip(
                columns["kind"], columns["to_ns"], columns["count"], strict=True
            )
            if name == kind
        ]
        total = sum(number for _, number in rows)
        if total:
            shares = [seen / total for seen in itertools.accumulate(number for _, number in rows)]
            x = [max(high, 1) / 1e9 for high, _ in rows]
            dash = colours.dash(kind)
            drawn = {"color": colours[kind], "width": 2, "shape": "hv", "dash": dash}
            data.append(
                {
                    "type": "scatter",
                    "mode": "lines",
                    "name": kind.replace("_", " "),
                    "x": x,
                    "y": shares,
                    "line": drawn,
                }
            )
    if not data:
        return None
    layout = axes(
        time_axis(), title("share of the transactions, up to", tickformat=".0%", range=[0, 1.02])
    )
    reading = "Each line is a kind of transaction: the share of it that ended within a time."
    return Figure("responses", "Response times by kind", reading, data, layout)
