"""Measurements of a run: transactions by kind, response times as histograms, and windows."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from flashwright.quantiles import LEAST_FOR_P9999

Times = npt.NDArray[np.uint64]

_PRECISION_BITS = 7
_STEPS = 1 << _PRECISION_BITS
_BINS = _STEPS * (64 - _PRECISION_BITS + 1)
QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p999": 0.999}


class Histogram:
    """Counts of times in classes that are each at most 1/128 wide of their lower end.

    Small, however long the run. Count, sum, least and greatest are exact. A quantile is the upper
    end of its class: at most 0.8 % too large.
    """

    def __init__(self) -> None:
        self.counts: npt.NDArray[np.int64] = np.zeros(_BINS, np.int64)
        self.total_ns = 0
        self.min_ns = 0
        self.max_ns = 0

    @property
    def count(self) -> int:
        """Number of times that it holds."""
        return int(self.counts.sum())

    @property
    def mean_ns(self) -> float:
        """Mean; not a number if it is empty."""
        return self.total_ns / self.count if self.count else math.nan

    def add(self, times_ns: Times) -> None:
        """Add times of nanoseconds, each below 2^53."""
        if not len(times_ns):
            return
        _, bits = np.frexp(times_ns.astype(np.float64))
        shift = np.maximum(bits.astype(np.int64) - (_PRECISION_BITS + 1), 0)
        at = (shift << _PRECISION_BITS) + (times_ns.astype(np.int64) >> shift)
        self.min_ns = min(self.min_ns, int(times_ns.min())) if self.count else int(times_ns.min())
        self.counts += np.bincount(at, minlength=_BINS)
        self.total_ns += int(times_ns.sum())
        self.max_ns = max(self.max_ns, int(times_ns.max()))

    def merge(self, other: Histogram) -> None:
        """Add what another holds."""
        if not other.count:
            return
        self.min_ns = min(self.min_ns, other.min_ns) if self.count else other.min_ns
        self.counts = self.counts + other.counts
        self.total_ns += other.total_ns
        self.max_ns = max(self.max_ns, other.max_ns)

    def quantile_ns(self, share: float) -> int | None:
        """Give the time that `share` (above 0, up to 1) of all do not exceed.

        None if it is empty.
        """
        if not self.count:
            return None
        rank = max(1, math.ceil(share * self.count))
        return min(bounds(int(np.searchsorted(np.cumsum(self.counts), rank)))[1], self.max_ns)

    def classes(self) -> list[tuple[int, int, int]]:
        """Give each class that holds any: least and greatest time, and the count."""
        return [(*bounds(int(at)), int(self.counts[at])) for at in np.flatnonzero(self.counts)]

    def summary(self) -> dict[str, float | int | None]:
        """Give mean, quantiles and greatest, in nanoseconds; None if it is empty."""
        found: dict[str, float | int | None] = {"mean_ns": self.mean_ns if self.count else None}
        found |= {f"{name}_ns": self.quantile_ns(share) for name, share in QUANTILES.items()}
        known = self.count >= LEAST_FOR_P9999
        found["p9999_ns"] = self.quantile_ns(0.9999) if known else None
        return found | {"max_ns": self.max_ns if self.count else None}


def bounds(at: int) -> tuple[int, int]:
    """Give the least and the greatest time of a class of `Histogram`."""
    if at < 2 * _STEPS:
        return at, at
    shift = (at >> _PRECISION_BITS) - 1
    top = at - (shift << _PRECISION_BITS)
    return top << shift, ((top + 1) << shift) - 1


@dataclass
class KindResult:
    """Counts and response times of the transactions of one kind.

    Response times include conflicts and the tries after them.
    """

    committed: int = 0
    rolled_back: int = 0
    conflicts: int = 0
    misses: int = 0
    responses: Histogram = field(default_factory=Histogram)

    @property
    def count(self) -> int:
        """Transactions that ended, the rolled-back ones included."""
        return self.committed + self.rolled_back

    def as_dict(self) -> dict[str, Any]:
        """Plain numbers for JSON."""
        return {
            "count": self.count,
            "committed": self.committed,
            "rolled_back": self.rolled_back,
            "conflicts": self.conflicts,
            "misses": self.misses,
            **self.responses.summary(),
        }


@dataclass
class ClientPart:
    """Results of one client, of one kind in one window, with every response time."""

    committed: int = 0
    rolled_back: int = 0
    conflicts: int = 0
    misses: int = 0
    times_ns: Times = field(default_factory=lambda: np.empty(0, np.uint64))


WINDOW_COLUMNS = (
    "start_s",
    "seconds",
    "kind",
    "count",
    "rolled_back",
    "conflicts",
    "mean_ns",
    "p50_ns",
    "p99_ns",
    "max_ns",
)


class Windows:
    """Collects the parts of all clients into windows of equal length.

    And all of them into the result.
    """

    def __init__(self, kinds: Iterable[str], window_seconds: float) -> None:
        self.window_seconds = window_seconds
        self.kinds = {kind: KindResult() for kind in kinds}
        self._windows: dict[int, dict[str, ClientPart]] = {}

    def add(self, window: int, kind: str, part: ClientPart) -> None:
        """Add what a client did in a window."""
        total = self.kinds[kind]
        seen = self._windows.setdefault(window, {}).setdefault(kind, ClientPart())
        for name in ("committed", "rolled_back", "conflicts", "misses"):
            setattr(total, name, getattr(total, name) + getattr(part, name))
            setattr(seen, name, getattr(seen, name) + getattr(part, name))
        total.responses.add(part.times_ns)
        seen.times_ns = np.concatenate([seen.times_ns, part.times_ns])

    def recent(self) -> tuple[float, dict[str, float]]:
        """Give transactions a second and the quantiles in seconds.

        Over the last window that is likely complete.
        """
        if not self._windows:
            return 0.0, {}
        last = max(self._windows)
        window = self._windows.get(last - 1, self._windows[last])
        times = np.concatenate([part.times_ns for part in window.values()])
        if not len(times):
            return 0.0, {}
        found = np.quantile(times, list(QUANTILES.values())) / 1e9
        return len(times) / self.window_seconds, dict(
            zip(QUANTILES, map(float, found), strict=True)
        )

    def columns(self, seconds: float) -> dict[str, list[Any]]:
        """Give all windows and kinds of a run of so many seconds as columns.

        Windows without a transaction are there with 0. Of a window that is longer than what the run
        left for it, `seconds` is what there was.
        """
        found: dict[str, list[Any]] = {name: [] for name in WINDOW_COLUMNS}
        for window in range(
            max([*self._windows, math.ceil(seconds / self.window_seconds) - 1]) + 1
        ):
            start = window * self.window_seconds
            lasted = min(self.window_seconds, seconds - start)
            for kind in self.kinds:
                part = self._windows.get(window, {}).get(kind, ClientPart())
                times = part.times_ns
                quantiles = np.quantile(times, [0.5, 0.99]) if len(times) else (None, None)
                row = (
                    *(start, lasted if lasted > 0 else self.window_seconds, kind),
                    *(part.committed + part.rolled_back, part.rolled_back, part.conflicts),
                    *(
                        float(times.mean()) if len(times) else None,
                        *(None if q is None else float(q) for q in quantiles),
                    ),
                    int(times.max()) if len(times) else None,
                )
                for name, value in zip(WINDOW_COLUMNS, row, strict=True):
                    found[name].append(value)
        return found

    def response_map(self, seconds: float) -> dict[str, list[Any]]:
        """Give how many transactions of each kind took how long in each window, as columns.

        At most `MOST_COLUMNS` windows: of a long run several are one, from the first on. Times are
        in nanoseconds, in classes a quarter of a factor of two wide.
        """
        found: dict[str, list[Any]] = {name: [] for name in MAP_COLUMNS}
        joined = math.ceil((max(self._windows, default=0) + 1) / MOST_COLUMNS)
        each = joined * self.window_seconds
        columns: dict[tuple[int, str], list[Times]] = {}
        for window, kinds in sorted(self._windows.items()):
            for kind, part in kinds.items():
                columns.setdefault((window // joined, kind), []).append(part.times_ns)
        for (column, kind), times in columns.items():
            start = column * each
            left = seconds - start
            lasted = min(each, left) if left > 0 else each
            edges, counts = np.unique(_class_of(np.concatenate(times)), return_counts=True)
            for at, count in zip(edges.tolist(), counts.tolist(), strict=True):
                row = (start, lasted, str(kind), _least_of(at), _least_of(at + 1) - 1, count)
                for name, value in zip(MAP_COLUMNS, row, strict=True):
                    found[name].append(value)
        return found


MAP_COLUMNS = ("start_s", "seconds", "op", "from_ns", "to_ns", "count")
MOST_COLUMNS = 128
_MAP_BITS = 2


def _class_of(times_ns: Times) -> npt.NDArray[np.int64]:
    """Give the classes of times: four to a factor of two, as those of the core's latency map."""
    _, bits = np.frexp(times_ns.astype(np.float64))
    shift = np.maximum(bits.astype(np.int64) - (_MAP_BITS + 1), 0)
    return (shift << _MAP_BITS) + (times_ns.astype(np.int64) >> shift)


