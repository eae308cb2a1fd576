"""The model figures of MULTILOG, computed from its equations.

Stoica and Ailamaki, VLDB 2013, section 4. `tables` has the data of figures 1 to 3, `figures` draws
them. Nothing is simulated here: figure 1's simulated points come from `flashwright simulate`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import plotly.graph_objects as go
import pyarrow as pa

from flashwright import _core

Floats: TypeAlias = npt.NDArray[np.float64]

PAGES_PER_ERASE_BLOCK = 64
"""As in MULTILOG 6.1."""

OVER_PROVISIONING = 0.3
"""Of figures 2 and 3, as in the paper: the middle of what drives have."""

ALPHAS: Floats = np.linspace(0.02, 1.0, 99)
WINDOWS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0)
FREQUENCY_RATIOS: Floats = np.logspace(-2, 2, 81)
FIRST_SET_SIZES = (0.1, 0.25, 0.5, 0.75, 0.9)
GRID_SIZES: Floats = np.linspace(0.05, 0.95, 37)
GRID_RATIOS: Floats = np.logspace(-2, 2, 65)

ALPHA_TITLE = "over-provisioning"
RATIO_TITLE = "frequency ratio f<sub>r</sub> = f<sub>1</sub>/f<sub>2</sub>"
SIZE_TITLE = "size of the first set s<sub>1</sub>"


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


def two_sets(size: float, frequency_ratio: float) -> tuple[list[float], list[float]]:
    """Give sizes and shares of updates of two sets.

    A page of the first is updated `frequency_ratio` times as often.
    """
    weights = (frequency_ratio * size, 1.0 - size)
    return [size, 1.0 - size], [weight / sum(weights) for weight in weights]


def _of_two_sets(sizes: Floats | tuple[float, ...], ratios: Floats) -> pa.Table:
    rows: list[dict[str, float]] = []
    for size in sizes:
        for ratio in ratios:
            sets = two_sets(float(size), float(ratio))
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


def random_placement() -> pa.Table:
    """Give figure 2: two sets mixed in one log, against their frequency ratio.

    For some sizes of the first set.
    """
    return _of_two_sets(FIRST_SET_SIZES, FREQUENCY_RATIOS)


def best_division() -> pa.Table:
    """Give figure 3: two sets in separate logs with the best division of spare space.

    Over size and frequency ratio. `beta_1` is the spare space of the first log as a fraction of all
    logical pages.
    """
    return _of_two_sets(GRID_SIZES, GRID_RATIOS)


@cache
def _computed() -> dict[str, pa.Table]:
    return {
        "figure_1_uniform": uniform(),
        "figure_1c_window_greedy": window_greedy(),
        "figure_2_random_placement": random_placement(),
        "figure_3_best_division": best_division(),
    }


def tables() -> dict[str, pa.Table]:
    """Give the data of figures 1 to 3 by name."""
    return dict(_computed())


def _column(table: pa.Table, name: str) -> Floats:
    return np.asarray(table.column(name).to_numpy())


def _lines(
    title: str,
    x: tuple[str, str],
    y: tuple[str, str],
    lines: list[tuple[str, pa.Table]],
    *,
    x_axis: dict[str, Any] | None = None,
    y_axis: dict[str, Any] | None = None,
) -> go.Figure:
    """Draw one line for each named table; `x` and `y` are column and title."""
    figure = go.Figure()
    for name, table in lines:
        figure.add_trace(
            go.Scatter(x=_column(table, x[0]), y=_column(table, y[0]), name=name, mode="lines")
        )
    figure.update_layout(
        title=title,
        xaxis={"title": x[1], **(x_axis or {})},
        yaxis={"title": y[1], **(y_axis or {})},
        hovermode="x unified",
    )
    return figure


def _figure_1(uniform_table: pa.Table, window_table: pa.Table) -> list[go.Figure]:
    names = {
        "eq_3": "eq. 3 (exact, LRU)",
        "eq_4": "eq. 4 (approximation)",
        "greedy": "Greedy, 64-page erase blocks",
    }
    x = ("over_provisioning", ALPHA_TITLE)

    def renamed(kind: str) -> list[tuple[str, pa.Table]]:
        return [
            (name, pa.table({x[0]: uniform_table[x[0]], kind: uniform_table[f"{kind}_{key}"]}))
            for key, name in names.items()
        ]

    windows = _column(window_table, "window")
    by_window = [
        (f"window {window:.0%}", window_table.filter(pa.array(windows == window)))
        for window in WINDOWS
    ]
    rising = {"rangemode": "tozero"}
    return [
        _lines(
            "Figure 1a: chance that a page is valid when its erase block is cleaned, uniform "
            "updates",
            x,
            ("p_gc", "p<sub>gc</sub>"),
            renamed("p_gc"),
            y_axis=rising,
        ),
        _lines(
            "Figure 1b: cleaning cost, uniform updates",
            x,
            ("cleaning_cost", "relocation writes per host write"),
            renamed("cleaning_cost"),
            y_axis={"type": "log"},
        ),
        _lines(
            "Figure 1c: what Window-Greedy takes off LRU's p<sub>gc</sub>, 64-page erase blocks",
            x,
            ("p_gc_decrease", "decrease of p<sub>gc</sub>"),
            by_window,
            y_axis=rising | {"tickformat": ".1%"},
        ),
    ]


def _figure_2(table: pa.Table) -> list[go.Figure]:
    sizes = _column(table, "size_1")
    by_size = [
        (f"s<sub>1</sub> = {size:g}", table.filter(pa.array(sizes == size)))
        for size in FIRST_SET_SIZES
    ]
    panels: list[tuple[str, str, str, dict[str, Any]]] = [
        ("a: p<sub>gc</sub> of two sets mixed in one log", "p_avg_random", "p<sub>avg</sub>", {}),
        (
            "b: cleaning cost of two sets mixed in one log",
            "cleaning_cost_random",
            "relocation writes per host write",
            {},
        ),
        (
            "c: cost of mixing two sets over the least possible",
            "cleaning_cost_random_over_separated",
            "cost mixed / cost separated",
            {"type": "log"},
        ),
    ]
    x = ("frequency_ratio", RATIO_TITLE)
    return [
        _lines(
            f"Figure 2{title}, alpha = {OVER_PROVISIONING:g}",
            x,
            (column, label),
            by_size,
            x_axis={"type": "log"},
            y_axis=axis,
        )
        for title, column, label, axis in panels
    ]


def _heat_map(title: str, label: str, values: Floats) -> go.Figure:
    hover = (
        f"f<sub>r</sub> = %{{x:.3g}}<br>s<sub>1</sub> = %{{y:.2f}}<br>{label} = "
        "%{z:.4g}<extra></extra>"
    )
    trace = go.Contour(
        x=GRID_RATIOS,
        y=GRID_SIZES,
        z=values,
        contours_coloring="heatmap",
        line={"width": 0.5},
        colorscale="Viridis",
        colorbar={"title": label},
        hovertemplate=hover,
        ncontours=20,
    )
    figure = go.Figure(trace)
    figure.update_layout(
        title=title, xaxis={"title": RATIO_TITLE, "type": "log"}, yaxis={"title": SIZE_TITLE}
    )
    return figure


def _figure_3(table: pa.Table) -> list[go.Figure]:
    def grid(column: str) -> Floats:
        return _column(table, column).reshape(len(GRID_SIZES), len(GRID_RATIOS))

    at = f"alpha = {OVER_PROVISIONING:g}"
    beta, cost = (
        f"Figure 3a: best spare space of the first set, {at}",
        f"Figure 3b: cleaning cost with it, {at}",
    )
    return [
        _heat_map(beta, "β", grid("beta_1")),
        _heat_map(cost, "GC", grid("cleaning_cost_separated")),
        _heat_map(
            f"Figure 3c: cost of mixing over that, {at}",
            "ratio",
            grid("cleaning_cost_random_over_separated"),
        ),
    ]


def figures() -> list[go.Figure]:
    """Draw figures 1a to 3c, one plot each so that they stay readable on a narrow screen."""
    data = tables()
    groups: list[Callable[[], list[go.Figure]]] = [
        lambda: _figure_1(data["figure_1_uniform"], data["figure_1c_window_greedy"]),
        lambda: _figure_2(data["figure_2_random_placement"]),
        lambda: _figure_3(data["figure_3_best_division"]),
    ]
    return [figure for group in groups for figure in group()]
