"""The model figures of MULTILOG (VLDB 2013, section 4), with simulated points beside its equations.

What the paper says of them is judged by the counting simulator and by the models.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from experiments.drives import multilog as simulated
from experiments.drives.multilog import OVER_PROVISIONING
from experiments.figures import multilog_judged as judged
from experiments.figures import multilog_tables as tables
from experiments.figures.drawing import Shape
from experiments.pages import OUT, markdown_table, page, writable, write_report
from experiments.registry import Made, Outcome, Part, Request, Set
from flashwright.pages.figures import AXIS_ALPHA, Colours, axes, line, log_axis, title
from flashwright.pages.page import Figure, Page, Section, Table

RATIO_TITLE = "frequency ratio f<sub>r</sub> = f<sub>1</sub>/f<sub>2</sub>"
SIZE_TITLE = "size of the first set s<sub>1</sub>"

Drawn: TypeAlias = tuple[list[dict[str, Any]], dict[str, Any]]
"""Data and layout of a chart."""


@dataclass(frozen=True)
class Chart(Part):
    """A figure, the table that it is drawn of, and what to read in it."""

    table: Callable[[], pa.Table] = field(repr=False)
    draw: Callable[[pa.Table], Drawn] = field(repr=False)
    reading: str
    shapes: Sequence[Shape] = field(default=(), repr=False)
    """What the paper says of it, and whether ours is so."""
    points: Callable[[], pa.Table] | None = field(default=None, repr=False)
    """The simulated points on it, if there are any."""

    @property
    def number(self) -> str:
        """Its number in the paper."""
        return self.name.partition("-")[2]

    def tables(self) -> dict[str, pa.Table]:
        """Give all tables that it is drawn of, by the names of what makes them."""
        made = (self.table, *([] if self.points is None else [self.points]))
        return {one.__name__: one() for one in made}

    def figure(self) -> Figure:
        """Draw it."""
        return Figure(self.name, self.title, self.reading, *self.draw(self.table()))


def _lines(
    lines: Sequence[tuple[str, pa.Table, str]],
    x: str,
    axis: dict[str, Any],
    y: dict[str, Any],
    points: Sequence[tuple[str, pa.Table, str]] = (),
) -> Drawn:
    """Draw a line for each name: a column of a table, over the table's column `x`.

    `points` are simulated ones, in the colour of the line of that name.
    """
    colours = Colours([name for name, _, _ in (*lines, *points)])
    data = [
        line(name, table[x].to_pylist(), table[column].to_pylist(), colours, markers=False)
        for name, table, column in lines
    ]
    for name, table, column in points:
        drawn = line(name, table[x].to_pylist(), table[column].to_pylist(), colours)
        data.append({**drawn, "mode": "markers", "name": f"{name}, simulated"})
    if y.get("type") == "log":
        y = log_axis(y["title"]["text"], [value for one in data for value in one["y"]])
    return data, axes(axis, y)


MODELS = {
    "eq_3": "eq. 3 (exact, LRU)",
    "eq_4": "eq. 4 (approximation)",
    "greedy": "Greedy, 64-page erase blocks",
}
SIMULATED = {"eq_3": simulated.LRU, "greedy": simulated.GREEDY}
"""The policies that the models are of."""


def _by_model(kind: str, y: dict[str, Any], table: pa.Table) -> Drawn:
    lines = [(name, table, f"{kind}_{key}") for key, name in MODELS.items()]
    found = tables.simulated_uniform()
    points = [
        (MODELS[key], found.filter(pc.field("policy") == policy.victim), kind)
        for key, policy in SIMULATED.items()
    ]
    if kind == "p_gc":
        of_lru = found.filter(pc.field("policy") == simulated.LRU.victim)
        lines.append(("TotalError: eq. 4 less LRU, simulated", of_lru, "total_error"))
    return _lines(lines, "over_provisioning", AXIS_ALPHA, y, points)


def _by_window(table: pa.Table) -> Drawn:
    names = {window: f"window {window:.0%}" for window in tables.WINDOWS}
    lines = [
        (name, table.filter(pc.field("window") == window), "p_gc_decrease")
        for window, name in names.items()
    ]
    found = tables.simulated_uniform()
    policies = {window: simulated.windowed(window) for window in simulated.WINDOWS}
    points = [
        (names[window], found.filter(pc.field("policy") == policy.victim), "p_gc_decrease")
        for window, policy in {**policies, 1.0: simulated.GREEDY}.items()
    ]
    y = title("decrease of p<sub>gc</sub>", rangemode="tozero", tickformat=".1%")
    return _lines(lines, "over_provisioning", AXIS_ALPHA, y, points)


def _by_size(column: str, y: dict[str, Any], table: pa.Table) -> Drawn:
    names = {size: f"s<sub>1</sub> = {size:g}" for size in tables.FIRST_SET_SIZES}
    lines = [
        (name, table.filter(pc.field("size_1") == size), column) for size, name in names.items()
    ]
    found = tables.simulated_sets()
    points = [
        (names[size], found.filter(pc.field("size_1") == size), column) for size in simulated.SIZES
    ]
    x = log_axis(RATIO_TITLE, tables.FREQUENCY_RATIOS)
    return _lines(lines, "frequency_ratio", x, y, points)


def _heat_map(column: str, label: str, table: pa.Table) -> Drawn:
    hover = (
        f"f<sub>r</sub> = %{{x:.3g}}<br>s<sub>1</sub> = %{{y:.2f}}<br>{label} = "
        "%{z:.4g}<extra></extra>"
    )
    data = {
        "type": "contour",
        "x": tables.GRID_RATIOS.tolist(),
        "y": tables.GRID_SIZES.tolist(),
        "z": tables.on_grid(table, column).tolist(),
        "contours": {"coloring": "heatmap"},
        "line": {"width": 0.5},
        "colorscale": "Viridis",
        "colorbar": {
            "title": {"text": label},
            "thickness": 12,
            "outlinewidth": 0,
            "tickfont": {"color": "@ink"},
        },
        "hovertemplate": hover,
        "ncontours": 20,
    }
    return [data], axes(log_axis(RATIO_TITLE, tables.GRID_RATIOS), title(SIZE_TITLE))


def _by_polynomial(table: pa.Table) -> Drawn:
    """Draw the best beta, and the polynomial that is fitted over the widest range."""
    least, most = judged.RANGES[0]
    wide = table.filter((pc.field("fitted_from") == least) & (pc.field("fitted_to") == most))
    lines = []
    for alpha in tables.POLYNOMIAL_ALPHAS:
        of_alpha = wide.filter(pc.field("over_provisioning") == alpha)
        lines.append((f"best, alpha {alpha:g}", of_alpha, "beta"))
        lines.append((f"polynomial, alpha {alpha:g}", of_alpha, "beta_polynomial"))
    return _lines(lines, "size", title(SIZE_TITLE), title("β", rangemode="tozero"))


COST = title("relocation writes per host write", type="log")
AT = f"alpha = {OVER_PROVISIONING:g}"
PAPER = "MULTILOG"
OF_DIVISION = judged.of_division(tables.grid)
CHARTS = (
    Chart(
        "multilog-1a",
        PAPER,
        "chance that a page is valid when its erase block is cleaned, uniform updates",
        tables.uniform,
        partial(_by_model, "p_gc", title("p<sub>gc</sub>", rangemode="tozero")),
        "The closed approximation lies just above the exact curve; Greedy gains little on LRU when "
        "all pages are updated alike.",
        judged.of_uniform(),
        tables.simulated_uniform,
    ),
    Chart(
        "multilog-1b",
        PAPER,
        "cleaning cost, uniform updates",
        tables.uniform,
        partial(_by_model, "cleaning_cost", COST),
        "The less spare space, the more every write costs: the axis is logarithmic.",
        points=tables.simulated_uniform,
    ),
    Chart(
        "multilog-1c",
        PAPER,
        "what Window-Greedy takes off LRU's p_gc, 64-page erase blocks",
        tables.window_greedy,
        _by_window,
        "What looking at more erase blocks than the oldest one saves under uniform updates: at "
        "most a few per cent.",
        judged.of_windows(),
        tables.simulated_uniform,
    ),
    Chart(
        "multilog-2a",
        PAPER,
        f"p_gc of two sets mixed in one log, {AT}",
        tables.random_placement,
        partial(_by_size, "p_avg_random", title("p<sub>avg</sub>")),
        "A log that mixes two sets cleans least when they are updated alike (1 on the axis), and "
        "more with every bit of skew.",
        judged.of_mixed_sets(),
        tables.simulated_sets,
    ),
    Chart(
        "multilog-2b",
        PAPER,
        f"cleaning cost of two sets mixed in one log, {AT}",
        tables.random_placement,
        partial(_by_size, "cleaning_cost_random", title("relocation writes per host write")),
        "The same as relocation writes for each host write.",
        points=tables.simulated_sets,
    ),
    Chart(
        "multilog-2c",
        PAPER,
        f"cost of mixing two sets over the lowest possible, {AT}",
        tables.random_placement,
        partial(
            _by_size,
            "cleaning_cost_random_over_separated",
            title("cost mixed / cost separated", type="log"),
        ),
        "How many times dearer mixing is than keeping the two sets apart with the spare space "
        "divided well. Simulated: LRU over MultiLog that knows the frequencies.",
        points=tables.simulated_sets,
    ),
    Chart(
        "multilog-3a",
        PAPER,
        f"best spare space of the first set, {AT}",
        tables.best_division,
        partial(_heat_map, "beta_1", "β"),
        "The larger and the hotter the first set, the more of the spare space it should have.",
        OF_DIVISION["3a"],
    ),
    Chart(
        "multilog-3b",
        PAPER,
        f"cleaning cost with it, {AT}",
        tables.best_division,
        partial(_heat_map, "cleaning_cost_separated", "GC"),
        "The cost that remains is lowest where a small set gets most of the updates.",
        OF_DIVISION["3b"],
        tables.simulated_sets,
    ),
    Chart(
        "multilog-3c",
        PAPER,
        f"cost of mixing over that, {AT}",
        tables.best_division,
        partial(_heat_map, "cleaning_cost_random_over_separated", "ratio"),
        "The benefit of separating grows with skew, on both sides.",
        OF_DIVISION["3c"],
    ),
    Chart(
        "multilog-4.2.2",
        PAPER,
        "polynomial for the best spare space of the first set, f_r = 2",
        tables.polynomial,
        _by_polynomial,
        "The polynomial that MULTILOG proposes for use at run time, fitted here by least squares "
        "to the best spare space, of which it prints no coefficients.",
        judged.of_polynomial(),
    ),
)
TITLE = "MULTILOG's figures 1 to 3, from its models and simulated"
STATEMENTS = ("figure", "where", "what", "published", "ours", "agrees")
NOTE = (
    f"Simulated: {simulated.PAGES} pages, {simulated.PAGES_PER_ERASE_BLOCK} an erase block, every "
    f"page written before, {simulated.UPDATES['uniform']} updates a page where all are updated "
    f"alike, {simulated.UPDATES['sets']} with two sets; the steady part; one seed. The paper has "
    "100 GB. What it calls virtually zero is here a hundredth of the axis "
    f"({judged.VIRTUALLY_ZERO:g}), a little penalty {judged.LITTLE:.0%}, an order of magnitude "
    f"{judged.ORDER_OF_MAGNITUDE[0]:g} to {judged.ORDER_OF_MAGNITUDE[1]:g} times."
)


def _statements(charts: Sequence[Chart]) -> list[dict[str, Any]]:
    """Give what the paper says of these figures beside ours: the rows of the page and the JSON."""
    found = []
    for chart in charts:
        for shape in chart.shapes:
            ours, agrees = shape.ours()
            row = {
                "part": chart.name,
                "paper": PAPER,
                "figure": chart.number,
                "what": shape.what,
                "where": shape.where,
                "published": shape.published,
                "ours": ours,
                "agrees": agrees,
            }
            found.append(row)
    return found


def _cells(row: dict[str, Any]) -> list[str]:
    agrees = {True: "yes", False: "**no**", None: "not judged"}[row["agrees"]]
    return [*(row[name] for name in STATEMENTS[:-1]), agrees]


def _fitted() -> str:
    """Give the coefficients of the polynomial as a table."""
    found = tables.polynomial().to_pylist()
    names = [name for name in found[0] if name.startswith("c_")]
    fits = {(row["fitted_from"], row["fitted_to"]): row for row in found}
    rows = [
        [f"{least:g} to {most:g}", *(f"{row[name]:+.5f}" for name in names)]
        for (least, most), row in fits.items()
    ]
    return (
        "Coefficients c_ij of alpha^i s^j, for beta as a share of the logical pages:\n\n"
        + markdown_table(["fitted over alpha", *names], rows)
    )


def _make(request: Request[Chart]) -> Made:
    out = writable(request.options["out"] / "figures-models")
    rows = _statements(request.parts)
    cells = [_cells(row) for row in rows]
    statements = Table(
        "Published statements and ours",
        [(name, "prose" if name in ("what", "ours") else "left") for name in STATEMENTS],
        [[cell.replace("**", "") for cell in row] for row in cells],
    )
    agree = sum(row["agrees"] is True for row in rows)
    judged_rows = sum(row["agrees"] is not None for row in rows)
    report = Page(
        kind="figures",
        title=TITLE,
        headline="Mixing pages of different update frequency costs more with every bit of skew; "
        "keeping them apart turns skew into a gain.",
        facts=[],
        sections=[Section(PAPER, [*(chart.figure() for chart in request.parts), statements])],
        provenance=dict(request.provenance),
    )
    document = {
        name: table.to_pydict() for chart in request.parts for name, table in chart.tables().items()
    } | {"rows": rows}
    write_report(out, report, document)
    texts = []
    if rows:
        texts = [f"{agree} of {judged_rows} statements agree.", markdown_table(STATEMENTS, cells)]
    for one in request.parts:
        texts.append(f"## {one.name}: {one.title}\n\n{one.reading}")
        if one.table is tables.polynomial:
            texts.append(_fitted())
    outcomes = [
        Outcome(
            row["part"],
            row["what"],
            row["where"],
            row["published"],
            row["ours"],
            agrees=row["agrees"],
        )
        for row in rows
    ]
    return Made(
        page(TITLE, request.command, NOTE, texts),
        document,
        outcomes=outcomes,
        drawn=report.figures(),
    )


SET = Set("figures-models", TITLE, "two minutes", CHARTS, _make, (OUT,))
