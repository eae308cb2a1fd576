"""Curves of latencies: the share of requests that took at least as long."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from flashwright._text import percent
from flashwright.pages.figures import axes, time_axis

LEAST_STEP = 0.004
"""Steps of a curve closer than this, in decades, are left out: nobody sees them."""


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
    lines = [
        "all",
        "median",
        *(f"{100 - 10.0 ** (2 - power):.{max(0, power - 2)}f} %" for power in range(1, nines + 1)),
    ]
    across = {
        "title": {"text": "share of requests that are no slower"},
        "type": "log",
        "range": [0, -nines],
        "tickvals": shares,
        "ticktext": ["0 %", "50 %", *lines[2:]],
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
