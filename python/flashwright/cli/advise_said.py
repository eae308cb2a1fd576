"""What `advise` prints: first how things stand, then what to change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from flashwright._text import significant
from flashwright.advice import words
from flashwright.advice.answer import Answer
from flashwright.advice.gain import beside, gain_said
from flashwright.terminal import print_table, say

if TYPE_CHECKING:
    from flashwright.advice.prove import ProvenRow

MOST_USELESS = 8
"""Most lines of what would not help: the report has all."""


def say_first(answer: Answer) -> None:
    """Print how things stand."""
    print_table([("", "left"), ("", "left")], words.as_things_stand(answer), "As things stand")


def say_answer(answer: Answer) -> None:
    """Print the rest of the answer."""
    _heading("What to change")
    above, below = words.folded(answer.changes)
    if not above:
        say("Nothing that was tried gains 3 % or more for this goal.")
    for number, one in enumerate(above, 1):
        for line in words.change_lines(answer, one, number):
            say(line)
        say()
    if answer.combination is not None:
        gained = gain_said(answer.combination.gain, answer.case.goal)
        more = beside(answer.combination.gain, answer.case.goal)
        what = answer.combination.candidate.what
        what = what[:1].upper() + what[1:]
        say(f"{what}, together: {gained}{f' ({more})' if more else ''}, simulated as a whole.")
    if below:
        say(f"{len(below)} more gain less: see the report.")
    if answer.risky:
        _heading("Only with more risk (--risk)")
        for one in answer.risky:
            gained = gain_said(one.gain, answer.case.goal)
            say(f"- {one.candidate.what}: {gained}. Lost: {one.candidate.loss.says}.")
    if answer.others:
        _heading("Other drives")
        columns = [("drive", "left"), ("gain", "left"), ("it lives", "left")]
        print_table(columns, words.other_rows(answer))
    _list("What would not help here", [f"{one.what}: {one.why}" for one in answer.useless])
    _list("Not known", [f"{one.what}: {one.why}. {one.how}" for one in answer.not_known])
    _list("Good to know", [one.says for one in answer.told])
    _list("What it rests on", words.rests_on(answer))
    say()
    say(words.headline(answer))


def say_proven(rows: Sequence[ProvenRow]) -> None:
    """Print what was predicted beside what was measured."""
    columns = [("change", "left"), ("figure", "left"), ("predicted", "right"), ("measured", "left")]
    shown = [
        (
            row.change,
            row.figure,
            "–" if row.predicted is None else f"x {significant(row.predicted)}",  # noqa: RUF001
            _measured(row),
        )
        for row in rows
    ]
    print_table(columns, shown, "Proven: multiples of the run without the change")
    for line in words.unpredicted({row.change: row.unknown for row in rows if row.unknown}):
        say(line)


def _measured(row: ProvenRow) -> str:
    if row.refused is not None:
        return f"not run: {row.refused}"
    if row.measured is None:
        return "not known"
    found = row.measured
    said = f"x {significant(found.value)}"
    if found.low is None or found.high is None:
        return said
    return f"{said} ({significant(found.low)} to {significant(found.high)})"


def _heading(text: str) -> None:
    say()
    say(text)


def _list(heading: str, lines: Sequence[str]) -> None:
    if not lines:
        return
    _heading(heading)
    for line in lines[:MOST_USELESS]:
        say(f"- {line}")
    if len(lines) > MOST_USELESS:
        say(f"- {len(lines) - MOST_USELESS} more: see the report")
