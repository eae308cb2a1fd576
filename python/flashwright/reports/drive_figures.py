"""Plots of simulated drives, for one run or several."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

from flashwright._text import percent, short_time
from flashwright.reports.drive_words import CAUSES, DELAYS
from flashwright.reports.figures import axes, time_axis, title
from flashwright.reports.page import Figure

Columns = Mapping[str, Sequence[Any]]

OPERATION_COLOURS = {"read": "@c0", "write": "@c1", "trim": "@c2", "flush": "@c3"}
DELAY_COLOURS = {
    "queue": "@c7",
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
# Of a cause or delay that has none above.
OTHER_COLOUR = "@c8"
MOST_DIES_DRAWN = 256

# Steps of a curve closer than this, in decades, are left out: nobody sees them.
LEAST_STEP = 0.004


def tail(values_ns: Sequence[int], counts: Sequence[int]) -> tuple[list[float], list[float]]:
    """Give latencies in seconds, and the share of requests that took at least that long.

    Thinned to what can be seen.
    """
    total = sum(counts)
    rest = [total - before for before in (0, *list(accumulate(counts))[:-1])]
    xs: list[float] = []
    ys: list[float] = []
    last = len(values_ns) - 1
    for number, (value, left) in enumerate(zip(values_ns, rest, strict=True)):
        x, y = max(value, 1) / 1e9, left / total
        if (
            xs
            and number != last
            and math.log10(x / xs[-1]) < LEAST_STEP
            and math.log10(ys[-1] / y) < LEAST_STEP
        ):
            continue
        xs.append(x)
        ys.append(y)
    return xs, ys


def tail_axes(least: float) -> dict[str, Any]:
    """Give the axes of latency curves.

    Time, and the percentile with as much room for each further nine.
    """
    nines = max(2, math.ceil(-math.log10(least)))
    shares = [1.0, 0.5, *(10.0**-power for power in range(1, nines + 1))]
    told = [
        "all",
        "median",
        *(f"{100 - 10.0 ** (2 - power):.{max(0, power - 2)}f} %" for power in range(1, nines + 1)),
    ]
    across = {
        "title": {"text": "share of requests that are no slower"},
        "type": "log",
        "range": [0, -nines],
        "tickvals": shares,
        "ticktext": ["0 %", "50 %", *told[2:]],
    }
    along = {**time_axis(), "title": {"text": "latency"}}
    return axes(along, across)


def tail_line(
    name: str, xs: Sequence[float], ys: Sequence[float], colour: str, **more: Any
) -> dict[str, Any]:
    """Give one latency curve."""
    return {
        "type": "scatter",
        "mode": "lines+markers" if len(xs) < 3 else "lines",
        "name": name,
        "x": list(xs),
        "y": list(ys),
        "customdata": [percent(1 - y, 5) for y in ys],
        "hovertemplate": "%{customdata} take less than %{x:.4s}s<extra>%{fullData.name}</extra>",
        "line": {"color": colour, "width": 2.2, **more},
        "marker": {"color": colour, "size": 8},
    }


def delay_bars(
    delays: Mapping[str, Mapping[str, Any]], means_ns: Mapping[str, float]
) -> tuple[list[Any], dict[str, Any], int]:
    """Give what the latency of each row (an operation, say) consists of.

    As bars that add up to all of it; layout and height.
    """
    labels = [f"{row}<br>{short_time(means_ns[row])}" for row in delays]
    data = []
    for number, (delay, name) in enumerate(DELAYS.items()):
        shares = [found[delay]["share_of_latency"] for found in delays.values()]
        if not any(shares):
            continue
        data.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": name,
                "legendrank": -number,
                "y": labels,
                "x": shares,
                "customdata": [short_time(found[delay]["mean"]) for found in delays.values()],
                "hovertemplate": "%{customdata} (%{x:.1%})<extra>" + name + "</extra>",
                "marker": {"color": DELAY_COLOURS.get(delay, OTHER_COLOUR)},
            }
        )
    layout = axes(
        title("share of the mean latency", tickformat=".0%", range=[0, 1]),
        {"type": "category", "autorange": "reversed", "showgrid": False, "ticks": ""},
        barmode="stack",
        bargap=0.35,
    )
    return data, layout, 150 + 64 * len(labels)


def share_bars(labels: Sequence[str], shares: Columns) -> tuple[list[Any], dict[str, Any], int]:
    """Give what the dies of each row did, as horizontal bars that add up to all of the time.

    Layout and height.
    """
    data = [
        {
            "type": "bar",
            "orientation": "h",
            "name": name,
            "legendrank": -number,
            "y": list(labels),
            "x": list(shares[cause]),
            "hovertemplate": "%{y}: %{x:.1%}<extra>" + name + "</extra>",
            "marker": {"color": CAUSE_COLOURS.get(cause, OTHER_COLOUR)},
        }
        for number, (cause, name) in enumerate(CAUSES.items())
        if any(shares[cause])
    ]
    layout = axes(
        title("share of the dies' time", tickformat=".0%", range=[0, 1]),
        {"type": "category", "autorange": "reversed", "showgrid": False, "ticks": ""},
        barmode="stack",
        bargap=0.35,
    )
    return data, layout, 130 + 40 * len(labels)


def dies_figure(columns: Columns) -> Figure:
    """Draw what each die did; of very many, what those of each channel did."""
    causes = {cause: list(columns[cause]) for cause in CAUSES}
    places, what = list(columns["die"]), "die"
    if len(places) > MOST_DIES_DRAWN:
        what, channels = "channel", list(columns["channel"])
        places = sorted(set(channels))
        for cause, shares in causes.items():
            of = {channel: [] for channel in places}  # type: dict[Any, list[float]]
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


def whole_ticks(values: Sequence[int]) -> dict[str, Any]:
    """Give what an axis of whole numbers needs so that no tick lies between two of them."""
    return {"dtick": 1} if max(values) - min(values) < 10 else {"tickformat": "d"}


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
