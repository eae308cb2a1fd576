"""What MULTILOG concludes from its figures 1 to 3 (sections 4.1 to 4.2.2), beside ours.

"Virtually zero", "little", "near" and "an order of magnitude" are given a number here. Each row
prints what was found, so that a reader may draw the line elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from experiments.drives import multilog as simulated
from experiments.figures.drawing import Shape
from flashwright import _core

VIRTUALLY_ZERO = 0.01
"""A hundredth of the axis on which p_gc is drawn."""
MOST_OF_WINDOW_GREEDY = 0.02
"""MULTILOG 4.1: "p_gc decreases by at most 2 %"."""
MOST_OF_CLOSED_FORM = 0.05
"""MULTILOG 4.2.1: "within 5 % the actual cleaning overhead"."""
LIMIT_REACHED = 1e-5
"""Difference of chances that is none."""
LITTLE = 0.05
"""What a "little penalty" is (4.2.1), relative to the least."""
ORDER_OF_MAGNITUDE = (5.0, 20.0)
SMALL_SET = 0.1 + 1e-9
"""Size of a set that is near 0.05: within twice that."""
POLYNOMIAL_RMSE, POLYNOMIAL_ERROR = 0.001, 0.001
"""MULTILOG 4.2.2: root mean square 0.001, error "less than 0.1 %"."""
STRAIGHT = 0.95
"""Least share of the variance that a straight line explains where something is "approximately
with the logarithm" (4.2.2)."""

Judged = tuple[str, bool | None]


def fit(least: float, most: float) -> _core.PolynomialFit:
    """Fit the polynomial for the best beta, f_r = 2, over this range of over-provisioning."""
    return _core.polynomial_fit(2.0, least, most)


def _unsteady(points: Iterable[simulated.Point]) -> str:
    drifting = sum(not point.steady for point in points)
    return f"; {drifting} of the runs drift" if drifting else ""


def _against_simulation(model: Callable[[float], float]) -> Judged:
    found = {
        alpha: point
        for (policy, alpha), point in simulated.uniform().items()
        if policy == simulated.LRU
    }
    errors = {alpha: model(alpha) - point.p_gc for alpha, point in found.items()}
    worst = max(errors, key=lambda alpha: abs(errors[alpha]))
    text = f"{errors[worst]:+.4f} at most, at alpha {worst:g}{_unsteady(found.values())}"
    return text, abs(errors[worst]) <= VIRTUALLY_ZERO


def _decrease(*, relative: bool) -> Judged:
    """Give the greatest decrease of p_gc by Window-Greedy, Greedy included, under LRU."""
    points = simulated.uniform()
    found = {
        (policy, alpha): (points[simulated.LRU, alpha].p_gc - point.p_gc)
        / (points[simulated.LRU, alpha].p_gc if relative else 1.0)
        for (policy, alpha), point in points.items()
    }
    policy, alpha = max(found, key=lambda key: found[key])
    most = found[policy, alpha]
    text = f"{most:.2%} at most, by {policy.label} at alpha {alpha:g}{_unsteady(points.values())}"
    return text, most <= MOST_OF_WINDOW_GREEDY


def _windows_as_modelled() -> Judged:
    points = simulated.uniform()
    errors = [
        _core.p_gc_window_greedy(alpha, simulated.PAGES_PER_ERASE_BLOCK, window)
        - points[simulated.windowed(window), alpha].p_gc
        for window in simulated.WINDOWS
        for alpha in simulated.ALPHAS
    ]
    most = max(map(abs, errors))
    return f"mean field and simulation differ by {most:.4f} at most", most <= VIRTUALLY_ZERO


def sets_of(size: float, ratio: float) -> tuple[list[float], list[float]]:
    """Give sizes and shares of updates of two sets.

    A page of the first is updated `ratio` times as often.
    """
    weights = (ratio * size, 1.0 - size)
    return [size, 1.0 - size], [weight / sum(weights) for weight in weights]


def _mixed(size: float, ratio: float, *, approximate: bool = False) -> _core.RandomPlacement:
    sets = sets_of(size, ratio)
    return _core.kmodal_random(*sets, simulated.OVER_PROVISIONING, approximate=approximate)


def _of_lru() -> Mapping[tuple[float, float], simulated.Point]:
    found = simulated.two_sets().items()
    return {(size, ratio): one for (policy, size, ratio), one in found if policy == simulated.LRU}


def _mixed_as_solved() -> Judged:
    points = _of_lru()
    most = max(abs(_mixed(*case).p_avg - point.p_gc) for case, point in points.items())
    return f"{most:.4f} at most{_unsteady(points.values())}", most <= VIRTUALLY_ZERO


def _closed_form(quantity: str) -> Judged:
    """Judge the closed form against the simulation, by `p_avg` or `cleaning_cost`."""
    points, name = _of_lru(), {"p_avg": "p_gc"}.get(quantity, quantity)
    errors = [
        getattr(_mixed(*case, approximate=True), quantity) / getattr(point, name) - 1
        for case, point in points.items()
    ]
    low, high = min(errors), max(errors)
    return f"{low:+.1%} to {high:+.1%}", max(-low, high) <= MOST_OF_CLOSED_FORM


