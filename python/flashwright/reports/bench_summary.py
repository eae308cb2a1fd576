"""The runs of benches by cell: median and range of each figure over the repeats."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

_KEYS = ("file_system", "is_out_of_place", "level", "value")


def cells(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Give a cell for each file system and level.

    `runs`, and for each figure `{median, least, most}`; in order of the first run. What is no
    figure in any run of a cell is None.
    """
    grouped: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in sorted(rows, key=lambda row: row["run"]):
        grouped.setdefault((row["file_system"], row["level"]), []).append(row)
    found = []
    for group in grouped.values():
        names = dict.fromkeys(name for row in group for name in row)
        figures = {
            name: _spread([row.get(name) for row in group])
            for name in names
            if _is_figure(name, group)
        }
        found.append(
            {**{key: group[0][key] for key in _KEYS}, "runs": len(group), "figures": figures}
        )
    return found


def _is_figure(name: str, group: Sequence[dict[str, Any]]) -> bool:
    values = [row.get(name) for row in group]
    return name not in (*_KEYS, "run", "repeat") and all(
        value is None or (isinstance(value, int | float) and not isinstance(value, bool))
        for value in values
    )


def _spread(values: Sequence[float | None]) -> dict[str, float] | None:
    known = [value for value in values if value is not None]
    return (
        {"median": statistics.median(known), "least": min(known), "most": max(known)}
        if known
        else None
    )


def median(cell: dict[str, Any], name: str) -> float | None:
    """Give the median of a figure in a cell; None if it has none."""
    found = cell["figures"].get(name)
    return None if found is None else float(found["median"])


def pairs(found: Sequence[dict[str, Any]], name: str) -> list[tuple[str, str, str, float]]:
    """Give (level, out of place, in place, ratio) of a figure's medians.

    For each level that has a file system of each kind. Of several of a kind the first is taken.
    """
    said = []
    for level in dict.fromkeys(cell["level"] for cell in found):
        here = [cell for cell in found if cell["level"] == level and median(cell, name)]
        place = {
            kind: next((cell for cell in here if cell["is_out_of_place"] is kind), None)
            for kind in (True, False)
        }
        out, inside = place[True], place[False]
        if out is not None and inside is not None:
            ratio = (median(out, name) or 0.0) / (median(inside, name) or 1.0)
            said.append((level, out["file_system"], inside["file_system"], ratio))
    return said
