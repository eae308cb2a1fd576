"""The tables that MULTILOG's figures 1 to 3 are drawn of: from its models, and simulated."""

from __future__ import annotations

from functools import cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from experiments.drives import multilog as simulated
from experiments.drives.multilog import OVER_PROVISIONING, PAGES_PER_ERASE_BLOCK
from experiments.figures import multilog_judged as judged
from flashwright import _core

Floats: TypeAlias = npt.NDArray[np.float64]

ALPHAS: Floats = np.linspace(0.02, 1.0, 99)
WINDOWS = (*simulated.WINDOWS, 1.0)
FREQUENCY_RATIOS: Floats = np.logspace(-2, 2, 81)
FIRST_SET_SIZES = (0.1, 0.25, 0.5, 0.75, 0.9)
GRID_SIZES: Floats = np.linspace(0.05, 0.95, 37)
GRID_RATIOS: Floats = np.logspace(-2, 2, 65)
POLYNOMIAL_SIZES: Floats = np.linspace(0.01, 0.99, 50)
POLYNOMIAL_ALPHAS = (0.1, 0.2, 0.3, 0.5)


@cache
def uniform() -> pa.Table:
    """Give figure 1a and 1b: p_gc and cleaning cost of uniform updates against over-provisioning.

    By eq. 3 (exact, LRU), by eq. 4 (approximation), and for Greedy with 64-page erase blocks (mean
    field).
    """
    exact, approximate = _core.p_gc_lru(ALPHAS), _core.p_gc_approx(ALPHAS)
    greedy = _core.p_gc_greedy(ALPHAS, PAGES_PER_ERASE_BLOCK)
    columns = {
        "over_provisioning": ALPHAS,
        "p_gc_eq_3": exact,
        "p_gc_eq_4": approximate,
        "p_gc_greedy": greedy,
        "cleaning_cost_eq_3": _core.cleaning_cost_lru(ALPHAS),
        "cleaning_cost_eq_4": _core.cleaning_cost(approximate),
        "cleaning_cost_greedy": _core.cleaning_cost(greedy),
    }
    return pa.table(columns)


@cache
def window_greedy() -> pa.Table:
    """Give figure 1c: how much Window-Greedy lowers p_gc under LRU.

    Against over-provisioning and window size. In the steady state (mean field), for 64-page erase
    blocks; windows are fractions of all erase blocks. `p_gc_decrease` is a difference of chances,
    `p_gc_decrease_relative` the same as a fraction of LRU's p_gc.
    """
    lru = _core.p_gc_lru(ALPHAS)
    parts = []
    for window in WINDOWS:
        p_gc = _core.p_gc_window_greedy(ALPHAS, PAGES_PER_ERASE_BLOCK, window)
        columns = {
            "window": np.full_like(ALPHAS, window),
            "over_provisioning": ALPHAS,
            "p_gc": p_gc,
            "p_gc_decrease": lru - p_gc,
            "p_gc_decrease_relative": 1.0 - p_gc / lru,
        }
        parts.append(pa.table(columns))
    return pa.concat_tables(parts)


def _of_two_sets(sizes: Floats | tuple[float, ...], ratios: Floats) -> pa.Table:
    rows: list[dict[str, float]] = []
    for size in sizes:
        for ratio in ratios:
            sets = judged.sets_of(float(size), float(ratio))
            mixed = _core.kmodal_random(*sets, OVER_PROVISIONING)
            approximate = _core.kmodal_random(*sets, OVER_PROVISIONING, approximate=True)
            best = _core.kmodal_separated(*sets, OVER_PROVISIONING)
            row = {
                "size_1": float(size),
                "frequency_ratio": float(ratio),
                "p_avg_random": mixed.p_avg,
                "p_avg_random_approximation": approximate.p_avg,
                "cleaning_cost_random": mixed.cleaning_cost,
                "beta_1": float(best.betas[0]),
                "cleaning_cost_separated": best.cleaning_cost,
                "cleaning_cost_random_over_separated": mixed.cleaning_cost / best.cleaning_cost,
            }
            rows.append(row)
    return pa.Table.from_pylist(rows)


