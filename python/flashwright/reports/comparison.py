"""The report of a comparison: what each policy writes, beside the bound."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from flashwright._text import alpha, count, percent, significant
from flashwright.reports.figures import (
    AXIS_ALPHA,
    Colours,
    axes,
    bars,
    bound_line,
    line,
    log_axis,
    stream_bars,
    title,
)
from flashwright.reports.names import proper
from flashwright.reports.page import Fact, Figure, Page, Section, Table
from flashwright.runs import Run
from flashwright.sources import caveat

USUAL_OVER_PROVISIONING = 0.2
BASELINES = ("Greedy", "LRU")
MOST_NOISY_LINES = 4
BELOW_PERCENT = 4.0
"""What Greedy gains over cleaning in order under uniform updates is less than this: more means that
the bound does not apply.
"""


class Results:
    """The rows of a comparison, as its report asks for them."""

    def __init__(self, run: Run) -> None:
        self.run = run
        rows = [
            {**row, "label": row["policy"], "policy": proper(row["policy"])}
            for row in run.result["results"]
        ]
        self.rows: list[dict[str, Any]] = [row for row in rows if "error" not in row]
        self.failed: list[dict[str, Any]] = [row for row in rows if "error" in row]
        self.workloads: list[dict[str, Any]] = run.result["workloads"]
        self.alphas: list[float] = sorted(
            {row["over_provisioning"] for row in run.result["bounds"]}
        )
        self.policies: list[str] = list(dict.fromkeys(row["policy"] for row in rows))
        self.colours = Colours(self.policies)
        self.reference = min(self.alphas, key=lambda op: abs(op - USUAL_OVER_PROVISIONING))

    def of(
        self, workload: str, *, policy: str | None = None, op: float | None = None
    ) -> list[dict[str, Any]]:
        """Give the rows of a workload, a policy, an over-provisioning.

        Least over-provisioning first.
        """
        rows = [
            row
            for row in self.rows
            if row["workload"] == workload
            and policy in (None, row["policy"])
            and op in (None, row["over_provisioning"])
        ]
        return sorted(rows, key=lambda row: row["over_provisioning"])

    def ranked(self, workload: str) -> list[dict[str, Any]]:
        """Give the rows at the reference over-provisioning, the one that writes least first."""
        return sorted(
            self.of(workload, op=self.reference), key=lambda row: row["write_amplification"]
        )

    def best(self, workload: str) -> dict[str, Any] | None:
        """Give the policy that writes least of those that a drive can have.

        Oracles are left out if there are others.
        """
        ranked = self.ranked(workload)
        real = [row for row in ranked if not row.get("oracle", False)]
        return next(iter(real or ranked), None)

    def baseline(self, workload: str) -> dict[str, Any] | None:
        """Give what a plain drive does.

        Greedy or else LRU if they were run, or else the policy that writes most.
        """
        ranked = self.ranked(workload)
        best = self.best(workload)
        others = [row for row in ranked if best is not None and row["policy"] != best["policy"]]
        named = [row for name in BASELINES for row in others if row["policy"] == name]
        return next(iter(named or others[-1:]), None)

    @cache  # noqa: B019  (one object a report)
    def table_rows(self, name: str) -> list[dict[str, Any]]:
        """Give the rows of a stacked table."""
        rows: list[dict[str, Any]] = self.run.tables[name].to_pylist()
        return rows

    def told(self, workload: str) -> set[str]:
        """Give the policies that the answer names."""
        return {
            row["policy"]
            for row in (self.best(workload), self.baseline(workload))
            if row is not None
        }

    def bounds(self, workload: str) -> list[dict[str, Any]]:
        """Give the bound of a workload, least over-provisioning first."""
        rows = [row for row in self.run.result["bounds"] if row["workload"] == workload]
        return sorted(rows, key=lambda row: row["over_provisioning"])

    def bound(self, workload: str, op: float) -> dict[str, Any]:
        """Give the bound at an over-provisioning."""
        return next(row for row in self.bounds(workload) if row["over_provisioning"] == op)


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
            f"{best['policy']} is {_against(best['gap_to_bound_percent'])} it",
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


def cost_figure(results: Results, workload: str, key: str) -> Figure | None:
    """Draw cleaning cost against over-provisioning, one line a policy, the bound dashed.

    As MULTILOG figures 5 and 7.
    """
    if len(results.alphas) < 2:
        return None
    data = []
    for policy in results.policies:
        rows = [row for row in results.of(workload, policy=policy) if row["cleaning_cost"] > 0]
        if rows:
            data.append(
                line(
                    policy,
                    [row["over_provisioning"] for row in rows],
                    [row["cleaning_cost"] for row in rows],
                    results.colours,
                    strong=policy in results.told(workload),
                )
            )
    bounds = results.bounds(workload)
    data.append(
        bound_line(
            [row["over_provisioning"] for row in bounds],
            [row["cleaning_cost"] or None for row in bounds],
        )
    )
    best = results.best(workload)
    reading = (
        "Lower is better. Dashed: MULTILOG's bound, the least if updates were independent of each "
        "other."
    )
    if best is not None:
        ratio = [
            row["cleaning_cost"]
            / results.bound(workload, row["over_provisioning"])["cleaning_cost"]
            for row in results.of(workload, policy=best["policy"])
            if results.bound(workload, row["over_provisioning"])["cleaning_cost"] > 0
        ]
        if ratio:
            reading += (
                f" {best['policy']} costs {significant(min(ratio))} to {significant(max(ratio))} "
                "times the bound."
            )
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
    bound = results.bound(workload, results.reference)["bound_write_amplification"]
    data, layout = bars(
        [row["policy"] for row in ranked],
        [row["write_amplification"] for row in ranked],
        [
            f"{significant(row['write_amplification'])}  ({row['gap_to_bound_percent']:+.0f} %)"
            for row in ranked
        ],
        [results.colours[row["policy"]] for row in ranked],
        "write amplification",
    )
    layout["shapes"] = [
        {
            "type": "line",
            "x0": bound,
            "x1": bound,
            "y0": 0,
            "y1": 1,
            "yref": "paper",
            "line": {"color": "@ink", "dash": "dash", "width": 2},
        }
    ]
    first, last = ranked[0], ranked[-1]
    reading = (
        f"{first['policy']} writes least, {_against(first['gap_to_bound_percent'])} the bound "
        f"({significant(bound)}, dashed)"
    )
    reading += f"; {last['policy']} writes most." if last is not first else "."
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
    data = []
    for policy in results.policies:
        rows = results.of(workload, policy=policy)
        if rows:
            data.append(
                line(
                    policy,
                    [row["over_provisioning"] for row in rows],
                    [row["life_years"] for row in rows],
                    results.colours,
                    strong=policy in results.told(workload),
                )
            )
    bounds = results.bounds(workload)
    data.append(
        bound_line(
            [row["over_provisioning"] for row in bounds], [row["life_years"] for row in bounds]
        )
    )
    lifetime = next(item["lifetime"] for item in results.workloads if item["name"] == workload)
    reading = (
        f"With even wear, {significant(lifetime['endurance_cycles'])} erases for each erase block "
        f"and {drive_writes(lifetime)}. Dashed: at the bound."
    )
    best = results.best(workload)
    lives = (
        [row["life_years"] for row in results.of(workload, policy=best["policy"])]
        if best is not None
        else []
    )
    if best is not None and len(lives) > 1:
        reading += (
            f" With {best['policy']} the drive lives {years(lives[0])} at "
            f"{alpha(results.alphas[0])} over-provisioning, {years(lives[-1])} at "
            f"{alpha(results.alphas[-1])}."
        )
    layout = axes(AXIS_ALPHA, title("life in years", rangemode="tozero"))
    return Figure(f"{key}-life", "Life of the drive", reading, data, layout, 500)


def _inside(results: Results, name: str, workload: str, policy: str) -> dict[str, list[Any]] | None:
    """Give a table of one run at the reference over-provisioning, as columns."""
    stacked = results.run.tables.get(name)
    label = next((row["label"] for row in results.rows if row["policy"] == policy), None)
    if stacked is None or label is None:
        return None
    rows = [
        row
        for row in results.table_rows(name)
        if (row["workload"], row["policy"], row["over_provisioning"])
        == (workload, label, results.reference)
    ]
    return {key: [row[key] for row in rows] for key in rows[0]} if rows else None


def _hidden(results: Results, workload: str, policy: str) -> bool:
    """Tell whether a line waits in the legend.

    More than a few noisy ones on top of each other show nothing.
    """
    return len(results.policies) > MOST_NOISY_LINES and policy not in results.told(workload)


def _waiting(results: Results, workload: str) -> str:
    waiting = any(_hidden(results, workload, policy) for policy in results.policies)
    return " A name in the legend shows or hides its line." if waiting else ""


def over_time_figure(results: Results, workload: str, key: str) -> Figure | None:
    """Draw write amplification over the run."""
    data = []
    for policy in results.policies:
        columns = _inside(results, "over_time", workload, policy)
        if columns:
            data.append(
                line(
                    policy,
                    columns["host_page_writes"],
                    columns["write_amplification"],
                    results.colours,
                    markers=False,
                    strong=policy in results.told(workload),
                    hidden=_hidden(results, workload, policy),
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
    for policy in results.policies:
        columns = _inside(results, "p_gc_histogram", workload, policy)
        if columns:
            total = sum(columns["victims"]) or 1
            shares = [victims / total for victims in columns["victims"]]
            data.append(
                line(
                    policy,
                    columns["valid_pages"],
                    shares,
                    results.colours,
                    markers=False,
                    strong=policy in results.told(workload),
                    hidden=_hidden(results, workload, policy),
                )
            )
    if not data:
        return None
    told = [row for row in (results.best(workload), results.baseline(workload)) if row is not None]
    means = ", ".join(f"{percent(row['p_gc'], 2)} with {row['policy']}" for row in told)
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
    columns = _inside(results, "streams", workload, best["policy"]) if best else None
    if best is None or columns is None or len(columns["stream"]) < 2:
        return None
    block = results.run.result["device"]["pages_per_erase_block"]
    data, layout, height = stream_bars(columns, block, results.colours[best["policy"]])
    reading = (
        f"The {len(columns['stream'])} streams of {best['policy']} at the end of the run: "
        f"the pale part is the spare space that each has."
    )
    return Figure(f"{key}-streams", f"Streams of {best['policy']}", reading, data, layout, height)


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


def _against(gap_percent: float) -> str:
    """Give a distance to the bound in words."""
    return f"{significant(abs(gap_percent), 2)} % {'above' if gap_percent >= 0 else 'below'}"


def drive_writes(lifetime: dict[str, Any]) -> str:
    """Give how much is written a day, in words."""
    rate = f"{lifetime['drive_writes_per_day']:.3g}"
    return f"{rate} drive {'write' if rate == '1' else 'writes'} a day"


def years(value: float) -> str:
    """Give a life in words."""
    if value >= 0.3:
        return f"{significant(value, 2)} years"
    days = value * 365.25
    return f"{significant(days, 2)} days" if days >= 1 else f"{significant(days * 24, 2)} hours"
