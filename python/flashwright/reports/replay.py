"""The report of a replay: latencies, lateness, and both over time; two replays side by side."""

from __future__ import annotations

from typing import Any

from flashwright._text import count, short_count, short_time, span
from flashwright.reports import replay_words as words
from flashwright.reports.drive_figures import OPERATION_COLOURS, tail, tail_axes, tail_line
from flashwright.reports.drive_words import rate
from flashwright.reports.figures import Windows, axes, time_axis, time_unit, title
from flashwright.reports.page import Fact, Figure, Page, Section, Table
from flashwright.runs import Run

OTHER = "the other: "


def page(run: Run) -> Page:
    """Build the report."""
    result = run.result
    figures = [
        _curves(
            run,
            "latency",
            "latency",
            "Latency from sending",
            "The further left and the steeper, the better.",
        ),
        _curves(
            run,
            "response",
            "response",
            "Time from when a request was due",
            "Lateness included: what those feel who send by the clock, whether or not the device "
            "is ready.",
        ),
        _lateness(run),
    ]
    over_time = [_rate_over_time(run), _latency_over_time(run), _lateness_over_time(run)]
    sections = [("How long requests took", figures), ("Over time", over_time)]
    compared = [_comparison(result)] if "against" in result else []
    return Page(
        kind="replay",
        title=words.title(result),
        headline=words.headline(result),
        facts=_facts(result),
        sections=[
            *(
                Section(name, [figure for figure in group if figure])
                for name, group in sections
                if any(group)
            ),
            Section("All figures", [*compared, _times_table(result), _figures_table(result)]),
        ],
        provenance=result["provenance"],
        remarks=words.remarks(result),
    )


def _facts(result: dict[str, Any]) -> list[Fact]:
    facts = [
        Fact("requests a second", short_count(result["iops"]), words.pace(result["pace"])),
        Fact(
            "throughput",
            rate(result["bytes_per_second"]),
            f"over {span(result['seconds'])} of the device's time",
        ),
    ]
    for op in ("read", "write"):
        found = result["latency_ns"].get(op)
        if found:
            facts.append(
                Fact(
                    f"median {op}",
                    short_time(found["p50"]),
                    f"99 % within {short_time(found['p99'])}",
                )
            )
    late = result["lateness_ns"]
    if late:
        facts.append(
            Fact(
                "99 % late by at most",
                short_time(late["p99"]),
                f"the latest by {short_time(late['max'])}",
            )
        )
    return facts


def _classes(run: Run, name: str, of: str) -> dict[str, tuple[list[int], list[int]]]:
    """Give the classes of a kind of time by operation: upper ends and counts."""
    found: dict[str, tuple[list[int], list[int]]] = {}
    if name not in run.tables:
        return found
    columns = run.tables[name].to_pydict()
    for kind, op, to, number in zip(
        *(columns[key] for key in ("of", "op", "to_ns", "count")), strict=True
    ):
        if kind == of:
            values, counts = found.setdefault(op, ([], []))
            values.append(to)
            counts.append(number)
    return found


def _curves(run: Run, of: str, identifier: str, name: str, reading: str) -> Figure | None:
    data, least = [], 1.0
    for table, prefix, dash in (("latency", "", "solid"), ("against_latency", OTHER, "dot")):
        for op, (values, counts) in _classes(run, table, of).items():
            xs, ys = tail(values, counts)
            data.append(tail_line(prefix + op, xs, ys, OPERATION_COLOURS[op], dash=dash))
            least = min(least, *ys)
    return Figure(identifier, name, reading, data, tail_axes(least), 480) if data else None


def _lateness(run: Run) -> Figure | None:
    data, least = [], 1.0
    drawn = (("lateness", "lateness", "@c0"), ("held", "for want of room", "@c3"))
    for table, prefix, dash in (("latency", "", "solid"), ("against_latency", OTHER, "dot")):
        for of, name, colour in drawn:
            for values, counts in _classes(run, table, of).values():
                xs, ys = tail(values, counts)
                data.append(tail_line(prefix + name, xs, ys, colour, dash=dash))
                least = min(least, *ys)
    if not data:
        return None
    layout = tail_axes(least)
    layout["xaxis"]["title"] = {"text": "later than due"}
    reading = (
        "How much later than due requests were sent. For want of room: those that became due while "
        "as many as possible were outstanding, which is the device's doing; what is late beside "
        "them is the sender's."
    )
    return Figure("lateness", "Lateness", reading, data, layout)


