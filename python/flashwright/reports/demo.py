"""The report of the demo: the comparison, and the trace that it is of."""

from __future__ import annotations

from typing import Any

from flashwright._text import alpha, size, span
from flashwright.lifetime import GIVEN
from flashwright.pages.page import Page, Section
from flashwright.reports import comparison, trace
from flashwright.reports.comparison_results import Results
from flashwright.runs import Run

INSIDE = "What happens inside"
DATA_PAGES = "The data pages alone"
FULL_SPEED = (
    "It was a benchmark at full speed, whose clients never pause: an application writes less a "
    "day, and --life 'life(40G)' gives the life for its true volume."
)


def headline(results: Results) -> str:
    """Give the answer: what the database wrote, and what the flash has to write for it."""
    workload = results.workloads[0]
    figures = results.run.result["trace"]
    written = figures["write_bytes"]
    wrote = f"The database wrote {size(written)} in {span(figures['duration_ns'] / 1e9)}."
    best, baseline = results.best(workload["name"]), results.baseline(workload["name"])
    if best is None:
        return f"{wrote} No policy has finished."
    at = f"A drive with {alpha(results.reference)} over-provisioning"
    pages = (
        workload["page_writes"]
        / results.run.result["workloads"][0]["repeat"]
        * workload["page_size_bytes"]
    )

    def flash(row: dict[str, Any]) -> str:
        mark = "" if row["steady"] else " (not steady)"
        return f"{size(pages * row['write_amplification'])}{mark}"

    answer = (
        f"{at} writes {flash(best)} of flash for it with the best policy here, {best['policy']}"
    )
    if baseline is not None:
        named = "a standard FTL (Greedy)" if baseline["method"] == "Greedy" else baseline["method"]
        answer = (
            f"{at} writes {flash(baseline)} of flash for it with {named}, {flash(best)} with the "
            f"best policy here ({best['policy']})"
        )
    life = comparison.life(results, workload["name"], best, baseline)
    if results.lifetime(workload["name"])["rate"] != GIVEN:
        life += f" {FULL_SPEED}"
    return f"{wrote} {answer}.{life}"


def page(run: Run) -> Page:
    """Build the report of the demo.

    The whole trace in full, what the flash has to write for its data pages, the trace.
    """
    results = Results(run)
    figures = run.result["trace"]
    name, *others = [workload["name"] for workload in results.workloads]
    sections = comparison.sections(results, name, "w0", alone=True)
    for number, other in enumerate(others, 1):
        alone = [
            part
            for part in comparison.sections(results, other, f"w{number}", alone=True)
            if part.title != INSIDE
        ]
        sections += _led(alone, DATA_PAGES, comparison.headline(results, other, lead=False))
    sections += _led(
        trace.sections(figures, run.tables, "trace_"), "The trace", trace.headline(figures)
    )
    sections.append(Section("The trace: all figures", [trace.scalars_table(figures)]))
    return Page(
        kind="demo",
        title=run.result.get("about") or name,
        headline=headline(results),
        facts=comparison.facts(results, name),
        sections=sections,
        provenance=run.result["provenance"],
        remarks=comparison.remarks(results),
    )


def _led(sections: list[Section], lead: str, intro: str) -> list[Section]:
    """Give sections that say what they are about, the first with what there is to tell of all."""
    return [
        Section(
            f"{lead}: {part.title[0].lower()}{part.title[1:]}",
            part.blocks,
            intro if number == 0 else part.intro,
        )
        for number, part in enumerate(sections)
    ]
