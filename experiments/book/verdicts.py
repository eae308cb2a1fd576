"""Verdicts on claims: kept rows beside what was published."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any

from experiments.book.claims import (
    DRAWN,
    Chapter,
    Claim,
    Judge,
    Kind,
    NotTested,
    Reading,
    Rows,
    Topic,
)
from experiments.book.kept import Kept
from experiments.book.running import Shelf, Wanted
from experiments.figures.papers import FAR
from experiments.registry import Outcome, Set

STEPS = (0.01, 0.05, 0.1, 0.2, 0.25)
"""Deviations that a verdict names."""
ORDER = 10**0.5
"""Greatest factor between two numbers of the same order of magnitude."""
RATIOS = frozenset({"x", "times"})
"""Units of ratios: 1 is no change."""


class Verdict(StrEnum):
    """What came of a claim."""

    HELD = "held"
    NOT_HELD = "not held here"
    NOT_TESTED = "not tested"
    NOT_RUN = "not run yet"


@dataclass(frozen=True)
class JudgedRow:
    """A row of a kept result and its verdict."""

    outcome: Outcome
    kept: Kept
    holds: bool | None
    """None if the result does not decide."""
    words: str


@dataclass(frozen=True)
class Judged:
    """A claim and what came of it."""

    id: str
    topic: Topic
    claim: Claim
    verdict: Verdict
    rows: tuple[JudgedRow, ...]
    beside: tuple[JudgedRow, ...]
    reason: str
    """Why it is not tested or not run; empty otherwise."""
    basis: str
    """`predicted`, `fitted`, ...; empty of a claim without rows."""

    @property
    def anchor(self) -> str:
        """Name of its place in the page of the chapter."""
        return "".join(letter if letter.isalnum() else "-" for letter in self.id.lower())

    @property
    def revisions(self) -> list[str]:
        """Revisions that its rows were made by."""
        return list(dict.fromkeys(row.kept.revision for row in self.rows))


class Library:
    """Sets by name, and the kept results of their parts."""

    def __init__(self, sets: Sequence[Set[Any]], shelf: Shelf) -> None:
        self._sets = {one.name: one for one in sets}
        self._shelf = shelf
        self._found: dict[str, Kept | None] = {}

    def wanted(self, judge: Judge) -> list[Wanted]:
        """Give the parts that a judge needs. Raises KeyError if there is no such set or part."""
        one = self._sets[judge.set]
        patterns = (judge.part,) if isinstance(judge, Rows) else judge.parts
        found = [
            Wanted(one, part)
            for part in one.parts
            if any(fnmatchcase(part.name, pattern) for pattern in patterns)
        ]
        if not found:
            raise KeyError(f"{judge.set}: no part `{' '.join(patterns)}`")
        return found

    def parts(self, set_name: str, pattern: str) -> list[Wanted]:
        """Give the parts of a set that a pattern matches."""
        return self.wanted(Rows(set_name, pattern))

    def kept(self, wanted: Wanted) -> Kept | None:
        """Give what is kept of a part, if anything."""
        if wanted.name not in self._found:
            self._found[wanted.name] = self._shelf.find(wanted)
        return self._found[wanted.name]


def all_wanted(chapters: Iterable[Chapter], library: Library) -> list[Wanted]:
    """Give each part that a claim or a chart of the book needs, once."""
    found: dict[str, Wanted] = {}
    for chapter in chapters:
        for topic in chapter.topics:
            needs = [
                one for set_name, name in topic.charts for one in library.parts(set_name, name)
            ]
            for claim in topic.claims:
                for judge in (*claim.judges, *claim.beside):
                    needs += library.wanted(judge)
            found |= {one.name: one for one in needs}
    return list(found.values())


def judged(chapter: Chapter, library: Library) -> Iterator[Judged]:
    """Judge all claims of a chapter.

    Raises LookupError if a result of today's source has none of the rows that a claim names.
    """
    for name, topic, claim in chapter.claims():
        yield _judge(name, topic, claim, library)


def _judge(name: str, topic: Topic, claim: Claim, library: Library) -> Judged:
    def without(verdict: Verdict, reason: str) -> Judged:
        return Judged(name, topic, claim, verdict, (), (), reason, "")

    if isinstance(claim.by, NotTested):
        return without(Verdict.NOT_TESTED, claim.by.missing)
    needed = [one for judge in claim.judges for one in library.wanted(judge)]
    missing = [one for one in needed if library.kept(one) is None]
    if missing:
        names = " ".join(dict.fromkeys(one.name for one in missing))
        command = f"python -m experiments book runs {names}"
        if not all(one.is_run for one in missing):
            needs = missing[0].set.needs
            command = f"python -m experiments {names} makes it (needs: {needs})"
        return without(Verdict.NOT_RUN, f"no result is kept; {command}")
    lacks = ""
    rows: tuple[JudgedRow, ...] = ()
    try:
        rows = _rows(claim, claim.judges, library)
    except LookupError as error:
        lacks = str(error)
    if not rows:
        if all((kept := library.kept(one)) is not None and kept.is_current for one in needed):
            raise LookupError(f"{name}: no row matches {lacks}".rstrip())
        return without(Verdict.NOT_RUN, "the kept result is of an older source, without these rows")
    beside = _rows(claim, claim.beside, library)
    verdict, reason = _verdict(rows)
    return Judged(name, topic, claim, verdict, rows, beside, reason, _basis(claim, rows))


def _verdict(rows: Sequence[JudgedRow]) -> tuple[Verdict, str]:
    failed = sum(row.holds is False for row in rows)
    if failed:
        return Verdict.NOT_HELD, ""
    if any(row.holds is None for row in rows):
        return Verdict.NOT_TESTED, "our measurement does not decide: see its row"
    return Verdict.HELD, ""


def _basis(claim: Claim, rows: Sequence[JudgedRow]) -> str:
    """Give the weakest ground of all rows: fitted, then derived, then predicted."""
    if claim.basis:
        return claim.basis
    grounds = [row.outcome.basis for row in rows]
    if "fitted" in grounds:
        return "fitted" if all(grounds) else "fitted in part"
    return next((f"derived {ground}" for ground in grounds if ground), "predicted")


def _rows(claim: Claim, judges: Iterable[Judge], library: Library) -> tuple[JudgedRow, ...]:
    found = []
    for judge in judges:
        wanted = library.wanted(judge)
        kept = {one.name: result for one in wanted if (result := library.kept(one)) is not None}
        for result, outcome in _outcomes(judge, kept, complete=len(kept) == len(wanted)):
            holds, words = row_verdict(claim.kind, outcome)
            found.append(JudgedRow(outcome, result, holds, words))
    return tuple(found)


def _outcomes(
    judge: Judge, kept: Mapping[str, Kept], *, complete: bool
) -> Sequence[tuple[Kept, Outcome]]:
    """Give the rows that judge, each with the result that it is of."""
    if isinstance(judge, Reading):
        if not complete:
            return ()
        read = judge.read({name: {**one.figures, DRAWN: one.drawn} for name, one in kept.items()})
        return [(kept[one.part], one) for one in read]
    return [
        (result, one)
        for result in kept.values()
        for one in result.outcomes
        if fnmatchcase(one.what, judge.what)
    ]


def row_verdict(kind: Kind, row: Outcome) -> tuple[bool | None, str]:
    """Tell whether a row holds as a claim of this kind, and say it in words."""
    if row.ours is None:
        return None, f"no result: {row.remark}"
    if isinstance(row.published, str) or isinstance(row.ours, str):
        words = {True: "agrees", False: "does not agree", None: "not decided"}
        return row.agrees, words[row.agrees]
    if kind is Kind.SIGN:
        same_sign = has_same_sign(row)
        return same_sign, "same sign" if same_sign else "other sign"
    deviation = row.ours / row.published - 1 if row.published else float("inf")
    bar = FAR if row.tolerance is None else row.tolerance
    if abs(deviation) <= bar:
        step = next((step for step in STEPS if abs(deviation) <= step), bar)
        return True, f"within {step:.0%}"
    return False, f"{deviation:+.0%}: {_how_far(row, deviation)}"


def _how_far(row: Outcome, deviation: float) -> str:
    """Say what a number beyond its tolerance still has in common with the published one."""
    if not has_same_sign(row):
        return "other sign"
    if 1 / ORDER < deviation + 1 < ORDER:
        return "same order"
    is_change = row.unit in RATIOS or row.unit == "%"
    return "same sign, another order" if is_change else "another order"


def has_same_sign(row: Outcome) -> bool:
    """Tell whether ours and the published number lie on the same side of no change.

    Raises TypeError if one of them is in words.
    """
    if isinstance(row.published, str) or not isinstance(row.ours, (int, float)):
        raise TypeError(f"{row.what}: no numbers")
    none = 1.0 if row.unit in RATIOS else 0.0
    return (row.published - none) * (row.ours - none) > 0


def counts(found: Iterable[Judged]) -> dict[Verdict, int]:
    """Count claims by verdict."""
    verdicts = [one.verdict for one in found]
    return {verdict: verdicts.count(verdict) for verdict in Verdict}


def unclaimed(
    chapters: Sequence[Chapter], library: Library, wanted: Sequence[Wanted]
) -> list[tuple[Kept, Outcome]]:
    """Give rows of the papers that no claim refers to: an inventory should name them."""
    named: set[tuple[str, str]] = set()
    for chapter in chapters:
        for one in judged(chapter, library):
            named |= {(row.outcome.part, row.outcome.what) for row in (*one.rows, *one.beside)}
    return [
        (kept, row)
        for one in wanted
        if (kept := library.kept(one)) is not None
        for row in kept.outcomes
        if (row.part, row.what) not in named
    ]
