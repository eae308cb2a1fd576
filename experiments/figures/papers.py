"""Figures of papers: what was published beside ours.

As a Markdown page, a report with all charts, JSON, and outcomes for whoever reads all sets.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from experiments.figures.drawing import SEED, Drawing, Published, Shape
from experiments.pages import OUT, markdown_table, page, writable, write_report
from experiments.registry import Made, Outcome, Part, Request, Set
from flashwright._text import significant
from flashwright.pages.page import Fact, Page, Section, Table

FAR = 0.2
"""Deviation beyond which a number falls short, as in the validation of the simulated drives."""


class Spent(Protocol):
    """Runs that figures were drawn from: their device time and requests."""

    @property
    def device_seconds(self) -> float:
        """Device time, in seconds."""

    @property
    def requests(self) -> int:
        """Requests."""


@dataclass(frozen=True)
class Paper:
    """A paper and its figures."""

    name: str
    title: str
    drawings: Callable[[], list[Drawing]]
    spent: Callable[[], Sequence[Spent]]
    """Runs that the figures were drawn from."""
    remark: str = ""


@dataclass(frozen=True)
class PaperSet:
    """A set of papers whose figures are drawn together."""

    name: str
    """Name of the set."""
    title: str
    papers: Sequence[Paper]
    introduction: str
    """Text at the top of the page."""
    needs: str
    """See `Set`."""
    inputs: Callable[[], list[dict[str, Any]]] = list
    """Files that went in, for the provenance."""


@dataclass(frozen=True)
class Figured(Part):
    """A figure of a paper, and how it is drawn."""

    of: Paper
    drawing: Drawing


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
        """True if it is far from what was published."""
        return self.agrees is False or (self.deviation is not None and abs(self.deviation) > FAR)


def _number_row(paper: str, figure: str, point: Published) -> Row:
    return Row(
        paper,
        figure,
        point.what,
        point.where,
        point.published,
        point.ours(),
        point.unit,
        remark=point.remark,
    )


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


Found = tuple[Paper, Sequence[Drawing], Sequence[Row]]

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
    agrees = {True: "yes", False: "**no**", None: "is not known"}[row.agrees]
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


def _spent(drives: Sequence[Spent]) -> str:
    minutes = sum(drive.device_seconds for drive in drives) / 60
    return f"{minutes:.0f} min, {sum(drive.requests for drive in drives) / 1e6:.1f} million"


def document(group: PaperSet, found: Sequence[Found], command: str) -> str:
    """Give all that was found as a Markdown page."""
    overview = [
        [paper.name, str(len(drawings)), summary(rows), _spent(paper.spent())]
        for paper, drawings, rows in found
    ]
    parts = [
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
    return page(group.title, command, f"Seed {SEED}. {group.introduction}", parts)


def report(group: PaperSet, found: Sequence[Found], made_by: dict[str, Any]) -> Page:
    """Give the report with all figures."""
    rows = [row for _, _, rows in found for row in rows]
    sections = []
    for paper, drawings, of_paper in found:
        blocks: list[Any] = [drawing.figure(paper.name) for drawing in drawings]
        blocks.append(
            _table(
                "Published numbers and ours",
                NUMBERS,
                [_number_cells(row) for row in _numbers(of_paper)],
            )
        )
        blocks.append(
            _table(
                "Published statements and ours",
                WORDS,
                [_word_cells(row) for row in _words(of_paper)],
            )
        )
        sections.append(Section(paper.name, blocks, paper.remark))
    return Page(
        kind="figures",
        title=group.title,
        headline=f"{summary(rows)} of what was published agree.",
        facts=[
            Fact(paper.name, str(len(drawings)), "figures drawn") for paper, drawings, _ in found
        ],
        sections=sections,
        provenance=made_by,
    )


def _table(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    plain = [[cell.replace("**", "") for cell in row] for row in rows]
    return Table(
        title,
        [(heading, "prose" if heading in ("what", "remark") else "left") for heading in headings],
        plain,
    )


def _json_row(row: Row) -> dict[str, Any]:
    return {**row.__dict__, "deviation": row.deviation, "falls_short": row.falls_short}


def registered(group: PaperSet) -> Set[Figured]:
    """Give the figures of papers as a set."""
    parts = [
        Figured(_part_name(paper.name, drawing.number), paper.name, drawing.title, paper, drawing)
        for paper in group.papers
        for drawing in paper.drawings()
    ]
    return Set(
        group.name, group.title, group.needs, parts, partial(_make, group), [OUT], group.inputs
    )


def _part_name(paper: str, figure: str) -> str:
    return re.sub(r"[^a-z0-9.]+", "-", f"{paper}-{figure}".lower()).strip("-")


def _make(group: PaperSet, request: Request[Figured]) -> Made:
    out = writable(request.options["out"] / group.name)
    found: list[Found] = []
    for paper in group.papers:
        drawings = [part.drawing for part in request.parts if part.of is paper]
        if drawings:
            sys.stderr.write(f"{group.name}: {paper.name} ...\n")
            found.append((paper, drawings, rows_of(paper, drawings)))
    made_by = dict(request.provenance)
    drawn = report(group, found, made_by)
    rows = [_json_row(row) for _, _, rows in found for row in rows]
    write_report(out, drawn, {"rows": rows, "provenance": made_by})
    return Made(
        document(group, found, request.command),
        {"rows": rows},
        outcomes=[outcome(row) for _, _, rows in found for row in rows],
        drawn=drawn.figures(),
    )


def outcome(row: Row) -> Outcome:
    """Give a row as an outcome of the part that draws its figure."""
    return Outcome(
        _part_name(row.paper, row.figure),
        row.what,
        row.where,
        row.published,
        row.ours,
        row.unit,
        row.agrees,
        remark=row.remark,
    )
