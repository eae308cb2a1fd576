"""Real drives: a profile fitted to half of what was measured, and the other half predicted.

Which rows are fitted was written down before the first fit: `fitted_to`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import click
import plotly.graph_objects as go

from experiments.data import MEASURED_LATENCIES, MEASURED_WRITES
from experiments.pages import markdown_table, page
from experiments.registry import Made, Part, Request, Set, option
from flashwright.measured import predict, rows
from flashwright.measured.fit import Fit
from flashwright.measured.play import PlayedProfile
from flashwright.measured.predict import TIMES, Prediction, relative
from flashwright.measured.rows import LatencyRow, Row, WriteRow
from flashwright.measured.template import DataSheet

COLD, SLOW, ANY = "s0.8 f0 s0.2 f1", "s0.95 f0.05 s0.05 f0.95", "s0.2 f0 s0.8 f1"
ZONES_FITTED = (
    "active_zones=1 zone_mib=1024",
    "active_zones=1 zone_mib=16384",
    "active_zones=8 zone_mib=8192",
)
RATES_FITTED = (10_000.0, 50_000.0)
OF_LIMIT = 0.8
"""Response times are judged up to this share of the drive's limit."""
MEDIAN_ERROR, MOST_ERROR, LIMIT_ERROR, READ_MEDIAN_ERROR, TAIL_FACTOR = 0.06, 0.2, 0.05, 0.15, 1.5
TAILS = ("read_p99_us", "write_p99_us")


@dataclass(frozen=True)
class RealDrive(Part):
    """A drive, with its data sheet."""

    slices: int
    sheet: dict[str, str]


def _drive(name: str, slices: int, **sheet: str) -> RealDrive:
    return RealDrive(name, "", f"{name}, one of {slices} slices", slices, sheet)


DRIVES = (
    _drive(
        "sk-hynix-pe8110",
        64,
        capacity_gb="960",
        sequential_read_mb_s="6500",
        sequential_write_mb_s="1700",
    ),
    _drive(
        "samsung-pm9a3",
        64,
        capacity_gb="960",
        sequential_read_mb_s="6500",
        sequential_write_mb_s="1500",
    ),
    _drive(
        "micron-7450-pro",
        64,
        capacity_gb="960",
        sequential_read_mb_s="6800",
        sequential_write_mb_s="1400",
    ),
    _drive(
        "kioxia-cm7-r-4",
        128,
        capacity_gb="3840",
        pcie="5",
        sequential_read_mb_s="14000",
        sequential_write_mb_s="6750",
    ),
)


def fitted_to(found: Sequence[Row]) -> list[Row]:
    """Give the rows of a drive that its profile is fitted to.

    Sequential writes, uniform and zipf 0.6 over the whole drive; cold data (80 % never written) and
    95 % / 5 % hot and cold, or 20 % cold where that was not measured; zones of 1 and 16 GiB one at
    a time, and of 8 GiB eight at a time; response times at 10,000 and 50,000 requests a second, and
    at the highest rate.
    """
    writes = [row for row in found if isinstance(row, WriteRow)]
    rates = [row.offered_per_s for row in found if isinstance(row, LatencyRow)]
    whole = max((row.used_gib for row in writes), default=0.0)
    sets = {row.parameters for row in writes if row.pattern == "zones"}
    zones = (COLD, SLOW if SLOW in sets else ANY)

    def is_fitted(row: Row) -> bool:
        if isinstance(row, LatencyRow):
            return row.offered_per_s in (*RATES_FITTED, max(rates))
        return (
            row.pattern == "sequential"
            or (row.pattern == "uniform" and row.used_gib == whole)
            or (row.pattern == "zipf" and abs(float(row.parameters) - 0.6) < 1e-9)
            or (row.pattern == "zones" and row.parameters in zones)
            or (row.pattern == "zns" and row.parameters in ZONES_FITTED)
        )

    return [row for row in found if is_fitted(row)]


@dataclass(frozen=True)
class Judged:
    """Outcome of a drive: its profile, the rows that it was fitted to, and the predictions."""

    drive: RealDrive
    fitted: list[Row]
    predictions: list[Prediction]
    toml: str

    def unseen(self, kind: type) -> list[Prediction]:
        """Predictions of rows that were not fitted to."""
        return [
            one
            for one in self.predictions
            if one.row not in self.fitted and isinstance(one.row, kind)
        ]

    @property
    def limit(self) -> float:
        """Writes a second at the drive's limit, as measured."""
        rates = [one.row for one in self.predictions if isinstance(one.row, LatencyRow)]
        return max((row.writes_per_s or 0.0 for row in rates), default=0.0)

    def steady(self) -> list[float]:
        """Sizes of the errors of unseen throughputs, ascending."""
        return predict.errors(self.unseen(WriteRow), "steady_mib_s")

    def below_limit(self) -> list[Prediction]:
        """Unseen rates up to OF_LIMIT of the limit."""
        return [
            one
            for one in self.unseen(LatencyRow)
            if isinstance(one.row, LatencyRow) and one.row.offered_per_s <= OF_LIMIT * self.limit
        ]

    def limit_errors(self) -> list[float]:
        """Errors of the writes a second at unseen rates above the limit."""
        return [
            abs(error)
            for one in self.unseen(LatencyRow)
            if isinstance(one.row, LatencyRow)
            and one.row.offered_per_s > 1.2 * self.limit
            and (error := relative(one.predicted["writes_per_s"], one.row.writes_per_s)) is not None
        ]

    def tails(self) -> list[float]:
        """Factors, 1 or above, between predicted and measured 99th percentiles."""
        factors = []
        for one in self.below_limit():
            for key in TAILS:
                measured = getattr(one.row, key)
                if measured:
                    factor = max(one.predicted[key], 1e-3) / measured
                    factors.append(max(factor, 1 / factor))
        return sorted(factors)

    def verdicts(self) -> list[list[str]]:
        """Give what is asked, what was found, and whether it is met."""
        steady, reads = self.steady(), predict.errors(self.below_limit(), "read_p50_us")
        tails, limits = self.tails(), self.limit_errors()
        within = sum(factor <= TAIL_FACTOR for factor in tails)
        lines = []
        if steady:
            lines += [
                ("steady throughput, median error at most 6 %", median(steady), MEDIAN_ERROR),
                ("steady throughput, largest error at most 20 %", steady[-1], MOST_ERROR),
            ]
        if limits:
            lines.append(("limit of writes beside reads, within 5 %", max(limits), LIMIT_ERROR))
        if reads:
            lines.append(
                (
                    "median of reads below 80 % of the limit, within 15 %",
                    reads[-1],
                    READ_MEDIAN_ERROR,
                )
            )
        found = [
            [what, f"{value:.1%}", "met" if value <= most else "**missed**"]
            for what, value, most in lines
        ]
        if tails:
            is_met = within >= 0.9 * len(tails)
            found.append(
                [
                    "99th percentiles there, within a factor of 1.5 for nine of ten",
                    f"{within} of {len(tails)}; largest factor {tails[-1]:.2f}",
                    "met" if is_met else "**missed**",
                ]
            )
        return found