@cache
def random_placement() -> pa.Table:
    """Give figure 2: two sets mixed in one log, against their frequency ratio.

    For some sizes of the first set.
    """
    return _of_two_sets(FIRST_SET_SIZES, FREQUENCY_RATIOS)


@cache
def best_division() -> pa.Table:
    """Give figure 3: two sets in separate logs with the best division of spare space.

    Over size and frequency ratio. `beta_1` is the spare space of the first log as a fraction of all
    logical pages.
    """
    return _of_two_sets(GRID_SIZES, GRID_RATIOS)


def on_grid(table: pa.Table, column: str) -> Floats:
    """Give a column of `best_division` with a row for each size, a column for each ratio."""
    values: Floats = table[column].to_numpy().reshape(len(GRID_SIZES), len(GRID_RATIOS))
    return values


def grid() -> judged.Grid:
    """Give all columns of `best_division` so."""
    table = best_division()
    return {name: on_grid(table, name) for name in table.column_names}


@cache
def simulated_uniform() -> pa.Table:
    """Give the simulated points of figure 1.

    `total_error` is what the paper draws under that name: eq. 4 less the simulated p_gc of LRU.
    """
    points = simulated.uniform()
    rows = [
        {
            "policy": policy.victim,
            "over_provisioning": alpha,
            "p_gc": point.p_gc,
            "cleaning_cost": point.cleaning_cost,
            "p_gc_decrease": points[simulated.LRU, alpha].p_gc - point.p_gc,
            "total_error": _core.p_gc_approx(alpha) - point.p_gc,
            "steady": point.steady,
        }
        for (policy, alpha), point in points.items()
    ]
    return pa.Table.from_pylist(rows)


@cache
def simulated_sets() -> pa.Table:
    """Give the simulated points of figures 2 and 3: two sets mixed in one log, and apart."""
    points = simulated.two_sets()
    rows = [
        {
            "size_1": size,
            "frequency_ratio": ratio,
            "p_avg_random": points[simulated.LRU, size, ratio].p_gc,
            "cleaning_cost_random": points[simulated.LRU, size, ratio].cleaning_cost,
            "cleaning_cost_separated": points[simulated.SEPARATED, size, ratio].cleaning_cost,
            "cleaning_cost_random_over_separated": points[simulated.LRU, size, ratio].cleaning_cost
            / points[simulated.SEPARATED, size, ratio].cleaning_cost,
            "steady": points[simulated.LRU, size, ratio].steady
            and points[simulated.SEPARATED, size, ratio].steady,
        }
        for size in simulated.SIZES
        for ratio in simulated.RATIOS
    ]
    return pa.Table.from_pylist(rows)


@cache
def polynomial() -> pa.Table:
    """Give the polynomial for the best beta (4.2.2) beside the best beta.

    For f_r = 2, as it was fitted over each range of over-provisioning. The last columns repeat the
    fit: the coefficients c_ij of alpha^i s^j, its root mean square, and its greatest error.
    """
    rows: list[dict[str, Any]] = []
    for least, most in judged.RANGES:
        fit = judged.fit(least, most)
        names = ("c_00", "c_10", "c_01", "c_11", "c_02", "c_12", "c_03")
        found = {
            **dict(zip(names, map(float, fit.coefficients), strict=True)),
            "rmse": fit.rmse,
            "max_error": fit.max_error,
        }
        for alpha in POLYNOMIAL_ALPHAS:
            for size in POLYNOMIAL_SIZES.tolist():
                best = _core.kmodal_separated(*judged.sets_of(size, 2.0), alpha).betas[0]
                row = {
                    "fitted_from": least,
                    "fitted_to": most,
                    "over_provisioning": alpha,
                    "size": size,
                    "beta": float(best),
                    "beta_polynomial": _core.beta_polynomial(size, alpha, fit.coefficients),
                    **found,
                }
                rows.append(row)
    return pa.Table.from_pylist(rows)
