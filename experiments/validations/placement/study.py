"""The validation of placement: its groups of checks, and the page of what was found."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import click
import numpy as np
import numpy.typing as npt

from experiments.data import TATP
from experiments.pages import markdown_table, page
from experiments.registry import Made, Outcome, Part, Request, Set
from experiments.validations.placement.checks import (
    ABOVE,
    BELOW,
    CONTAINER_MARKING,
    EIGHTY_TWENTY,
    ENVY,
    MODAL,
    MULTI_LOG,
    OPTIMAL,
    PAGES_PER_ERASE_BLOCK,
    QUICK,
    SHOWN,
    SIMILAR_OR_BELOW,
    UP_TO_HALF,
    WITHIN,
    Check,
    PlayedTrace,
    Scale,
    bound_checks,
    multi_log_uniform_checks,
    paper_size_checks,
    paper_size_loads,
    random_checks,
    skew_aware_uniform_checks,
    skewed_checks,
    skewed_loads,
    tatp_checks,
    tpcc_checks,
    uniform_checks,
)
from experiments.validations.placement.judged import (
    Row,
    across,
    compared,
    greatest_reduction,
    measure,
    row,
    simulate,
    tell,
)
from experiments.validations.placement.sets import hot_set, p_gc_of_sets
from experiments.validations.placement.traces import trace_rows
from flashwright import _core, data, sources
from flashwright._text import significant
from flashwright.recording.parts import LOGS, write_without

PAPER = "MULTILOG"
LEAST_RELOCATED = 40_000
"""Fewest pages of a set of which p_gc is told."""


@dataclass(frozen=True)
class Group(Part):
    """Checks that are measured together."""

    rows: Callable[[Scale, Path], list[Row]] = field(repr=False)


def tpcc_loads(scale: Scale, folder: Path) -> list[PlayedTrace]:
    """Give the recorded trace and its data pages alone, by page size and number of passes."""
    data_pages = folder / "tpcc_data_pages.parquet"
    write_without(data.TPCC, LOGS, data_pages)
    return [
        PlayedTrace(
            f"TPC-C {part}, {size // 1024} KiB pages, played {repeat} x", str(path), size, repeat
        )
        for part, path in scale.pick(
            (("whole", data.TPCC_REQUESTS), ("data pages", data_pages)), ("data pages", data_pages)
        )
        for size in scale.pick((4096, 8192), 8192)
        for repeat in scale.pick((1, 4), 1)
    ]


def hottest(weights: npt.NDArray[np.float64], part: float) -> float:
    """Give the share of all updates that the hottest pages take, these being so great a part."""
    ranked = np.sort(weights)[::-1]
    return float(ranked[: round(part * len(ranked))].sum() / ranked.sum())


def skew_rows(load: PlayedTrace) -> list[Row]:
    """Tell which share of the updates the hottest pages take.

    Shown beside what MULTILOG says of its loads, and not judged.
    """
    reading = sources.Reading(page_size=load.page_size)
    weights = sources.load(load.source, reading).update_weights()
    published = {0.1: "6.3, TATP: 80 % to about 10 %", 0.2: "6.2, Zipf 1: 80 % to 20 %"}
    return [
        Row(
            load.name.partition(", played")[0],
            None,
            f"share of updates to the hottest {part:.0%} of the written pages",
            hottest(weights, part),
            published=published[part],
        )
        for part in (0.1, 0.2)
    ]


def tpcc_rows(scale: Scale, folder: Path) -> list[Row]:
    """Measure the recorded trace."""
    loads = tpcc_loads(scale, folder)
    skew = [found for load in loads if load.repeat == 1 for found in skew_rows(load)]
    return skew + measure(
        list(tpcc_checks(loads, scale.pick((0.1, 0.2, 0.3, 0.5, 1.0), 0.2))), "recorded TPC-C trace"
    )


def skew_aware_rows(scale: Scale, _: Path) -> list[Row]:
    """Measure MultiLog and the skew-aware placements on uniform updates (figure 5a)."""
    rows = measure(list(skew_aware_uniform_checks(scale)), "skew-aware, uniform")
    published = "6.2: “significantly lower (up to 50 %)”"
    return [*rows, greatest_reduction(rows, *UP_TO_HALF, published)]


def tatp_rows(scale: Scale, _: Path) -> list[Row]:
    """Measure the recorded TATP trace, of which every page of the database is part.

    With MULTILOG's pages of 4 kB, of which each page of PostgreSQL is two.
    """
    load = PlayedTrace("TATP, 4 KiB pages", str(TATP))
    reading = sources.Reading(page_size=load.page_size)
    skew = compared(
        load.name,
        "share of updates to the hottest 10% of the database's pages",
        hottest(sources.load(load.source, reading).update_weights(), 0.1),
        ("published", 0.8),
        WITHIN[20],
        published="6.3: 80 % to about 10 %",
    )
    alphas = scale.pick((0.1, 0.2, 0.3, 0.5, 1.0), 0.3)
    rows = measure(list(tatp_checks(load, alphas)), "recorded TATP trace")
    return [skew, *hot_set_rows(load), *rows]


def hot_set_rows(load: PlayedTrace) -> list[Row]:
    """Hold TATP's hottest tenth of pages against that of TPC-C: how uniform and constant it is."""
    published = "6.3: relatively uniform and constant over time"
    here, there = (
        hot_set(path, load.page_size) for path in (Path(load.source), data.TPCC_REQUESTS)
    )
    words = (
        "share of the updates of its hottest tenth that the hotter half of that takes",
        "share of the first half's hottest tenth that is the second half's, too",
    )
    return [
        compared(load.name, said, ours, ("that of TPC-C", theirs), limits, published=published)
        for said, ours, theirs, limits in zip(words, here, there, (BELOW, ABOVE), strict=True)
    ]


