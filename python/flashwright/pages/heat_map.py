"""Latency over time as a heat map: how many requests of each moment took how long."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa

from flashwright._text import count, short_time, span
from flashwright.pages.figures import HEAT, Windows, axes, time_axis, title
from flashwright.pages.page import Figure

TABLE = "latency_over_time"
"""Of a window (start_s, seconds), an op and a class of latencies (from_ns, to_ns): a count."""
OPERATIONS = {"read": "reads", "write": "writes", "flush": "flushes"}
SHORTEST_NS = 0.5
"""Where a class begins that holds 0, which no logarithmic axis has."""


def heat_maps(found: pa.Table | None, seconds_of: str) -> list[Figure]:
    """Draw a heat map for each operation whose latencies over time there are."""
    if found is None:
        return []
    return [
        drawn
        for op, name in OPERATIONS.items()
        if (drawn := heat_map(found, [op], f"latency-map-{op}", name, seconds_of)) is not None
    ]


def heat_map(
    table: pa.Table, ops: Sequence[str], identifier: str, name: str, seconds_of: str
) -> Figure | None:
    """Draw time across, latency up, and the number of requests as colour; None without requests.

    `seconds_of` says whose seconds the time is in.
    """
    columns = table.to_pydict()
    windows = Windows(columns["start_s"], columns["seconds"])
    rows = [
        row
        for row, op in enumerate(columns["op"])
        if op in ops and windows.is_drawn(columns["start_s"][row])
    ]
    if not rows:
        return None
    each = max(columns["seconds"])
    first = min(columns["start_s"][row] for row in rows)
    last = max(columns["start_s"][row] for row in rows)
    across = round((last - first) / each) + 1
    edges = _edges({(columns["from_ns"][row], columns["to_ns"][row]) for row in rows})
    places = {edge: number for number, edge in enumerate(edges)}
    cells: list[list[float]] = [[0.0] * across for _ in edges[1:]]
    for row in rows:
        at = round((columns["start_s"][row] - first) / each)
        # A window that the end cut short counts as if it had gone on.
        whole = columns["count"][row] * each / columns["seconds"][row]
        cells[places[columns["from_ns"][row]]][at] += whole
    ends = [first + number * each for number in range(across)]
    ends.append(
        last + max(columns["seconds"][row] for row in rows if columns["start_s"][row] == last)
    )
    return Figure(
        identifier,
        f"Latency of {name} over time",
        _reading(name, each, windows.note),
        [_trace(ends, edges, cells, name)],
        axes(
            title(seconds_of, showgrid=False),
            {**time_axis("latency", [edge / 1e9 for edge in edges]), "showgrid": False},
        ),
        400,
    )


def _edges(classes: set[tuple[int, int]]) -> list[float]:
    """Give the ends of the classes that hold something, and of the gaps between them."""
    edges = {float(low) for low, _ in classes} | {float(high + 1) for _, high in classes}
    return sorted(edges)


def _trace(
    ends: Sequence[float], edges: Sequence[float], cells: Sequence[Sequence[float]], name: str
) -> dict[str, Any]:
    most = max(max(line) for line in cells)
    ticks = [tick for power in range(12) for step in (1, 3) if (tick := step * 10**power) <= most]
    return {
        "type": "heatmap",
        "x": [round(end, 9) for end in ends],
        "y": [max(edge, SHORTEST_NS) / 1e9 for edge in edges],
        "z": [[round(math.log10(cell), 3) if cell else None for cell in line] for line in cells],
        "text": [
            [
                f"{count(cell)} {name}: {short_time(low)} to {short_time(high)}" if cell else ""
                for cell in line
            ]
            for (low, high), line in zip(pairwise(edges), cells, strict=True)
        ],
        "zmin": 0,
        "zmax": max(math.log10(max(most, 1)), 1),
        "colorscale": HEAT,
        "hoverongaps": False,
        "colorbar": {
            "title": {"text": name, "side": "right", "font": {"color": "@muted"}},
            "tickvals": [math.log10(tick) for tick in ticks],
            "ticktext": [count(tick) for tick in ticks],
            "thickness": 10,
            "outlinewidth": 0,
            "tickfont": {"color": "@muted"},
        },
        "hovertemplate": "%{text}<extra></extra>",
    }


def _reading(name: str, each: float, note: str) -> str:
    return (
        f"Each column is {span(each)}; the stronger the colour, the more {name} took that long. A "
        f"second band above the first is what some of them waited for.{note}"
    )
