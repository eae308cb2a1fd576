"""The answer of a report in two short sentences, and what is said below them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from flashwright._text import brief

MOST_SENTENCES = 2
MOST_WORDS = 30
_NUMBER = re.compile(r"(?<![\w.\-/`:=?&±])\d[\d\u202f]*(?:\.\d+)?(?![\w/`=]|\.\d|-\w)")
"""A number that stands by itself, and not within a name, a version or a path."""
_PERCENTILE = re.compile(r"99\.9+")
_SENTENCE = re.compile(r"(?<=[.!?]) +(?=[A-Z0-9(])")
_CLAUSE = re.compile(r"[;:] +")
_ASIDE = re.compile(r" \([^()]{16,}\)")
"""Brackets around more than a word or two; short ones, such as "(not steady)", stay."""


@dataclass(frozen=True)
class Answer:
    """A headline as a report shows it."""

    lead: tuple[str, ...]
    """One line, or two of a sentence each."""
    more: tuple[str, ...]
    """The rest of the headline, line by line, in full sentences."""


def answer(headline: str) -> Answer:
    """Take the first sentences, with numbers of three digits; give the rest below.

    A sentence that is too long ends at a colon or semicolon, or loses what is in brackets; what it
    loses stands in full below.
    """
    lead: list[str] = []
    more: list[str] = []
    left = MOST_SENTENCES
    for line in headline.splitlines():
        sentences = [part for whole in _SENTENCE.split(line) for part in _shortened(whole)]
        taken = 0
        while taken < min(left, len(sentences)) and words(sentences[taken]) <= MOST_WORDS:
            taken += 1
        if not lead and not taken:
            # A report without an answer would be worse than one with a long one.
            taken = 1
        left = left - taken if taken == len(sentences) else 0
        if taken:
            lead.append(brief_numbers(" ".join(sentences[:taken])))
        rest = " ".join(sentences[taken:])
        asides = [aside for whole in _SENTENCE.split(line) for aside in _asides(whole)]
        more += [part for part in (rest, *asides) if part]
    return Answer(tuple(lead), tuple(more))


def words(sentence: str) -> int:
    """Count words and numbers; units and signs beside them count, too."""
    return len(sentence.split(" "))


def sentences(line: str) -> list[str]:
    """Take a line apart."""
    return _SENTENCE.split(line)


def _shortened(sentence: str) -> list[str]:
    """Give a sentence in parts that are short enough, if it has places to part it at."""
    if words(sentence) <= MOST_WORDS:
        return [sentence]
    without = _ASIDE.sub("", sentence)
    if words(without) <= MOST_WORDS:
        return [without]
    places = [
        found
        for found in _CLAUSE.finditer(without)
        if words(without[: found.start()]) <= MOST_WORDS and _is_outside(without, found.start())
    ]
    if not places:
        return [without]
    at = places[-1]
    rest = without[at.end() :]
    return [f"{without[: at.start()]}.", *_shortened(rest[0].upper() + rest[1:])]


def _asides(sentence: str) -> list[str]:
    """Give what `_shortened` leaves out of a sentence: the whole of it, if anything."""
    is_cut = words(sentence) > MOST_WORDS and _ASIDE.search(sentence) is not None
    return [sentence] if is_cut else []


def _is_outside(text: str, place: int) -> bool:
    return text.count("(", 0, place) == text.count(")", 0, place)


def brief_numbers(text: str) -> str:
    """Give numbers two or three digits; those in names, versions and paths stay."""

    def shorter(found: re.Match[str]) -> str:
        if _PERCENTILE.fullmatch(found[0]):
            return found[0]
        number = found[0].replace("\u202f", "")
        return found[0] if digits(number) <= 3 else brief(float(number))

    return _NUMBER.sub(shorter, text)


def digits(number: str) -> int:
    """Count the digits that say something: not the zeros before, nor those after a whole number."""
    plain = number.replace("\u202f", "")
    found = plain.replace(".", "").lstrip("0")
    return len(found) if "." in plain else len(found.rstrip("0"))


def long_numbers(text: str) -> list[str]:
    """Give the numbers of a text that have more than three digits."""
    return [
        found[0]
        for found in _NUMBER.finditer(text)
        if digits(found[0]) > 3 and not _PERCENTILE.fullmatch(found[0])
    ]