def random_rows(scale: Scale, _: Path) -> list[Row]:
    """Measure sets that are mixed in one log, and p_gc of each."""
    rows = measure(list(random_checks(scale)), "random placement")
    mixed = {"80/20": EIGHTY_TWENTY, "3-modal": MODAL[3], "5-modal": MODAL[5]}
    for name, sets in mixed.items() if scale.full else [("3-modal", MODAL[3])]:
        load = scale.synthetic(f"{name} {sets}", f"kmodal(sets={sets})", pages="128Ki")
        tell(f"random: p_gc of each set of {name}")
        workload = sources.load(load.source, sources.Reading(page_size=load.page_size))
        for alpha in scale.pick((0.1, 0.3, 0.5), 0.3):
            known, *others = p_gc_of_sets(workload, alpha, PAGES_PER_ERASE_BLOCK)
            rows += [
                compared(
                    load.name,
                    f"p_gc of the set updated {one.frequency / known.frequency:.3g} times as often",
                    one.p_gc,
                    ("that one's to this power", known.p_gc ** (one.frequency / known.frequency)),
                    WITHIN[1],
                    over_provisioning=alpha,
                    published="4.3.1: powers of each other by their frequencies",
                )
                for one in others
                # Of fewer a hundredth is chance.
                if one.relocated > LEAST_RELOCATED
            ]
    return rows


def paper_size_rows(scale: Scale, _: Path) -> list[Row]:
    """Measure Zipf 1 and TPC-E with as many pages as the paper has (figures 5b and 5c)."""
    zipf, tpce = paper_size_loads(scale)
    alphas = scale.pick((0.2,), 0.3)
    checks = [check for load in (zipf, tpce) for check in paper_size_checks(load, alphas)]
    workloads, measured = simulate(checks, "the paper's number of pages")
    weights = {load: workloads[load].update_weights() for load in (zipf, tpce)}
    rows = [
        compared(
            zipf.name,
            "share of updates to the hottest 20% of the pages",
            hottest(weights[zipf], 0.2),
            ("published", 0.8),
            WITHIN[20],
            published="6.2: 80 % of the accesses to 20 % of the pages",
        )
    ]
    less_skew = "6.2: higher than under Zipf, as there is less skew"
    for alpha in scale.pick((0.1, 0.2, 0.3, 0.5, 1.0), 0.3):
        bound, other = (
            _core.cleaning_cost_bound(weights[load], alpha, "powers_of_two").cleaning_cost
            for load in (tpce, zipf)
        )
        name = f"bound on {zipf.name}"
        limits = {"over_provisioning": alpha, "published": less_skew}
        rows.append(
            compared(tpce.name, "bound: cleaning_cost", bound, (name, other), ABOVE, **limits)
        )
    others = "6.2: eNVy and ContainerMarking: similar to Zipf or lower"
    for alpha in alphas:
        for policy, limits_of, published in (
            (MULTI_LOG, ABOVE, less_skew),
            (OPTIMAL, ABOVE, less_skew),
            (CONTAINER_MARKING, SIMILAR_OR_BELOW, others),
        ):
            rows.append(across(measured, (tpce, zipf), policy, alpha, limits_of, published))
    rows += envy_rows(scale, alphas, others)
    return rows + [row(check, workloads[check.load], measured) for check in checks]


def envy_rows(scale: Scale, alphas: Sequence[float], published: str) -> list[Row]:
    """Hold eNVy on TPC-E against itself on Zipf 1, at the number of pages of the skewed loads."""
    zipf, tpce = loads = skewed_loads(scale)
    # It is compared with no other policy here: each check only asks for its simulation.
    checks = [
        Check(load, alpha, ENVY, "cleaning_cost", ENVY, *SHOWN)
        for load in loads
        for alpha in alphas
    ]
    _, measured = simulate(checks, "eNVy")
    return [
        across(measured, (tpce, zipf), ENVY, alpha, SIMILAR_OR_BELOW, published) for alpha in alphas
    ]


def _of(
    checks: Callable[[Scale], Iterator[Check]], label: str
) -> Callable[[Scale, Path], list[Row]]:
    return lambda scale, _: measure(list(checks(scale)), label)


