"""The papers' figures, drawn by the prober: `python -m flashwright.reproduce.prober_figures`.

Every experiment runs on a simulated drive of the matching profile, as it would on a real one. The report has each figure with what was
published on it; the page that is printed has the published numbers beside ours. Curves that the papers show as images only are not
compared.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from flashwright._core import InputError
from flashwright._text import significant
from flashwright.cli.output import write_json
from flashwright.reports.page import Fact, Page, Section, Table, render
from flashwright.reproduce.figures import parallelism, scheduler
from flashwright.reproduce.figures.drawing import SEED, Drawing, Probed, Published, Shape
from flashwright.reproduce.pages import command_of, errors_told, made_with, markdown_table
from flashwright.runs import dump_json, provenance

FOLDER = Path("runs") / "figures-prober"
FAR = 0.2
"""Deviation beyond which a number is told as one that falls short: bar 2 of the simulated drive."""


@dataclass(frozen=True)
class Paper:
    """A paper and its figures."""

    name: str
    title: str
    drawings: Callable[[], list[Drawing]]
    drives: Callable[[], list[Probed]]
    remark: str = ""


PAPERS = (
    Paper(
        "SCHEDULER",
        "SCHEDULER figures 4.3-4.32 (`mtron-pro-7500`, `intel-x25e`, `ocz-vertex-ex`)",
        scheduler.drawings,
        scheduler.drives,
        f"Figures {', '.join(scheduler.HARD_DISK)} are of a hard disk, for which there is no profile: they are not drawn.",
    ),
    Paper(
        "PARALLELISM",
        "PARALLELISM figures 2-7 and table 2 (SSD-S: `intel-x25e`, SSD-M: `intel-x25m`)",
        parallelism.drawings,
        parallelism.drives,
        "Figure 6 needs 32 spaces of 1024 MB on a drive of 32 GB (29.8 GiB): they have 976 MiB each here.",
    ),
)


@dataclass(frozen=True)
class Row:
    """A published number or word, and ours."""

    paper: str
    figure: str
    what: str
    where: str
    published: float | str
    ours: float | str
    unit: str = ""
    agrees: bool | None = None
    remark: str = ""

    @property
    def deviation(self) -> float | None:
        """Ours / published - 1 of a number."""
        if isinstance(self.published, str) or isinstance(self.ours, str):
            return None
        return self.ours / self.published - 1

    @property
    def falls_short(self) -> bool:
        """Whether it is far from what was published."""
        return self.agrees is False or (self.deviation is not None and abs(self.deviation) > FAR)


def _number_row(paper: str, figure: str, point: Published) -> Row:
    return Row(paper, figure, point.what, point.where, point.published, point.ours(), point.unit, remark=point.remark)


def _word_row(paper: str, figure: str, shape: Shape) -> Row:
    ours, agrees = shape.ours()
    return Row(paper, figure, shape.what, shape.where, shape.published, ours, agrees=agrees)


def rows_of(paper: Paper, drawings: Sequence[Drawing]) -> list[Row]:
    """Give all that a paper printed beside ours."""
    found: list[Row] = []
    for drawing in drawings:
        found += [_number_row(paper.name, drawing.number, point) for point in drawing.published]
        found += [_word_row(paper.name, drawing.number, shape) for shape in drawing.shapes]
    return found


NUMBERS = ("figure", "where", "what", "published", "ours", "error", "remark")
WORDS = ("figure", "where", "what", "published", "ours", "agrees")


def _amount(value: float | str, unit: str) -> str:
    return f"{significant(float(value), 3)} {unit}".strip()


def _number_cells(row: Row) -> list[str]:
    error = f"{row.deviation:+.1%}" if row.deviation is not None else ""
    return [
        row.figure,
        row.where,
        row.what,
        _amount(row.published, row.unit),
        _amount(row.ours, row.unit),
        f"**{error}**" if row.falls_short else error,
        row.remark,
    ]


def _word_cells(row: Row) -> list[str]:
    agrees = {True: "yes", False: "**no**", None: "cannot be told"}[row.agrees]
    return [row.figure, row.where, row.what, str(row.published), str(row.ours), agrees]


def _numbers(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row.deviation is not None]


def _words(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row.deviation is None]


def summary(rows: Sequence[Row]) -> str:
    """Say how much agrees."""
    numbers, words = _numbers(rows), _words(rows)
    near = sum(not row.falls_short for row in numbers)
    agree = sum(row.agrees is True for row in words)
    return f"{near} of {len(numbers)} numbers within {FAR:.0%}, {agree} of {len(words)} statements"


def _spent(drives: Sequence[Probed]) -> str:
    minutes = sum(drive.device_seconds for drive in drives) / 60
    return f"{minutes:.0f} min, {sum(drive.requests for drive in drives) / 1e6:.1f} million"


def document(found: Sequence[tuple[Paper, Sequence[Drawing], Sequence[Row]]], command: str) -> str:
    """Give all that was found as a Markdown page."""
    overview = [
        [
            paper.name,
            str(len(drawings)),
            summary(rows),
            _spent(paper.drives()),
        ]
        for paper, drawings, rows in found
    ]
    parts = [
        "# The papers' figures, drawn by the prober",
        f"    {command}",
        f"{made_with()} Seed {SEED}. All "
        f"figures are of virtual time: they are the same on any machine. An error is ours / published - 1; beyond {FAR:.0%} it is in bold. "
        "The profiles were fitted to some of these numbers (`docs/bars-drive.md` says which); the prober knows nothing of the profiles. "
        "The report with the figures is made by the command and not kept here. Curves that are only images in the papers have no numbers "
        "to compare.",
        markdown_table(("paper", "figures drawn", "agree", "device time and requests"), overview),
    ]
    for paper, drawings, rows in found:
        parts += [f"## {paper.title}", paper.remark]
        if _numbers(rows):
            parts += ["Numbers:", markdown_table(NUMBERS, list(map(_number_cells, _numbers(rows))))]
        if _words(rows):
            parts += ["Statements:", markdown_table(WORDS, list(map(_word_cells, _words(rows))))]
        drawn = [[drawing.number, drawing.title, f"`{drawing.profile}`"] for drawing in drawings]
        parts += ["Figures drawn:", markdown_table(("figure", "what", "profile"), drawn)]
    return "\n\n".join(part for part in parts if part) + "\n"


def report(found: Sequence[tuple[Paper, Sequence[Drawing], Sequence[Row]]], made_by: dict[str, Any]) -> Page:
    """Give the report with all figures."""
    rows = [row for _, _, rows in found for row in rows]
    sections = []
    for paper, drawings, of_paper in found:
        blocks: list[Any] = [drawing.figure(paper.name) for drawing in drawings]
        blocks.append(_table("Published numbers and ours", NUMBERS, [_number_cells(row) for row in _numbers(of_paper)]))
        blocks.append(_table("Published statements and ours", WORDS, [_word_cells(row) for row in _words(of_paper)]))
        sections.append(Section(paper.name, blocks, paper.remark))
    return Page(
        kind="figures",
        title="The papers' figures, drawn by the prober",
        headline=f"{summary(rows)} of what was published agree.",
        facts=[Fact(paper.name, str(len(drawings)), "figures drawn") for paper, drawings, _ in found],
        sections=sections,
        provenance=made_by,
    )


def _table(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    plain = [[cell.replace("**", "") for cell in row] for row in rows]
    return Table(
        title, [(heading, "prose" if heading in ("what", "remark") else "left") for heading in headings], plain
    )


def _json_row(row: Row) -> dict[str, Any]:
    return {**row.__dict__, "deviation": row.deviation, "falls_short": row.falls_short}


@click.command()
@click.option(
    "--only",
    multiple=True,
    type=click.Choice([paper.name for paper in PAPERS]),
    help="Only this paper; may be given again.",
)
@click.option(
    "--figure", "figures", multiple=True, metavar="NUMBER", help="Only this figure (`4.19`); may be given again."
)
@click.option("--out", type=click.Path(path_type=Path), default=FOLDER, show_default=True, help="Folder of the report.")
@click.option("--json", "json_path", metavar="PATH", help="Write all numbers to PATH; `-` prints only JSON.")
def main(*, only: tuple[str, ...], figures: tuple[str, ...], out: Path, json_path: str | None) -> None:
    """Draw the papers' figures with the prober, and print published numbers beside ours as a Markdown page."""
    command = command_of("prober_figures")
    made_by = provenance(shlex.split(command), [], SEED)
    found: list[tuple[Paper, Sequence[Drawing], Sequence[Row]]] = []
    with errors_told("figures"):
        for paper in PAPERS:
            drawings = [drawing for drawing in paper.drawings() if not figures or drawing.number in figures]
            if drawings and (not only or paper.name in only):
                sys.stderr.write(f"figures: {paper.name} ...\n")
                found.append((paper, drawings, rows_of(paper, drawings)))
        if not found:
            raise InputError(
                f"no figure {', '.join(figures)}: {', '.join(d.number for paper in PAPERS for d in paper.drawings())}"
            )
        rows = [_json_row(row) for _, _, rows in found for row in rows]
        out.mkdir(parents=True, exist_ok=True)
        (out / "report.html").write_text(render(report(found, made_by)), encoding="utf-8")
        (out / "numbers.json").write_text(dump_json({"rows": rows, "provenance": made_by}), encoding="utf-8")
        write_json({"rows": rows, "provenance": made_by}, json_path)
    sys.stderr.write(f"figures: report in {out / 'report.html'}\n")
    if json_path != "-":
        click.echo(document(found, command), nl=False)


if __name__ == "__main__":
    main()
