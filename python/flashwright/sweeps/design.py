"""Designs: the points of a sweep, the same for the same seed."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from flashwright._core import InputError
from flashwright.sweeps.file import GRID, LIST, Range, SweepFile, Value

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Point = dict[str, Value]
Levels = Mapping[str, "Range | list[Value]"]
"""Axes by name: a range, or all that there is of them."""


def points(file: SweepFile, axes: Levels) -> list[Point]:
    """Give the points of a sweep. Raises InputError if the design cannot have these axes."""
    design = file.document.design
    if design.kind == LIST:
        return [dict(one) for one in file.document.points]
    if design.kind == GRID:
        lists = {name: grid_levels(file, name, axis) for name, axis in axes.items()}
        return [
            dict(zip(lists, values, strict=True)) for values in itertools.product(*lists.values())
        ]
    return [
        {
            name: at(axis, float(share))
            for (name, axis), share in zip(axes.items(), row, strict=True)
        }
        for row in _shares(file, len(axes))
    ]


def grid_levels(file: SweepFile, name: str, axis: Range | list[Value]) -> list[Value]:
    """Give the levels of an axis in a grid. Raises InputError if a range does not say how many."""
    if not isinstance(axis, Range):
        return axis
    if axis.levels is None or axis.levels < 2:
        said = "right would be levels = 2 or more, as a grid has so many of a range"
        raise file.wrong(f"axes.{name}", said)
    steps = (number / (axis.levels - 1) for number in range(axis.levels))
    return list(dict.fromkeys(_between(axis, step) for step in steps))


def _between(axis: Range, share: float) -> Value:
    if axis.log:
        found = axis.low * math.exp(share * math.log(axis.high / axis.low))
    else:
        found = axis.low + share * (axis.high - axis.low)
    found = min(max(found, axis.low), axis.high)
    return round(found) if axis.integer else found


def at(axis: Range | list[Value], share: float) -> Value:
    """Give what is at a share of an axis, from 0 up to 1."""
    if not isinstance(axis, Range):
        return axis[min(int(share * len(axis)), len(axis) - 1)]
    if axis.integer and not axis.log:
        # Each number has as much of the axis as any other, both ends too.
        return min(math.floor(axis.low + share * (axis.high - axis.low + 1)), round(axis.high))
    return _between(axis, share)


def check_axis(file: SweepFile, name: str, axis: Range | list[Value]) -> None:
    """Raise InputError if an axis has no points."""
    key = f"axes.{name}"
    if isinstance(axis, Range):
        if not axis.low < axis.high:
            raise file.wrong(key, f"low {axis.low:g} has to be below high {axis.high:g}")
        if axis.log and axis.low <= 0:
            raise file.wrong(key, "low has to be above 0 on a logarithmic axis")
    elif not axis:
        raise file.wrong(key, "it has no levels")
    elif len(set(map(repr, axis))) != len(axis):
        raise file.wrong(key, "it names a level twice")


def _shares(file: SweepFile, axes: int) -> Iterable[Iterable[float]]:
    design = file.document.design
    number = design.points or 0
    if design.kind != "latin_hypercube" and (number < 2 or number & (number - 1)):
        down = 1 << max(number.bit_length() - 1, 1)
        said = f"{number}: it is balanced at powers of two; right would be {down} or {2 * down}"
        raise file.wrong("design.points", said)
    if number < 1:
        raise file.wrong("design.points", "right would be 1 or more")
    if design.kind == "saltelli":
        return saltelli(axes, number, design.seed, second_order=design.second_order)
    try:
        from scipy.stats import qmc  # noqa: PLC0415  (most commands need none)
    except ImportError:
        raise missing(file, "SciPy") from None
    if design.kind == "sobol":
        found: Any = qmc.Sobol(axes, rng=design.seed).random_base2(number.bit_length() - 1)
    else:
        found = qmc.LatinHypercube(axes, rng=design.seed).random(number)
    return list(found)


def missing(file: SweepFile, library: str) -> InputError:
    """Give the error of a library that is not installed."""
    said = f"{library} is not installed; right would be pip install 'flashwright[sweep]'"
    return file.wrong("design.kind", said)


def problem(axes: int) -> dict[str, Any]:
    """Give the axes as SALib takes them: each from 0 to 1."""
    names = [f"x{number}" for number in range(axes)]
    return {"num_vars": axes, "names": names, "bounds": [[0.0, 1.0]] * axes}


def saltelli(axes: int, number: int, seed: int, *, second_order: bool) -> npt.NDArray[np.float64]:
    """Give the shares of Saltelli's design. Raises InputError if SALib is not installed."""
    try:
        from SALib.sample import sobol  # noqa: PLC0415
    except ImportError:
        said = "design.kind: SALib is not installed; right would be pip install"
        raise InputError(f"{said} 'flashwright[sweep]'") from None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found: npt.NDArray[np.float64] = sobol.sample(
            problem(axes), number, calc_second_order=second_order, seed=seed
        )
    return found
