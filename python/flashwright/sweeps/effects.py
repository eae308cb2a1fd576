"""What each axis of a sweep does to its goal: best points, effects, pairs, indices."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flashwright.engine.task import Outcome
from flashwright.intervals import t_975
from flashwright.sweeps import design
from flashwright.sweeps.file import GRID, Range
from flashwright.sweeps.plan import Plan

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Numbers = npt.NDArray[np.float64]

BEST = 10
"""Points that are named as the best ones."""
MOST_BINS = 8
"""Parts of a continuous axis."""
PAIR_BINS = 4
"""The same where two axes cross."""
MOST_CELLS = 30
"""Most levels of an axis of a heat map."""


def interval(values: Sequence[float]) -> tuple[float, float | None]:
    """Give the mean and half of its 95 % interval by Student's t; None of a single value."""
    number = len(values)
    mean = math.fsum(values) / number
    if number < 2:
        return mean, None
    spread = math.sqrt(math.fsum((one - mean) ** 2 for one in values) / (number - 1))
    return mean, t_975(number - 1) * spread / math.sqrt(number)


@dataclass(frozen=True)
class Measured:
    """A point of the design, and its goal with each seed."""

    point: Mapping[str, Any]
    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        """The mean over replications."""
        return math.fsum(self.values) / len(self.values)


def measured(plan: Plan, outcomes: Mapping[str, Outcome]) -> list[Measured | None]:
    """Give each point in the order of the design; None where no job of it has the goal."""
    found: list[Measured | None] = []
    each = plan.file.document.replications
    for first in range(0, len(plan.jobs), each):
        jobs = plan.jobs[first : first + each]
        ended = (outcomes.get(job.task.key) for job in jobs)
        goals = [one.figures.get(plan.goal or "") for one in ended if one and one.ended == "done"]
        values = tuple(float(one) for one in goals if isinstance(one, int | float))
        found.append(Measured(jobs[0].point, values) if values else None)
    return found


def document(plan: Plan, outcomes: Mapping[str, Outcome]) -> dict[str, Any]:
    """Give all that is found of the goal, as JSON holds it."""
    if plan.goal is None:
        return {"best": [], "points": 0, "effects": [], "interactions": [], "heat_map": None}
    everything = measured(plan, outcomes)
    points = _distinct(everything)
    axes = [_Axis(plan, name, points) for name in plan.file.axes] if points else []
    goal = [one.mean for one in points]
    effects = [axis.effect(goal) for axis in axes]
    pairs = _interactions(plan, points, goal) if len(points) > 1 else []
    return {
        "best": [_said(one) for one in ranked(points, plan.better)[:BEST]],
        "points": len(points),
        "effects": sorted(effects, key=lambda one: -(one["share"] or 0)),
        "interactions": sorted(pairs, key=lambda one: -one["share"]),
        "heat_map": _heat_map(plan, points, effects, pairs),
        "indices": _indices(plan, everything),
    }


def _distinct(found: Sequence[Measured | None]) -> list[Measured]:
    """Give the points that have a goal, each once."""
    kept: dict[str, Measured] = {}
    for one in found:
        if one is not None:
            kept.setdefault(repr(sorted(one.point.items())), one)
    return list(kept.values())


def ranked(points: Sequence[Measured], better: str) -> list[Measured]:
    """Give points from the best one on."""
    return sorted(points, key=lambda one: one.mean if better == "less" else -one.mean)


def _said(one: Measured) -> dict[str, Any]:
    mean, half = interval(one.values)
    return {"point": dict(one.point), "mean": mean, "half": half, "seeds": len(one.values)}


class _Axis:
    """An axis, its points put into levels: its own, or bins of equal numbers of points."""

    def __init__(
        self, plan: Plan, name: str, points: Sequence[Measured], bins: int = MOST_BINS
    ) -> None:
        self.name = name
        self._is_grid = plan.file.document.design.kind == GRID
        values = [one.point[name] for one in points]
        is_range = isinstance(plan.axes.get(name), Range)
        self.is_number = all(isinstance(one, int | float) for one in values)
        distinct = list(dict.fromkeys(values))
        self.is_binned = self.is_number and len(distinct) > bins and (is_range or bins < MOST_BINS)
        if self.is_number:
            distinct.sort()
        if self.is_binned:
            edges = _edges([float(one) for one in values], bins)
            self.at = [
                min(sum(float(one) >= edge for edge in edges[1:]), bins - 1) for one in values
            ]
            self.labels: list[Any] = [
                f"{low:.3g} to {high:.3g}" for low, high in itertools.pairwise(edges)
            ]
        else:
            number = {repr(one): index for index, one in enumerate(distinct)}
            self.at = [number[repr(one)] for one in values]
            self.labels = list(distinct)
        self._values = values

    def effect(self, goal: Sequence[float]) -> dict[str, Any]:
        """Give the mean at each level, and which share of the variance lies between levels."""
        levels = []
        for number, label in enumerate(self.labels):
            here = [value for value, at in zip(goal, self.at, strict=True) if at == number]
            if here:
                mean, half = interval(here)
                levels.append({"level": label, "mean": mean, "half": half, "points": len(here)})
        return {
            "axis": self.name,
            "levels": levels,
            "share": _share(self.at, goal, exact=self._is_grid),
            "rank_correlation": _rank_correlation(self._values, goal) if self.is_number else None,
            "is_binned": self.is_binned,
        }


