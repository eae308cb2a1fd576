"""Cells of figures 8 and 9: a query by a plan in so many streams on a drive."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from experiments.ssb.queries import BY_HASH, BY_INDEX, COMPARED, Plan

SEED = 1


@dataclass(frozen=True)
class Load:
    """A query by a plan."""

    query: str
    plan: Plan

    @property
    def name(self) -> str:
        """Name in results."""
        return f"{self.query} {self.plan.value}"


@dataclass(frozen=True)
class Cell:
    """A load on a drive at a scale factor, in so many streams."""

    scale: float
    drive: str
    load: Load
    streams: int

    @property
    def name(self) -> str:
        """Name in results."""
        return f"{self.scale:g} {self.drive} {self.load.name} {self.streams}"


FIGURE_8 = (
    *(Load(query, Plan.INDEX) for query in BY_INDEX),
    *(Load(query, Plan.HASH) for query in BY_HASH),
)
FIGURE_9 = tuple(Load(query, plan) for query in COMPARED for plan in Plan)
LOADS = tuple(dict.fromkeys((*FIGURE_8, *FIGURE_9)))
"""All loads, each once."""


def cells(scale: float, drive: str, loads: Sequence[Load], streams: Sequence[int]) -> list[Cell]:
    """Give the cells of loads on a drive, of each load the fewest streams first."""
    return [Cell(scale, drive, load, count) for load in loads for count in streams]