def _little_penalty(quantity: str) -> Judged:
    rises = {
        (size, ratio): getattr(_mixed(size, ratio), quantity) / getattr(_mixed(size, 1.0), quantity)
        - 1
        for size in simulated.SIZES
        for ratio in (0.5, 2.0)
    }
    worst = max(rises, key=lambda case: rises[case])
    return f"{rises[worst]:+.1%} at most, for s_1 = {worst[0]:g}", rises[worst] <= LITTLE


def _separated_simulated() -> Judged:
    found = simulated.two_sets().items()
    errors = [
        _core.kmodal_separated(*sets_of(size, ratio), simulated.OVER_PROVISIONING).cleaning_cost
        / point.cleaning_cost
        - 1
        for (policy, size, ratio), point in found
        if policy == simulated.SEPARATED
    ]
    drifts = _unsteady(point for (policy, *_), point in found if policy == simulated.SEPARATED)
    return f"the model is {min(errors):+.1%} to {max(errors):+.1%} of the simulation{drifts}", None


Grid = Mapping[str, npt.NDArray[np.float64]]
"""Columns of the grid of figure 3, by size (rows) and frequency ratio."""


def _space_by_size(grid: Grid) -> Judged:
    beta = grid["beta_1"]
    by_size, by_ratio = np.ptp(beta, axis=0).mean(), np.ptp(beta, axis=1).mean()
    text = f"beta moves by {by_size:.3f} with s_1, by {by_ratio:.3f} with f_r, on average"
    return text, bool(by_size > by_ratio)


def _greatest_cost(grid: Grid) -> Judged:
    cost = grid["cleaning_cost_separated"]
    ratios = np.unique(grid["frequency_ratio"][np.isclose(cost, cost.max())].round(9))
    return f"at f_r = {', '.join(f'{ratio:g}' for ratio in ratios)}", bool(np.allclose(ratios, 1.0))


def _least_cost(grid: Grid) -> Judged:
    cost = grid["cleaning_cost_separated"]
    at = np.unravel_index(cost.argmin(), cost.shape)
    size, ratio = float(grid["size_1"][at]), float(grid["frequency_ratio"][at])
    hot = size if ratio > 1 else 1 - size
    text = f"where {hot:.2f} of the pages are updated {max(ratio, 1 / ratio):g} times as often"
    return text, hot <= SMALL_SET and bool(np.isclose(max(ratio, 1 / ratio), 100.0))


def _spread_of_cost(grid: Grid) -> Judged:
    cost = grid["cleaning_cost_separated"]
    spread = float(cost.max() / cost.min())
    least, most = ORDER_OF_MAGNITUDE
    return f"the greatest is {spread:.1f} times the least", least <= spread <= most


def _is_mirrored(grid: Grid) -> Judged:
    cost = grid["cleaning_cost_separated"]
    most = float(np.abs(cost / cost[::-1, ::-1] - 1).max())
    return f"it differs from its mirror image by {most:.1e} at most", most < 1e-6


def _with_the_logarithm(grid: Grid) -> Judged:
    """Fit lines through the cost over ln f_r, from f_r = 2 on, for s_1 of half and less.

    The cost of mixing has to rise and that of separating to fall, as the skew grows.
    """
    rows = grid["size_1"][:, 0] <= 0.5
    columns = grid["frequency_ratio"][0] >= 2 - 1e-9
    skew = np.log(grid["frequency_ratio"][0][columns])
    straight = {}
    for name, sign in (("cleaning_cost_random", 1), ("cleaning_cost_separated", -1)):
        costs = grid[name][np.ix_(rows, columns)]
        of_lines = [np.corrcoef(skew, cost)[0, 1] for cost in costs]
        straight[name] = min(sign * r * abs(r) for r in of_lines)
    mixed, apart = straight["cleaning_cost_random"], straight["cleaning_cost_separated"]
    text = f"a line explains {mixed:.0%} of it mixed, {apart:.0%} apart, at the least"
    return text, bool(min(mixed, apart) >= STRAIGHT)


def _polynomial(least: float, most: float, name: str, limit: float) -> Judged:
    found = getattr(fit(least, most), name)
    return f"{found:.5f} of the logical pages", found <= limit


def of_uniform() -> Sequence[Shape]:
    """Give the statements of figure 1a."""
    zero = "the difference is virtually zero"
    return (
        Shape(
            "p_gc of LRU by eq. 3, less the simulated one",
            "4.1, fig. 1a",
            zero,
            lambda: _against_simulation(_core.p_gc_lru),
        ),
        Shape(
            "TotalError: p_gc of LRU by eq. 4, less the simulated one",
            "4.1, fig. 1a",
            zero,
            lambda: _against_simulation(_core.p_gc_approx),
        ),
    )


