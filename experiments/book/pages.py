"""Pages of the book: one that counts, and one for each paper; all of them work offline."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup, escape

from experiments.book.claims import Chapter
from experiments.book.kept import Kept
from experiments.book.revisions import fault
from experiments.book.verdicts import Judged, JudgedRow, Library, Verdict, counts
from experiments.pages import writable
from flashwright._core import InputError
from flashwright._text import several, significant, span
from flashwright.pages.page import Fact, Figure, Page, Section, Table, render
from flashwright.runs import dump_json

INDEX = "index.html"
CLAIMS = "claims.json"
MOST_SHOWN = 6
"""Rows of a claim that stand beside it; more are folded, and those that fail stand beside it."""
SHORT = 10
"""Letters of a revision that people read."""
FOOTER = "The same verdicts are in claims.json beside this page."
COLUMNS = (
    ("what", "prose"),
    ("published", "prose"),
    ("ours", "prose"),
    ("verdict", "left"),
    ("made by", "left"),
)
LEGEND = (
    "Held: a number within 20 % of the published one (or the tolerance of its set), a sign, order "
    "or shape as published, in every row. Predicted: the profile of the drive was not fitted to "
    "it. Fitted: it was, so that it shows only that the fit worked. Derived: it follows from "
    "fitted ones. Same order: within a factor of 3.2."
)


def amount(value: float | str | None, unit: str) -> str:
    """Give a number with its unit, or words as they are."""
    if value is None:
        return "no result"
    if isinstance(value, str):
        return value
    return f"{significant(float(value), 3)} {unit}".strip()


def marked(text: str) -> Markup:
    """Give a text in which what stands between backticks is code."""
    parts = text.split("`")
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if place % 2 else escape(part)
        for place, part in enumerate(parts)
    )


def badge(verdict: Verdict) -> Markup:
    """Give a verdict as it is drawn."""
    name = verdict.value.replace(" ", "-")
    return Markup('<span class="verdict {}">{}</span>').format(name, verdict.value)


def revision_cell(kept: Kept) -> Markup:
    """Give the revision of a result, and what is wrong with it."""
    wrong = fault(kept.revision)
    words = Markup("<code>{}</code>").format(kept.revision.removesuffix("-dirty")[:SHORT])
    if not kept.is_current:
        words += escape(", by an older source")
    return words + escape(f", {wrong}") if wrong else words


def _row_cells(row: JudgedRow) -> list[str]:
    outcome = row.outcome
    what = escape(outcome.what)
    for more in (outcome.basis, outcome.remark):
        if more:
            what += Markup(" <small>{}</small>").format(marked(more))
    words = row.words if row.holds is not False else Markup("<strong>{}</strong>").format(row.words)
    return [
        what,
        amount(outcome.published, outcome.unit),
        amount(outcome.ours, outcome.unit),
        words,
        revision_cell(row.kept),
    ]


def _heading(one: Judged) -> Markup:
    """Give the line above the rows of a claim: id, verdict, sentence, and what to know of it."""
    line = Markup('<span id="{}">{}</span> {}. {}').format(
        one.anchor, one.claim.letter, badge(one.verdict), one.claim.says
    )
    notes = [f"judged by {one.claim.kind.value}"]
    if one.basis:
        notes.append(one.basis)
    if one.rows:
        parts = list(dict.fromkeys(row.outcome.part for row in one.rows))
        notes.append(f"python -m experiments {' '.join(parts)}")
    if one.claim.published:
        notes.append(f"published: {one.claim.published}")
    if one.claim.differs:
        notes.append(f"differs: {one.claim.differs}")
    if one.reason:
        label = "missing" if one.verdict is Verdict.NOT_TESTED else "why"
        notes.append(f"{label}: {one.reason}")
    return line + Markup("<small>{}</small>").format(marked("; ".join(notes)))


def _shown(rows: Sequence[JudgedRow]) -> list[JudgedRow]:
    """Give the rows that stand beside the claim: of many, those that fail first."""
    if len(rows) <= MOST_SHOWN:
        return list(rows)
    by_worth = sorted(rows, key=lambda row: {False: 0, None: 1, True: 2}[row.holds])
    return by_worth[:MOST_SHOWN]


def _claims_table(title: str, claims: Sequence[Judged]) -> list[Table]:
    rows: list[list[str]] = []
    folded: list[Table] = []
    for one in claims:
        rows.append([_heading(one)])
        shown = _shown(one.rows)
        rows += map(_row_cells, shown)
        if len(shown) < len(one.rows):
            hold = sum(row.holds is True for row in one.rows)
            said = f"{hold} of {len(one.rows)} rows hold; all of them are below"
            rows.append([said, "", "", "", ""])
            every = list(map(_row_cells, one.rows))
            folded.append(
                Table(f"All rows of claim {one.claim.letter}", COLUMNS, every, folded=True)
            )
        if one.beside:
            beside = [
                [*_row_cells(row)[:3], "not judged", revision_cell(row.kept)] for row in one.beside
            ]
            name = f"Beside claim {one.claim.letter}"
            folded.append(Table(name, COLUMNS, beside, folded=True))
    return [Table(title, COLUMNS, rows), *folded]


def chapter_page(
    chapter: Chapter,
    found: Sequence[Judged],
    library: Library,
    made_by: Mapping[str, Any],
    links: Sequence[tuple[str, str]],
) -> Page:
    """Give the page of a paper: a section for each figure, table and passage."""
    sections = []
    drawn: set[str] = set()
    for topic in chapter.topics:
        claims = [one for one in found if one.topic is topic]
        blocks: list[Figure | Table] = []
        if claims:
            blocks += _claims_table(several(len(claims), "claim"), claims)
        for set_name, pattern in topic.charts:
            for wanted in library.parts(set_name, pattern):
                kept = library.kept(wanted)
                for figure in kept.drawn if kept is not None else ():
                    if figure.id not in drawn:
                        drawn.add(figure.id)
                        blocks.append(figure)
        place = topic.place[0].upper() + topic.place[1:]
        identifier = "".join(one if one.isalnum() else "-" for one in topic.place.lower())
        sections.append(
            Section(f"{place}: {topic.title}", blocks, marked(topic.remark), id=identifier)
        )
    return Page(
        kind="book",
        title=f"{chapter.paper}: {chapter.title}. {chapter.authors}",
        headline=headline(found, f"of {chapter.paper}"),
        facts=_facts(found),
        sections=sections,
        provenance=dict(made_by),
        remarks=[LEGEND],
        links=links,
        footer=FOOTER,
    )


def headline(found: Sequence[Judged], of: str) -> str:
    """Say how many claims hold."""
    number = counts(found)
    held = number[Verdict.HELD]
    text = (
        f"{held} of {len(found)} claims {of} hold here, {number[Verdict.NOT_HELD]} do not, "
        f"{number[Verdict.NOT_TESTED]} are not tested."
    )
    if number[Verdict.NOT_RUN]:
        text += f" Results for {number[Verdict.NOT_RUN]} are not made yet."
    return text


def _facts(found: Sequence[Judged]) -> list[Fact]:
    number = counts(found)
    predicted = sum(one.verdict is Verdict.HELD and one.basis == "predicted" for one in found)
    held = number[Verdict.HELD]
    facts = [
        Fact("held", str(held), f"{predicted} predicted, {held - predicted} fitted or derived"),
        Fact("not held here", str(number[Verdict.NOT_HELD])),
        Fact("not tested", str(number[Verdict.NOT_TESTED]), "each says what is missing"),
    ]
    if number[Verdict.NOT_RUN]:
        facts.append(Fact("not run yet", str(number[Verdict.NOT_RUN]), "each says the command"))
    return facts


def _link(chapter: Chapter, one: Judged) -> Markup:
    return Markup('<a href="{}#{}">{}</a>').format(chapter.file, one.anchor, one.id)


def _why(one: Judged) -> str:
    """Say in a cell what the failing rows say, or why there is none."""
    failing = [row for row in one.rows if row.holds is False]
    if not failing:
        return one.reason
    first = failing[0].outcome
    said = f"published {amount(first.published, first.unit)}, ours {amount(first.ours, first.unit)}"
    more = f" (and {len(failing) - 1} more of {len(one.rows)} rows)" if len(failing) > 1 else ""
    return f"{said}{more}"


def index_page(
    chapters: Mapping[Chapter, Sequence[Judged]],
    results: Sequence[Kept],
    made_by: Mapping[str, Any],
    links: Sequence[tuple[str, str]],
    problems: Sequence[str] = (),
) -> Page:
    """Give the first page: it counts, and links each claim."""
    found = [one for judged in chapters.values() for one in judged]
    overview = []
    for chapter, judged in chapters.items():
        number = counts(judged)
        predicted = sum(one.verdict is Verdict.HELD and one.basis == "predicted" for one in judged)
        name = Markup('<a href="{}">{}</a>').format(chapter.file, chapter.paper)
        numbers = [
            len(judged),
            number[Verdict.HELD],
            predicted,
            *(
                number[verdict]
                for verdict in (Verdict.NOT_HELD, Verdict.NOT_TESTED, Verdict.NOT_RUN)
            ),
        ]
        overview.append([name, *map(str, numbers)])
    headings = (
        "paper",
        "claims",
        "held",
        "of them predicted",
        "not held here",
        "not tested",
        "not run yet",
    )
    tables = [Table("Claims by paper", [(one, "left") for one in headings], overview)]
    sections = [Section("Count", tables, LEGEND)]
    for verdict, title, reason in (
        (Verdict.NOT_HELD, "Not held here", "why"),
        (Verdict.NOT_TESTED, "Not tested", "missing"),
        (Verdict.NOT_RUN, "Not run yet", "command"),
        (Verdict.HELD, "Held", "ours is"),
    ):
        rows: list[list[str]] = []
        for chapter, judged in chapters.items():
            own = [one for one in judged if one.verdict is verdict]
            if own:
                rows.append([chapter.paper])
                rows += [
                    [
                        _link(chapter, one),
                        one.claim.says,
                        marked(one.basis if verdict is Verdict.HELD else _why(one)),
                    ]
                    for one in own
                ]
        if rows:
            columns = (("claim", "prose"), ("says", "prose"), (reason, "prose"))
            table = Table(title, columns, rows, folded=verdict is Verdict.HELD)
            sections.append(Section(title, [table], id=verdict.value.replace(" ", "-")))
    sections.append(Section("Results", [_results_table(results)], id="results"))
    return Page(
        kind="book",
        title="Five papers on flash, and what of them holds here",
        headline=headline(found, "of five papers"),
        facts=_facts(found),
        sections=sections,
        provenance=dict(made_by),
        remarks=problems,
        links=links,
        footer=FOOTER,
    )


def _results_table(results: Sequence[Kept]) -> Table:
    by_set: dict[tuple[str, str, str, bool], list[Kept]] = {}
    for one in results:
        by_set.setdefault((one.set, one.revision, one.made_on, one.is_current), []).append(one)
    rows = [
        [
            f"python -m experiments {name}",
            str(len(parts)),
            revision_cell(parts[0]),
            made_on,
            span(round(sum(one.seconds for one in parts))),
        ]
        for (name, _, made_on, _), parts in sorted(by_set.items())
    ]
    headings = ("command", "parts", "revision", "made on", "time")
    return Table("Results that this book is made of", [(one, "left") for one in headings], rows)


def write(folder: Path, pages: Mapping[str, Page], claims: Iterable[Judged]) -> Path:
    """Write the pages and the verdicts into a folder, and give the first page.

    Raises InputError if that cannot be done.
    """
    where = writable(folder)
    try:
        for name, page in pages.items():
            (where / name).write_text(render(page), encoding="utf-8")
        document = {"claims": [as_json(one) for one in claims]}
        (where / CLAIMS).write_text(dump_json(document), encoding="utf-8")
    except OSError as error:
        raise InputError(f"{folder}: cannot write the book: {error.strerror}") from error
    return where / INDEX


def as_json(one: Judged) -> dict[str, Any]:
    """Give a claim and its verdict for other programs."""
    return {
        "id": one.id,
        "place": one.topic.place,
        "says": one.claim.says,
        "kind": one.claim.kind.value,
        "verdict": one.verdict.value,
        "basis": one.basis,
        "reason": one.reason,
        "differs": one.claim.differs,
        "published": one.claim.published,
        "rows": [
            {
                **vars(row.outcome),
                "holds": row.holds,
                "words": row.words,
                "revision": row.kept.revision,
            }
            for row in one.rows
        ],
    }
