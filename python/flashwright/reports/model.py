"""Reports of what is computed without simulating."""

from __future__ import annotations

import base64
import re
from typing import Any

import numpy as np

from flashwright import reading_words
from flashwright._text import alpha, percent, significant
from flashwright.reports.comparison_results import years
from flashwright.reports.figures import (
    AXIS_ALPHA,
    COLOURS,
    DASHES,
    Colours,
    axes,
    bound_line,
    line,
    log_axis,
    title,
)
from flashwright.reports.page import Fact, Figure, Page, Section, Table
from flashwright.runs import Run
from flashwright.sources import below_the_bound

MODELS = {
    "lru": "LRU",
    "lru_approximation": "LRU, approximation",
    "window_greedy": "Window-Greedy",
    "d_choices": "d-choices",
    "greedy": "Greedy",
}
"""What the models of p_gc are called."""

READINGS = {
    "Figure 1a": "The closed approximation lies just above the exact curve; Greedy gains little on "
    "LRU when all pages are updated alike.",
    "Figure 1b": "The less spare space, the more every write costs: the axis is logarithmic.",
    "Figure 1c": "What looking at more erase blocks than the oldest one saves under uniform "
    "updates: at most a few per cent.",
    "Figure 2a": "A log that mixes two sets cleans least when they are updated alike (1 on the "
    "axis), and more with every bit of skew.",
    "Figure 2b": "The same as relocation writes for each host write.",
    "Figure 2c": "How many times dearer mixing is than keeping the two sets apart with the spare "
    "space divided well.",
    "Figure 3a": "The larger and the hotter the first set, the more of the spare space it should "
    "have.",
    "Figure 3b": "The cost that remains is least where a small set gets most of the updates.",
    "Figure 3c": "The benefit of separating grows with skew, on both sides.",
}


def bound_page(run: Run) -> Page:
    """Build the report of `model bound`."""
    result = run.result
    rows = result["bounds"]
    name = result["workload"]["name"]
    middle = min(rows, key=lambda row: abs(row["over_provisioning"] - 0.2))
    least = significant(middle["frequency_bound"])
    headline = (
        f"The frequency bound is {least} at {alpha(middle['over_provisioning'])} "
        "over-provisioning: if updates are independent of each other, no placement by update "
        "frequency programs fewer pages for each page that the host writes."
    )
    if middle["life_years"] is not None:
        headline += f" The drive would then live {years(middle['life_years'])}."
    alphas = [row["over_provisioning"] for row in rows]
    figures = []
    if len(rows) > 1:
        costs = [row["cleaning_cost"] or None for row in rows]
        layout = axes(
            AXIS_ALPHA, log_axis("cleaning cost: pages relocated for each page written", costs)
        )
        data = [bound_line(alphas, costs)]
        figures.append(
            Figure(
                "bound",
                "The least cleaning cost",
                "More spare space always helps, and less and less.",
                data,
                layout,
            )
        )
    columns = (
        ("over-provisioning", "right"),
        ("frequency bound", "right"),
        ("cleaning cost", "right"),
        ("p_gc", "right"),
        ("life, years", "right"),
    )
    cells = [
        (
            alpha(row["over_provisioning"]),
            significant(row["frequency_bound"], 5),
            significant(row["cleaning_cost"], 5),
            percent(row["p_gc"], 4),
            significant(row["life_years"]),
        )
        for row in rows
    ]
    note = (
        "MULTILOG, Algorithm 1: pages grouped by update frequency, the spare space divided so that "
        "moving it gains nothing."
    )
    facts = [
        Fact(
            "frequency bound",
            least,
            f"at {alpha(middle['over_provisioning'])} over-provisioning",
        ),
        Fact(
            "pages",
            significant(result["workload"]["logical_pages"]),
            "logical pages in the footprint",
        ),
        Fact("page writes", significant(result["workload"]["page_writes"])),
    ]
    trims = result["workload"]["page_trims"]
    remarks = [*reading_words.lines(result["workload"]), below_the_bound(trims)]
    sections = [Section("The frequency bound", [*figures, Table("Figures", columns, cells, note)])]
    return Page("bound", name, headline, facts, sections, result["provenance"], remarks)


