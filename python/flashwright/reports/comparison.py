"""The report of a comparison: what each policy writes, beside what is attainable."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from flashwright import reading_words
from flashwright._text import alpha, percent, significant
from flashwright.comparing.comparison import BOUND, MINIMUM
from flashwright.comparing.policies import NO_PLACEMENT
from flashwright.lifetime import recorded_of
from flashwright.pages.page import Fact, Page, Section, Table
from flashwright.reports.comparison_figures import (
    cost_figure,
    gap_figure,
    histogram_figure,
    life_figure,
    over_time_figure,
    streams_figure,
)
from flashwright.reports.comparison_results import (
    Results,
    against,
    amplification,
    wear_words,
    years,
)
from flashwright.reports.names import proper
from flashwright.runs import Run
from flashwright.sources import below_the_bound
from flashwright.steady import repeats


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
    """Give the answer in a few sentences."""
    best, baseline = results.best(workload), results.baseline(workload)
    if best is None:
        return f"No policy has finished on {workload}."
    bound = results.bound(workload, results.reference)
    given = f"On {workload}, a" if lead else "A"
    first = (
        f"{given} drive with {alpha(results.reference)} over-provisioning programs "
        f"{_times(best)} pages for each page that the host writes with {best['policy']}"
    )
    if baseline is not None:
        first += f", {_times(baseline)} with {baseline['policy']}"
    minimum = bound["offline_minimum"]
    known = f"frequency bound is {significant(bound['frequency_bound'])}."
    found = f" The {known}"
    if minimum is not None:
        found = f" The offline minimum found is {significant(minimum)}; the {known}"
    return f"{first}.{found}{life(results, workload, best, baseline)}"


def _times(row: dict[str, Any]) -> str:
    return significant(row["write_amplification"]) + ("" if row["steady"] else " (not steady)")


def life(
    results: Results, workload: str, best: dict[str, Any], baseline: dict[str, Any] | None
) -> str:
    """Say how long the drive lives, if that is known, and what the policy changes in it.

    Without it, what would be written a day if a recording is too short for more.
    """
    lifetime = results.lifetime(workload)
    recorded = recorded_of(lifetime)
    if lifetime["drive_writes_per_day"] is None and recorded is not None:
        return f" How long the drive lives is not known: {recorded.why_no_day()}."
    with_best = best["life_years"]
    if with_best is None:
        return ""
    text = years(with_best)
    if baseline is not None and baseline["life_years"] is not None:
        other = years(baseline["life_years"])
        text += "" if other == text else f" instead of {other}"
    return f" It would live {text} ({wear_words(lifetime)})."


def facts(results: Results, workload: str) -> list[Fact]:
    """Give the figures of the answer."""
    best, baseline = results.best(workload), results.baseline(workload)
    if best is None:
        return []
    bound = results.bound(workload, results.reference)
    at = f"write amplification at {alpha(results.reference)} over-provisioning"
    given = [Fact(best["policy"], amplification(best), at)]
    if baseline is not None:
        given.append(Fact(baseline["policy"], amplification(baseline), _saved(best, baseline)))
    given.append(
        Fact(
            MINIMUM,
            significant(bound["offline_minimum"]),
            f"{best['policy']} is {against(best['gap_to_offline_minimum_percent'])} it",
        )
    )
    given.append(
        Fact(
            BOUND,
            significant(bound["frequency_bound"]),
            f"{best['policy']} is {against(best['gap_to_frequency_bound_percent'])} it",
        )
    )
    if best["life_years"] is not None:
        rate = wear_words(results.lifetime(workload))
        given.append(Fact(f"life with {best['method']}", years(best["life_years"]), rate))
    return given


def _saved(best: dict[str, Any], baseline: dict[str, Any]) -> str:
    """Say how much less the best relocates; of runs that are not steady no ratio is given."""
    if not best["steady"] or not baseline["steady"]:
        return "not to be compared yet: not steady"
    cost = baseline["cleaning_cost"]
    saved = 1 - best["cleaning_cost"] / cost if cost else 0.0
    return f"{best['policy']} relocates {percent(abs(saved), 2)} {'less' if saved > 0 else 'more'}"


def _failed(results: Results) -> list[str]:
    """Say which policies could not run, by load, over-provisioning and reason.

    A placement policy that ran with none of its victim policies is named alone.
    """
    ran = {(row["workload"], row["over_provisioning"], row["placement"]) for row in results.rows}
    found: dict[tuple[str, float, str], dict[str, None]] = {}
    for row in results.failed:
        workload, op, placement = row["workload"], row["over_provisioning"], row["placement"]
        name = row["label"] if (workload, op, placement) in ran else placement
        found.setdefault((workload, op, row["error"]), {})[name] = None
    return [
        f"{', '.join(names)} could not run on {workload} at {alpha(op)}: {error}."
        for (workload, op, error), names in found.items()
    ]


def remarks(results: Results) -> list[str]:
    """Say what a reader must know before trusting the figures."""
    found = reading_words.lines(*results.workloads)
    if not results.run.result["complete"]:
        found.append("The run was stopped before its end: simulations are missing.")
    found += _failed(results)
    unsteady = [row for row in results.rows if not row["steady"]]
    if unsteady:
        repeat = results.run.result["workloads"][0]["repeat"]
        pages = {workload["name"]: workload["logical_pages"] for workload in results.workloads}
        most_often = max(repeats(row, repeat, pages[row["workload"]]) for row in unsteady)
        kinds = Counter(re.sub(r"[\d.+-]+", "", str(row["unsteady"])) for row in unsteady)
        most = kinds.most_common(1)[0][0]
        example = next(
            row for row in unsteady if re.sub(r"[\d.+-]+", "", str(row["unsteady"])) == most
        )
        found.append(
            f"{len(unsteady)} of {len(results.rows)} runs had not reached a steady state; their "
            f"values (marked *) may still change. Most often as with {example['policy']} at "
            f"{alpha(example['over_provisioning'])}: {example['unsteady']}. Steady with "
            f"`part(SOURCE, repeat={most_often})` or more."
        )
    tight = [row for row in results.rows if row["streams_left_out"]]
    if tight:
        names = ", ".join(dict.fromkeys(row["method"] for row in tight))
        found.append(
            f"{names} had fewer streams than usual in some runs: each needs an open erase block, "
            "and the spare space does not hold more. More pages, more over-provisioning or smaller "
            "erase blocks (--pages-per-erase-block) help."
        )
    uncleaned = [row for row in results.rows if not row["erases"]]
    if uncleaned:
        found.append(
            f"{len(uncleaned)} of {len(results.rows)} runs cleaned nothing, as all that was "
            "written fits into the spare space: they say nothing of a drive's life."
        )
    if any(row["gap_to_frequency_bound_percent"] < 0 for row in results.rows):
        trims = max(item["page_trims"] for item in results.workloads)
        below = dict.fromkeys(
            row["method"] for row in results.rows if row["gap_to_frequency_bound_percent"] < 0
        )
        some = ", ".join(below) if len(below) <= 3 else f"{len(below)} methods"
        writes = "writes" if len(below) == 1 else "write"
        found.append(f"{some} {writes} less than the frequency bound. {below_the_bound(trims)}")
    repeat = results.run.result["workloads"][0]["repeat"]
    if repeat > 1:
        found.append(
            f"The source was played {repeat} times over, always in the same order; what is learnt "
            "from one pass may help in the next."
        )
    return found


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
    """Give write amplification by method and over-provisioning.

    The methods are as they rank at the reference.
    """
    order = [row["method"] for row in results.ranked(workload)]
    order += [method for method in results.methods if method not in order]
    bounds = results.bounds(workload)
    rows: list[Sequence[str]] = [
        (MINIMUM, "", *(significant(row["offline_minimum"]) for row in bounds)),
        (BOUND, "", *(significant(row["frequency_bound"]) for row in bounds)),
    ]
    for method in order:
        found = {row["over_provisioning"]: row for row in results.of(workload, method=method)}
        if found:
            at = found.get(results.reference) or next(iter(found.values()))
            victim = "" if at["placement"] == NO_PLACEMENT else proper(at["victim"])
            rows.append((method, victim, *(_cell(found.get(op)) for op in results.alphas)))
    columns = (
        ("policy", "left"),
        ("best victim policy", "left"),
        *((f"at {alpha(op)}", "right") for op in results.alphas),
    )
    note = (
        "Each placement policy with the victim policy that serves it best at each "
        f"over-provisioning; named is the one at {alpha(results.reference)}. "
        "After \u00b1 stands half of the 95 % interval; * marks what is not steady."
    )
    return Table(
        "Write amplification by over-provisioning",
        columns,
        rows,
        note,
        emphasised=frozenset({0, 1}),
    )


def _cell(row: dict[str, Any] | None) -> str:
    return significant(None) if row is None else amplification(row)


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
                BOUND,
                significant(bound["frequency_bound"], 4),
                "",
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
                row["policy"],
                amplification(row),
                f"{row['gap_to_offline_minimum_percent']:+.1f} %",
                f"{row['gap_to_frequency_bound_percent']:+.1f} %",
                significant(row["cleaning_cost"], 4),
                percent(row["p_gc"]),
                significant(row["life_years"]),
                "yes" if row["steady"] else row["unsteady"],
            )
            for row in results.all_of(workload, op=op)
        )
    columns = (
        ("over-provisioning", "right"),
        ("policy", "left"),
        ("write amplification", "right"),
        ("to offline minimum", "right"),
        ("to frequency bound", "right"),
        ("cleaning cost", "right"),
        ("p_gc", "right"),
        ("life, years", "right"),
        ("steady", "left"),
    )
    note = (
        "Write amplification: pages programmed for each page that the host writes, in the steady "
        "part of the run, with half of its 95 % interval. Cleaning cost: that less one. p_gc: "
        "share of valid pages in the victims."
    )
    return Table("Every run", columns, rows, note, frozenset(emphasised), folded=True)