def _edges(values: Sequence[float], bins: int) -> list[float]:
    """Give ends of bins that hold as many values each."""
    ordered = sorted(values)
    last = len(ordered) - 1
    inner = [ordered[min(round(len(ordered) * part / bins), last)] for part in range(1, bins)]
    return [ordered[0], *inner, ordered[-1]]


def _share(at: Sequence[Any], goal: Sequence[float], *, exact: bool) -> float | None:
    """Give the share of the goal's variance that lies between groups; None if it has none.

    In a full grid that is exact; of a sample what chance alone would give is taken off.
    """
    number, mean = len(goal), math.fsum(goal) / len(goal)
    total = math.fsum((value - mean) ** 2 for value in goal)
    if total <= 1e-24 * max(1.0, mean * mean) * number:
        return None
    groups: dict[Any, list[float]] = {}
    for group, value in zip(at, goal, strict=True):
        groups.setdefault(group, []).append(value)
    between = math.fsum(
        len(group) * (math.fsum(group) / len(group) - mean) ** 2 for group in groups.values()
    )
    share = between / total
    if not exact:
        if number <= len(groups):
            return None
        share = 1 - (1 - share) * (number - 1) / (number - len(groups))
    return min(max(share, 0.0), 1.0)


def _rank_correlation(values: Sequence[Any], goal: Sequence[float]) -> float | None:
    """Give Spearman's rank correlation; None if one of both is always the same."""
    import numpy as np  # noqa: PLC0415

    ranks = [_ranks(np.asarray(one, dtype=float)) for one in (values, goal)]
    if min(float(one.std()) for one in ranks) == 0:
        return None
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


def _ranks(values: Numbers) -> Numbers:
    import numpy as np  # noqa: PLC0415

    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    # Those that are equal share the mean of their ranks.
    ends = np.cumsum(counts)
    ranks: Numbers = (ends - (counts - 1) / 2)[inverse]
    return ranks


def _interactions(
    plan: Plan, points: Sequence[Measured], goal: Sequence[float]
) -> list[dict[str, Any]]:
    """Give of each pair of axes which share of variance they have beyond both by themselves."""
    is_grid = plan.file.document.design.kind == GRID
    axes = [
        _Axis(plan, name, points, PAIR_BINS if not is_grid else 1 << 30) for name in plan.file.axes
    ]
    found = []
    for one, other in itertools.combinations(axes, 2):
        cells = list(zip(one.at, other.at, strict=True))
        if len(axes) == 2 and len(set(cells)) == len(goal) and not is_grid:
            continue
        shares = [_share(at, goal, exact=is_grid) for at in (cells, one.at, other.at)]
        if None in shares:
            continue
        whole, *own = (share or 0.0 for share in shares)
        found.append({"axes": [one.name, other.name], "share": max(whole - sum(own), 0.0)})
    return found


def _heat_map(
    plan: Plan,
    points: Sequence[Measured],
    effects: Sequence[Mapping[str, Any]],
    pairs: Sequence[Mapping[str, Any]],
) -> dict[str, Any] | None:
    """Give the mean of the goal over the two axes that do most, alone and together."""
    if len(plan.file.axes) < 2 or len(points) < 4:
        return None
    alone = {one["axis"]: one["share"] or 0.0 for one in effects}
    together = {tuple(one["axes"]): one["share"] for one in pairs}
    chosen = max(
        itertools.combinations(plan.file.axes, 2),
        key=lambda pair: alone[pair[0]] + alone[pair[1]] + together.get(pair, 0.0),
    )
    axes = [_Axis(plan, name, points) for name in chosen]
    if max(len(axis.labels) for axis in axes) > MOST_CELLS:
        return None
    x, y = axes
    cells: dict[tuple[int, int], list[float]] = {}
    for one, column, line in zip(points, x.at, y.at, strict=True):
        cells.setdefault((column, line), []).append(one.mean)
    rows = [
        [
            math.fsum(found) / len(found) if (found := cells.get((column, line))) else None
            for column in range(len(x.labels))
        ]
        for line in range(len(y.labels))
    ]
    return {"axes": list(chosen), "x": x.labels, "y": y.labels, "means": rows}


def _indices(plan: Plan, found: Sequence[Measured | None]) -> dict[str, Any] | None:
    """Give Sobol's indices of Saltelli's design; None if there are none, or a point is missing."""
    asked = plan.file.document.design
    if asked.kind != "saltelli" or not found or None in found:
        return None
    goal = [one.mean for one in found if one is not None]
    if max(goal) == min(goal):
        return None
    import numpy as np  # noqa: PLC0415
    from SALib.analyze import sobol  # noqa: PLC0415

    names = plan.file.axes
    indices = sobol.analyze(
        design.problem(len(names)),
        np.asarray(goal),
        calc_second_order=asked.second_order,
        seed=asked.seed,
    )
    rows = [
        {
            "axis": name,
            "first": float(indices["S1"][number]),
            "first_half": float(indices["S1_conf"][number]),
            "total": float(indices["ST"][number]),
            "total_half": float(indices["ST_conf"][number]),
        }
        for number, name in enumerate(names)
    ]
    pairs = [
        {
            "axes": [names[one], names[other]],
            "second": float(indices["S2"][one][other]),
            "second_half": float(indices["S2_conf"][one][other]),
        }
        for one, other in itertools.combinations(range(len(names)), 2)
        if asked.second_order
    ]
    return {"axes": rows, "pairs": pairs}