def _least_of(at: int) -> int:
    steps = 1 << _MAP_BITS
    if at < 2 * steps:
        return at
    shift = at // steps - 1
    return (at - shift * steps) << shift


@dataclass
class RunResult:
    """Results of a run, over all clients, from the end of its warm-up on.

    `transactions_log` are the columns of `LOG_COLUMNS`, if they were asked for.
    """

    seconds: float
    kinds: dict[str, KindResult]
    windows: dict[str, list[Any]] = field(default_factory=dict)
    response_map: dict[str, list[Any]] = field(default_factory=dict)
    transactions_log: dict[str, Any] = field(default_factory=dict)
    is_complete: bool = True
    processor_seconds: float | None = None
    """That the clients themselves were at work, SQLite within them; None if that is not known."""

    @property
    def transactions(self) -> int:
        """Transactions that ended, the rolled-back ones included."""
        return sum(kind.count for kind in self.kinds.values())

    @property
    def transactions_per_second(self) -> float:
        """All kinds together."""
        return self.transactions / self.seconds

    @property
    def all_responses(self) -> Histogram:
        """Response times of all kinds together."""
        total = Histogram()
        for kind in self.kinds.values():
            total.merge(kind.responses)
        return total

    def as_dict(self) -> dict[str, Any]:
        """Plain numbers for JSON.

        `tpm` counts a minute's transactions of all kinds (SCHEDULER 5.4.1).
        """
        found: dict[str, Any] = {
            "seconds": self.seconds,
            "transactions": self.transactions,
            "transactions_per_second": self.transactions_per_second,
            "tpm": self.transactions_per_second * 60,
            "clients_processor_seconds": self.processor_seconds,
        }
        if "new_order" in self.kinds:
            # New-Orders a minute, rolled-back ones included (TPC-C clause 5.4.2). No official tpmC
            # without think times.
            found["tpm_c"] = self.kinds["new_order"].count * 60 / self.seconds
        return {
            **found,
            "responses": self.all_responses.summary(),
            "kinds": {str(kind): result.as_dict() for kind, result in self.kinds.items()},
        }


LOG_COLUMNS = ("client", "kind", "start_ns", "end_ns", "committed", "tries")
"""Columns of a transaction: times are from the beginning of the measurement."""
