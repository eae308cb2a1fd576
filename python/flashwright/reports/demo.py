"""The report of the demo: the comparison, and the trace that it is of."""

from __future__ import annotations

from flashwright.reports import comparison, trace
from flashwright.reports.page import Page, Section
from flashwright.runs import Run


def page(run: Run) -> Page:
    """Build the report of the demo."""
    results = comparison.Results(run)
    figures = run.result["trace"]
    name = results.workloads[0]["name"]
    described = trace.headline(figures)
    about = trace.sections(figures, run.tables, "trace_")
    return Page(
        kind="demo",
        title=name,
        headline=comparison.headline(results, name, lead=False),
        facts=comparison.facts(results, name),
        sections=[
            *comparison.sections(results, name, "w0", alone=True),
            *(
                Section(
                    f"The trace: {section.title[0].lower()}{section.title[1:]}",
                    section.blocks,
                    described if number == 0 else "",
                )
                for number, section in enumerate(about)
            ),
            Section("The trace: all figures", [trace.scalars_table(figures)]),
        ],
        provenance=run.result["provenance"],
        remarks=comparison.remarks(results),
    )
