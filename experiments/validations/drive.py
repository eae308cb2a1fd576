"""The simulated drives beside the papers.

Every figure of ours comes from the run, in virtual time; what a paper printed stands in the column
"published" only. Theory, speed and correctness are held by tests and benches: `cargo test -p
flashwright-ssd`, `cargo bench -p flashwright-ssd --bench drive_speed`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from experiments.drives import aging, equations, parallelism, patterns, sustained
from experiments.drives.experiment import Found, Point, measure
from experiments.pages import markdown_table, page
from experiments.registry import Made, Outcome, Part, Request, Set
from flashwright._text import significant


@dataclass(frozen=True)
class Group(Part):
    """Points that belong together."""

    points: Callable[[], list[Point]]
    remark: str


@dataclass(frozen=True)
class Curves(Part):
    """Curves that a paper prints without numbers: ours as a table, not judged."""

    headings: Sequence[str]
    rows: Callable[[], list[list[str]]]
    remark: str


GROUPS = (
    Group(
        "parallelism",
        "PARALLELISM",
        "PARALLELISM on SSD-S (`intel-x25e`)",
        parallelism.points,
        "Within 20 %. The profile's values were set by the points marked as fitted; those marked "
        "otherwise are made of them by construction; only the rest are predictions. Which "
        "mechanisms the model has was decided with all points in view. Two effects of table 2 rest "
        "on delays that were put in for them: a writer alone on `write_hold_us`, a reader beside a "
        "writer on `drain_us` and `turnaround_us`.",
    ),
    Group(
        "sustained",
        "SCHEDULER",
        "SCHEDULER table 2.3: random writes that go on (`intel-x25e`)",
        sustained.points,
        "Not judged: shown beside the data sheet.",
    ),
    Group(
        "patterns",
        "STABLEBUFFER",
        "Write patterns of STABLEBUFFER table 1 (`mtron-sata7035`, `samsung-mcbqe32g`)",
        patterns.points,
        "32 KB, one by one, on a drive filled in order. Within 25 %. All four figures of each "
        "drive were used to choose its values.",
    ),
    Group(
        "equations",
        "SCHEDULER",
        "SCHEDULER eq. 4.1-4.4 (`mtron-pro-7500`)",
        equations.points,
        "Mean response one by one, by sectors of 512 bytes. Within 15 %. The equations were used "
        "to choose the profile's values.",
    ),
    Group(
        "aging",
        "REPLICATION",
        "REPLICATION 5.2: aging (`replication-table-2`)",
        aging.points,
        "Not judged: shown beside the published.",
    ),
)


def _number(value: float) -> str:
    return significant(value, 3)


def _cells(found: Found) -> list[str]:
    point = found.point
    verdict = "" if found.met is None else "met" if found.met else "**missed**"
    return [
        point.where,
        point.what,
        f"{_number(point.published)} {point.unit}".strip(),
        f"{_number(found.ours)} {point.unit}".strip(),
        f"{found.deviation:+.1%}",
        "fitted" if point.fitted else f"from {point.follows}" if point.follows else "",
        verdict,
        point.remark,
    ]


HEADINGS = ("where", "what", "published", "ours", "deviation", "fitted", "verdict", "remark")


def _met(results: Sequence[Found]) -> str:
    judged = [found for found in results if found.met is not None]
    held_out = [found for found in judged if found.point.is_independent]
    text = f"{sum(found.met is True for found in judged)} of {len(judged)}"
    if held_out and len(held_out) < len(judged):
        text += (
            f"; of those that are predictions {sum(found.met is True for found in held_out)} of "
            f"{len(held_out)}"
        )
    return text if judged else "not judged"


def _bathtub() -> list[list[str]]:
    return [[pattern, *map(_number, row)] for pattern, row in equations.bathtub()]


def _belts() -> list[list[str]]:
    return [[name, f"{share:.1%}"] for name, share in equations.belts().items()]


CURVES = (
    Curves(
        "bathtub",
        "SCHEDULER",
        "SCHEDULER figures 4.20 and 4.26 (`mtron-pro-7500`)",
        ("access", *(f"{percent} %" for percent in equations.MIXES)),
        _bathtub,
        "Bandwidth in MB/s of 4 KB requests by the percentage of reads. Published as curves only; "
        "4.3.3 says that sequential mixes are much better at either side and worst at 50 %, and "
        "that random ones are better at either side. The random mix here rises with the share of "
        "reads: it is no bathtub. The dip of sequential access rests on a delay that was "
        "put in for it, `turnaround_us`.",
    ),
    Curves(
        "belts",
        "SCHEDULER",
        "SCHEDULER figure 4.19 (`mtron-pro-7500`)",
        ("response", "share"),
        _belts,
        "Shares of 4 KB random writes by response time. Published (4.3.2): two belts, most of "
        "the lower one below 100 us, the upper one from 10 to 30 ms; how many writes are in each "
        "is not said. The shares are the same without the delay of reading maps that was put "
        "in (`maps_in_memory=0`): the belts are those of a small buffer over merges.",
    ),
)


def document(
    results: Sequence[tuple[Group, list[Found]]], curves: Sequence[Curves], command: str
) -> str:
    """Give all that was found as a Markdown page."""
    note = (
        "Seed 1. All figures are of virtual time: they are the same on any machine. A deviation is "
        "ours / published - 1."
    )
    parts: list[str] = []
    if results:
        met = [[group.name, group.title, _met(found)] for group, found in results]
        parts.append(markdown_table(("group", "what", "met"), met))
    for group, found in results:
        parts += [f"## {group.name}: {group.title}", group.remark]
        parts.append(markdown_table(HEADINGS, list(map(_cells, found))))
    for curve in curves:
        parts += [f"## {curve.name}: {curve.title}", curve.remark]
        parts.append(markdown_table(curve.headings, curve.rows()))
    return page("Validation of the simulated drives", command, note, parts)


def _row(group: Group, found: Found) -> dict[str, Any]:
    point = asdict(found.point)
    del point["ours"]
    own = {"ours": found.ours, "deviation": found.deviation, "met": found.met}
    return {"group": group.name, **point, **own}


def _outcome(group: Group, found: Found) -> Outcome:
    point = found.point
    return Outcome(
        group.name,
        point.what,
        point.where,
        point.published,
        found.ours,
        point.unit,
        found.met,
        point.tolerance,
        "fitted" if point.fitted else f"from {point.follows}" if point.follows else "",
        point.remark,
    )


def _make(request: Request[Group | Curves]) -> Made:
    results = [(one, measure(one.points())) for one in request.parts if isinstance(one, Group)]
    curves = [one for one in request.parts if isinstance(one, Curves)]
    rows = [_row(group, found) for group, all_found in results for found in all_found]
    outcomes = [_outcome(group, found) for group, all_found in results for found in all_found]
    return Made(document(results, curves, request.command), {"rows": rows}, outcomes=outcomes)


PARTS: tuple[Group | Curves, ...] = (*GROUPS, *CURVES)

SET = Set(
    "validate-drive",
    "simulated drives against the papers' figures",
    "a minute",
    PARTS,
    _make,
)