def _over_time(run: Run, of: str) -> list[tuple[str, str, list[float], list[float]]]:
    """Give (name, operation, seconds, values).

    Of a column of the windows, or of requests a second.
    """
    found = []
    for table, prefix in (("windows", ""), ("against_windows", OTHER)):
        if table not in run.tables:
            continue
        columns = run.tables[table].to_pydict()
        for op in words.OPERATIONS:
            rows = [row for row, other in enumerate(columns["op"]) if other == op]
            if not rows:
                continue
            if of == "rate":
                xs, ys = _rates(columns, rows)
            else:
                xs = [columns["start_s"][row] for row in rows]
                ys = [columns[of][row] for row in rows]
            found.append((prefix + op, op, xs, ys))
    return found


def _rates(columns: dict[str, list[Any]], rows: list[int]) -> tuple[list[float], list[float]]:
    """Give the requests a second of the windows of some rows.

    Windows in which nothing ended have no row: they are 0, at the ends of such a pause.
    """
    windows = Windows(columns["start_s"], columns["seconds"])
    each = max(columns["seconds"])
    xs: list[float] = []
    ys: list[float] = []
    for row in rows:
        start = columns["start_s"][row]
        if not windows.is_drawn(start):
            continue
        if xs and start - xs[-1] > 1.5 * each:
            pause = sorted({xs[-1] + each, start - each})
            xs += pause
            ys += [0.0] * len(pause)
        xs.append(start)
        ys.append(columns["requests"][row] / columns["seconds"][row])
    return xs, ys


def _lines(
    series: list[tuple[str, str, list[float], list[float]]], scale: float
) -> list[dict[str, Any]]:
    return [
        {
            "type": "scatter",
            "mode": "lines" if len(xs) > 2 else "lines+markers",
            "name": name,
            "x": xs,
            "y": [value * scale for value in ys],
            "line": {
                "color": OPERATION_COLOURS[op],
                "width": 1.4,
                "dash": "dot" if name.startswith(OTHER) else "solid",
            },
        }
        for name, op, xs, ys in series
    ]


_SECONDS = "seconds of the device's time"


def _rate_over_time(run: Run) -> Figure | None:
    data = _lines(_over_time(run, "rate"), 1.0)
    if not data:
        return None
    layout = axes(title(_SECONDS), title("requests a second", rangemode="tozero"))
    columns = run.tables["windows"].to_pydict()
    windows = Windows(columns["start_s"], columns["seconds"])
    return Figure(
        "rate",
        "Requests a second",
        f"Requests that ended, in windows of {span(max(columns['seconds']))}.{windows.note}",
        data,
        layout,
    )


def _latency_over_time(run: Run) -> Figure | None:
    data = _lines(_over_time(run, "mean_latency_ns"), 1e-9)
    values = [value for line in data for value in line["y"]]
    if not values:
        return None
    layout = axes(title(_SECONDS), time_axis("mean latency", values))
    return Figure(
        "latency-time",
        "Latency over time",
        "Means of the requests that ended in a window.",
        data,
        layout,
    )


def _lateness_over_time(run: Run) -> Figure | None:
    if not run.result["lateness_ns"]:
        return None
    columns = run.tables["windows"].to_pydict()
    # It is of all operations, and stands in the row of each.
    late = dict(zip(columns["start_s"], columns["max_late_ns"], strict=True))
    scale, unit = time_unit(max(late.values()) / 1e9)
    drawn = {"color": "@c0", "width": 1.4}
    data = [
        {
            "type": "scatter",
            "mode": "lines" if len(late) > 2 else "lines+markers",
            "name": "latest of a window",
            "x": list(late),
            "y": [value / 1e9 / scale for value in late.values()],
            "line": drawn,
        }
    ]
    layout = axes(title(_SECONDS), title(f"{unit} later than due", rangemode="tozero"))
    reading = (
        "A line that climbs and does not come back is a device that cannot keep up with the trace."
    )
    return Figure("lateness-time", "Lateness over time", reading, data, layout)


def _times_table(result: dict[str, Any]) -> Table:
    note = "Quantiles are at most 0.1 % too large."
    return Table("Times", words.LATENCY_HEADINGS, words.latency_rows(result), note=note)


def _comparison(result: dict[str, Any]) -> Table:
    return Table(
        words.comparison_title(result), words.comparison_headings(), words.comparison_rows(result)
    )


def _figures_table(result: dict[str, Any]) -> Table:
    totals = result["trace"]["totals"]
    rows = [
        *words.figures(result),
        ("trace", words.trace_line(result["trace"])),
        ("its highest address", count(totals["end_bytes"])),
        ("region", words.region_line(result)),
        ("remap", result["remap"]),
        *((f"SHA-256 of {one['name']}", one["sha256"]) for one in result["trace"]["sources"]),
    ]
    return Table("Figures", (("", "left"), ("", "right")), rows)
