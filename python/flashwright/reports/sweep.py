"""Reports of sweeps: the best points, what each axis does, and what axes do together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flashwright._text import count, percent, several, significant
from flashwright.pages.figures import HEAT, axes, bar_colours, bars, title
from flashwright.pages.page import Fact, Figure, Page, Section, Table
from flashwright.runs import Run

MOST_PAIRS = 12
_LITTLE = 0.01
"""Share of the variance that is not worth a figure of its own."""


def page(run: Run) -> Page:
    """Build the report of a sweep."""
    result = run.result
    found = [_failures(result), _figures(run)]
    if result.get("best"):
        found = [_best(result), *_effects(result), _indices(result), *found]
    return Page(
        "sweep",
        f"{result['sweep']['job']}: {', '.join(result['axes'])}",
        _headline(result),
        _facts(result),
        [section for section in found if section is not None],
        result["provenance"],
        _remarks(result),
    )


def _headline(result: Mapping[str, Any]) -> str:
    goal = _words(result["goal"])
    done = f"{count(result['done'])} of {several(result['jobs'], 'job')} are done"
    if not result.get("best"):
        return f"{done}. No goal was named, or no job has it." if result["done"] else f"{done}."
    best, most = result["best"][0], result["effects"][0]
    end = "least" if result["better"] == "less" else "most"
    said = f"The {end} {goal} is {_mean(best)}, at {_point(best['point'])}."
    if most["share"]:
        said += f" Most of what it depends on is {most['axis']}: {percent(most['share'], 2)} of"
        said += " the variance."
    return f"{said} {done}." if result["done"] < result["jobs"] else said


def _facts(result: Mapping[str, Any]) -> list[Fact]:
    found = [Fact("jobs", count(result["jobs"]), f"{count(result['done'])} done")]
    if result.get("best"):
        best = result["best"][0]
        found.insert(0, Fact(_words(result["goal"]), _mean(best), _point(best["point"])))
    if result.get("failed"):
        found.append(Fact("failed", count(result["failed"])))
    return found


def _remarks(result: Mapping[str, Any]) -> list[str]:
    said = []
    if result.get("left"):
        said.append(f"{several(result['left'], 'job')} are left: the same command goes on.")
    design = result["sweep"]["design"]["kind"]
    if design == "grid":
        said.append("Shares of the variance are of the levels that were tried, each as often.")
    else:
        said.append(
            "Shares of the variance are of a sample; what chance alone would give is taken off."
        )
    if result["sweep"]["replications"] > 1:
        said.append("Intervals are 95 % by Student's t, over the seeds of a point.")
    return said


def _best(result: Mapping[str, Any]) -> Section:
    best = result["best"]
    labels = [_point(one["point"]) for one in best]
    values = [one["mean"] for one in best]
    blocks: list[Figure | Table] = []
    if min(values) >= 0:
        data, layout = bars(
            labels, values, [_mean(one) for one in best], bar_colours(len(best)),
            _words(result["goal"]),
        )  # fmt: skip
        if any(one["half"] for one in best):
            data[0]["error_x"] = {"type": "data", "array": [one["half"] or 0 for one in best]}
        end = "least" if result["better"] == "less" else "most"
        reading = f"The best {len(best)} of {several(result['points'], 'point')}, by the {end}."
        blocks.append(Figure("best", "Best points", reading, data, layout, 120 + 30 * len(best)))
    names = result["axes"]
    columns = [*((name, "left") for name in names), (_words(result["goal"]), "right")]
    columns += [("± 95 %", "right"), ("seeds", "right")]
    rows = [
        [
            *(_value(one["point"][name]) for name in names),
            significant(one["mean"], 5),
            significant(one["half"], 2),
            str(one["seeds"]),
        ]
        for one in best
    ]
    blocks.append(Table("Best points", columns, rows, emphasised=frozenset({0})))
    return Section("Best points", blocks)


def _effects(result: Mapping[str, Any]) -> list[Section]:
    figures: list[Figure | Table] = []
    for number, one in enumerate(result["effects"]):
        if (one["share"] or 0) >= _LITTLE and len(one["levels"]) > 1:
            figures.append(_effect(result, one, f"effect-{number}"))
    rows = [
        [one["axis"], percent(one["share"]), significant(one["rank_correlation"], 2)]
        for one in result["effects"]
    ]
    columns = (("axis", "left"), ("share of the variance", "right"), ("rank correlation", "right"))
    table = Table("All axes", columns, rows)
    sections = [Section("What each axis does", [*figures, table])]
    pairs = result["interactions"][:MOST_PAIRS]
    together: list[Figure | Table] = []
    heat = _heat(result)
    if heat is not None:
        together.append(heat)
    if pairs:
        cells = [[" and ".join(one["axes"]), percent(one["share"])] for one in pairs]
        note = "Beyond what both do by themselves."
        heads = (("axes", "left"), ("share of the variance", "right"))
        together.append(Table("Interactions", heads, cells, note))
    return [*sections, Section("What axes do together", together)] if together else sections


def _effect(result: Mapping[str, Any], one: Mapping[str, Any], name: str) -> Figure:
    levels = one["levels"]
    marker = {"color": "@c0", "size": 9}
    data: list[dict[str, Any]] = [
        {
            "type": "scatter",
            "mode": "lines+markers" if one["rank_correlation"] is not None else "markers",
            "name": one["axis"],
            "x": [_value(level["level"]) for level in levels],
            "y": [level["mean"] for level in levels],
            "error_y": {"type": "data", "array": [level["half"] or 0 for level in levels]},
            "line": {"color": "@c0", "width": 2},
            "marker": marker,
        }
    ]
    x = {**title(one["axis"]), "type": "category"}
    layout = axes(x, title(_words(result["goal"])), showlegend=False)
    ordered = sorted(levels, key=lambda level: level["mean"])
    reading = (
        f"{percent(one['share'], 2)} of the variance: in the mean over all other axes "
        f"{significant(ordered[0]['mean'])} at {_value(ordered[0]['level'])}, "
        f"{significant(ordered[-1]['mean'])} at {_value(ordered[-1]['level'])}. "
        "Bars are 95 % intervals of the mean over points."
    )
    return Figure(name, one["axis"], reading, data, layout, 380)


def _heat(result: Mapping[str, Any]) -> Figure | None:
    found = result["heat_map"]
    if found is None:
        return None
    x, y = found["axes"]
    data = [
        {
            "type": "heatmap",
            "x": [_value(one) for one in found["x"]],
            "y": [_value(one) for one in found["y"]],
            "z": found["means"],
            "colorscale": HEAT,
            "showscale": True,
            "hoverongaps": False,
            "colorbar": {
                "title": {"text": _words(result["goal"]), "side": "right"},
                "thickness": 10,
                "outlinewidth": 0,
                "tickfont": {"color": "@muted"},
            },
            "hovertemplate": f"{x} %{{x}}, {y} %{{y}}: %{{z:.4g}}<extra></extra>",
        }
    ]
    layout = axes(
        {**title(x), "type": "category", "showgrid": False},
        {**title(y), "type": "category", "showgrid": False, "automargin": True},
    )
    reading = f"The mean {_words(result['goal'])} over {x} and {y}, the two that do most."
    return Figure("heat", f"{x} and {y}", reading, data, layout, 160 + 26 * len(found["y"]))


def _indices(result: Mapping[str, Any]) -> Section | None:
    found = result.get("indices")
    if not found:
        return None
    columns = (
        ("axis", "left"),
        ("first order", "right"),
        ("± 95 %", "right"),
        ("total", "right"),
        ("± 95 %", "right"),
    )
    keys = ("first", "first_half", "total", "total_half")
    rows = [[one["axis"], *(significant(one[key]) for key in keys)] for one in found["axes"]]
    note = "First order: what the axis does alone. Total: also with others. Saltelli 2010, SALib."
    tables = [Table("Sobol indices", columns, rows, note)]
    if found["pairs"]:
        heads = (("axes", "left"), ("second order", "right"), ("± 95 %", "right"))
        pairs = [
            [" and ".join(one["axes"]), significant(one["second"]), significant(one["second_half"])]
            for one in found["pairs"]
        ]
        tables.append(Table("Indices of pairs", heads, pairs))
    return Section("Sensitivity", tables)


def _failures(result: Mapping[str, Any]) -> Section | None:
    found: Sequence[Mapping[str, Any]] = result.get("failures", ())
    if not found:
        return None
    rows = [[_point(one["point"]), one["ended"], str(one["error"])] for one in found]
    columns = (("at", "prose"), ("ended", "left"), ("why", "prose"))
    more = result["failed"] - len(rows)
    note = f"And {count(more)} more, which the dataset has." if more else ""
    return Section("Failures", [Table("Jobs without a result", columns, rows, note)])


def _figures(run: Run) -> Section:
    result = run.result
    rows = [
        ["jobs", count(result["jobs"])],
        ["done", count(result["done"])],
        ["failed", count(result.get("failed", 0))],
        ["left", count(result.get("left", result["jobs"]))],
        ["dataset", result.get("results", "")],
        ["store", result.get("store", "")],
    ]
    return Section("Jobs", [Table("Jobs", (("what", "left"), ("value", "right")), rows)])


def _words(name: str | None) -> str:
    return (name or "goal").replace("_", " ")


def _value(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _point(point: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {_value(value)}" for name, value in point.items())


def _mean(one: Mapping[str, Any]) -> str:
    half = f" ± {significant(one['half'], 2)}" if one["half"] else ""
    return f"{significant(one['mean'], 4)}{half}"
