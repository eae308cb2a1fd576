"""Plots that several reports share, as Plotly data with colour tokens."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

COLOURS = 7
"""Colours of lines, which those who see no red or no green can tell apart, too; then dashes."""
DASHES = ("solid", "dash", "dot", "dashdot", "longdash")
HATCHES = ("", "/", "x", "-")
HEAT = [[0, "@h0"], [0.5, "@h1"], [1, "@h2"]]
"""Colours of counts, in order of lightness: from near the paper to far from it."""
REST = "@rest"
"""Grey: of what stands beside the few that are highlighted."""
SYMBOLS = (
    "circle",
    "square",
    "diamond",
    "triangle-up",
    "cross",
    "x",
    "triangle-down",
    "pentagon",
    "star",
    "hexagon",
    "bowtie",
    "hourglass",
    "star-diamond",
)
_TIMES = ((1e-9, "ns"), (1e-6, "µs"), (1e-3, "ms"), (1.0, "s"))
_SIZES = ((2.0**40, "TiB"), (2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"))
AXIS_ALPHA = {"title": {"text": "over-provisioning"}, "tickformat": ".0%", "rangemode": "tozero"}


class Colours:
    """One colour and one symbol for each name, the same in all plots of a report."""

    def __init__(self, names: Sequence[str]) -> None:
        self._number = {name: number for number, name in enumerate(dict.fromkeys(names))}

    def __getitem__(self, name: str) -> str:
        """Give the token of a name's colour."""
        return f"@c{self._number[name] % COLOURS}"

    def symbol(self, name: str) -> str:
        """Give a name's symbol, for those who do not tell colours apart."""
        return SYMBOLS[self._number[name] % len(SYMBOLS)]

    def dash(self, name: str) -> str:
        """Give how a name's line is drawn: another way where its colour is another's already."""
        return DASHES[self._number[name] // COLOURS % len(DASHES)]

    def fill(self, name: str) -> dict[str, Any]:
        """Give how a name's bar is filled: hatched where its colour is another's already."""
        hatch = HATCHES[self._number[name] // COLOURS % len(HATCHES)]
        return {"color": self[name], "pattern": {"shape": hatch, "solidity": 0.35}}


def highlight(data: Sequence[dict[str, Any]], best: Collection[str]) -> list[dict[str, Any]]:
    """Grey the lines beside the `best` ones, and draw these on top, if colours would not do.

    A name in the legend, or the pointer on a line, says which one it is.
    """
    if len(data) <= COLOURS or not any(trace["name"] in best for trace in data):
        return list(data)
    quiet = [
        {
            **trace,
            "line": {**trace["line"], "color": REST, "width": 1.2},
            "marker": {**trace.get("marker", {}), "color": REST, "size": 5},
        }
        for trace in data
        if trace["name"] not in best
    ]
    own = [trace for trace in data if trace["name"] in best]
    hues = {trace["line"]["color"] for trace in own}
    # Dashes tell lines of one colour apart, and beside grey lines the eye takes them for less.
    solid = {"dash": "solid"} if len(hues) == len(own) else {}
    loud = [{**trace, "line": {**trace["line"], **solid}, "legendrank": 1} for trace in own]
    return quiet + loud


def highlight_note(data: Sequence[Mapping[str, Any]]) -> str:
    """Say what colour stands for in a plot of which `highlight` greyed a part."""
    greyed = any(trace["line"]["color"] == REST for trace in data)
    return " In colour: the best few, and what the text speaks of." if greyed else ""


def bar_colours(number: int, best: int = 0) -> list[str]:
    """Give the colours of ranked bars: the best one stands out, the others are alike."""
    return ["@c0" if bar == best else "@c7" for bar in range(number)]


def line(
    name: str,
    x: Sequence[Any],
    y: Sequence[Any],
    colours: Colours,
    *,
    markers: bool = True,
    strong: bool = False,
    hidden: bool = False,
) -> dict[str, Any]:
    """Give one line of a plot.

    `strong` ones are those that the text speaks of, `hidden` ones wait in the legend.
    """
    colour = colours[name]
    return {
        **({"visible": "legendonly"} if hidden else {}),
        "type": "scatter",
        "mode": "lines+markers" if markers else "lines",
        "name": name,
        "x": list(x),
        "y": list(y),
        "line": {"color": colour, "width": 3 if strong else 1.4, "dash": colours.dash(name)},
        "marker": {"color": colour, "size": 10 if strong else 7, "symbol": colours.symbol(name)},
        "opacity": 1 if strong else 0.8,
    }


def bound_line(
    x: Sequence[float], y: Sequence[float | None], name: str = "frequency bound"
) -> dict[str, Any]:
    """Give the bound, dashed in the colour of the text."""
    return {
        "type": "scatter",
        "mode": "lines+markers" if len(x) == 1 else "lines",
        "name": name,
        "x": list(x),
        "y": list(y),
        "line": {"color": "@ink", "width": 2.2, "dash": "dash"},
        "marker": {"color": "@ink", "size": 9, "symbol": "line-ew-open"},
    }


def bars(
    labels: Sequence[str],
    values: Sequence[float],
    texts: Sequence[str],
    colours: Sequence[str],
    x_title: str,
) -> tuple[list[Any], dict[str, Any]]:
    """Give horizontal bars, the first label on top, each with its value as text.

    On a logarithmic scale if one is so long that others would have no length.
    """
    is_log, ends = bar_scale(values)
    data = [
        {
            "type": "bar",
            "orientation": "h",
            "y": list(labels),
            "x": list(values),
            "text": list(texts),
            "textposition": "none",
            "marker": {"color": list(colours)},
            "hovertemplate": "%{y}: %{text}<extra></extra>",
        }
    ]
    # Not the text of the bars, so that a line over the plot does not cross it.
    beside = {
        "xanchor": "left",
        "showarrow": False,
        "bgcolor": "@card",
        "borderpad": 1,
        "xshift": 3,
    }
    layout = {
        "annotations": [
            {"x": _on_axis(value, ends, is_log=is_log), "y": label, "text": text, **beside}
            for value, label, text in zip(values, labels, texts, strict=True)
        ],
        # Room for the text beside the longest bar.
        "xaxis": {
            **(log_axis(x_title, values) if is_log else title(x_title)),
            "range": [ends[0], ends[0] + (ends[1] - ends[0]) * 1.25],
        },
        "meta": {"phoneRange": list(ends), **({"note": LOG_NOTE} if is_log else {})},
        "yaxis": {"autorange": "reversed", "showgrid": False, "ticks": "", "dtick": 1},
        "bargap": 0.35,
        "showlegend": False,
    }
    return data, layout


MOST_TIMES = 100
"""One bar may be so many times as long as another: in a narrow window that is still to be seen."""
LOG_NOTE = "The scale is logarithmic: some values are more than a hundred times others."


def bar_scale(values: Sequence[float]) -> tuple[bool, tuple[float, float]]:
    """Tell whether bars need a logarithmic scale, and where their axis begins and ends.

    The ends are exponents of ten then, and the axis begins below the least value.
    """
    positive = [value for value in values if value > 0]
    most = max(values, default=0.0)
    if not positive or most <= MOST_TIMES * min(positive):
        return False, (0.0, most * 1.02 or 1.0)
    low, high = math.log10(min(positive)), math.log10(most)
    return True, (low - (high - low) * 0.08, high + (high - low) * 0.02)


def _on_axis(value: float, ends: tuple[float, float], *, is_log: bool) -> float:
    """Give where a value is, as annotations have it: exponents on a logarithmic axis."""
    if not is_log:
        return value
    return math.log10(value) if value > 0 else ends[0]


LEFT_OUT = " The last window is left out: the end cuts it short."


class Windows:
    """Windows of time of a chart, of which the end of a run may have cut the last one short.

    Rates go by each window's own length. A last window of less than a fifth of the others' says
    little, and is not drawn; `note` says so.
    """

    LEAST = 0.2

    def __init__(self, starts_s: Iterable[float], lengths_s: Iterable[float]) -> None:
        lengths = dict(zip(starts_s, lengths_s, strict=True))
        last = max(lengths, default=0.0)
        is_short = len(lengths) > 1 and lengths[last] < self.LEAST * max(lengths.values())
        self._left_out = last if is_short else None
        self.note = LEFT_OUT if is_short else ""

    def is_drawn(self, start_s: float) -> bool:
        """Check whether the window that starts then is drawn."""
        return start_s != self._left_out


MOST_DRAWN = 256
"""Windows of a line over time."""


def join_windows(columns: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """Join neighbouring windows of a replay until a plot can show them.

    Of a few requests each, their rates would jump between whole numbers, and fill a band.
    """
    each = max(columns["seconds"])
    joined = math.ceil((round(max(columns["start_s"]) / each) + 1) / MOST_DRAWN)
    ends = max(map(sum, zip(columns["start_s"], columns["seconds"], strict=True)))
    sums: dict[tuple[int, str], list[float]] = {}
    for start, op, requests, mean in zip(
        *(columns[name] for name in ("start_s", "op", "requests")),
        columns.get("mean_latency_ns", columns["requests"]),
        strict=True,
    ):
        one = sums.setdefault((round(start / each) // joined, op), [0, 0.0])
        one[0] += requests
        one[1] += requests * mean
    length = joined * each
    return {
        "start_s": [number * length for number, _ in sums],
        "seconds": [min(length, ends - number * length) for number, _ in sums],
        "op": [op for _, op in sums],
        "requests": [requests for requests, _ in sums.values()],
        "mean_latency_ns": [total / requests for requests, total in sums.values()],
    }


def axes(x: Mapping[str, Any], y: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """Give a layout with two axes."""
    return {"xaxis": dict(x), "yaxis": dict(y), **more}


def title(text: str, **more: Any) -> dict[str, Any]:
    """Give an axis with a title."""
    return {"title": {"text": text}, **more}


def log_axis(text: str, values: Iterable[float | None] = (), **more: Any) -> dict[str, Any]:
    """Give a logarithmic axis for these values.

    Labels are plain numbers, the closer the narrower the range.
    """
    found = [value for value in values if value is not None and value > 0]
    ticks = [step * 10.0**power for power in range(-9, 10) for step in _steps(found)]
    texts = [f"{tick:,.0f}" if tick >= 1 and tick == round(tick) else f"{tick:g}" for tick in ticks]
    return {"title": {"text": text}, "type": "log", "tickvals": ticks, "ticktext": texts, **more}


def _steps(values: Sequence[float]) -> Sequence[float]:
    """Give the labels of a decade, the more the fewer decades these values take."""
    decades = math.log10(max(values) / min(values)) if values else 2.0
    if decades < 0.5:
        return (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8)
    return (1, 1.5, 2, 3, 4, 5, 7) if decades < 1 else (1, 2, 5) if decades < 3 else (1,)


def time_axis(text: str = "time", values: Iterable[float | None] | None = None) -> dict[str, Any]:
    """Give a logarithmic axis of seconds, from nanoseconds to a day, with a unit at every label.

    The closer the narrower `values`.
    """
    found = (
        None if values is None else [value for value in values if value is not None and value > 0]
    )
    steps = (1,) if found is None else _steps(found)
    ticks = {
        step * factor * unit: f"{step * factor:g} {name}"
        for unit, name in _TIMES
        for factor in (1, 10, 100)
        for step in steps
    } | {1e3: "1 000 s", 1e4: "10 000 s"}
    return {
        "title": {"text": text},
        "type": "log",
        "tickvals": list(ticks),
        "ticktext": list(ticks.values()),
    }


def time_unit(longest_s: float) -> tuple[float, str]:
    """Give the unit in which times up to this one are best written, in seconds, and its name."""
    return next((one for one in reversed(_TIMES) if longest_s >= one[0]), _TIMES[0])


def size_unit(most_bytes: float) -> tuple[float, str]:
    """Give the unit in which sizes up to this one are best written, in bytes, and its name.

    As `_text.size` writes them.
    """
    return next((one for one in _SIZES if most_bytes >= one[0]), (1.0, "B"))


def stream_bars(
    columns: Mapping[str, Sequence[Any]], pages_per_erase_block: int, colour: str
) -> tuple[list[Any], dict[str, Any], int]:
    """Give the pages of each stream, valid and spare, as stacked bars.

    With the layout and the height in pixels. Streams whose names hold a number stand in its order,
    whatever the order in which they came to be.
    """

    def number(row: int) -> tuple[float, str]:
        found = re.search(r"\d+", str(columns["stream"][row]))
        return (int(found[0]) if found else math.inf, str(columns["stream"][row]))

    labels = [str(stream) for stream in columns["stream"]]
    order = (
        sorted(range(len(labels)), key=number)
        if any(re.search(r"\d", label) for label in labels)
        else range(len(labels))
    )
    valid = [columns["valid_pages"][row] for row in order]
    spare = [
        max(0, columns["erase_blocks"][row] * pages_per_erase_block - columns["valid_pages"][row])
        for row in order
    ]
    shared = {
        "type": "bar",
        "orientation": "h",
        "y": [labels[row] for row in order],
        "marker": {"color": colour},
    }
    data = [
        {**shared, "name": "valid pages", "x": valid},
        {**shared, "name": "spare space", "x": spare, "opacity": 0.35},
    ]
    layout = axes(
        title("pages", exponentformat="SI"),
        {"type": "category", "autorange": "reversed", "showgrid": False, "ticks": "", "dtick": 1},
        barmode="stack",
        bargap=0.3,
    )
    return data, layout, 130 + 24 * len(labels)
