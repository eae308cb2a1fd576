"""The report of one simulation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flashwright import reading_words
from flashwright._text import alpha, count, percent, short_count, significant
from flashwright.comparing.comparison import BOUND, MINIMUM
from flashwright.pages.figures import axes, stream_bars, title
from flashwright.pages.page import Fact, Figure, Page, Section, Table
from flashwright.reports.comparison_results import amplification, life, wear_words
from flashwright.reports.names import proper
from flashwright.reports.scalars import SIMULATION, rows
from flashwright.runs import Run
from flashwright.sources import below_the_bound
from flashwright.steady import repeats


def page(run: Run) -> Page:
    """Build the report of one simulation."""
    result = run.result
    found, bound, least = (
        result[key] for key in ("write_amplification", "frequency_bound", "offline_minimum")
    )
    victim, placement = proper(result["victim"]), proper(result["placement"])
    policy = victim if placement == "none" else f"{placement} with {victim}"
    headline = (
        f"{policy} programs {significant(found)} pages for each page that the host writes, at "
        f"{alpha(result['over_provisioning'])} over-provisioning"
        f"{'' if result['steady'] else ', in a run that is not steady'}."
    )
    facts = [Fact("write amplification", amplification(result), "with half of its 95 % interval")]
    # From Python it may be left out.
    is_known = least is not None
    if is_known:
        headline += (
            f" The offline minimum found is {significant(least)}, the frequency bound "
            f"{significant(bound)}."
        )
        facts += [
            Fact(MINIMUM, significant(least), f"{(found / least - 1) * 100:+.1f} % to it"),
            Fact(BOUND, significant(bound), f"{(found / bound - 1) * 100:+.1f} % to it"),
        ]
    facts += [
        Fact("valid pages in a victim", percent(result["p_gc"]), "p_gc, in the steady part"),
        Fact(
            "relocated pages",
            short_count(result["relocated_pages"]),
            f"for {short_count(result['host_page_writes'])} page writes of the host, over the "
            "whole run",
        ),
    ]
    if result["life_years"] is not None:
        facts.append(Fact("life", life(result), wear_words(result["lifetime"])))
    figures = [_over_time(run), _histogram(run), _streams(run)]
    remarks = reading_words.lines(result["workload"])
    if is_known and found < bound:
        trims = result["workload"]["page_trims"]
        remarks.append(f"It writes less than the frequency bound. {below_the_bound(trims)}")
    if not result["steady"]:
        remarks.append(unsteady(result))
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


def unsteady(result: Mapping[str, Any]) -> str:
    """Say that a run is not steady, and why."""
    times = repeats(result, result["repeat"], result["workload"]["logical_pages"])
    return (
        f"Not steady: {result['unsteady']}. The figures may still change. Steady with "
        f"part(..., repeat={times}) or more."
    )


def _over_time(run: Run) -> Figure | None:
    table = run.tables.get("over_time")
    if table is None or table.num_rows == 0:
        return None
    columns = table.to_pydict()
    steady = run.result["steady_from_update"]
    bound = run.result["frequency_bound"]
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
            "name": BOUND,
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
    reading = f"The figures are of what follows page write {count(steady)}, the dotted line"
    reading += "." if run.result["steady"] else f". Not steady: {run.result['unsteady']}."
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
        ("drive writes a day", significant(lifetime["drive_writes_per_day"], 4)),
        ("malformed records skipped", count(workload["skipped"])),
        *reading_words.rows(workload),
    ]
    return Table("Every figure", (("figure", "left"), ("value", "right")), text)
