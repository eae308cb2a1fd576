"""The report of a trace: what it holds."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pyarrow as pa

from flashwright import reading_words
from flashwright._text import count, percent, significant, size, span
from flashwright.pages.figures import HEAT, LEFT_OUT, axes, time_axis, title
from flashwright.pages.page import Fact, Figure, Page, Section, Table
from flashwright.reports.scalars import trace_rows
from flashwright.runs import Run

OPEN_END = 2**64 - 1
Columns = dict[str, list[Any]]


def page(run: Run) -> Page:
    """Build the report of `trace`."""
    figures = run.result
    return Page(
        kind="trace",
        title=figures["source"],
        headline=headline(figures),
        facts=facts(figures),
        sections=[
            *sections(figures, run.tables, ""),
            Section("All figures", [scalars_table(figures)]),
        ],
        provenance=figures["provenance"],
        remarks=reading_words.lines(figures),
    )


def headline(figures: dict[str, Any]) -> str:
    """Give the trace in two sentences."""
    text = f"{count(figures['writes'])} writes"
    if figures["reads"]:
        text += f" and {count(figures['reads'])} reads"
    if figures.get("duration_ns"):
        text += f" in {span(figures['duration_ns'] / 1e9)}"
    text += f" touch {size(figures['footprint_bytes'])}."
    hot = figures.get("update_share_of_hottest_20_percent")
    if hot is not None:
        text += f" The hottest 20 % of the written pages take {percent(hot, 2)} of the updates."
    return text


def facts(figures: dict[str, Any]) -> list[Fact]:
    """Give the figures that matter most to flash."""
    given = [
        Fact(
            "written",
            size(figures["write_bytes"]),
            f"to {size(figures['footprint_written_bytes'])} of pages",
        ),
        Fact(
            "updates a page",
            significant(figures["mean_updates_per_written_page"]),
            "mean over the written pages",
        ),
        Fact(
            "sequential writes",
            percent(figures["sequential_share_of_writes"], 2),
            "start where the one before ended",
        ),
    ]
    if figures["idle_share_of_time"] is not None:
        note = "of the time no request is outstanding"
        given.append(Fact("idle", percent(figures["idle_share_of_time"], 2), note))
    return given


def sections(figures: dict[str, Any], tables: dict[str, pa.Table], prefix: str) -> list[Section]:
    """Give the plots; `prefix` stands before the names of the tables."""

    def columns(name: str) -> Columns | None:
        found = tables.get(prefix + name)
        return None if found is None or found.num_rows == 0 else found.to_pydict()

    timeless = not figures.get("duration_ns")
    where = [
        _picture(columns("picture"), figures, timeless=timeless),
        _over_time(columns("over_time"), figures, timeless=timeless),
    ]
    what = [
        _skew(columns("skew"), figures),
        _distance(columns("rewrite_distance")),
        _sizes(columns("request_sizes")),
    ]
    when = [
        _gaps(columns("inter_arrival"), figures),
        _idle(columns("idle"), figures),
        _latency(columns("latency")),
    ]
    drawn = (("Where it writes", where), ("What is written again", what), ("When it writes", when))
    return [
        Section(name, [figure for figure in group if figure is not None]) for name, group in drawn
    ]


def _time_axis(*, timeless: bool) -> tuple[dict[str, Any], float]:
    return (title("requests"), 1.0) if timeless else (title("seconds since the start"), 1e-9)


def _picture(columns: Columns | None, figures: dict[str, Any], *, timeless: bool) -> Figure | None:
    if columns is None:
        return None
    x_axis, unit = _time_axis(timeless=timeless)
    row, window = figures["picture_row_bytes"], figures["window_ns"]
    starts, rows = sorted(set(columns["start_ns"])), sorted(set(columns["from_byte"]))
    xs = list(range(starts[0], starts[-1] + window, window))
    ys = list(range(rows[0], rows[-1] + row, row))
    cells: list[list[float | None]] = [[None] * len(xs) for _ in ys]
    for start, start_byte, writes in zip(
        columns["start_ns"], columns["from_byte"], columns["writes"], strict=True
    ):
        if writes:
            cells[(start_byte - rows[0]) // row][(start - starts[0]) // window] = math.log10(writes)
    most = max(columns["writes"])
    ticks = [
        value
        for value in (step * 10**power for power in range(12) for step in (1, 3))
        if value <= most
    ]
    data = [
        {
            "type": "heatmap",
            "x": [round(x * unit, 6) for x in xs],
            "y": [y / 2**20 for y in ys],
            "z": cells,
            "text": [
                [None if cell is None else count(10**cell) for cell in line] for line in cells
            ],
            "zmin": 0,
            "zmax": math.log10(max(most, 2)),
            "colorscale": HEAT,
            "showscale": True,
            "hoverongaps": False,
            "colorbar": {
                "title": {"text": "writes in a dot", "side": "right"},
                "tickvals": [math.log10(tick) for tick in ticks],
                "ticktext": [count(tick) for tick in ticks],
                "thickness": 10,
                "outlinewidth": 0,
                "tickfont": {"color": "@muted"},
            },
            "hovertemplate": "%{x}, %{y:.1f} MiB: %{text} writes<extra></extra>",
        }
    ]
    layout = axes({**x_axis, "showgrid": False}, title("address in MiB", showgrid=False))
    reading = (
        "Every dot is a place and a moment with writes. Level lines are pages written again and "
        "again; slopes are sequential writing."
    )
    return Figure("picture", "Addresses over time", reading, data, layout, 480)


def _whole_windows(
    columns: Columns, figures: dict[str, Any], *, timeless: bool
) -> tuple[Columns, str]:
    """Leave out the last window if the trace ends within it, and say so.

    A rate could be scaled by its length, a working set could not.
    """
    end = figures["requests"] if timeless else figures["duration_ns"] + 1
    starts = columns["start_ns"]
    if len(starts) < 2 or end - starts[-1] >= 0.99 * figures["window_ns"]:
        return columns, ""
    return {name: values[:-1] for name, values in columns.items()}, LEFT_OUT


def _over_time(
    columns: Columns | None, figures: dict[str, Any], *, timeless: bool
) -> Figure | None:
    if columns is None:
        return None
    x_axis, unit = _time_axis(timeless=timeless)
    columns, note = _whole_windows(columns, figures, timeless=timeless)
    x = [round(start * unit, 6) for start in columns["start_ns"]]
    page_bytes = figures["page_bytes"]
    data = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": "written",
            "x": x,
            "y": [value / 2**20 for value in columns["write_bytes"]],
            "line": {"color": "@c0", "width": 1.6},
        },
        {
            "type": "scatter",
            "mode": "lines",
            "name": "read",
            "x": x,
            "y": [value / 2**20 for value in columns["read_bytes"]],
            "line": {"color": "@c1", "width": 1.6},
        },
        {
            "type": "scatter",
            "mode": "lines",
            "name": "working set",
            "x": x,
            "y": [value * page_bytes / 2**20 for value in columns["distinct_pages"]],
            "line": {"color": "@c2", "width": 1.6, "dash": "dot"},
        },
    ]
    layout = axes(x_axis, title("MiB in a window", rangemode="tozero"))
    length = (
        f"{significant(figures['window_ns'])} requests"
        if timeless
        else span(figures["window_ns"] / 1e9)
    )
    written = columns["write_bytes"]
    busiest, mean = max(written), sum(written) / len(written)
    peak = (
        f" The busiest writes {size(busiest)}, {significant(busiest / mean, 2)} times the mean."
        if mean
        else ""
    )
    reading = (
        f"In windows of {length}. The working set is the distinct pages that a window "
        f"touches.{peak}{note}"
    )
    return Figure("over-time", "Traffic and working set", reading, data, layout)


def _skew(columns: Columns | None, figures: dict[str, Any]) -> Figure | None:
    if columns is None:
        return None
    data = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": "this trace",
            "x": columns["page_share"],
            "y": columns["update_share"],
            "line": {"color": "@c0", "width": 2.2},
        },
        {
            "type": "scatter",
            "mode": "lines",
            "name": "uniform",
            "x": [0, 1],
            "y": [0, 1],
            "line": {"color": "@muted", "dash": "dash", "width": 1.5},
        },
    ]
    fraction = {"tickformat": ".0%", "range": [0, 1.01]}
    layout = axes(
        title("share of the written pages, hottest first", **fraction),
        title("share of the updates", **fraction),
    )
    hot = figures.get("update_share_of_hottest_20_percent")
    first = (
        ""
        if hot is None
        else f"The hottest 20 % of the written pages take {percent(hot, 2)} of the updates. "
    )
    reading = (
        f"{first}The further above the dashed line, the more placement can gain (MULTILOG figure "
        "6)."
    )
    return Figure("skew", "Skew of updates", reading, data, layout)


def _class_bars(
    lows: list[int], highs: list[int], series: list[tuple[str, list[int], str]], label: Any
) -> list[dict[str, Any]]:
    names = [
        f"over {label(low)}" if high >= OPEN_END else label(low)
        for low, high in zip(lows, highs, strict=True)
    ]
    return [
        {"type": "bar", "name": name, "x": names, "y": values, "marker": {"color": colour}}
        for name, values, colour in series
        if any(values)
    ]


def _distance(columns: Columns | None) -> Figure | None:
    if columns is None:
        return None
    series = [("rewrites", columns["rewrites"], "@c0")]
    data = _class_bars(columns["from_page_writes"], columns["to_page_writes"], series, count)
    layout = axes(
        title("page writes between two writes of a page, from", type="category"),
        title("rewrites", exponentformat="SI"),
        bargap=0.08,
        showlegend=False,
    )
    total, seen, middle = sum(columns["rewrites"]), 0, 0
    for high, rewrites in zip(columns["to_page_writes"], columns["rewrites"], strict=True):
        seen += rewrites
        middle = high
        if 2 * seen >= total:
            break
    half = (
        ""
        if middle >= OPEN_END
        else f"Half of the rewrites come less than {count(middle + 1)} page writes after the write "
        "before. "
    )
    reading = (
        f"{half}Short distances are hot pages: a buffer of that many pages would save these writes."
    )
    return Figure("distance", "Rewrite distance", reading, data, layout)


def _sizes(columns: Columns | None) -> Figure | None:
    if columns is None:
        return None
    series = [
        ("writes", columns["writes"], "@c0"),
        ("reads", columns["reads"], "@c1"),
        ("trims", columns["trims"], "@c3"),
    ]
    data = _class_bars(columns["from_bytes"], columns["to_bytes"], series, size)
    layout = axes(
        title("request size, from", type="category"),
        title("requests", exponentformat="SI"),
        barmode="group",
        bargap=0.2,
    )
    low, high, most = max(
        zip(columns["from_bytes"], columns["to_bytes"], columns["writes"], strict=True),
        key=lambda row: row[2],
    )
    total = sum(columns["writes"])
    reading = (
        f"Of the writes, {percent(most / total, 2)} are of {size(low)} or more and less than "
        f"{size(high + 1)}."
        if total and high < OPEN_END
        else "Each bar holds the requests from its size up to the next."
    )
    return Figure("sizes", "Sizes of requests", reading, data, layout)


def _gaps(columns: Columns | None, figures: dict[str, Any]) -> Figure | None:
    if columns is None or figures.get("inter_arrival_ns_p50") is None:
        return None
    half, tail = (span(figures[f"inter_arrival_ns_{name}"] / 1e9) for name in ("p50", "p99"))
    reading = (
        f"Half of the requests come within {half} of the one before; 1 % come after {tail} or more."
    )
    return _shares(
        "inter-arrival", "Time between requests", reading, columns, [("requests", "count", "@c0")]
    )


def _idle(columns: Columns | None, figures: dict[str, Any]) -> Figure | None:
    if columns is None or figures.get("idle_ns") is None:
        return None
    reading = (
        "Stretches without an outstanding request, room for cleaning: "
        f"{span(figures['idle_ns'] / 1e9)} in all, {percent(figures['idle_share_of_time'], 2)} of "
        "the time."
    )
    return _shares("idle", "Idle times", reading, columns, [("idle stretches", "count", "@c0")])


def _latency(columns: Columns | None) -> Figure | None:
    if columns is None:
        return None
    kinds = [
        ("writes", "writes", "@c0"),
        ("reads", "reads", "@c1"),
        ("flushes", "flushes", "@c2"),
        ("trims", "trims", "@c3"),
    ]
    lines = [
        f"{name} {span(_quantile(columns, key, 0.5) / 1e9)} and "
        f"{span(_quantile(columns, key, 0.99) / 1e9)}"
        for name, key, _ in kinds
        if any(columns[key])
    ]
    if not lines:
        return None
    reading = (
        f"As recorded, from issue to completion; median and 99th percentile: {', '.join(lines)}."
    )
    return _shares("latency", "Time to answer", reading, columns, kinds)


def _quantile(columns: Columns, key: str, share: float) -> int:
    """Give the upper end of the class in which a share of all is reached, in nanoseconds."""
    total, seen = sum(columns[key]), 0
    for high, number in zip(columns["to_ns"], columns[key], strict=True):
        seen += number
        if seen >= share * total:
            return int(high)
    return int(columns["to_ns"][-1])


def _shares(
    name: str, heading: str, reading: str, columns: Columns, series: list[tuple[str, str, str]]
) -> Figure | None:
    data = []
    for label, key, colour in series:
        total = sum(columns[key])
        if total:
            shares = [seen / total for seen in itertools.accumulate(columns[key])]
            x = [max(to_ns, 1) / 1e9 for to_ns in columns["to_ns"]]
            drawn = {"color": colour, "width": 2, "shape": "hv"}
            data.append(
                {
                    "type": "scatter",
                    "mode": "lines",
                    "name": label,
                    "x": x,
                    "y": shares,
                    "line": drawn,
                }
            )
    if not data:
        return None
    what = series[0][0] if len(series) == 1 else "requests"
    layout = axes(
        time_axis(),
        title(f"share of the {what}, up to", tickformat=".0%", range=[0, 1.02]),
        showlegend=len(data) > 1,
    )
    return Figure(name, heading, reading, data, layout, 400)


def scalars_table(figures: dict[str, Any]) -> Table:
    """List every figure of the trace."""
    return Table(
        "The trace in figures", (("figure", "left"), ("value", "right")), trace_rows(figures)
    )
