"""Plots that several reports share, as Plotly data with colour tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

COLOURS = 12
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
)
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


def line(
    name: str, x: Sequence[Any], y: Sequence[Any], colours: Colours, *, markers: bool = True, strong: bool = False
) -> dict[str, Any]:
    """Give one line of a plot; `strong` ones are those that the text speaks of."""
    colour = colours[name]
    return {
        "type": "scatter",
        "mode": "lines+markers" if markers else "lines",
        "name": name,
        "x": list(x),
        "y": list(y),
        "line": {"color": colour, "width": 3 if strong else 1.4},
        "marker": {"color": colour, "size": 10 if strong else 7, "symbol": colours.symbol(name)},
        "opacity": 1 if strong else 0.8,
    }


def bound_line(x: Sequence[float], y: Sequence[float | None], name: str = "bound") -> dict[str, Any]:
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
    labels: Sequence[str], values: Sequence[float], texts: Sequence[str], colours: Sequence[str], x_title: str
) -> tuple[list[Any], dict[str, Any]]:
    """Give horizontal bars, the first label on top, each with its value as text."""
    data = [
        {
            "type": "bar",
            "orientation": "h",
            "y": list(labels),
            "x": list(values),
            "text": list(texts),
            "textposition": "outside",
            "cliponaxis": False,
            "marker": {"color": list(colours)},
            "textfont": {"color": "@ink"},
            "hovertemplate": "%{y}: %{text}<extra></extra>",
        }
    ]
    layout = {
        # Room for the text beside the longest bar.
        "xaxis": {"title": {"text": x_title}, "range": [0, max(values) * 1.45]},
        "yaxis": {"autorange": "reversed", "showgrid": False, "ticks": "", "dtick": 1},
        "bargap": 0.35,
        "showlegend": False,
    }
    return data, layout


def axes(x: Mapping[str, Any], y: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """Give a layout with two axes."""
    return {"xaxis": dict(x), "yaxis": dict(y), **more}


def title(text: str, **more: Any) -> dict[str, Any]:
    """Give an axis with a title."""
    return {"title": {"text": text}, **more}


def log_axis(text: str, **more: Any) -> dict[str, Any]:
    """Give a logarithmic axis whose labels are plain numbers at 1, 2 and 5."""
    values = [step * 10.0**power for power in range(-9, 10) for step in (1, 2, 5)]
    return {
        "title": {"text": text},
        "type": "log",
        "tickvals": values,
        "ticktext": [f"{value:,g}" for value in values],
        **more,
    }
