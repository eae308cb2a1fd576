"""The report of the demo: the comparison, and the trace that it is of."""

from __future__ import annotations

from flashwright.reports import comparison, trace
from flashwright.reports.comparison_results import Results
from flashwright.reports.page import Page, Section
from flashwright.runs import Run

INSIDE = "What happens inside"
WHOLE = "With the write-ahead log"


def page(run: Run) -> Page:
    """Build the report of the demo.

    The first workload in full, what the flash has to write for the others, the trace.
    """
    results = Results(run)
    figures = run.result["trace"]
    name, *others = [workload["name"] for workload in results.workloads]
    sections = comparison.sections(results, name, "w0", alone=True)
    for number, other in enumerate(others, 1):
        whole = [
            part
            for part in comparison.sections(results, other, f"w{number}", alone=True)
            if part.title != INSIDE
        ]
        sections += _led(whole, WHOLE, comparison.headline(results, other, lead=False))
    sections += _led(
        trace.sections(figures, run.tables, "trace_"), "The trace", trace.headline(figures)
    )
    sections.append(Section("The trace: all figures", [trace.scalars_table(figures)]))
    return Page(
        kind="demo",
        title=run.result.get("about") or name,
        headline=comparison.headline(results, name, lead=False),
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
