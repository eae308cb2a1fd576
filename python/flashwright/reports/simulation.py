"""The report of one simulation."""

from __future__ import annotations

from flashwright._text import alpha, count, percent, short_count, significant
from flashwright.reports.comparison_results import drive_writes, years
from flashwright.reports.figures import axes, stream_bars, title
from flashwright.reports.names import proper
from flashwright.reports.page import Fact, Figure, Page, Section, Table
from flashwright.reports.scalars import SIMULATION, rows
from flashwright.runs import Run
from flashwright.sources import caveat


def page(run: Run) -> Page:
    """Build the report of one simulation."""
    result = run.result
    amplification, bound = result["write_amplification"], result["bound_write_amplification"]
    victim, placement = proper(result["victim"]), proper(result["placement"])
    policy = victim if placement == "none" else f"{placement} with {victim}"
    headline = (
        f"{policy} writes {significant(amplification)} pages to the flash for each page of the "
        f"host; MULTILOG's bound is {significant(bound)}. At {alpha(result['over_provisioning'])} "
        f"over-provisioning the drive would live {years(result['life_years'])}."
    )
    lifetime = result["lifetime"]
    rate = f"{significant(lifetime['endurance_cycles'])} erases a block, {drive_writes(lifetime)}"
    facts = [
        Fact(
            "write amplification",
            significant(amplification),
            f"{(amplification / bound - 1) * 100:+.1f} % to the bound",
        ),
        Fact("valid pages in a victim", percent(result["p_gc"]), "p_gc, in the steady part"),
        Fact(
            "relocated pages",
            short_count(result["relocated_pages"]),
            f"for {short_count(result['host_page_writes'])} page writes of the host, over the "
            "whole run",
        ),
        Fact("life", years(result["life_years"]), rate),
    ]
    figures = [_over_time(run), _histogram(run), _streams(run)]
    remarks = []
    if amplification < bound:
        remarks.append(
            f"It writes less than the bound: {caveat(result['workload']['page_trims'])}."
        )
    if not result["steady"]:
        remarks.append(
            "The run did not become steady: the figures are of its last half. A longer source, or "
            "--repeat, would help."
        )
    return Page(
        kind="simulation",
        title=result["workload"]["name"],
        headline=headline,
        facts=facts,
        sections=[
            Section("The run", [figure for figure in figures if figure]),
            Section("All figures", [_table(run)]),
        ],
        provenance=result["provenance"],
        remarks=remarks,
    )


def _over_time(run: Run) -> Figure | None:
    table = run.tables.get("over_time")
    if table is None or table.num_rows == 0:
        return None
    columns = table.to_pydict()
    steady = run.result["steady_from_update"]
    bound = run.result["bound_write_amplification"]
    data = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": "write amplification",
            "x": columns["host_page_writes"],
            "y": columns["write_amplification"],
            "line": {"color": "@c0", "width": 2},
        },
        {
            "type": "scatter",
            "mode": "lines",
            "name": "bound",
            "x": [0, columns["host_page_writes"][-1]],
            "y": [bound, bound],
            "line": {"color": "@ink", "dash": "dash", "width": 2},
        },
    ]
    layout = axes(
        title("host page writes", rangemode="tozero", exponentformat="SI"),
        title("write amplification"),
    )
    layout["shapes"] = [
        {
            "type": "line",
            "x0": steady,
            "x1": steady,
            "y0": 0,
            "y1": 1,
            "yref": "paper",
            "line": {"color": "@muted", "dash": "dot", "width": 1.5},
        }
    ]
    since = (
        "it is steady" if run.result["steady"] else "it never became steady: this is the last half"
    )
    reading = (
        f"The figures are of what follows page write {count(steady)}, the dotted line; {since}."
    )
    return Figure("time", "Write amplification over the run", reading, data, layout)


def _histogram(run: Run) -> Figure | None:
    table = run.tables.get("p_gc_histogram")
    if table is None or table.num_rows == 0:
        return None
    columns = table.to_pydict()
    total = sum(columns["victims"]) or 1
    data = [
        {
            "type": "bar",
            "x": columns["valid_pages"],
            "y": [victims / total for victims in columns["victims"]],
            "marker": {"color": "@c0"},
        }
    ]
    layout = axes(
        title("valid pages in the victim"),
        title("share of victims", tickformat=".0%"),
        bargap=0.05,
        showlegend=False,
    )
    reading = (
        f"On average {percent(run.result['p_gc'])} of a victim's pages are valid and have to be "
        "relocated."
    )
    return Figure("victims", "How full the cleaned erase blocks are", reading, data, layout)


def _streams(run: Run) -> Figure | None:
    table = run.tables.get("streams")
    if table is None or table.num_rows < 2:
        return None
    columns = table.to_pydict()
    data, layout, height = stream_bars(columns, run.result["pages_per_erase_block"], "@c0")
    reading = (
        f"The {table.num_rows} streams at the end of the run: the pale part is the spare space "
        "that each has."
    )
    return Figure("streams", "Streams", reading, data, layout, height)


def _table(run: Run) -> Table:
    text = rows(run.result, SIMULATION)
    lifetime, workload = run.result["lifetime"], run.result["workload"]
    text += [
        ("erases that an erase block endures", count(lifetime["endurance_cycles"])),
        ("drive writes a day", f"{lifetime['drive_writes_per_day']:.4g}"),
        ("malformed records skipped", count(workload["skipped"])),
    ]
    return Table("Every figure", (("figure", "left"), ("value", "right")), text)
