"""The report of a trace: what it holds."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from flashwright._text import count, percent, significant, size, span
from flashwright.reports.figures import axes, title
from flashwright.reports.page import Fact, Figure, Page, Section, Table
from flashwright.runs import Run

OPEN_END = 2**64 - 1
Columns = dict[str, list[Any]]


def page(run: Run) -> Page:
    """Build the report of `trace stats`."""
    figures = run.result
    return Page(
        kind="trace",
        title=figures["source"],
        headline=headline(figures),
        facts=facts(figures),
        sections=[*sections(figures, run.tables, ""), Section("All figures", [scalars_table(figures)])],
        provenance=figures["provenance"],
    )


def headline(figures: dict[str, Any]) -> str:
    """Give the trace in two sentences."""
    told = f"{count(figures['writes'])} writes and {count(figures['reads'])} reads"
    if figures.get("duration_ns"):
        told += f" in {span(figures['duration_ns'] / 1e9)}"
    told += f" touch {size(figures['footprint_bytes'])}."
    hot = figures.get("update_share_of_hottest_20_percent")
    if hot is not None:
        told += f" The hottest 20 % of the written pages take {percent(hot, 2)} of the updates."
    return told


def facts(figures: dict[str, Any]) -> list[Fact]:
    """Give the figures that matter most to flash."""
    return [
        Fact("written", size(figures["write_bytes"]), f"to {size(figures['footprint_written_bytes'])} of pages"),
        Fact("updates a page", significant(figures["mean_updates_per_written_page"]), "mean over the written pages"),
        Fact(
            "sequential writes", percent(figures["sequential_share_of_writes"], 2), "start where the one before ended"
        ),
        Fact("idle", percent(figures["idle_share_of_time"], 2), "of the time no request is outstanding"),
    ]


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
    what = [_skew(columns("skew")), _distance(columns("rewrite_distance")), _sizes(columns("request_sizes"))]
    when = [_times(columns("inter_arrival"), "inter_arrival"), _times(columns("idle"), "idle")]
    drawn = (("Where it writes", where), ("What is written again", what), ("When it writes", when))
    return [Section(name, [figure for figure in group if figure is not None]) for name, group in drawn]


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
    for start, start_byte, writes in zip(columns["start_ns"], columns["from_byte"], columns["writes"], strict=True):
        if writes:
            cells[(start_byte - rows[0]) // row][(start - starts[0]) // window] = writes
    data = [
        {
            "type": "heatmap",
            "x": [round(x * unit, 6) for x in xs],
            "y": [y / 2**20 for y in ys],
            "z": cells,
            "colorscale": [[0, "@c9"], [0.25, "@c0"], [0.6, "@c5"], [1, "@c6"]],
            "showscale": True,
            "hoverongaps": False,
            "colorbar": {
                "title": {"text": "writes", "side": "right"},
                "thickness": 10,
                "outlinewidth": 0,
                "tickfont": {"color": "@muted"},
            },
            "hovertemplate": "%{x} , %{y:.1f} MiB: %{z} writes<extra></extra>",
        }
    ]
    layout = axes({**x_axis, "showgrid": False}, title("address in MiB", showgrid=False))
    reading = "Every dot is a place and a moment with writes. Level lines are pages written again and again; slopes are sequential writing."
    return Figure("picture", "Addresses over time", reading, data, layout, 480)


def _over_time(columns: Columns | None, figures: dict[str, Any], *, timeless: bool) -> Figure | None:
    if columns is None:
        return None
    x_axis, unit = _time_axis(timeless=timeless)
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
    length = f"{significant(figures['window_ns'])} requests" if timeless else span(figures["window_ns"] / 1e9)
    reading = f"In windows of {length}. The working set is the distinct pages that a window touches."
    return Figure("over-time", "Traffic and working set", reading, data, layout)


def _skew(columns: Columns | None) -> Figure | None:
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
    fraction = {"tickformat": ".0%", "rangemode": "tozero"}
    layout = axes(
        title("share of the written pages, hottest first", **fraction), title("share of the updates", **fraction)
    )
    reading = (
        "How many of the updates go to how few pages (MULTILOG figure 6). "
        "The further above the dashed line, the more placement can gain."
    )
    return Figure("skew", "Skew of updates", reading, data, layout)


def _class_bars(
    lows: list[int], highs: list[int], series: list[tuple[str, list[int], str]], label: Any
) -> list[dict[str, Any]]:
    names = [f"over {label(low)}" if high >= OPEN_END else label(low) for low, high in zip(lows, highs, strict=True)]
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
    reading = "Short distances are hot pages: a buffer of that many pages would save these writes. Two humps tell hot and cold pages apart."
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
    return Figure("sizes", "Sizes of requests", "Flash wants them large; a database writes pages.", data, layout)


def _times(columns: Columns | None, name: str) -> Figure | None:
    if columns is None or not any(columns["count"]):
        return None
    total = sum(columns["count"])
    shares, seen = [], 0
    for number in columns["count"]:
        seen += number
        shares.append(seen / total)
    data = [
        {
            "type": "scatter",
            "mode": "lines",
            "x": [max(to_ns, 1) / 1e9 for to_ns in columns["to_ns"]],
            "y": shares,
            "line": {"color": "@c0", "width": 2, "shape": "hv"},
        }
    ]
    text = {
        "inter_arrival": (
            "Time between requests",
            "Bursts are on the left; the long tail is where a drive can tidy up.",
        ),
        "idle": ("Idle times", "Stretches in which no request is outstanding: room for cleaning."),
    }[name]
    layout = axes(
        title("seconds", type="log", dtick=1, exponentformat="SI"),
        title("share of them, up to", tickformat=".0%", range=[0, 1.02]),
        showlegend=False,
    )
    return Figure(name.replace("_", "-"), text[0], text[1], data, layout, 380)


def scalars_table(figures: dict[str, Any]) -> Table:
    """List every figure of the trace."""
    rows = [
        (key.replace("_", " "), _cell(value))
        for key, value in figures.items()
        if value is None or isinstance(value, int | float | str)
    ]
    return Table("The trace in figures", (("figure", "left"), ("value", "right")), rows)


def _cell(value: float | str | None) -> str:
    if value is None:
        return "not told"
    if isinstance(value, int):
        return count(value)
    return value if isinstance(value, str) else significant(value, 4)
