"""Rows of measurements beside what a profile gives for them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

from flashwright import _core
from flashwright.measured import play
from flashwright.measured.play import FULL, Effort, PlayedProfile
from flashwright.measured.rows import Row, WriteRow

TIMES = (
    "read_p50_us",
    "read_p99_us",
    "read_p999_us",
    "write_p50_us",
    "write_p99_us",
    "write_p999_us",
)
LATENCY_KEYS = ("writes_per_s", "reads_per_s", *TIMES)


@dataclass(frozen=True)
class Prediction:
    """Prediction of a profile for a row."""

    row: Row
    predicted: dict[str, float]
    """Predicted values, by the name of the column."""
    write_amplification: float | None = None

    def compared(self) -> list[dict[str, Any]]:
        """Give measured, predicted and relative error for each column."""
        return [
            {
                "drive": self.row.drive,
                "row": self.row.name,
                "figure": key,
                "measured": getattr(self.row, key),
                "predicted": value,
                "error": relative(value, getattr(self.row, key)),
            }
            for key, value in self.predicted.items()
        ]

    def document(self) -> dict[str, Any]:
        """Give the row as JSON has it."""
        return {
            "row": asdict(self.row),
            "predicted": self.predicted,
            "error": {one["figure"]: one["error"] for one in self.compared()},
            "write_amplification": self.write_amplification,
        }


def relative(predicted: float, measured: float | None) -> float | None:
    """Give (predicted - measured) / measured; None where nothing was measured."""
    return None if not measured else predicted / measured - 1


def one(
    row: Row, drive: PlayedProfile, effort: Effort = FULL, progress: _core.Progress | None = None
) -> Prediction:
    """Predict a row.

    Raises InputError, RunError, Cancelled.
    """
    if isinstance(row, WriteRow):
        outcome = play.write(row, drive, effort, progress)
        latency = outcome["latency_ns"]["write"]
        found = {
            "steady_mib_s": outcome["steady_mib_s"],
            "p50_us": latency["p50"] / 1e3,
            "p99_us": latency["p99"] / 1e3,
        }
        return Prediction(row, found, outcome["write_amplification"])
    found = play.latency(row, drive, effort, progress)
    return Prediction(row, {key: found[key] for key in LATENCY_KEYS})


def many(
    rows: Sequence[Row],
    drive: PlayedProfile,
    effort: Effort = FULL,
    *,
    threads: int = 1,
    tell: Any = None,
) -> list[Prediction]:
    """Predict rows, several at a time; `tell` is called with each as it is done."""
    runs = [_core.Progress() for _ in rows]

    def do(number: int) -> Prediction:
        found = one(rows[number], drive, effort, runs[number])
        if tell is not None:
            tell(found)
        return found

    with ThreadPoolExecutor(threads) as pool:
        try:
            return list(pool.map(do, range(len(rows))))
        except BaseException:
            # Ctrl-C, or one that failed: the others stop, too.
            for run in runs:
                run.cancel()
            raise


def errors(predictions: Iterable[Prediction], figure: str) -> list[float]:
    """Give the sizes of the relative errors of a figure, ascending."""
    found = (
        one["error"]
        for prediction in predictions
        for one in prediction.compared()
        if one["figure"] == figure and one["error"] is not None
    )
    return sorted(abs(error) for error in found)
