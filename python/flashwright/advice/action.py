"""What an action of advice is: it looks at a case, and says what could be changed there.

An action is a file in `actions`, and a line in the list there. It gives candidates, each with the
setup that would be; or says what would not help and why, what is not known and what would tell it,
or what it simply knows of this case. What a candidate gains is simulated by `answer`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from flashwright.advice.case import Case
    from flashwright.advice.setup import Setup


class Lost(IntEnum):
    """How much durability a change costs, from none up. It is what `--risk` allows."""

    NONE = 0
    SECONDS = 1
    """Commits of the last seconds may be gone after a crash; the database is whole."""
    ANY = 2
    """More: the database itself may be damaged, or all of it be gone."""


RISKS = {"none": Lost.NONE, "seconds": Lost.SECONDS, "any": Lost.ANY}


@dataclass(frozen=True)
class Loss:
    """Durability that a change costs."""

    level: Lost
    says: str
    """One line: what may be lost, when, and how much."""


NO_LOSS = Loss(Lost.NONE, "none")


@dataclass(frozen=True)
class Candidate:
    """A change that may be worth while, and what would be then."""

    action: str
    """Name of the action."""
    name: str
    """Of the candidate, unlike that of any other: `spare(20%)`."""
    what: str
    """One line that begins with a verb: what to do."""
    changed: Callable[[Setup], Setup]
    """Gives the setup with the change, of any setup that others may have changed before."""
    cost: str
    """What it costs, but for durability: money, space, memory, time of a restart; or `nothing`."""
    loss: Loss
    do: tuple[str, ...]
    """Commands or settings that make it so, a line each."""
    undo: tuple[str, ...]
    """Those that take it back."""
    why: str
    """One sentence: how it works on this load, with the number that shows it."""
    assumes: tuple[str, ...] = ()
    """What has to be true beside what was recorded, each a short clause."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Settings of the database that it stands for: what `--prove` sets."""
    combines: bool = True
    """False if it replaces all others, as another drive does: it is not part of a combination."""


@dataclass(frozen=True)
class Useless:
    """A change that was looked at and is not worth while here."""

    action: str
    what: str
    why: str
    """With the number that says so."""


@dataclass(frozen=True)
class NotKnown:
    """A question that what is there does not answer."""

    action: str
    what: str
    why: str
    how: str
    """Command, or what else would tell it."""


@dataclass(frozen=True)
class Told:
    """An answer that needs no change: a figure, with what it rests on."""

    action: str
    says: str


Finding = Candidate | Useless | NotKnown | Told


class Action(Protocol):
    """An action: its name, the questions it answers, and what it finds."""

    NAME: str
    QUESTIONS: tuple[str, ...]
    """Questions that people ask and it answers, as they ask them."""

    def findings(self, case: Case) -> Iterator[Finding]:
        """Give what could be changed, would not help, is not known."""