GROUPS = (
    Group("uniform", PAPER, "LRU and Greedy on uniform updates", _of(uniform_checks, "uniform")),
    Group(
        "random",
        PAPER,
        "Sets of pages mixed in one log, cleaned by LRU",
        random_rows,
    ),
    Group(
        "bound",
        PAPER,
        "MultiLog-Optimal against the bound (Algorithm 1)",
        _of(bound_checks, "bound"),
    ),
    Group(
        "multi_log_uniform",
        PAPER,
        "MultiLog on uniform updates",
        _of(multi_log_uniform_checks, "MultiLog, uniform"),
    ),
    Group(
        "skew_aware_uniform",
        PAPER,
        "MultiLog against skew-aware placements on uniform updates (figure 5a)",
        skew_aware_rows,
    ),
    Group(
        "skewed",
        PAPER,
        "MultiLog against every policy that MULTILOG compares",
        _of(skewed_checks, "skewed loads"),
    ),
    Group(
        "paper_size",
        PAPER,
        "TPC-E against Zipf at the paper's number of pages (figures 5b and 5c)",
        paper_size_rows,
    ),
    Group("tpcc", PAPER, "MultiLog on the recorded TPC-C trace", tpcc_rows),
    Group("tatp", PAPER, "MultiLog on the recorded TATP trace (figures 6 and 7b)", tatp_rows),
    Group("traces", "", "Reading and converting traces", trace_rows),
)


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value / 1e6:.2f} M" if value >= 1e5 else significant(value, 4)


def _cells(found: Row) -> list[str]:
    verdict = {True: "met", False: "**missed**", None: "shown"}[found.met]
    if found.error is not None:
        verdict = f"no result: {found.error}"
    elif not found.steady:
        verdict += ", drifts"
    beside = f"{found.beside_name} {_number(found.beside)}" if found.beside is not None else ""
    if beside and found.reference:
        beside += f" ({(found.beside or 0) / found.reference - 1:+.1%})"
    return [
        found.load,
        "" if found.over_provisioning is None else f"{found.over_provisioning:g}",
        found.what,
        _number(found.measured),
        f"{found.reference_name} {_number(found.reference)}".strip(),
        "" if found.deviation is None else f"{found.deviation:+.2%}",
        found.tolerance,
        verdict,
        beside,
        found.published,
    ]


HEADINGS = (
    "load",
    "alpha",
    "measured",
    "",
    "reference",
    "deviation",
    "tolerance",
    "verdict",
    "beside",
    "published",
)
"""MULTILOG is the source of all that is under "published"."""


def document(results: Sequence[tuple[Group, list[Row]]], command: str) -> str:
    """Give all that was found as a Markdown page."""
    summary = []
    for group, rows in results:
        judged = [found for found in rows if found.met is not None]
        met = sum(found.met is True for found in judged)
        summary.append([group.name, group.title, f"{met} of {len(judged)}"])
    note = (
        f"Seed 1; {PAGES_PER_ERASE_BLOCK} pages an erase block; every device starts "
        "filled. Only figures of speed depend on the machine. Published figures are MULTILOG's "
        "(VLDB 2013). A deviation is measured / reference - 1; “beside” is not judged, and its own "
        "deviation from the reference follows in brackets. “Drifts”: of one of the two "
        "runs the part that counts may not be called steady, by batch means. The speed of the "
        "simulator is `cargo bench -p flashwright-ssd --bench placement_speed`; what is missed "
        "and why is in [placement.md](../placement.md)."
    )
    parts = [markdown_table(("group", "what", "met"), summary)]
    for group, rows in results:
        parts += [
            f"## {group.name}: {group.title}",
            markdown_table(HEADINGS, list(map(_cells, rows))),
        ]
    return page("Validation of placement", command, note, parts)


def run(groups: Sequence[Group], scale: Scale) -> list[tuple[Group, list[Row]]]:
    """Measure groups of checks, one after the other."""
    with tempfile.TemporaryDirectory(prefix="flashwright-validation-") as folder:
        return [(group, group.rows(scale, Path(folder))) for group in groups]


def _make(request: Request[Group]) -> Made:
    results = run(request.parts, QUICK if request.options["quick"] else Scale())
    found = [(group.name, row) for group, rows in results for row in rows]
    return Made(
        document(results, request.command),
        {"rows": [{"group": name, **vars(row)} for name, row in found]},
        all(row.error is None for _, row in found),
        [_outcome(name, row) for name, row in found if row.published or row.met is not None],
    )


def _outcome(group: str, found: Row) -> Outcome:
    spare = "" if found.over_provisioning is None else f", alpha {found.over_provisioning:g}"
    beside = f" vs {found.reference_name}" if found.reference_name else ""
    ours = _number(found.measured)
    if found.reference is not None and found.deviation is not None:
        ours += f"; {found.reference_name} {_number(found.reference)}: {found.deviation:+.1%}"
    return Outcome(
        group,
        f"{found.load}{spare}: {found.what}{beside}",
        "",
        found.published or found.tolerance,
        ours if found.error is None else None,
        agrees=found.met,
        remark=found.error or ("" if found.steady else "not steady at its end"),
    )


SET = Set(
    "validate-placement",
    "placement policies against theory and each other",
    "minutes",
    GROUPS,
    _make,
    options=[
        click.Option(
            ["--quick"],
            is_flag=True,
            help="An eighth of the pages and few of the checks: to see that it works.",
        )
    ],
)
