"""The report of a comparison: what each policy writes, beside the bound."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flashwright._text import alpha, percent, significant
from flashwright.reports.comparison_figures import (
    cost_figure,
    gap_figure,
    histogram_figure,
    life_figure,
    over_time_figure,
    streams_figure,
)
from flashwright.reports.comparison_results import Results, against, drive_writes, years
from flashwright.reports.page import Fact, Page, Section, Table
from flashwright.runs import Run
from flashwright.sources import caveat

BELOW_PERCENT = 4.0
"""What Greedy gains over cleaning in order under uniform updates is less than this: more means that
the bound does not apply.
"""


def page(run: Run) -> Page:
    """Build the report of a comparison."""
    results = Results(run)
    names = [workload["name"] for workload in results.workloads]
    return Page(
        kind="comparison of placement policies",
        title=", ".join(names),
        headline="\n".join(headline(results, name, lead=len(names) > 1) for name in names),
        facts=facts(results, names[0]) if len(names) == 1 else [],
        sections=[
            section
            for number, name in enumerate(names)
            for section in sections(results, name, f"w{number}", alone=len(names) == 1)
        ],
        provenance=run.result["provenance"],
        remarks=remarks(results),
    )


def headline(results: Results, workload: str, *, lead: bool) -> str:
    """Give the answer in two or three sentences."""
    best, baseline = results.best(workload), results.baseline(workload)
    if best is None:
        return f"No policy has finished on {workload}."
    bound = results.bound(workload, results.reference)
    subject = f"On {workload}, {best['policy']}" if lead else best["policy"]
    at = f"at {alpha(results.reference)} over-provisioning"
    first = (
        f"{subject} writes {significant(best['write_amplification'])} pages to the flash for each "
        f"page of the host {at}"
    )
    if baseline is not None:
        first += f", {baseline['policy']} {significant(baseline['write_amplification'])}"
    # A policy below it shows that the workload is not what the bound assumes: then it limits
    # nothing, and is not called so.
    lowest = min(row["gap_to_bound_percent"] for row in results.ranked(workload))
    least = significant(bound["bound_write_amplification"])
    if lowest >= 0:
        first += f"; the least possible is {least}."
    elif lowest > -BELOW_PERCENT:
        first += f"; MULTILOG's bound, which cleans erase blocks in order, is {least}."
    else:
        first += f". MULTILOG's bound, {least}, is no limit for this workload."
    life = f"The drive would live {years(best['life_years'])}"
    if baseline is not None:
        life += f" instead of {years(baseline['life_years'])}"
    return f"{first} {life}."


def facts(results: Results, workload: str) -> list[Fact]:
    """Give the figures of the answer."""
    best, baseline = results.best(workload), results.baseline(workload)
    if best is None:
        return []
    bound = results.bound(workload, results.reference)
    at = f"write amplification at {alpha(results.reference)} over-provisioning"
    given = [Fact(best["policy"], significant(best["write_amplification"]), at)]
    if baseline is not None:
        saved = (
            1 - best["cleaning_cost"] / baseline["cleaning_cost"]
            if baseline["cleaning_cost"]
            else 0.0
        )
        note = (
            f"{best['policy']} relocates {percent(abs(saved), 2)} {'less' if saved > 0 else 'more'}"
        )
        given.append(Fact(baseline["policy"], significant(baseline["write_amplification"]), note))
    lifetime = next(item["lifetime"] for item in results.workloads if item["name"] == workload)
    rate = f"{significant(lifetime['endurance_cycles'])} erases a block, {drive_writes(lifetime)}"
    given.append(
        Fact(
            "bound",
            significant(bound["bound_write_amplification"]),
            f"{best['policy']} is {against(best['gap_to_bound_percent'])} it",
        )
    )
    given.append(Fact(f"life with {best['policy']}", years(best["life_years"]), rate))
    return given


def remarks(results: Results) -> list[str]:
    """Tell what a reader must know before trusting the figures."""
    told = []
    if not results.run.result["complete"]:
        told.append("The run was stopped before its end: simulations are missing.")
    told += [
        f"{row['policy']} could not run on {row['workload']} at {alpha(row['over_provisioning'])}: "
        f"{row['error']}"
        for row in results.failed
    ]
    unsteady = [row for row in results.rows if not row["steady"]]
    if unsteady:
        told.append(
            f"Not steady at their end: {len(unsteady)} of {len(results.rows)} runs. "
            "Their figures are of the last half, and marked * in the tables. "
            "Playing the source more often (--repeat) may help."
        )
    departing, trims = [], 0
    for item in results.workloads:
        below = list(
            dict.fromkeys(
                row["policy"] for row in results.of(item["name"]) if row["gap_to_bound_percent"] < 0
            )
        )
        if below:
            what = (
                f"{len(below)} of {len(results.policies)} policies at one over-provisioning or more"
                if len(below) > 3
                else ", ".join(below)
            )
            departing.append(f"{what} on {item['name']}")
            trims = max(trims, item["page_trims"])
    if departing:
        told.append(f"Below the bound: {'; '.join(departing)}. For {caveat(trims)}.")
    repeat = results.run.result["repeat"]
    if repeat > 1:
        told.append(
            f"The source was played {repeat} times over, always in the same order; what is learnt "
            "from one pass may help in the next."
        )
    return told


def sections(results: Results, workload: str, key: str, *, alone: bool) -> list[Section]:
    """Give the plots and the table of one workload."""
    if not results.of(workload):
        return []
    prefix = "" if alone else f"{workload}: "
    outer = [
        cost_figure(results, workload, key),
        gap_figure(results, workload, key),
        life_figure(results, workload, key),
    ]
    inner = [
        over_time_figure(results, workload, key),
        histogram_figure(results, workload, key),
        streams_figure(results, workload, key),
    ]
    reference = alpha(results.reference)
    return [
        Section(
            f"{prefix}What the flash has to write",
            [figure for figure in outer if figure is not None],
        ),
        Section(
            f"{prefix}What happens inside",
            [figure for figure in inner if figure is not None],
            f"At {reference} over-provisioning.",
        ),
        Section(
            f"{prefix}All figures",
            [matrix_table(results, workload), results_table(results, workload)],
        ),
    ]


def matrix_table(results: Results, workload: str) -> Table:
    """Give write amplification by policy and over-provisioning.

    The policies are as they rank at the reference.
    """
    order = [row["policy"] for row in results.ranked(workload)]
    order += [policy for policy in results.policies if policy not in order]
    rows: list[Sequence[str]] = [
        (
            "bound",
            *(significant(row["bound_write_amplification"]) for row in results.bounds(workload)),
        )
    ]
    for policy in order:
        found = {row["over_provisioning"]: row for row in results.of(workload, policy=policy)}
        if found:
            rows.append((policy, *(_cell(found.get(op)) for op in results.alphas)))
    columns = (("policy", "left"), *((f"at {alpha(op)}", "right") for op in results.alphas))
    return Table(
        "Write amplification by over-provisioning", columns, rows, emphasised=frozenset({0})
    )


def _cell(row: dict[str, Any] | None) -> str:
    if row is None:
        return significant(None)
    return significant(row["write_amplification"]) + ("" if row["steady"] else " *")


def results_table(results: Results, workload: str) -> Table:
    """List every run, by over-provisioning, from least to most written."""
    rows: list[Sequence[str]] = []
    emphasised = set()
    for op in results.alphas:
        bound = results.bound(workload, op)
        emphasised.add(len(rows))
        rows.append(
            (
                alpha(op),
                "bound",
                significant(bound["bound_write_amplification"], 4),
                "",
                significant(bound["cleaning_cost"], 4),
                "",
                significant(bound["life_years"]),
                "",
            )
        )
        rows.extend(
            (
                alpha(op),
                row["policy"] + ("" if row["steady"] else " *"),
                significant(row["write_amplification"], 4),
                f"{row['gap_to_bound_percent']:+.1f} %",
                significant(row["cleaning_cost"], 4),
                percent(row["p_gc"]),
                significant(row["life_years"]),
                significant(row["steady_from_update"]),
            )
            for row in sorted(
                results.of(workload, op=op), key=lambda row: row["write_amplification"]
            )
        )
    columns = (
        ("over-provisioning", "right"),
        ("policy", "left"),
        ("write amplification", "right"),
        ("to bound", "right"),
        ("cleaning cost", "right"),
        ("p_gc", "right"),
        ("life, years", "right"),
        ("steady from", "right"),
    )
    note = (
        "Write amplification: pages programmed for each page that the host writes, in the steady "
        "part of the run. Cleaning cost: that less one. p_gc: share of valid pages in the victims."
    )
    return Table("Every run", columns, rows, note, frozenset(emphasised), folded=True)
