"""Charts of what layers hold, count and write, stacks side by side."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pyarrow.compute as pc

from flashwright._core import registry
from flashwright._text import count, size, span
from flashwright.jobs.play.charts import SECONDS, lines, names_axis
from flashwright.jobs.play.view import Row, View
from flashwright.pages.figures import Colours, axes, bar_colours, bars, title
from flashwright.pages.page import Figure

Rows = Sequence[Row]
_LINE = 26
_MB = 1e6


def writing(rows: Rows, key: str) -> Figure:
    """Draw the time in which the device writes, by stack."""
    labels = [in_lines(row["label"]) for row in rows]
    seconds = [row["total_write_seconds"] for row in rows]
    colours = bar_colours(len(rows), seconds.index(min(seconds)))
    what = "seconds in which the device writes"
    data, layout = bars(labels, seconds, [span(value) for value in seconds], colours, what)
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
    labels = [in_lines(row["label"]) for row in rows]
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
    across = {**names_axis(), "dtick": 1}
    layout = axes(title("MB", rangemode="tozero"), across, barmode="group", bargap=0.25)
    return Figure(
        f"{key}-amplification", "Who writes how much", reading, data, layout, 170 + 66 * len(labels)
    )


def levels(view: View, rows: Rows, key: str, colours: Colours) -> list[Figure]:
    """Draw each counter that goes up and down over time, a line for each stack.

    Such as the slots in use.
    """
    figures = []
    for entry in registry()["layer"]:
        for counter in entry["counters"]:
            drawn = (
                (row["label"], _counted(view, row, entry["name"], counter["name"]))
                for row in rows
                if counter["is_level"]
            )
            data = lines(
                (name, colours[name], colours.dash(name), columns["time_s"], columns["value"])
                for name, columns in drawn
                if columns["value"]
            )
            if not data:
                continue
            what = counter["name"].replace("_", " ")
            layout = axes(title(SECONDS), title(what, rangemode="tozero"))
            identifier = f"{key}-{entry['name']}-{counter['name']}"
            name = f"{entry['name']}: {counter['help']}"
            reading = "Sampled while the trace was played."
            figures.append(Figure(identifier, name, reading, data, layout, 360))
    return figures


def _counted(view: View, row: Row, layer: str, counter: str) -> dict[str, list[float]]:
    """Give a counter of a layer over time."""
    found = view.part("samples", row)
    if found is None:
        return {"time_s": [], "value": []}
    chosen = (pc.field("layer") == layer) & (pc.field("counter") == counter)
    columns: dict[str, list[float]] = found.filter(chosen).select(["time_s", "value"]).to_pydict()
    return columns


def sums(view: View, rows: Rows, key: str) -> list[Figure]:
    """Draw what each stack's layers have counted, over time.

    Which patterns are flushed, for example.
    """
    figures = []
    for number, row in enumerate(rows):
        counted = {
            f"{entry['name']}: {counter['name']}": _counted(
                view, row, entry["name"], counter["name"]
            )
            for entry in registry()["layer"]
            for counter in entry["counters"]
            if not counter["is_level"] and _is_number(counter["name"])
        }
        counted = {name: columns for name, columns in counted.items() if any(columns["value"])}
        if not counted:
            continue
        colours = Colours(list(counted))
        data = lines(
            (name, colours[name], colours.dash(name), columns["time_s"], columns["value"])
            for name, columns in counted.items()
        )
        most = max(value for line in data for value in line["y"])
        reading = (
            f"Counted since the beginning, up to {count(most)}. Click a name to hide it, twice to "
            "see it alone."
        )
        layout = axes(title(SECONDS), title("counted", rangemode="tozero"))
        name = f"Counted by {row['label']}"
        figures.append(Figure(f"{key}-counted-{number}", name, reading, data, layout, 480))
    return figures


def in_lines(stack: str) -> str:
    """Break the name of a stack into lines, so that it leaves room for the bars beside it."""
    found = [""]
    for part in re.split(r"(?<=[,|(])", stack):
        if len(found[-1]) + len(part) > _LINE and found[-1]:
            found.append("")
        found[-1] += part
    return "<br>".join(found)


def _is_number(counter: str) -> bool:
    """Check whether a counter counts things.

    Sums of bytes and times would hide those on the same axis.
    """
    return not counter.endswith(("_bytes", "_ns", "_us", "_ms", "_s"))
