"""The figures of a report as Plotly's own, for notebooks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import Any

import plotly.graph_objects as go

from flashwright.pages.page import Figure, shown

TEMPLATE = "plotly_white"


@cache
def _colours() -> dict[str, str]:
    """Give the colours of the light theme, by their tokens."""
    style = (resources.files("flashwright.pages") / "assets" / "report.css").read_text("utf-8")
    light = style[: style.index("}")]
    return {f"@{name}": value.strip() for name, value in re.findall(r"--([\w-]+):([^;]+);", light)}


def _themed(value: Any) -> Any:
    if isinstance(value, str):
        return _colours().get(value, value)
    if isinstance(value, list | tuple):
        return [_themed(item) for item in value]
    if isinstance(value, dict):
        return {key: _themed(item) for key, item in value.items()}
    return value


def plot(figure: Figure, lines: Sequence[str] = ()) -> go.Figure:
    """Give a figure of a report, with its title, in the light theme; of lines these alone."""
    layout = {
        "template": TEMPLATE,
        "title": {"text": figure.title, "subtitle": {"text": figure.caption}},
        "height": figure.height_px,
        **{key: value for key, value in figure.layout.items() if key != "meta"},
    }
    return go.Figure(data=_themed(shown(figure.data, lines)), layout=_themed(layout))
