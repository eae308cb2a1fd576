"""Reports of what is computed without simulating."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flashwright import reading_words
from flashwright._text import alpha, percent, significant
from flashwright.pages.figures import (
    AXIS_ALPHA,
    Colours,
    axes,
    bound_line,
    line,
    log_axis,
    title,
)
from flashwright.pages.page import Fact, Figure, Page, Section, Table
from flashwright.reports.comparison_results import years
from flashwright.runs import Run
from flashwright.sources import below_the_bound

MODELS = {
    "lru": "LRU",
    "lru_approximation": "LRU, approximation",
    "window_greedy": "Window-Greedy",
    "d_choices": "d-choices",
    "greedy": "Greedy",
}
"""Names of the models of p_gc."""


def page(run: Run) -> Page:
    """Build the report of `model`: bounds of a source, or closed forms without one."""
    return _bound_page(run) if "bounds" in run.result else _pgc_page(run)


def _bound_page(run: Run) -> Page:
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


def pgc_table(result: Mapping[str, Any]) -> Table:
    """Give p_gc at each over-provisioning, by model."""
    rows = result["p_gc"]
    names = [name for name in rows[0] if name != "over_provisioning"]
    columns = (("over-provisioning", "right"), *((MODELS.get(one, one), "right") for one in names))
    cells = [
        (alpha(row["over_provisioning"]), *(percent(row[name], 4) for name in names))
        for row in rows
    ]
    note = (
        f"{result['pages_per_erase_block']} pages an erase block; d-choices with d = "
        f"{result['choices']}; a window of {percent(result['window'])} of all erase blocks. LRU: "
        "MULTILOG eq. 3, its approximation eq. 4; the others: mean field."
    )
    return Table("Figures", columns, cells, note)


def _pgc_page(run: Run) -> Page:
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
    blocks: list[Figure | Table] = [
        Figure("pgc", "Valid pages in the victim", reading, data, layout),
        pgc_table(run.result),
    ]
    return Page(
        "uniform updates",
        "p_gc by model",
        headline,
        [],
        [Section("p_gc", blocks)],
        run.result["provenance"],
    )
