"""Choices of the cost model, judged by the times that were played."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from experiments.ssb.cells import Load
from experiments.ssb.model import best
from experiments.ssb.played import Playing
from flashwright._text import significant

BAR = 0.05
"""A choice is right if its time is within this share of the best."""


@dataclass(frozen=True)
class Choice:
    """What the model takes for a query on a drive, beside the best."""

    drive: str
    query: str
    taken: tuple[str, int]
    """Plan and streams."""
    predicted: float
    """Seconds, by the model."""
    found: float
    """Seconds of what was taken, played."""
    best: tuple[str, int]
    best_seconds: float

    HEADINGS: ClassVar[tuple[str, ...]] = (
        "drive",
        "query",
        "model takes",
        "predicted",
        "played",
        "best",
        "its time",
        "over the best",
    )

    @property
    def regret(self) -> float:
        """Time of what was taken over the best."""
        return self.found / self.best_seconds

    def cells(self) -> list[str]:
        """Give the row of a table."""
        taken, least = (f"{plan}, {streams}" for plan, streams in (self.taken, self.best))
        times = [f"{significant(one, 3)} s" for one in (self.predicted, self.found)]
        over = f"{self.regret - 1:+.1%}"
        return [
            *(self.drive, self.query, taken, *times, least),
            f"{significant(self.best_seconds, 3)} s",
            over if self.regret <= 1 + BAR else f"**{over}**",
        ]

    def as_dict(self) -> dict[str, Any]:
        """Give it for JSON."""
        return {**self.__dict__, "regret": self.regret}


def choices(
    playing: Playing,
    drives: Sequence[str],
    loads: Sequence[Load],
    streams: Sequence[int],
    times: Callable[[str, Load, int], float],
) -> list[Choice]:
    """Let the model choose for each query on each drive among all plans of it."""
    found = []
    for drive in drives:
        for query in dict.fromkeys(load.query for load in loads):
            own = [load for load in loads if load.query == query]
            counts = [playing.counts(load) for load in own]
            taken, count, predicted = best(playing.costs(drive), counts, streams)
            load = own[counts.index(taken)]
            least, plan, most = min(
                (times(drive, one, many), one.plan.value, many) for one in own for many in streams
            )
            found.append(
                Choice(
                    drive,
                    query,
                    (load.plan.value, count),
                    predicted,
                    times(drive, load, count),
                    (plan, most),
                    least,
                )
            )
    return found
