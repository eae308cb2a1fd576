"""The figures of a comparison: cost, distance to the bound and life, and what happens inside."""

from __future__ import annotations

from typing import Any

from flashwright._text import alpha, count, percent, significant
from flashwright.comparing.comparison import MINIMUM
from flashwright.pages.figures import (
    AXIS_ALPHA,
    axes,
    bar_colours,
    bars,
    bound_line,
    highlight,
    highlight_note,
    line,
    log_axis,
    stream_bars,
    title,
)
from flashwright.pages.page import Figure
from flashwright.reports.comparison_results import Results, wear_words, years

MOST_NOISY_LINES = 4


MOST_BEST = 3
"""Policies that stand out where there are too many lines for colours."""


def _best(results: Results, workload: str) -> set[str]:
    """Give the policies that the answer names, and the first few."""
    ranked = results.ranked(workload)[:MOST_BEST]
    return results.named(workload) | {row["method"] for row in ranked}


def _lines(results: Results, workload: str, key: str) -> list[dict[str, Any]]:
    """Give a line over over-provisioning for each policy where it has a value above 0."""
    data = []
    for method in results.methods:
        rows = [row for row in results.of(workload, method=method) if row[key]]
        if rows:
            data.append(
                line(
                    method,
                    [row["over_provisioning"] for row in rows],
                    [row[key] for row in rows],
                    results.colours,
                    strong=method in results.named(workload),
                )
            )
    return highlight(data, _best(results, workload))


def cost_figure(results: Results, workload: str, key: str) -> Figure | None:
    """Draw cleaning cost against over-provisioning, one line a policy, the bound dashed.

    As MULTILOG figures 5 and 7.
    """
    if len(results.alphas) < 2:
        return None
    data = _lines(results, workload, "cleaning_cost")
    bounds = results.bounds(workload)
    data.append(
        bound_line(
            [row["over_provisioning"] for row in bounds],
            [row["cleaning_cost"] or None for row in bounds],
        )
    )
    minima = [row for row in bounds if (row["offline_minimum"] or 1) > 1]
    data.append(
        {
            **bound_line(
                [row["over_provisioning"] for row in minima],
                [row["offline_minimum"] - 1 for row in minima],
                MINIMUM,
            ),
            "mode": "lines+markers",
        }
    )
    data[-1]["line"] = {**data[-1]["line"], "dash": "dot"}
    reading = (
        "Lower is better. Each placement with the victim policy that serves it best. Dashed: the "
        "frequency bound, which assumes independent updates. Dotted: the least that was found, "
        "by a placement that knows the future; where it is missing, nothing has to be relocated."
    )
    reading += highlight_note(data)
    drawn = [cost for trace in data for cost in trace["y"]]
    layout = axes(
        AXIS_ALPHA, log_axis("cleaning cost: pages relocated for each page written", drawn)
    )
    return Figure(
        f"{key}-cost", "Cleaning cost against over-provisioning", reading, data, layout, 520
    )


def gap_figure(results: Results, workload: str, key: str) -> Figure | None:
    """Draw the write amplification of every policy as bars, with the bound as a line."""
    ranked = results.ranked(workload)
    if not ranked:
        return None
    bound = results.bound(workload, results.reference)["frequency_bound"]
    least = results.bound(workload, results.reference)["offline_minimum"]
    data, layout = bars(
        [row["policy"] for row in ranked],
        [row["write_amplification"] for row in ranked],
        [
            f"{significant(row['write_amplification'])}  "
            f"({row['gap_to_offline_minimum_percent']:+.0f} %)"
            for row in ranked
        ],
        bar_colours(len(ranked)),
        "write amplification",
    )
    layout["shapes"] = [
        {
            "type": "line",
            "x0": at,
            "x1": at,
            "y0": 0,
            "y1": 1,
            "yref": "paper",
            "line": {"color": "@ink", "dash": dash, "width": 2},
        }
        for at, dash in ((bound, "dash"), (least, "dot"))
    ]
    first, last = ranked[0], ranked[-1]
    reading = (
        f"{first['policy']} writes least. Dashed: the frequency bound, {significant(bound)}; "
        f"dotted: the least that was found with the future known, {significant(least)}"
    )
    reading += f"; {last['policy']} writes most." if last is not first else "."
    reading += " In brackets: how far above that least."
    return Figure(
        f"{key}-gap",
        f"Write amplification at {alpha(results.reference)} over-provisioning",
        reading,
        data,
        layout,
        110 + 34 * len(ranked),
    )