def pgc_page(run: Run) -> Page:
    """Build the report of `model pgc`."""
    rows: list[dict[str, float]] = run.result["p_gc"]
    alphas = [row["over_provisioning"] for row in rows]
    names = [name for name in rows[0] if name != "over_provisioning"]
    labels = {name: MODELS.get(name, name) for name in names}
    colours = Colours(list(labels.values()))
    data = [line(labels[name], alphas, [row[name] for row in rows], colours) for name in names]
    layout = axes(
        AXIS_ALPHA, title("p_gc: valid pages in a victim", tickformat=".0%", rangemode="tozero")
    )
    policies = [name for name in names if name != "lru_approximation"]
    widest = max(
        rows,
        key=lambda row: max(row[name] for name in policies) - min(row[name] for name in policies),
    )
    least, most = (choose(policies, key=lambda name: widest[name]) for choose in (min, max))
    reading = (
        "Under uniform updates the choice of victim gains "
        f"{significant((widest[most] - widest[least]) * 100, 2)} percentage points at most: "
        f"{labels[least]} against {labels[most]} at {alpha(widest['over_provisioning'])} "
        "over-provisioning."
    )
    middle = min(rows, key=lambda row: abs(row["over_provisioning"] - 0.2))
    headline = (
        f"Under uniform updates at {alpha(middle['over_provisioning'])} over-provisioning, "
        f"{percent(middle['lru'])} of a victim's pages are still valid with LRU, "
        f"{percent(middle['greedy'])} with Greedy."
    )
    columns = (("over-provisioning", "right"), *((labels[name], "right") for name in names))
    cells = [
        (alpha(row["over_provisioning"]), *(percent(row[name], 4) for name in names))
        for row in rows
    ]
    note = (
        f"{run.result['pages_per_erase_block']} pages an erase block; d-choices with d = "
        f"{run.result['choices']}; a window of {percent(run.result['window'])} of all erase "
        "blocks. LRU: MULTILOG eq. 3, its approximation eq. 4; the others: mean field."
    )
    blocks: list[Figure | Table] = [
        Figure("pgc", "Valid pages in the victim", reading, data, layout),
        Table("Figures", columns, cells, note),
    ]
    return Page(
        "uniform updates",
        "p_gc by model",
        headline,
        [],
        [Section("p_gc", blocks)],
        run.result["provenance"],
    )


def figures_page(run: Run) -> Page:
    """Build the report of `model figures`."""
    figures = [_figure(number, drawn) for number, drawn in enumerate(run.result["figures"])]
    groups: dict[str, list[Figure]] = {}
    for figure in figures:
        match = re.match(r"Figure \d+", figure.title)
        groups.setdefault(match[0] if match else "Figures", []).append(figure)
    headline = (
        "Mixing pages of different update frequency costs more with every bit of skew; keeping "
        "them apart turns skew into a gain."
    )
    tables = [
        (name, str(table.num_rows), ", ".join(table.column_names))
        for name, table in run.tables.items()
    ]
    data = Table(
        "Tables beside this report",
        (("table", "left"), ("rows", "right"), ("columns", "left")),
        tables,
    )
    sections = [*(Section(name, group) for name, group in groups.items()), Section("Data", [data])]
    return Page(
        "model figures",
        "MULTILOG, figures 1 to 3",
        headline,
        [],
        sections,
        run.result["provenance"],
    )


def _figure(number: int, drawn: dict[str, Any]) -> Figure:
    data = [_themed(index, dict(trace)) for index, trace in enumerate(drawn["data"])]
    plain_title = re.sub(r"<[^>]+>", "", drawn["title"])
    reading = next((text for start, text in READINGS.items() if plain_title.startswith(start)), "")
    layout = dict(drawn["layout"])
    for name in ("xaxis", "yaxis"):
        axis = dict(layout.get(name, {}))
        if axis.get("type") == "log":
            axis |= log_axis("", _values(drawn["data"], name[0])) | {"title": axis.get("title", {})}
        layout[name] = axis
    layout.pop("hovermode", None)
    return Figure(f"figure-{number}", plain_title, reading, data, layout)


def _values(data: list[dict[str, Any]], key: str) -> list[float | None]:
    found: list[float | None] = []
    for trace in data:
        values = trace.get(key, [])
        # Plotly keeps arrays of numbers as the text of their bytes.
        coded = isinstance(values, dict)
        found += (
            np.frombuffer(base64.b64decode(values["bdata"]), values["dtype"]).tolist()
            if coded
            else values
        )
    return found


def _themed(index: int, trace: dict[str, Any]) -> dict[str, Any]:
    if trace["type"] == "scatter":
        drawn = {"color": f"@c{index % COLOURS}", "dash": DASHES[index // COLOURS % len(DASHES)]}
        trace["line"] = {**drawn, "width": 2, **trace.get("line", {})}
    elif "colorbar" in trace:
        trace["colorbar"] = {
            **trace["colorbar"],
            "thickness": 12,
            "outlinewidth": 0,
            "tickfont": {"color": "@ink"},
        }
    return trace
