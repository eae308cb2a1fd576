"""Plots of stacks of layers beside each other."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow.compute as pc

from flashwright._core import registry
from flashwright._text import count, size, span
from flashwright.reports.drive_figures import tail, tail_axes, tail_line
from flashwright.reports.figures import Colours, Windows, axes, bar_colours, bars, log_axis, title
from flashwright.reports.page import Figure
from flashwright.runs import Run

Rows = Sequence[Mapping[str, Any]]
_LINE = 26
_SECONDS = "seconds of the device's time"
_MB = 1e6


def writing(rows: Rows, key: str) -> Figure:
    """Draw the time in which the device writes, by stack."""
    labels = [in_lines(row["stack"]) for row in rows]
    seconds = [row["total_write_seconds"] for row in rows]
    texts = [span(value) for value in seconds]
    data, layout = bars(
        labels,
        seconds,
        texts,
        bar_colours(len(rows), seconds.index(min(seconds))),
        "seconds in which the device writes",
    )
    reading = (
        "The time in which the device had at least one write, trim or flush, what layers write "
        "back at the end included. A flush takes what the drive's own write buffer had put off."
    )
    return Figure(f"{key}-writing", "Writing", reading, data, layout, 150 + 44 * len(labels))


def amplification(rows: Rows, key: str) -> Figure | None:
    """Draw the bytes written above the layers, below them, and by the flash."""
    drawn = (
        ("writes_above_bytes", "by the host", "@c2"),
        ("writes_below_bytes", "to the device", "@c0"),
        ("programmed_bytes", "by the flash", "@c1"),
    )
    labels = [in_lines(row["stack"]) for row in rows]
    data = [
        {
            "type": "bar",
            "orientation": "h",
            "name": name,
            "legendrank": -number,
            "y": labels,
            "x": [None if row[column] is None else row[column] / _MB for row in rows],
            "customdata": [
                "not known" if row[column] is None else size(row[column]) for row in rows
            ],
            "hovertemplate": "%{y}: %{customdata}<extra>" + name + "</extra>",
            "marker": {"color": colour},
        }
        for number, (column, name, colour) in enumerate(drawn)
        if any(row[column] for row in rows)
    ]
    if not data:
        return None
    reading = (
        "Bytes written above the layers, below them, and programmed by the flash, where it is "
        "simulated."
    )
    layout = axes(title("MB", rangemode="tozero"), _names(), barmode="group", bargap=0.25)
    return Figure(
        f"{key}-amplification", "Who writes how much", reading, data, layout, 170 + 66 * len(labels)
    )


def tails(run: Run, drive: str, op: str, key: str, colours: Colours) -> Figure | None:
    """Draw the response times of an operation, a line for each stack."""
    if "latency" not in run.tables:
        return None
    of = "response" if run.result["results"][0].get("response_ns") else "latency"
    found = run.tables["latency"]
    chosen = (pc.field("drive") == drive) & (pc.field("op") == op) & (pc.field("of") == of)
    by_stack: dict[str, tuple[list[int], list[int]]] = {}
    columns = found.filter(chosen).select(["stack", "to_ns", "count"]).to_pydict()
    for stack, to_ns, number in zip(
        columns["stack"], columns["to_ns"], columns["count"], strict=True
    ):
        values, counts = by_stack.setdefault(stack, ([], []))
        values.append(to_ns)
        counts.append(number)
    data, least = [], 1.0
    for stack, (values, counts) in by_stack.items():
        xs, ys = tail(values, counts)
        data.append(tail_line(stack, xs, ys, colours[stack], dash=colours.dash(stack)))
        least = min(least, *ys)
    if not data:
        return None
    told = "from when it was due" if of == "response" else "from when it was sent"
    reading = (
        f"How long {op}{'s' if op != 'flush' else 'es'} took, {told}, above the layers. The "
        "further left and the steeper, the better."
    )
    return Figure(f"{key}-{op}", f"Response times: {op}", reading, data, tail_axes(least), 460)


def over_time(run: Run, drive: str, key: str, colours: Colours) -> Figure | None:
    """Draw requests a second over the run, a line for each stack."""
    if "windows" not in run.tables:
        return None
    data, note = [], ""
    table = run.tables["windows"].filter(pc.field("drive") == drive)
    for stack in dict.fromkeys(table["stack"].to_pylist()):
        columns = (
            table.filter(pc.field("stack") == stack)
            .select(["start_s", "seconds", "requests"])
            .to_pydict()
        )
        windows = Windows(columns["start_s"], columns["seconds"])
        note = note or windows.note
        rates: dict[float, float] = {}
        for start, each, requests in zip(
            columns["start_s"], columns["seconds"], columns["requests"], strict=True
        ):
            if windows.is_drawn(start):
                rates[start] = rates.get(start, 0.0) + requests / each
        data.append(_line(stack, list(rates), list(rates.values()), stack, colours))
    if not data:
        return None
    reading = (
        "Requests that ended, above the layers: where a line falls, the layers or the drive are "
        f"busy with themselves.{note}"
    )
    values = [value for line in data for value in line["y"]]
    layout = axes(title(_SECONDS), log_axis("requests a second", values))
    return Figure(f"{key}-rate", "Requests a second", reading, data, layout)


def levels(run: Run, drive: str, key: str, colours: Colours) -> list[Figure]:
    """Draw each counter that goes up and down over time, a line for each stack.

    Such as the slots in use.
    """
    if "samples" not in run.tables:
        return []
    table = run.tables["samples"].filter(pc.field("drive") == drive)
    figures = []
    for entry in registry()["layer"]:
        for counter in entry["counters"]:
            chosen = (pc.field("layer") == entry["name"]) & (pc.field("counter") == counter["name"])
            found = table.filter(chosen)
            if not counter["is_level"] or found.num_rows == 0:
                continue
            data = []
            for stack in dict.fromkeys(found["stack"].to_pylist()):
                columns = (
                    found.filter(pc.field("stack") == stack).select(["time_s", "value"]).to_pydict()
                )
                data.append(_line(stack, columns["time_s"], columns["value"], stack, colours))
            layout = axes(
                title(_SECONDS), title(counter["name"].replace("_", " "), rangemode="tozero")
            )
            identifier = f"{key}-{entry['name']}-{counter['name']}"
            name = f"{entry['name']}: {counter['help']}"
            figures.append(
                Figure(identifier, name, "Sampled while the trace was played.", data, layout, 360)
            )
    return figures


def sums(run: Run, drive: str, key: str) -> list[Figure]:
    """Draw what each stack's layers have counted, over time.

    Which patterns are flushed, for example.
    """
    if "samples" not in run.tables:
        return []
    known = {
        (entry["name"], counter["name"]): counter
        for entry in registry()["layer"]
        for counter in entry["counters"]
    }
    table = run.tables["samples"].filter(pc.field("drive") == drive)
    figures = []
    for number, stack in enumerate(dict.fromkeys(table["stack"].to_pylist())):
        of_stack = table.filter(pc.field("stack") == stack)
        names = dict.fromkeys(
            zip(of_stack["layer"].to_pylist(), of_stack["counter"].to_pylist(), strict=True)
        )
        chosen = [
            pair
            for pair in names
            if pair in known and not known[pair]["is_level"] and _is_number(pair[1])
        ]
        counted = {
            f"{layer}: {counter}": of_stack.filter(
                (pc.field("layer") == layer) & (pc.field("counter") == counter)
            ).to_pydict()
            for layer, counter in chosen
        }
        counted = {name: columns for name, columns in counted.items() if any(columns["value"])}
        colours = Colours(list(counted))
        data = [
            _line(name, columns["time_s"], columns["value"], name, colours)
            for name, columns in counted.items()
        ]
        if not data:
            continue
        most = max(value for line in data for value in line["y"])
        reading = (
            f"Counted since the beginning, up to {count(most)}. Click a name to hide it, twice to "
            "see it alone."
        )
        layout = axes(title(_SECONDS), title("counted", rangemode="tozero"))
        figures.append(
            Figure(f"{key}-counted-{number}", f"Counted by {stack}", reading, data, layout, 480)
        )
    return figures


def in_lines(stack: str) -> str:
    """Break the name of a stack into lines, so that it leaves room for the bars beside it."""
    lines = [""]
    for part in re.split(r"(?<=[,|(])", stack):
        if len(lines[-1]) + len(part) > _LINE and lines[-1]:
            lines.append("")
        lines[-1] += part
    return "<br>".join(lines)


def _is_number(counter: str) -> bool:
    """Tell whether a counter counts things.

    Sums of bytes and times would hide those on the same axis.
    """
    return not counter.endswith(("_bytes", "_ns", "_us", "_ms", "_s"))


def _line(
    name: str, xs: list[Any], ys: list[Any], colour_of: str, colours: Colours
) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines" if len(xs) > 2 else "lines+markers",
        "name": name,
        "x": xs,
        "y": ys,
        "line": {"color": colours[colour_of], "width": 1.6, "dash": colours.dash(colour_of)},
    }


def _names() -> dict[str, Any]:
    return {"type": "category", "autorange": "reversed", "showgrid": False, "ticks": "", "dtick": 1}