def _limit_of_greedy() -> Judged:
    """Tell how far mean-field Greedy is from eq. 3, by pages of an erase block."""
    alphas = np.linspace(0.05, 1.0, 20)
    limit = np.array([_core.p_gc_lru(alpha) for alpha in alphas])
    off = {
        pages: float(
            np.abs(np.array([_core.p_gc_greedy(alpha, pages) for alpha in alphas]) - limit).max()
        )
        for pages in (16, 64, 1024, 1 << 20)
    }
    words = ", ".join(f"{pages:,} pages: {one:.1e}" for pages, one in off.items())
    falls = sorted(off.values(), reverse=True) == list(off.values())
    return f"off by at most, with {words}", falls and off[1 << 20] < LIMIT_REACHED


def of_windows() -> Sequence[Shape]:
    """Give the statements of figure 1c."""
    most = "p_gc decreases by at most 2 %"
    return (
        Shape(
            "decrease of p_gc, as a difference of chances",
            "4.1, fig. 1c",
            most,
            lambda: _decrease(relative=False),
        ),
        Shape(
            "the same, relative to LRU's p_gc",
            "4.1, fig. 1c",
            most,
            lambda: _decrease(relative=True),
        ),
        Shape(
            "p_gc of Window-Greedy by a model and simulated",
            "4.1, fig. 1c",
            "the findings are validated by simulation",
            _windows_as_modelled,
        ),
        Shape(
            "p_gc of Greedy in the limit of large erase blocks",
            "4.1",
            "eq. 3",
            _limit_of_greedy,
        ),
    )


def of_mixed_sets() -> Sequence[Shape]:
    """Give the statements of figure 2a."""
    closed = "slightly below the simulation, within 5 %"
    little = "frequencies can differ by 2x with little penalty"
    return (
        Shape(
            "p_avg by eq. 6 to 9, less the simulated one",
            "4.2.1",
            "the difference is virtually zero",
            _mixed_as_solved,
        ),
        Shape("p_avg by the closed form", "4.2.1", closed, lambda: _closed_form("p_avg")),
        Shape(
            "cleaning cost by the closed form",
            "4.2.1",
            closed,
            lambda: _closed_form("cleaning_cost"),
        ),
        Shape("p_avg at f_r of 0.5 and 2 over f_r = 1", "4.2.1, fig. 2a", little,
              lambda: _little_penalty("p_avg")),
        Shape("cleaning cost, likewise", "4.2.1, fig. 2b", little,
              lambda: _little_penalty("cleaning_cost")),
    )  # fmt: skip


def of_division(grid: Callable[[], Grid]) -> Mapping[str, Sequence[Shape]]:
    """Give the statements of figures 3a to 3c by figure."""
    return {
        "3a": (
            Shape(
                "best spare space of the first set",
                "4.2.2, fig. 3a",
                "strongly correlated with s_i; f_r has a smaller influence",
                lambda: _space_by_size(grid()),
            ),
        ),
        "3b": (
            Shape(
                "where the cleaning cost is the greatest",
                "4.2.2, fig. 3b",
                "at f_r = 1",
                lambda: _greatest_cost(grid()),
            ),
            Shape(
                "where it is the least",
                "4.2.2, fig. 3b",
                "near s = 0.05 and f_r = 100: a small part of the pages, much of the updates",
                lambda: _least_cost(grid()),
            ),
            Shape(
                "cleaning cost over s_1 of 0.05 to 0.95 and f_r of 0.01 to 100",
                "4.2.2, fig. 3b",
                "varies by an order of magnitude",
                lambda: _spread_of_cost(grid()),
            ),
            Shape(
                "cleaning cost when the sets change their names",
                "4.2.2, fig. 3b",
                "mirrored at f_r = 1",
                lambda: _is_mirrored(grid()),
            ),
            Shape(
                "cleaning cost of two logs",
                "4.2.2, fig. 3b",
                "computed; not simulated in the paper",
                _separated_simulated,
            ),
        ),
        "3c": (
            Shape(
                "costs as f_r grows from 2 to 100",
                "4.2.2, fig. 3c",
                "mixed it rises, apart it falls, each about with the logarithm of f_r",
                lambda: _with_the_logarithm(grid()),
            ),
        ),
    }


RANGES = ((0.01, 1.0), (0.1, 0.5))
"""Over-provisionings that the polynomial is fitted over: those of the paper's figures, and those of
most drives. The paper says "for any values of alpha"."""


def of_polynomial() -> Sequence[Shape]:
    """Give the statements about the polynomial for beta."""
    kinds = (
        ("root mean square of beta's error", "rmse", "0.001", POLYNOMIAL_RMSE),
        ("greatest error of beta", "max_error", "less than 0.1 %", POLYNOMIAL_ERROR),
    )
    return [
        Shape(
            f"{what}, alpha {least:g} to {most:g}",
            "4.2.2",
            said,
            partial(_polynomial, least, most, name, limit),
        )
        for least, most in RANGES
        for what, name, said, limit in kinds
    ]
