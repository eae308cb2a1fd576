"""The charts of experiments as Plotly figures: of one drive, or two laid over each other."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from flashwright._text import significant, size
from flashwright.pages.figures import Colours, log_axis
from flashwright.pages.page import Figure

Point = Mapping[str, Any]
UNITS = {"us": "µs"}
MOST_POINTS = 4000
"""Points drawn of one curve: more are no more to be seen, and make the report large."""
MOST_TICKS = 12
WIDE = 0.5
"""Intervals that reach further than this share of the value would hide the rest as bands on a
logarithmic axis: they are not drawn.
"""
NARROW = 1.3
"""Values within this factor are not drawn on a logarithmic axis, but from 0 on."""


class Curve:
    """One series of one drive's chart."""

    def __init__(self, drive: str, name: str, points: Sequence[Point], *, is_scatter: bool) -> None:
        self.drive, self.name, self.is_scatter = drive, name, is_scatter
        step = -(-len(points) // MOST_POINTS) if points else 1
        self.is_thinned = step > 1
        self.points = list(points[::step])


def figure(
    place: str,
    chart: Mapping[str, Any],
    curves: Sequence[Curve],
    marks: Sequence[Mapping[str, Any]],
    drives: Sequence[str],
) -> Figure | None:
    """Draw a chart; None if it has no points that can be drawn."""
    axes = {
        key: _fit_axis(chart[key], [point[key] for curve in curves for point in curve.points])
        for key in ("x", "y")
    }
    hidden = 0
    for curve in curves:
        drawn = [
            point
            for point in curve.points
            if all(point[key] > 0 or not axes[key]["is_log"] for key in axes)
        ]
        hidden += len(curve.points) - len(drawn)
        curve.points = drawn
    curves = [curve for curve in curves if curve.points]
    if not curves:
        return None
    # Colours tell curves apart, and dashes drives; where each drive has one curve, colours do.
    names = list(dict.fromkeys(curve.name for curve in curves))
    is_single = len(names) == 1
    colours = Colours(drives if is_single and len(drives) > 1 else names)
    data: list[dict[str, Any]] = []
    for curve in curves:
        data += _curve(
            curve, colours, drives, is_single=is_single, is_log=bool(axes["y"]["is_log"])
        )
    values = {
        key: [point[key] for curve in curves for point in curve.points]
        + [mark[key] for mark in marks if mark.get(key) is not None]
        for key in axes
    }
    layout: dict[str, Any] = {f"{key}axis": _axis(axes[key], values[key]) for key in axes}
    is_named = len(names) > 2 and all(len(curve.points) == 1 for curve in curves)
    if is_named:
        # Each is a thing of its own, and its place says nothing.
        places = {curve.name: curve.points[0]["x"] for curve in curves}
        labels = [name.replace("_", " ") for name in places]
        layout["xaxis"] |= {
            "tickvals": list(places.values()),
            "ticktext": labels,
            "rangemode": "normal",
        }
    points, shapes, annotations = _marks(marks, axes)
    layout |= {
        "shapes": shapes,
        "annotations": annotations,
        "showlegend": (len(curves) > 1 and not (is_named and len(drives) == 1)) or bool(points),
    }
    height = 420 + 22 * (len(curves) // 3)
    return Figure(
        place,
        chart["title"],
        _reading(chart, curves, hidden, is_log=bool(axes["y"]["is_log"])),
        data + points,
        layout,
        height,
    )


def _is_wide(point: Point) -> bool:
    return (
        point["low"] is not None
        and max(point["high"] - point["y"], point["y"] - point["low"]) > WIDE * point["y"]
    )


def _reading(
    chart: Mapping[str, Any], curves: Sequence[Curve], hidden: int, *, is_log: bool
) -> str:
    lines = []
    points = [point for curve in curves for point in curve.points if point["low"] is not None]
    wide = (
        sum(_is_wide(point) for curve in curves if not curve.is_scatter for point in curve.points)
        if is_log
        else 0
    )
    if len(points) > wide:
        lines.append("Bands and bars are 95 % intervals.")
    if wide:
        lines.append(
            f"{wide} intervals of more than ±{WIDE:.0%} are not drawn; curves.parquet has them."
        )
    if hidden:
        lines.append(f"{hidden} points at 0 are not on the logarithmic axis.")
    if any(curve.is_thinned for curve in curves):
        lines.append("Not every point is drawn; curves.parquet has all.")
    axes = [_label(chart[key]) for key in ("y", "x")]
    return " ".join([f"{axes[0][:1].upper()}{axes[0][1:]} against {axes[1]}.", *lines])


def _fit_axis(axis: Mapping[str, Any], values: Sequence[float]) -> Mapping[str, Any]:
    """Give an axis as it is drawn.

    One of values near each other has no use for a logarithm, which has no labels so close.
    """
    if axis["unit"] in ("bytes", "requests") or not values or min(values) <= 0:
        return axis
    return (
        axis
        if not axis["is_log"] or max(values) > NARROW * min(values)
        else {**axis, "is_log": False, "from_0": True}
    )


def _curve(
    curve: Curve, colours: Colours, drives: Sequence[str], *, is_single: bool, is_log: bool
) -> list[dict[str, Any]]:
    """Give a curve, and the band or the bars of its intervals."""
    number = drives.index(curve.drive)
    by_drive = is_single and len(drives) > 1
    key = curve.drive if by_drive else curve.name
    name = (
        curve.name
        if len(drives) == 1
        else curve.drive
        if is_single
        else f"{curve.drive}: {curve.name}"
    )
    colour = colours[key]
    dash = "dash" if number and not by_drive else colours.dash(key)
    xs = [point["x"] for point in curve.points]
    mode = "markers" if curve.is_scatter else "lines+markers" if len(xs) <= 64 else "lines"
    trace: dict[str, Any] = {
        "type": "scatter",
        "mode": mode,
        "name": name,
        "x": xs,
        "y": [point["y"] for point in curve.points],
        "line": {"color": colour, "width": 2, "dash": dash},
        "marker": {
            "color": colour,
            "size": 4 if curve.is_scatter and len(xs) > 200 else 6,
            "symbol": colours.symbol(key)
            if number == 0 or by_drive
            else f"{colours.symbol(key)}-open",
        },
        "legendgroup": name,
    }
    if not any(point["low"] is not None for point in curve.points):
        return [trace]
    if curve.is_scatter:
        # In order of the points; one without an interval has a bar of no length.
        high = [
            0 if point["high"] is None else point["high"] - point["y"] for point in curve.points
        ]
        low = [0 if point["low"] is None else point["y"] - point["low"] for point in curve.points]
        bars = {
            "type": "data",
            "symmetric": False,
            "array": high,
            "arrayminus": low,
            "thickness": 1,
            "width": 0,
        }
        return [{**trace, "error_y": bars}]
    band = {
        "type": "scatter",
        "mode": "lines",
        **_outline(curve.points, is_log=is_log),
        "fill": "toself",
        "fillcolor": colour,
        "opacity": 0.18,
        "line": {"width": 0, "color": colour},
        "hoverinfo": "skip",
        "showlegend": False,
        "legendgroup": name,
    }
    return [band, trace]


def _outline(points: Sequence[Point], *, is_log: bool) -> dict[str, list[float | None]]:
    """Go around the intervals of neighbouring points.

    A gap, where one has none to draw, begins another area.
    """
    outline: dict[str, list[float | None]] = {"x": [], "y": []}
    for is_drawn, group in groupby(
        points, lambda point: point["low"] is not None and not (is_log and _is_wide(point))
    ):
        if not is_drawn:
            continue
        run = list(group)
        gap = [None] if outline["x"] else []
        outline["x"] += [
            *gap,
            *(point["x"] for point in run),
            *(point["x"] for point in reversed(run)),
        ]
        outline["y"] += [
            *gap,
            *(point["high"] for point in run),
            *(point["low"] for point in reversed(run)),
        ]
    return outline


def _axis(axis: Mapping[str, Any], values: Sequence[float]) -> dict[str, Any]:
    """Give an axis with its unit; bytes have powers of two as ticks."""
    unit = axis["unit"]
    if unit == "bytes":
        return size_axis(_label(axis), values, is_log=axis["is_log"])
    text = _title(axis)
    if axis["is_log"]:
        found = [value for value in values if value > 0]
        if max(found, default=1) >= 1e5:
            return {
                "title": {"text": text},
                "type": "log",
                "exponentformat": "SI",
                "dtick": "D2" if _decades(found) < 2 else 1,
            }
        if unit == "requests" and all(value == round(value) for value in found):
            ticks = _binary_ticks(found, is_log=True)
            return {
                "title": {"text": text},
                "type": "log",
                "tickvals": ticks,
                "ticktext": [f"{tick:g}" for tick in ticks],
            }
        return log_axis(text, values)
    shared: dict[str, Any] = {"title": {"text": text}}
    if unit == "share":
        return {**shared, "tickformat": ".0%"}
    if axis.get("from_0") or (values and min(values) >= 0 and min(values) < 0.5 * max(values)):
        shared["rangemode"] = "tozero"
    return shared


def size_axis(label: str, values: Sequence[float], *, is_log: bool = True) -> dict[str, Any]:
    """Give an axis of bytes for these values."""
    shared: dict[str, Any] = {"title": {"text": label}, **({"type": "log"} if is_log else {})}
    ticks = _binary_ticks(values, is_log=is_log)
    return (
        {**shared, "tickvals": ticks, "ticktext": [size(tick) for tick in ticks]}
        if ticks
        else shared
    )


def _title(axis: Mapping[str, Any]) -> str:
    """Give what is on an axis, with its unit; a count of things has none but what they are."""
    label, unit = _label(axis), str(axis["unit"])
    if unit == "requests":
        return label
    if unit == "chunks":
        return label if "chunk" in label else f"{label} ({unit})"
    return f"{label} in {UNITS.get(unit, unit)}" if unit and unit != "share" else label


def _label(axis: Mapping[str, Any]) -> str:
    """Give the name of an axis: in small letters, and no adjective alone."""
    label = str(axis["label"])
    label = label if label[:2].isupper() else f"{label[:1].lower()}{label[1:]}"
    return "outstanding requests" if label == "outstanding" else label


def _decades(values: Sequence[float]) -> float:
    return math.log10(max(values) / min(values))


def _binary_ticks(values: Sequence[float], *, is_log: bool) -> list[float]:
    """Give powers of two, or multiples of one, within the values.

    None if there is nothing to go by.
    """
    found = [value for value in values if value > 0]
    if not found:
        return []
    low, high = min(found), max(found)
    if is_log:
        first, last = math.floor(math.log2(low)), math.ceil(math.log2(high))
        step = max(1, math.ceil((last - first + 1) / MOST_TICKS))
        return [2.0**power for power in range(first, last + 1, step)]
    step_bytes = 2.0 ** math.ceil(math.log2(high / 8))
    return [number * step_bytes for number in range(math.floor(high / step_bytes) + 1)]


def _marks(
    marks: Sequence[Mapping[str, Any]], axes: Mapping[str, Mapping[str, Any]]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[dict[str, Any]]]:
    """Give marks as points, as lines across the plot, and their texts."""
    points: list[dict[str, Any]] = []
    shapes: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    # Texts of neighbouring lines stand at different heights.
    heights = [0.98, 0.9, 0.82, 0.74]
    lines = levels = 0
    said: set[tuple[str, bool]] = set()
    for mark in marks:
        x, y = mark.get("x"), mark.get("y")
        if any(
            value is not None and value <= 0 and axes[key]["is_log"]
            for key, value in (("x", x), ("y", y))
        ):
            continue
        # Of many lines with one text, the first has it.
        is_told = (mark["label"], x is None) in said
        said.add((mark["label"], x is None))
        line = {"color": "@muted", "width": 1.2, "dash": "dot"}
        text = {
            "text": _plain(mark["label"]),
            "showarrow": False,
            "font": {"color": "@muted", "size": 12},
            "bgcolor": "@card",
            "borderpad": 1,
        }
        if x is not None and y is not None:
            points.append(
                {
                    "type": "scatter",
                    "mode": "markers",
                    "name": mark["label"],
                    "x": [x],
                    "y": [y],
                    "marker": {"color": "@ink", "size": 11, "symbol": "star"},
                    "hovertemplate": f"{_plain(mark['label'])}: {significant(y)}<extra></extra>",
                }
            )
        elif x is not None:
            shapes.append(
                {
                    "type": "line",
                    "xref": "x",
                    "yref": "paper",
                    "x0": x,
                    "x1": x,
                    "y0": 0,
                    "y1": 1,
                    "line": line,
                }
            )
            at = {
                "x": _place(x, axes["x"]),
                "y": heights[lines % len(heights)],
                "yref": "paper",
                "xanchor": "left",
                "xshift": 3,
            }
            annotations += [] if is_told else [{**text, **at}]
            lines += not is_told
        elif y is not None:
            shapes.append(
                {
                    "type": "line",
                    "xref": "paper",
                    "yref": "y",
                    "x0": 0,
                    "x1": 1,
                    "y0": y,
                    "y1": y,
                    "line": line,
                }
            )
            # Two levels may be the same: one text stands above at the right, one below at the left.
            is_left = levels % 2 == 1
            at = {
                "x": 0.005 if is_left else 0.995,
                "xref": "paper",
                "y": _place(y, axes["y"]),
                "xanchor": "left" if is_left else "right",
                "yanchor": "top" if is_left else "bottom",
            }
            annotations += [] if is_told else [{**text, **at}]
            levels += not is_told
    return points, shapes, annotations


def _place(value: float, axis: Mapping[str, Any]) -> float:
    # Plotly takes the places of lines as they are, and those of texts as logarithms.
    return math.log10(value) if axis["is_log"] else value


def _plain(text: str) -> str:
    """Give a text that Plotly does not take for its markup."""
    return text.replace("&", "&amp;").replace("<", "&lt;")
