"""Registry of what can be computed again: sets of figures and of validations, with their parts.

A part is one figure of a paper, or checks that belong together; it can be asked for alone. A set is
what one page holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Generic, TypeVar

import click

from flashwright._core import InputError
from flashwright.pages.page import Figure


@dataclass(frozen=True)
class Part:
    """A figure, or checks that belong together."""

    name: str
    """Name by which it is asked for; no two parts of all sets share one."""
    paper: str
    """The paper that it is of; empty if of none."""
    title: str


@dataclass(frozen=True)
class Outcome:
    """Something that a paper published, and ours."""

    part: str
    """Name of the part that found it."""
    what: str
    where: str
    """Section, figure, table or equation of the paper."""
    published: float | str
    """A number, or words."""
    ours: float | str | None
    """None if it could not be found."""
    unit: str = ""
    agrees: bool | None = None
    """The verdict of the set on words; None of a number, and of what was not decided."""
    tolerance: float | None = None
    """Greatest deviation from a published number that the set allows, as a fraction."""
    basis: str = ""
    """`fitted`, or what it follows from, if ours shows nothing of its own; empty if predicted."""
    remark: str = ""


@dataclass(frozen=True)
class Made:
    """What came of a set."""

    page: str
    """Markdown."""
    figures: Mapping[str, Any]
    """All numbers, for JSON."""
    is_complete: bool = True
    """True if every part has a result."""
    outcomes: Sequence[Outcome] = ()
    """What was published beside ours, if the set has that."""
    drawn: Sequence[Figure] = field(default=(), repr=False)
    """Charts, if the set draws some."""


AnyPart = TypeVar("AnyPart", bound=Part)


@dataclass(frozen=True)
class Request(Generic[AnyPart]):
    """Request for parts of a set."""

    parts: Sequence[AnyPart]
    """Parts that are asked for: at least one, in the order of the set."""
    options: Mapping[str, Any]
    """Values of the set's own options."""
    command: str
    """The command line, for the page."""
    provenance: Mapping[str, Any]
    """Provenance of the result: command, version, inputs, seed."""


@dataclass(frozen=True)
class Set(Generic[AnyPart]):
    """Parts that one page holds, and how they are made."""

    name: str
    title: str
    needs: str
    """Needs besides Flashwright: time, rights, programs."""
    parts: Sequence[AnyPart]
    make: Callable[[Request[AnyPart]], Made] = field(repr=False)
    options: Sequence[click.Option] = ()
    inputs: Callable[[], list[dict[str, Any]]] = field(default=list, repr=False)
    """Files that go in, for the provenance."""


def option(name: str, default: Any, kind: click.ParamType[Any], help_text: str) -> click.Option:
    """Give an option of a set, whose default its help shows."""
    return click.Option([name], type=kind, default=default, show_default=True, help=help_text)


def chosen(sets: Iterable[Set[Part]], names: Sequence[str]) -> list[tuple[Set[Part], list[Part]]]:
    """Give the sets that names ask for, each with the parts of it that are asked for.

    A name is that of a set, that of a part, or a pattern of parts (`scheduler-4.*`). A set's name
    beside some of its parts asks for these alone, as `make SET ARGS=PART` does.

    Raises:
        InputError: a name that nothing has, or a set of which nothing is asked for.
    """
    unknown = set(names)
    found = []
    for one in sets:
        parts = []
        for part in one.parts:
            asked = {name for name in names if fnmatchcase(part.name, name)}
            unknown -= asked
            if asked:
                parts.append(part)
        if one.name in names:
            unknown.discard(one.name)
            parts = parts or list(one.parts)
        if parts:
            found.append((one, parts))
    if unknown:
        raise InputError(
            f"unknown name `{min(unknown)}`; `python -m experiments list` names all sets and parts"
        )
    return found
