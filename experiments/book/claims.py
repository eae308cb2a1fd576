"""Claims of a paper, and what judges each: the words in which the inventories are written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from experiments.registry import Outcome

Documents = Mapping[str, Mapping[str, Any]]
"""Numbers of kept results, by the name of the part; its charts are under `DRAWN`."""
DRAWN = "drawn"


class Kind(StrEnum):
    """How a claim is judged."""

    NUMBER = "number"
    """Ours is within a tolerance of the published number."""
    SIGN = "sign"
    """Ours differs from no change in the same direction."""
    ORDER = "order"
    """Things stand in the same order."""
    SHAPE = "shape"
    """A curve, or what was found, is of the same form."""


@dataclass(frozen=True)
class Rows:
    """Rows of a set that judge a claim: those whose part and words match, as file names do."""

    set: str
    part: str
    what: str = "*"


@dataclass(frozen=True)
class Reading:
    """Rows that are read from the numbers of kept parts of a set, which gives no rows itself."""

    set: str
    parts: tuple[str, ...]
    read: Callable[[Documents], Sequence[Outcome]]


@dataclass(frozen=True)
class NotTested:
    """Reason why a claim is not tested: it names what is missing."""

    missing: str


Judge = Rows | Reading


@dataclass(frozen=True)
class Claim:
    """Something that a paper concludes from its experiments."""

    letter: str
    """Tells claims of one topic apart."""
    says: str
    kind: Kind
    by: Judge | tuple[Judge, ...] | NotTested
    published: str = ""
    """Published value in words, where no row has it."""
    basis: str = ""
    """Why ours shows nothing of its own, such as `fitted`; empty if the rows tell."""
    differs: str = ""
    """Difference of ours from the paper's set-up."""
    beside: tuple[Judge, ...] = ()
    """Rows that are shown and not judged."""

    @property
    def judges(self) -> tuple[Judge, ...]:
        """All that judges it; nothing if it is not tested."""
        if isinstance(self.by, NotTested):
            return ()
        return self.by if isinstance(self.by, tuple) else (self.by,)


@dataclass(frozen=True)
class Topic:
    """A figure, a table or a passage of a paper, and the claims made with it."""

    place: str
    """Such as `figure 4`, `table 2`, `5.3`."""
    title: str
    claims: tuple[Claim, ...] = ()
    charts: tuple[tuple[str, str], ...] = ()
    """Set, and pattern of its parts, whose charts are shown."""
    remark: str = ""
    """What a reader has to know; of a topic without claims why it has none."""


@dataclass(frozen=True)
class Chapter:
    """A paper."""

    paper: str
    """Its name in code and tables."""
    title: str
    authors: str
    topics: tuple[Topic, ...]

    @property
    def file(self) -> str:
        """File of its page."""
        return f"{self.paper.lower()}.html"

    def claims(self) -> Iterator[tuple[str, Topic, Claim]]:
        """Give all claims with their ids, such as `MULTILOG figure 5a b`."""
        for topic in self.topics:
            for claim in topic.claims:
                yield f"{self.paper} {topic.place} {claim.letter}", topic, claim


def ours(
    part: str,
    what: str,
    where: str,
    published: float | str,
    found: float | str,
    unit: str = "",
    *,
    agrees: bool | None = None,
    tolerance: float | None = None,
    basis: str = "",
    remark: str = "",
) -> Outcome:
    """Give a row that a `Reading` has read."""
    return Outcome(part, what, where, published, found, unit, agrees, tolerance, basis, remark)
