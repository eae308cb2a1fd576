"""The validation of placement: its groups of checks, and the page of what was found."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import click
import numpy as np

from flashwright import data, sources
from flashwright._text import significant
from flashwright.recording.parts import LOGS, write_without
from flashwright.reproduce.pages import made_with, markdown_table
from flashwright.reproduce.registry import Made, Part, Request, Set
from flashwright.reproduce.validations.placement.checks import (
    PAGES_PER_ERASE_BLOCK,
    QUICK,
    Check,
    Load,
    Scale,
    bound_checks,
    multi_log_uniform_checks,
    random_checks,
    skewed_checks,
    tpcc_checks,
    uniform_checks,
)
from flashwright.reproduce.validations.placement.judged import Row, measure
from flashwright.reproduce.validations.placement.traces import trace_rows

PAPER = "MULTILOG"


@dataclass(frozen=True)
class Group(Part):
    """Checks that are measured together."""

    rows: Callable[[Scale, Path], list[Row]] = field(repr=False)


def tpcc_loads(scale: Scale, folder: Path) -> list[Load]:
    """Give the recorded trace and its data pages alone, by page size and number of passes."""
    data_pages = folder / "tpcc_data_pages.parquet"
    write_without(data.TPCC, LOGS, data_pages)
    return [
        Load(f"TPC-C {part}, {size // 1024} KiB pages, played {repeat} x", str(path), size, repeat)
        for part, path in scale.pick(
            (("whole", data.TPCC_REQUESTS), ("data pages", data_pages)), ("data pages", data_pages)
        )
        for size in scale.pick((4096, 8192), 8192)
        for repeat in scale.pick((1, 4), 1)
    ]


def skew_rows(load: Load) -> list[Row]:
    """Tell which share of the updates the hottest pages take.

    Shown beside what MULTILOG says of its loads, and not judged.
    """
    reading = sources.Reading(page_size=load.page_size)
    weights = np.sort(sources.load(load.source, reading).update_weights())[::-1]
    published = {0.1: "6.3, TATP: 80 % to about 10 %", 0.2: "6.2, Zipf 1: 80 % to 20 %"}
    return [
        Row(
            load.name.partition(", played")[0],
            None,
            f"share of updates to the hottest {part:.0%} of the written pages",
            float(weights[: round(part * len(weights))].sum() / weights.sum()),
            published=published[part],
        )
        for part in (0.1, 0.2)
    ]


def tpcc_rows(scale: Scale, folder: Path) -> list[Row]:
    """Measure the recorded trace."""
    loads = tpcc_loads(scale, folder)
    skew = [found for load in loads if load.repeat == 1 for found in skew_rows(load)]
    return skew + measure(
        list(tpcc_checks(loads, scale.pick((0.1, 0.2, 0.3, 0.5), 0.2))), "recorded TPC-C trace"
    )


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
        _of(random_checks, "random placement"),
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
        "skewed",
        PAPER,
        "MultiLog against every policy that MULTILOG compares",
        _of(skewed_checks, "skewed loads"),
    ),
    Group("tpcc", PAPER, "MultiLog on the recorded TPC-C trace", tpcc_rows),
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
    parts = [
        "# Validation of placement",
        f"    {command}",
        f"{made_with()} Seed 1; {PAGES_PER_ERASE_BLOCK} pages an erase block; every device starts "
        "filled. Only figures of speed depend on the machine. Published figures are MULTILOG's "
        "(VLDB 2013). A deviation is measured / reference - 1; “beside” is not judged, and its own "
        "deviation from the reference follows in brackets. “Drifts”: of one of the two "
        "runs the part that counts may not be called steady, by batch means. The speed of the "
        "simulator is `cargo bench -p flashwright-ssd --bench placement_speed`; what is missed "
        "and why is in [placement.md](../placement.md).",
        markdown_table(("group", "what", "met"), summary),
    ]
    for group, rows in results:
        parts += [
            f"## {group.name}: {group.title}",
            markdown_table(HEADINGS, list(map(_cells, rows))),
        ]
    return "\n\n".join(parts) + "\n"


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
