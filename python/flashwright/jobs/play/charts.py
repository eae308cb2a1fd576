"""Charts of a `play`: of one run by operation, of several side by side."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from flashwright._text import count, percent, rate, short_count, short_time, significant, span
from flashwright.jobs.play import said
from flashwright.jobs.play.said import CAUSES, DELAYS, PLURALS, TIMED
from flashwright.jobs.play.view import Curve, Row, View
from flashwright.pages.figures import (
    Colours,
    Windows,
    axes,
    bar_colours,
    bars,
    highlight,
    highlight_note,
    log_axis,
    time_axis,
    time_unit,
    title,
)
from flashwright.pages.page import Figure
from flashwright.pages.tails import tail, tail_axes, tail_line

Columns = Mapping[str, Sequence[Any]]
Line = tuple[str, str, str, Sequence[Any], Sequence[Any]]
"""Name, colour, dash, and where it goes: x and y."""

OTHER = "the other: "
SECONDS = "seconds of the device's time"
OPERATION_COLOURS = {"read": "@c0", "write": "@c1", "trim": "@c2", "flush": "@c3"}
DELAY_COLOURS = {
    "queue": "@rest",
    "channel": "@c11",
    "die_busy": "@c0",
    "cleaning": "@c1",
    "wear_levelling": "@c3",
    "erase": "@c6",
    "service": "@c2",
    "buffer": "@c4",
    "flush": "@c5",
}
CAUSE_COLOURS = {
    "host": "@c2",
    "mapping": "@c5",
    "cleaning": "@c1",
    "wear_levelling": "@c3",
    "idle": "@grid",
}
OTHER_COLOUR = "@c8"
"""Of a cause or delay that has none above."""
MOST_DIES_DRAWN = 256
MOST_BEST = 3
"""Runs that stand out where there are too many lines for colours."""
MOST_TIMES_LONGER = 10
"""Up to this ratio of the longest run to the shortest they are drawn over the same seconds."""
BETTER = "The further left and the steeper, the better."


def tails(
    identifier: str, name: str, reading: str, curves: Iterable[tuple[str, str, str, Curve]]
) -> Figure | None:
    """Draw latency curves: name, colour, dash, and classes of each."""
    data, least = [], 1.0
    for label, colour, dash, (values, counts) in curves:
        xs, ys = tail(values, counts)
        data.append(tail_line(label, xs, ys, colour, dash=dash))
        least = min(least, *ys)
    return Figure(identifier, name, reading, data, tail_axes(least), 480) if data else None


def of_operations(view: View, row: Row, of: str = "latency") -> Figure | None:
    """Draw a kind of time by operation, with that of the run that it is laid beside."""
    name, reading = "Latency", BETTER
    if of == "response":
        name = "Time from when a request was due"
        reading = (
            "Lateness included: what those feel who send by the clock, whether or not the device "
            "is ready."
        )
    else:
        slow = [
            f"1 in 100 {PLURALS[op]} takes longer than {short_time(one['p99'])}, 1 in 1000 longer "
            f"than {short_time(one['p999'])}"
            for op, one in said.operations(row).items()
            if op in TIMED
        ]
        reading += f" {'; '.join(slow)}." if slow else ""
    curves = [
        (prefix + op, OPERATION_COLOURS[op], dash, curve)
        for prefix, dash, shown, one in _both(view, row)
        for op, curve in shown.curves(one, of).items()
    ]
    return tails(of, name, reading, curves)


def _both(view: View, row: Row) -> list[tuple[str, str, View, Row]]:
    """Give a row and the one that it is laid beside, with how their lines are named and drawn."""
    found = [("", "solid", view, row)]
    for mine, theirs in view.pairs():
        if mine is row and view.against is not None:
            found.append((OTHER, "dot", view.against, theirs))
    return found


def lateness(view: View, row: Row) -> Figure | None:
    """Draw how late requests were sent."""
    drawn = (("lateness", "lateness", "@c0"), ("held", "for want of room", "@c3"))
    curves = [
        (prefix + name, colour, dash, curve)
        for prefix, dash, shown, one in _both(view, row)
        for of, name, colour in drawn
        for curve in shown.curves(one, of).values()
    ]
    reading = (
        "How much later than due requests were sent. For want of room: those that became due while "
        "as many as possible were outstanding, which is the device's doing; what is late beside "
        "them is the sender's."
    )
    figure = tails("lateness", "Lateness", reading, curves)
    if figure is not None:
        figure.layout["xaxis"]["title"] = {"text": "later than due"}
    return figure


def lines(drawn: Iterable[Line], width: float = 1.4) -> list[dict[str, Any]]:
    """Give lines over time."""
    return [
        {
            "type": "scatter",
            "mode": "lines" if len(xs) > 2 else "lines+markers",
            "name": name,
            "x": list(xs),
            "y": list(ys),
            "line": {"color": colour, "width": width, "dash": dash},
        }
        for name, colour, dash, xs, ys in drawn
    ]


def _by_operation(view: View, row: Row, of: str) -> list[Line]:
    """Give a column of the windows, or requests a second, of a row and the one beside it."""
    found: list[Line] = []
    for prefix, dash, shown, one in _both(view, row):
        columns = shown.windows(one) or {"op": []}
        for op in said.OPERATIONS:
            rows = [number for number, other in enumerate(columns["op"]) if other == op]
            if not rows:
                continue
            if of == "rate":
                xs, ys = rates(columns, rows)
            else:
                xs, ys = ([columns[key][number] for number in rows] for key in ("start_s", of))
            found.append((prefix + op, OPERATION_COLOURS[op], dash, xs, ys))
    return found


def rates(columns: Columns, rows: Sequence[int]) -> tuple[list[float], list[float]]:
    """Give the requests a second of the windows of some rows.

    Windows in which nothing ended have no row: they are 0, at the ends of such a pause.
    """
    windows = Windows(columns["start_s"], columns["seconds"])
    each = max(columns["seconds"])
    done: dict[float, float] = {}
    for row in rows:
        start = columns["start_s"][row]
        if windows.is_drawn(start):
            done[start] = done.get(start, 0.0) + columns["requests"][row] / columns["seconds"][row]
    xs: list[float] = []
    ys: list[float] = []
    for start in sorted(done):
        if xs and start - xs[-1] > 1.5 * each:
            pause = sorted({xs[-1] + each, start - each})
            xs += pause
            ys += [0.0] * len(pause)
        xs.append(start)
        ys.append(done[start])
    return xs, ys


def rate_over_time(view: View, row: Row) -> Figure | None:
    """Draw requests a second of a run, by operation."""
    drawn, columns = _by_operation(view, row, "rate"), view.windows(row)
    if not drawn or columns is None:
        return None
    windows = Windows(columns["start_s"], columns["seconds"])
    reading = f"Requests that ended, in windows of {span(max(columns['seconds']))}.{windows.note}"
    layout = axes(title(SECONDS), title("requests a second", rangemode="tozero"))
    return Figure("rate", "Requests a second over the run", reading, lines(drawn), layout, 400)


def latency_over_time(view: View, row: Row) -> Figure | None:
    """Draw mean latencies of a run, by operation."""
    data = lines(
        (name, colour, dash, xs, [value / 1e9 for value in ys])
        for name, colour, dash, xs, ys in _by_operation(view, row, "mean_latency_ns")
    )
    values = [value for line in data for value in line["y"]]
    if not values:
        return None
    reading = "Means of the requests that ended in a window; a level line is steady."
    layout = axes(title(SECONDS), time_axis("mean latency", values))
    return Figure("latency-time", "Latency over the run", reading, data, layout, 400)


def lateness_over_time(view: View, row: Row) -> Figure | None:
    """Draw how late the latest request of each window was."""
    columns = view.columns("windows", row)
    if columns is None or not (row["sent"] or {}).get("lateness_ns"):
        return None
    # It is of all operations, and stands in the row of each.
    late = dict(zip(columns["start_s"], columns["max_late_ns"], strict=True))
    scale, unit = time_unit(max(late.values()) / 1e9)
    ys = [value / 1e9 / scale for value in late.values()]
    reading = (
        "A line that climbs and does not come back is a device that cannot keep up with the trace."
    )
    layout = axes(title(SECONDS), title(f"{unit} later than due", rangemode="tozero"))
    data = lines([("latest of a window", "@c0", "solid", list(late), ys)])
    return Figure("lateness-time", "Lateness over time", reading, data, layout)


def delays(rows: Mapping[str, tuple[Row, str]], key: str, name: str, reading: str) -> Figure | None:
    """Draw what latencies consist of, as bars that add up to all of it: rows and operations."""
    found = {
        f"{label}<br>{short_time(row['latency_ns'][op]['mean'])}": row["simulated"]["delays"][op]
        for label, (row, op) in rows.items()
    }
    data = []
    for number, (delay, text) in enumerate(DELAYS.items()):
        shares = [one[delay]["share_of_latency"] for one in found.values()]
        if any(shares):
            means = [short_time(one[delay]["mean"]) for one in found.values()]
            bar = _stacked(number, text, found, shares, DELAY_COLOURS.get(delay, OTHER_COLOUR))
            hover = f"%{{customdata}} (%{{x:.1%}})<extra>{text}</extra>"
            data.append({**bar, "customdata": means, "hovertemplate": hover})
    if not data:
        return None
    layout = _shares("share of the mean latency")
    return Figure(key, name, reading, data, layout, 150 + 64 * len(found))


def _stacked(
    number: int, name: str, labels: Iterable[str], values: Sequence[float], colour: str
) -> dict[str, Any]:
    return {
        "type": "bar",
        "orientation": "h",
        "name": name,
        "legendrank": -number,
        "y": list(labels),
        "x": list(values),
        "hovertemplate": "%{y}: %{x:.1%}<extra>" + name + "</extra>",
        "marker": {"color": colour},
    }


def names_axis() -> dict[str, Any]:
    """Give an axis of names, the first on top."""
    return {"type": "category", "autorange": "reversed", "showgrid": False, "ticks": ""}


def _shares(text: str) -> dict[str, Any]:
    along = title(text, tickformat=".0%", range=[0, 1])
    return axes(along, names_axis(), barmode="stack", bargap=0.35)


def delays_of(row: Row) -> Figure | None:
    """Draw what the requests of a run waited for, by operation."""
    if row["simulated"] is None:
        return None
    rows = {op: (row, op) for op in said.operations(row)}
    return delays(rows, "delays", "What requests wait for", said.DELAYS_EXPLAINED) if rows else None


def amplification_over_time(view: View, row: Row) -> Figure | None:
    """Draw write amplification over the run."""
    columns = view.columns("over_time", row)
    if columns is None or not row["simulated"]["counters"]["host_page_writes"]:
        return None
    line = over_time_line("write amplification", columns, "write_amplification", "@c1")
    if all(value is None for value in line["y"]):
        return None
    reading = (
        f"Over the run, {significant(row['simulated']['write_amplification'], 4)} pages are "
        "programmed for each page that the host writes."
    )
    across = title("write amplification", rangemode="tozero")
    layout = axes(title(SECONDS), across, showlegend=False)
    return Figure("amplification", "Write amplification over the run", reading, [line], layout, 380)


def over_time_line(
    name: str, columns: Columns, key: str, colour: str, scale: float = 1.0, dash: str = "solid"
) -> dict[str, Any]:
    """Give a column of the table over time as a line; gaps where there is no value."""
    values = [
        None if value is None or not math.isfinite(value) else value * scale
        for value in columns[key]
    ]
    around = [None, *values, None]
    # Of a value between gaps a line draws nothing: flushes, say, that come now and then.
    is_alone = any(
        value is not None and before is None and after is None
        for before, value, after in zip(around, values, around[2:], strict=False)
    )
    return {
        "type": "scatter",
        "mode": "lines+markers" if is_alone else "lines",
        "name": name,
        "x": list(columns["seconds"]),
        "y": values,
        "line": {"color": colour, "width": 1.8, "dash": dash},
        "marker": {"color": colour, "size": 7 if len(values) < 3 else 3},
    }


def dies(view: View, row: Row) -> Figure | None:
    """Draw what each die did; of very many, what those of each channel did."""
    columns = view.columns("dies", row)
    if columns is None:
        return None
    causes = {cause: list(columns[cause]) for cause in CAUSES}
    places, what = list(columns["die"]), "die"
    if len(places) > MOST_DIES_DRAWN:
        what, channels = "channel", list(columns["channel"])
        places = sorted(set(channels))
        for cause, shares in causes.items():
            of: dict[Any, list[float]] = {channel: [] for channel in places}
            for channel, share in zip(channels, shares, strict=True):
                of[channel].append(share)
            causes[cause] = [sum(of[channel]) / len(of[channel]) for channel in places]
    data = [
        {
            "type": "bar",
            "name": name,
            "legendrank": -number,
            "x": places,
            "y": causes[cause],
            "hovertemplate": what + " %{x}: %{y:.1%}<extra>" + name + "</extra>",
            "marker": {"color": CAUSE_COLOURS.get(cause, OTHER_COLOUR)},
        }
        for number, (cause, name) in enumerate(CAUSES.items())
        if any(causes[cause])
    ]
    busy = [1 - idle for idle in causes["idle"]]
    reading = f"On average a {what} is busy for {percent(sum(busy) / len(busy))} of the time"
    if max(busy) > 0:
        reading += (
            f"; the least busy for {percent(min(busy))}, the busiest for {percent(max(busy))}"
        )
    layout = axes(
        title(what, **whole_ticks(places)),
        title("share of its time", tickformat=".0%", range=[0, 1]),
        barmode="stack",
        bargap=0.15 if len(places) < 64 else 0,
    )
    return Figure("dies", f"What each {what} did", f"{reading}.", data, layout, 400)


def wear(view: View, row: Row) -> Figure | None:
    """Draw how many erase blocks were erased how often."""
    columns, found = view.columns("wear", row), row["simulated"]
    if columns is None or not found["erases_max"]:
        return None
    bar = {"type": "bar", "x": columns["erases"], "y": columns["erase_blocks"]}
    reading = (
        "Of the drive's whole life, filling and aging included: "
        f"{significant(found['erases_mean'])} erases on average, {count(found['erases_min'])} to "
        f"{count(found['erases_max'])}, standard deviation {significant(found['erases_stddev'])}."
    )
    along = title("erases of an erase block", **whole_ticks(columns["erases"]))
    layout = axes(along, title("erase blocks"), bargap=0.05, showlegend=False)
    data = [{**bar, "marker": {"color": "@c0"}}]
    return Figure("wear", "Wear", reading, data, layout, 360)


def whole_ticks(values: Sequence[int]) -> dict[str, Any]:
    """Give what an axis of whole numbers needs so that no tick lies between two of them."""
    return {"dtick": 1} if max(values) - min(values) < 10 else {"tickformat": "d"}


def tails_of_runs(
    view: View, rows: Sequence[Row], op: str, key: str, colours: Colours
) -> Figure | None:
    """Draw the times of an operation, a line for each run."""
    curves, is_any_due = [], False
    for row in rows:
        name = row["label"]
        is_due = (row["sent"] or {}).get("response_ns") is not None
        is_any_due = is_any_due or is_due
        curve = view.curves(row, "response" if is_due else "latency").get(op)
        if curve is not None:
            curves.append((name, colours[name], colours.dash(name), curve))
    figure = tails(f"{key}-{op}", f"Latency of {PLURALS[op]}", "", curves)
    if figure is None:
        return None
    found = [row for row in rows if op in said.responses(row)]
    found.sort(key=lambda row: said.responses(row)[op]["p99"])
    data = highlight(figure.data, [row["label"] for row in found[:MOST_BEST]])
    since = "from when they were due" if is_any_due else "from sending"
    reading = (
        f"How long {PLURALS[op]} took, {since}, a line for each run. {BETTER}{highlight_note(data)}"
    )
    return Figure(figure.id, figure.title, reading, data, figure.layout, 480)


def delays_of_runs(rows: Sequence[Row], op: str, key: str) -> Figure | None:
    """Draw what the latency of an operation consists of, for each run on a simulated drive."""
    found = [row for row in rows if row["simulated"] is not None]
    reading = "Shares of the mean latency, which stands below the name."
    if op == "read" or all("read" not in row["latency_ns"] for row in found):
        reading += f" {said.DELAYS_EXPLAINED}"
    shown = {row["label"]: (row, op) for row in found if op in row["latency_ns"]}
    return delays(shown, key, f"What {PLURALS[op]} wait for", reading) if shown else None


def ranked(
    rows: Iterable[tuple[str, float, str]], key: str, name: str, what: str, reading: str
) -> Figure | None:
    """Draw bars of names and values, the first on top, with a text beside each."""
    found = list(rows)
    if not found:
        return None
    labels, values, texts = (list(part) for part in zip(*found, strict=True))
    data, layout = bars(labels, values, texts, bar_colours(len(found)), what)
    return Figure(key, name, reading, data, layout, 110 + 34 * len(found))


def iops_of_runs(rows: Sequence[Row], key: str) -> Figure | None:
    """Draw requests a second, the most on top."""
    found = sorted(rows, key=lambda row: -row["iops"])
    return ranked(
        (
            (
                row["label"],
                row["iops"],
                f"{short_count(row['iops'])}/s, {rate(row['bytes_per_second'])}",
            )
            for row in found
        ),
        f"{key}-iops",
        "Requests a second",
        "requests a second",
        "Bars: requests a second, all operations together; beside them the throughput.",
    )


def amplification_of_runs(rows: Sequence[Row], key: str) -> Figure | None:
    """Draw the write amplification of simulated drives, the lowest on top."""
    found = [
        (row["label"], row["simulated"]["write_amplification"])
        for row in rows
        if row["simulated"] and row["simulated"]["counters"]["host_page_writes"]
    ]
    found.sort(key=lambda one: one[1])
    return ranked(
        ((name, value, significant(value)) for name, value in found),
        f"{key}-amplification",
        "Write amplification",
        "write amplification",
        "Pages programmed for each page that the host writes. Lower is better.",
    )


def rates_of_runs(view: View, rows: Sequence[Row], key: str, colours: Colours) -> Figure | None:
    """Draw requests a second over time, a line for each run."""
    data, note = [], ""
    for row in rows:
        columns = view.windows(row)
        if columns is not None:
            note = note or Windows(columns["start_s"], columns["seconds"]).note
            xs, ys = rates(columns, range(len(columns["op"])))
            name = row["label"]
            data += lines([(name, colours[name], colours.dash(name), xs, ys)], 1.8)
    if not data:
        return None
    best = sorted(rows, key=lambda row: -row["iops"])[:MOST_BEST]
    data = highlight(data, [row["label"] for row in best])
    along, across = title(SECONDS), title("requests a second", rangemode="tozero")
    ends = [line["x"][-1] or 1.0 for line in data]
    if max(ends) > MOST_TIMES_LONGER * min(ends):
        # In seconds, all but the slowest run would be a point at the left, and all but the fastest
        # a line at the bottom.
        for line, end in zip(data, ends, strict=True):
            line["x"] = [x / end for x in line["x"]]
            line["y"] = [y or None for y in line["y"]]
        along = title("share of each run", tickformat=".0%", range=[0, 1])
        across = log_axis("requests a second", [value for line in data for value in line["y"]])
    reading = f"A level line is steady.{highlight_note(data)}{note}"
    name = "Requests a second over the run"
    return Figure(f"{key}-rate", name, reading, data, axes(along, across), 400)


def dies_of_runs(rows: Sequence[Row], key: str) -> Figure | None:
    """Draw what the dies of each simulated drive did."""
    found = {row["label"]: row["simulated"]["die_share"] for row in rows if row["simulated"]}
    data = [
        _stacked(number, name, found, shares, CAUSE_COLOURS.get(cause, OTHER_COLOUR))
        for number, (cause, name) in enumerate(CAUSES.items())
        if any(shares := [share[cause] for share in found.values()])
    ]
    reading = (
        "Over all dies of a drive. What is neither for the host nor idle, the drive does for "
        "itself."
    )
    layout = _shares("share of the dies' time")
    height = 130 + 40 * len(found)
    return (
        Figure(f"{key}-dies", "What the dies did", reading, data, layout, height) if data else None
    )