def judge(drive: RealDrive, threads: int) -> Judged:
    """Fit the drive to its rows, and predict all."""
    found = rows.of_drive(rows.read([MEASURED_WRITES, MEASURED_LATENCIES]), drive.name)
    fitted = fitted_to(found)
    fit = Fit(
        DataSheet.of(drive.name, drive.sheet),
        [row for row in fitted if isinstance(row, WriteRow)],
        [row for row in fitted if isinstance(row, LatencyRow)],
        drive.slices,
        threads=threads,
    )
    toml = fit.run()
    return Judged(drive, fitted, predict.many(found, PlayedProfile.of(toml), threads=threads), toml)


def _cells(judged: Judged, one: Prediction) -> list[str]:
    use = "fitted" if one.row in judged.fitted else "predicted"
    if isinstance(one.row, WriteRow):
        figures = [("steady_mib_s", "MiB/s")]
    else:
        figures = [("writes_per_s", "/s"), *((key, "us") for key in TIMES)]
    cells = []
    for key, unit in figures:
        measured, ours = getattr(one.row, key), one.predicted[key]
        error = relative(ours, measured)
        shown = "" if error is None else f" ({error:+.0%})"
        cells.append(f"{key.rsplit('_', 1)[0]} {measured:,.0f} / {ours:,.0f} {unit}{shown}")
    return [one.row.name, "; ".join(cells), use]


def _plot(judged: Sequence[Judged], path: Path) -> None:
    """Draw predicted against measured throughput, as HTML."""
    figure = go.Figure()
    for one in judged:
        found = [p for p in one.predictions if isinstance(p.row, WriteRow)]
        figure.add_scatter(
            x=[p.row.steady_mib_s for p in found if isinstance(p.row, WriteRow)],
            y=[p.predicted["steady_mib_s"] for p in found],
            text=[p.row.name for p in found],
            mode="markers",
            name=one.drive.name,
            marker={"symbol": ["circle-open" if p.row in one.fitted else "circle" for p in found]},
        )
    figure.add_scatter(x=[150, 8000], y=[150, 8000], mode="lines", name="equal")
    figure.update_layout(
        title="Steady writes: measured, and fitted (open) or predicted (full)",
        xaxis={"type": "log", "title": "measured, MiB/s"},
        yaxis={"type": "log", "title": "ours, MiB/s"},
    )
    figure.write_html(path, include_plotlyjs=True)


def _document(judged: Sequence[Judged], command: str) -> str:
    parts: list[str] = []
    note = (
        "Seed 1. Simulated times: the same on any machine. Rows are those of "
        "`experiments/data/measured`. An error is ours / measured - 1. A fitted row is no "
        "prediction; verdicts are of predicted rows alone. The same rows on MQSim and on the "
        "counting simulator: [beside-mqsim.md](beside-mqsim.md)."
    )
    for one in judged:
        parts += [f"## {one.drive.name}"]
        parts.append(markdown_table(("asked", "found", "verdict"), one.verdicts()))
        table = [_cells(one, prediction) for prediction in one.predictions]
        parts.append(markdown_table(("row", "measured / ours", "use"), table))
    title = "Real drives: fitted to half of the rows, the other half predicted"
    return page(title, command, note, parts)


def _make(request: Request[RealDrive]) -> Made:
    threads = os.cpu_count() or 1
    judged = [judge(drive, threads) for drive in request.parts]
    profiles, plot = request.options["profiles"], request.options["plot"]
    if profiles:
        Path(profiles).mkdir(parents=True, exist_ok=True)
        for one in judged:
            (Path(profiles) / f"{one.drive.name}.toml").write_text(one.toml, encoding="utf-8")
    if plot:
        _plot(judged, Path(plot))
    figures: list[dict[str, Any]] = [
        {
            "drive": one.drive.name,
            "verdicts": one.verdicts(),
            "fitted": [row.name for row in one.fitted],
            "rows": [prediction.document() for prediction in one.predictions],
        }
        for one in judged
    ]
    return Made(_document(judged, request.command), {"drives": figures})


SET = Set(
    "validate-drives",
    "modern drives: fitted to half of what was measured of real ones, the rest predicted",
    "ten to twenty minutes",
    DRIVES,
    _make,
    options=(
        option("--profiles", "", click.STRING, "write the fitted profiles into this folder"),
        option("--plot", "", click.STRING, "draw predicted against measured, as HTML"),
    ),
)