def life_figure(results: Results, workload: str, key: str) -> Figure | None:
    """Draw the life of the drive against over-provisioning."""
    if len(results.alphas) < 2:
        return None
    data = _lines(results, workload, "life_years")
    bounds = results.bounds(workload)
    data.append(
        bound_line(
            [row["over_provisioning"] for row in bounds], [row["life_years"] for row in bounds]
        )
    )
    reading = (
        f"Of {wear_words(results.lifetime(workload))}; wear is taken as even. Dashed: at the "
        "frequency bound."
    )
    best = results.best(workload)
    lives = (
        [
            (row["over_provisioning"], row["life_years"])
            for row in results.of(workload, method=best["method"])
            if row["life_years"] is not None
        ]
        if best is not None
        else []
    )
    if best is not None and len(lives) > 1:
        reading += (
            f" With {best['method']} the drive lives {years(lives[0][1])} at "
            f"{alpha(lives[0][0])} over-provisioning, {years(lives[-1][1])} at "
            f"{alpha(lives[-1][0])}."
        )
    reading += highlight_note(data)
    layout = axes(AXIS_ALPHA, title("life in years", rangemode="tozero"))
    return Figure(f"{key}-life", "Life of the drive", reading, data, layout, 500)


def _inside(results: Results, name: str, workload: str, method: str) -> dict[str, list[Any]] | None:
    """Give a table of a method's best run at the reference over-provisioning, as columns."""
    stacked = results.run.tables.get(name)
    found = results.of(workload, method=method, op=results.reference)
    if stacked is None or not found:
        return None
    rows = [
        row
        for row in results.table_rows(name)
        if (row["workload"], row["policy"], row["over_provisioning"])
        == (workload, found[0]["label"], results.reference)
    ]
    return {key: [row[key] for row in rows] for key in rows[0]} if rows else None


def _hidden(results: Results, workload: str, method: str) -> bool:
    """Check whether a line waits in the legend.

    More than a few noisy ones on top of each other show nothing.
    """
    return len(results.methods) > MOST_NOISY_LINES and method not in results.named(workload)


def _waiting(results: Results, workload: str) -> str:
    waiting = any(_hidden(results, workload, method) for method in results.methods)
    return " A name in the legend shows or hides its line." if waiting else ""


def over_time_figure(results: Results, workload: str, key: str) -> Figure | None:
    """Draw write amplification over the run."""
    data = []
    for method in results.methods:
        columns = _inside(results, "over_time", workload, method)
        if columns:
            data.append(
                line(
                    method,
                    columns["host_page_writes"],
                    columns["write_amplification"],
                    results.colours,
                    markers=False,
                    strong=method in results.named(workload),
                    hidden=_hidden(results, workload, method),
                )
            )
    if not data:
        return None
    best = results.best(workload)
    reading = "Each point is one stretch of the run; level lines are steady."
    if best is not None and best.get("steady_from_update"):
        start = f"page write {count(best['steady_from_update'])}"
        reading += (
            f" {best['policy']} is counted from {start} on, where it is steady."
            if best["steady"]
            else f" {best['policy']} did not become steady; it is counted from {start} on, the "
            "last half."
        )
    reading += _waiting(results, workload)
    layout = axes(
        title("host page writes", rangemode="tozero", exponentformat="SI"),
        title("write amplification"),
    )
    return Figure(f"{key}-time", "Write amplification over the run", reading, data, layout, 460)


def histogram_figure(results: Results, workload: str, key: str) -> Figure | None:
    """Draw how full the victims are."""
    data = []
    for method in results.methods:
        columns = _inside(results, "p_gc_histogram", workload, method)
        if columns:
            total = sum(columns["victims"]) or 1
            shares = [victims / total for victims in columns["victims"]]
            data.append(
                line(
                    method,
                    columns["valid_pages"],
                    shares,
                    results.colours,
                    markers=False,
                    strong=method in results.named(workload),
                    hidden=_hidden(results, workload, method),
                )
            )
    if not data:
        return None
    shown = [row for row in (results.best(workload), results.baseline(workload)) if row is not None]
    means = ", ".join(f"{percent(row['p_gc'], 2)} with {row['policy']}" for row in shown)
    reading = (
        f"The further left, the less is relocated. On average a victim's valid pages are {means}."
        f"{_waiting(results, workload)}"
    )
    layout = axes(
        title("valid pages in the victim", rangemode="tozero"),
        title("share of victims", tickformat=".0%", rangemode="tozero"),
    )
    return Figure(
        f"{key}-victims", "How full the cleaned erase blocks are", reading, data, layout, 460
    )


def streams_figure(results: Results, workload: str, key: str) -> Figure | None:
    """Draw the space of the best policy's streams."""
    best = results.best(workload)
    columns = _inside(results, "streams", workload, best["method"]) if best else None
    if best is None or columns is None or len(columns["stream"]) < 2:
        return None
    block = results.run.result["device"]["pages_per_erase_block"]
    data, layout, height = stream_bars(columns, block, results.colours[best["method"]])
    reading = (
        f"The {len(columns['stream'])} streams of {best['policy']} at the end of the run: "
        f"the pale part is the spare space that each has."
    )
    return Figure(f"{key}-streams", f"Streams of {best['policy']}", reading, data, layout, height)
