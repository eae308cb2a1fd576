"""The bars of the simulated drive against the papers, measured.

`python -m flashwright.reproduce.drive_bars`. Every figure of ours comes from this run, in virtual
time; what a paper printed stands in the column "published" only. The bars of theory, speed and
correctness are tests and benches: `cargo test -p flashwright-ssd`, `cargo bench -p flashwright-ssd
--bench drive_speed`.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import click

from flashwright._text import significant
from flashwright.cli.output import write_json
from flashwright.reproduce.drives import aging, equations, parallelism, patterns
from flashwright.reproduce.drives.experiment import Found, Point, measure
from flashwright.reproduce.pages import command_of, errors_told, made_with, markdown_table
from flashwright.runs import provenance


@dataclass(frozen=True)
class Group:
    """Points that belong together."""

    name: str
    bar: str
    title: str
    points: Callable[[], list[Point]]
    remark: str = ""


GROUPS = (
    Group(
        "parallelism",
        "2",
        "PARALLELISM on SSD-S (`intel-x25e`)",
        parallelism.points,
        "Within 20 %. The profile's values were set by the points marked as fitted; the others "
        "follow. Which mechanisms the model has was decided with all points in view.",
    ),
    Group(
        "patterns",
        "3",
        "Write patterns of STABLEBUFFER table 1 (`mtron-sata7035`, `samsung-mcbqe32g`)",
        patterns.points,
        "32 KB, one by one, on a drive filled in order. Within 25 %. All four figures of each "
        "drive were used to choose its values.",
    ),
    Group(
        "equations",
        "3",
        "SCHEDULER eq. 4.1-4.4 (`mtron-pro-7500`)",
        equations.points,
        "Mean response one by one, by sectors of 512 bytes. Within 15 %. The equations were used "
        "to choose the profile's values.",
    ),
    Group(
        "aging",
        "4",
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
        "fitted" if point.fitted else "",
        verdict,
        point.remark,
    ]


HEADINGS = ("where", "what", "published", "ours", "deviation", "fitted", "verdict", "remark")


def _met(results: Sequence[Found]) -> str:
    judged = [found for found in results if found.met is not None]
    held_out = [found for found in judged if not found.point.fitted]
    text = f"{sum(found.met is True for found in judged)} of {len(judged)}"
    if held_out and len(held_out) < len(judged):
        text += (
            f"; of those not fitted {sum(found.met is True for found in held_out)} of "
            f"{len(held_out)}"
        )
    return text if judged else "not judged"


def _shapes() -> list[str]:
    """Give the figures that are shapes: the bathtub and the two belts."""
    tub = [[pattern, *(_number(value) for value in row)] for pattern, row in equations.bathtub()]
    belts = [[name, f"{share:.1%}"] for name, share in equations.belts().items()]
    return [
        "## bathtub: SCHEDULER figures 4.20 and 4.26 (`mtron-pro-7500`, bar 3)",
        "Bandwidth in MB/s of 4 KB requests by the percentage of reads. Published as curves only: "
        "lowest in the middle for sequential access, and about that of writes alone until nearly "
        "all are reads for random access.",
        markdown_table(("access", *(f"{percent} %" for percent in equations.MIXES)), tub),
        "## belts: SCHEDULER figure 4.19 (`mtron-pro-7500`, bar 3)",
        "Shares of 4 KB random writes by response time. Published: most below 100 us, the others "
        "in 10 ... 30 ms.",
        markdown_table(("response", "share"), belts),
    ]


def document(
    results: Sequence[tuple[Group, list[Found]]], shapes: Sequence[str], command: str
) -> str:
    """Give all that was found as a Markdown page."""
    parts = [
        "# Bars of the simulated drive, measured",
        f"    {command}",
        f"{made_with()} Seed 1. All figures are of virtual time: they are the same on any machine. "
        "A deviation is ours / published - 1.",
        markdown_table(
            ("bar", "group", "what", "met"),
            [[g.bar, g.name, g.title, _met(found)] for g, found in results],
        ),
    ]
    for group, found in results:
        parts += [f"## {group.name}: {group.title} (bar {group.bar})", group.remark]
        parts.append(markdown_table(HEADINGS, list(map(_cells, found))))
    return "\n\n".join([*parts, *shapes]) + "\n"


def _rows(results: Sequence[tuple[Group, list[Found]]]) -> list[dict[str, Any]]:
    def row(group: Group, found: Found) -> dict[str, Any]:
        point = asdict(found.point)
        del point["ours"]
        return {
            "group": group.name,
            "bar": group.bar,
            **point,
            "ours": found.ours,
            "deviation": found.deviation,
            "met": found.met,
        }

    return [row(group, found) for group, all_found in results for found in all_found]


@click.command()
@click.option(
    "--only",
    multiple=True,
    type=click.Choice([group.name for group in GROUPS]),
    help="Only this group; may be given again.",
)
@click.option(
    "--json", "json_path", metavar="PATH", help="Write all figures to PATH; `-` prints only JSON."
)
def main(*, only: tuple[str, ...], json_path: str | None) -> None:
    """Measure the bars of the simulated drive and print them as a Markdown page."""
    command = command_of("drive_bars")
    groups = [group for group in GROUPS if not only or group.name in only]
    with errors_told("bars"):
        results = [(group, measure(group.points())) for group in groups]
        shapes = _shapes() if not only or "equations" in only else []
        write_json(
            {"rows": _rows(results), "provenance": provenance(shlex.split(command), [], 1)},
            json_path,
        )
    if json_path != "-":
        click.echo(document(results, shapes, command), nl=False)


if __name__ == "__main__":
    main()
