"""A profile fitted to what was measured of a drive.

The steps follow what each figure depends on: sequential writes give the time of programs; random
writes over the whole drive give spare space and what a page costs on the write path; zones give the
size of superblocks; cold data that is never written gives how fast it is moved; response times
under a rate give the times of reads, suspension, channels, and the pace of cleaning. Each step
simulates the rows that it is about, on a small slice of the drive.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from flashwright import _core
from flashwright._core import InputError
from flashwright.measured import predict
from flashwright.measured.play import CLIENTS_DEPTH, QUICK, PlayedProfile
from flashwright.measured.rows import LatencyRow, Row, WriteRow, sets_of, zones_of
from flashwright.measured.template import MIB, DataSheet, Estimate, profile

OVER_PROVISIONINGS = (0.13, 0.16, 0.19, 0.22, 0.25, 0.29, 0.34)
SUPERBLOCKS = (200, 250, 310, 390, 480, 600, 750)
AGE_EVERY = (5, 10, 20, 50)
USUAL_OVER_PROVISIONING = 0.2
"""Over-provisioning of flash bought by the power of two and sold by the power of ten, and a little
more.
"""
USUAL_ZONE_GAP_US = 110.0
USUAL_SUPERBLOCKS = 450
USUAL = 0.01
"""Relative misfit that is taken for something not being as usual by one deviation."""
LIMIT_SHARE = 0.95
"""A rate of which less is done is above the drive's limit."""
SEARCHED: dict[str, tuple[float, ...]] = {
    "suspend_us": (5, 10, 30, 50, 80, 110, 150),
    "channel_mt_per_s": (600, 750, 900, 1050, 1200, 1600, 2400),
    "burst_stripes": (0, 4, 16, 64),
    "write_slack_us": (500, 2_000, 30_000),
    "trickle_slack_us": (0, 50, 200, 1_000),
    "cleaning_stripes": (2, 4, 8, 16, 32),
    "buffer_stripes": (2.5, 6, 12, 24),
}
BURSTS = 2.0
"""Least ratio of the 99th percentile to the mean of write times at the limit for a drive to be
taken to clean in bursts.
"""
BURST_STRIPES = (1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0, 8.0, 12.0)
QUARTER, WHOLE = 4, 1
"""Parts of the slice that are played. A quarter is enough for throughput; in it superblocks have
too few pages to tell their sizes apart, and reads meet programs and erases too seldom."""
TIMES = {"read_p50_us": 2.0, "read_p99_us": 1.0, "write_p99_us": 1.0}
"""Response times that are fitted, and the weight of each."""
LEAST_DEPTH = 8
"""Random writes of which fewer are under way show how long one takes, not what a drive can do."""
LEAST_SEQUENTIAL_BYTES = 128 << 10
"""The same of sequential ones: bytes under way."""
LIMIT_WEIGHT = 10.0
"""The same of the writes a second at the drive's limit."""


def small(row: WriteRow) -> bool:
    """Tell whether a row is of small random writes."""
    return row.pattern in ("uniform", "zipf", "zones")


def cold(row: WriteRow) -> bool:
    """Tell whether most of the used space is never written again."""
    return any(share == 0 and pages >= 0.7 for pages, share in sets_of(row))


def shallow(row: WriteRow) -> bool:
    """Tell whether the drive waited for the host, as far as the row gives the queue depth."""
    if small(row):
        return row.depth is not None and row.depth < LEAST_DEPTH
    return (
        row.pattern == "sequential"
        and row.request_bytes * (row.depth or 1) < LEAST_SEQUENTIAL_BYTES
    )


@dataclass
class Fit:
    """A fit under way, and what came of it."""

    sheet: DataSheet
    writes: Sequence[WriteRow]
    latencies: Sequence[LatencyRow]
    slices: int
    """Number of slices of the profile that comes of it."""
    tell: Callable[[str], None] = lambda _: None
    threads: int = 2
    estimate: Estimate = field(init=False)
    basis: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Start from the data sheet, and leave out rows in which the drive waited."""
        self.estimate = Estimate(sequential_mib_s=1.0)
        for row in filter(shallow, self.writes):
            self.tell(f"not fitted, as too little was under way for the drive's limit: {row.name}")
        self.writes = [row for row in self.writes if not shallow(row)]

    def toml(self, estimate: Estimate | None = None, slices: int | None = None) -> str:
        """Give the profile of an estimate."""
        summary = (
            f"{self.sheet.capacity_gb:g} GB data-center drive, fitted to measurements; "
            f"one of {slices or self.slices} slices"
        )
        text = profile(
            self.sheet, estimate or self.estimate, slices or self.slices, self.basis, summary
        )
        _core.check_profile(text, f"the profile of {self.sheet.name}")
        return text

    def play(
        self, rows: Iterable[Row], estimate: Estimate | None = None, part: int = QUARTER
    ) -> list[Any]:
        """Predict rows, on a part of the slice that the profile will be."""
        drive = PlayedProfile.of(self.toml(estimate, self.slices * part))
        return predict.many(list(rows), drive, QUICK, threads=self.threads)

    def run(self) -> str:
        """Fit, and give the profile as TOML.

        Raises InputError if nothing says how fast the drive writes in sequence; Cancelled.
        """
        self._sequential()
        self._zone_gap()
        self._small_writes()
        self.find_bursts()
        self._superblocks()
        self._cold_data()
        self._level()
        self._response_times()
        return self.toml()

    def _set(self, basis: str, **values: Any) -> None:
        self.estimate = replace(self.estimate, **values)
        self.basis.update(dict.fromkeys(values, basis))
        said = ", ".join(f"{key} {value:.4g}" for key, value in values.items())
        self.tell(f"{said} ({basis})")

    def _steady(self, rows: Iterable[WriteRow]) -> list[WriteRow]:
        return [row for row in rows if row.steady_mib_s]

    def _sequential(self) -> None:
        found = self._steady(row for row in self.writes if row.pattern == "sequential")
        if found:
            speed = float(np.median([row.steady_mib_s for row in found]))
            return self._set("measured: sequential writes", sequential_mib_s=speed)
        zones = self._steady(row for row in self.writes if row.pattern == "zns")
        fastest = max((row.steady_mib_s or 0.0 for row in zones), default=0.0)
        if fastest:
            return self._set("measured: the widest zones", sequential_mib_s=fastest)
        if self.sheet.sequential_write_mb_s:
            speed = self.sheet.sequential_write_mb_s * 1e6 / MIB
            return self._set("data sheet: sequential writes", sequential_mib_s=speed)
        raise InputError(
            f"{self.sheet.name}: nothing says how fast it writes in sequence; right would be a row "
            "`sequential`, or --data-sheet sequential_write_mb_s=1400"
        )

    def _zone_gap(self) -> None:
        """Find what the host needs between two writes to a zone, where that is the limit."""
        zones = self._steady(
            row for row in self.writes if row.pattern == "zns" and zones_of(row)[0] == 1
        )
        if not zones:
            return
        widest = max(zones, key=lambda row: zones_of(row)[1])
        measured_us = widest.request_bytes / MIB / (widest.steady_mib_s or 1.0) * 1e6
        flash_us = widest.request_bytes / MIB / self.estimate.sequential_mib_s * 1e6
        link_us = widest.request_bytes / self.sheet.link_mb_per_s + self.estimate.host_us
        if measured_us > flash_us * 1.02:
            self._set("measured: the widest zones", zone_gap_us=max(0.0, measured_us - link_us))
        else:
            self._set("assumed: as on other drives of the source", zone_gap_us=USUAL_ZONE_GAP_US)

    def _small_writes(self) -> None:
        """Find spare space, and what pages cost on the write path."""
        # The cost of moving cold data is not known yet.
        rows = self._steady(row for row in self.writes if small(row) and not cold(row))
        if not rows:
            return
        measured = np.array([_page_us(row.steady_mib_s) for row in rows])
        best = (math.inf, USUAL_OVER_PROVISIONING, 0.0, 0.0)
        for op in OVER_PROVISIONINGS:
            free = replace(self.estimate, over_provisioning=op)
            found = self.play(rows, free)
            flash = np.array([_page_us(one.predicted["steady_mib_s"]) for one in found])
            relocated = np.array([one.write_amplification - 1 for one in found])
            program_us = _page_us(self.estimate.sequential_mib_s)
            score, gap, per_page = path_costs(measured, flash, relocated, program_us)
            score += (USUAL * math.log(op / USUAL_OVER_PROVISIONING) / 0.35) ** 2
            if score < best[0]:
                best = (score, op, gap, per_page)
        _, op, gap, per_page = best
        self._set("measured: random writes", over_provisioning=op)
        self._set("measured: random writes", write_gap_us=gap, relocation_gap_us=per_page)

    def find_bursts(self) -> None:
        """Find out whether cleaning goes in bursts, from how long writes take at the limit.

        A host that has N writes outstanding waits N / rate for each, if the drive takes them
        evenly. Where one in a hundred takes much longer, the drive takes few while it cleans. N is
        what rows of latency are played with, whoever measured them.
        """
        rows = [row for row in self.latencies if row.write_p99_us and self._is_limited(row)]
        if not rows:
            return
        row = max(rows, key=_rate)
        longest_us = row.write_p99_us or 0.0
        evenly_us = CLIENTS_DEPTH / (row.writes_per_s or 1.0) * 1e6
        if longest_us < BURSTS * evenly_us:
            return
        gap = longest_us / CLIENTS_DEPTH
        self._set("measured: writes at the limit", trickle_gap_us=gap, write_slack_us=0.0)

        def misfit(stripes: float) -> float:
            found = self.play([row], self._with("burst_stripes", stripes), WHOLE)[0].predicted
            pairs = ((found[key], getattr(row, key)) for key in ("write_p50_us", "write_p99_us"))
            return sum(math.log(ours / theirs) ** 2 for ours, theirs in pairs if theirs)

        best = min(BURST_STRIPES, key=misfit)
        self._set("measured: writes at the limit", burst_stripes=best)

    @staticmethod
    def _is_limited(row: LatencyRow) -> bool:
        return bool(row.writes_per_s) and (row.writes_per_s or 0.0) < LIMIT_SHARE * _asked(row)

    def _superblocks(self) -> None:
        # Where several zones are written at a time each superblock is of all, whatever its size.
        rows = self._steady(
            row for row in self.writes if row.pattern == "zns" and zones_of(row)[0] == 1
        )
        if not rows:
            return

        def unusual(count: int) -> float:
            return (0.06 * math.log(count / USUAL_SUPERBLOCKS) / 0.3) ** 2

        found = self._best("superblocks", SUPERBLOCKS, rows, unusual, WHOLE)
        self._set("measured: zones", superblocks=found)

    def _cold_data(self) -> None:
        rows = self._steady(row for row in self.writes if cold(row))
        if rows:
            self._set("measured: cold data", age_every=self._best("age_every", AGE_EVERY, rows))

    def _best(
        self,
        key: str,
        values: Sequence[int],
        rows: Sequence[WriteRow],
        unusual: Callable[[int], float] = lambda _: 0.0,
        part: int = QUARTER,
    ) -> int:
        def misfit(value: int) -> float:
            return unusual(value) + sum(
                math.log(one.predicted["steady_mib_s"] / one.row.steady_mib_s) ** 2
                for one in self.play(rows, self._with(key, value), part)
            )

        return min(values, key=misfit)

    def _with(self, key: str, value: float) -> Estimate:
        changed: dict[str, Any] = {key: value}
        return replace(self.estimate, **changed)

    def _level(self, part: int = QUARTER) -> None:
        """Take out what all small writes are off by together."""
        rows = self._steady(row for row in self.writes if small(row) and not cold(row))
        for _ in range(2 if rows else 0):
            found = self.play(rows, part=part)
            off = float(
                np.median(
                    [
                        _page_us(one.row.steady_mib_s) - _page_us(one.predicted["steady_mib_s"])
                        for one in found
                    ]
                )
            )
            # Not to nothing: where flash is the limit, a shorter gap helps no small write.
            gap = max(self.estimate.write_gap_us / 2, self.estimate.write_gap_us + off)
            self._set("measured: random writes", write_gap_us=gap)

    def _response_times(self) -> None:
        rows = [row for row in self.latencies if row.read_p50_us and row.writes_per_s]
        below = [row for row in rows if (row.writes_per_s or 0.0) >= LIMIT_SHARE * _asked(row)]
        if not below:
            return
        slowest = min(below, key=lambda row: row.offered_per_s)
        if slowest.write_p50_us:
            host_us = max(1.0, slowest.write_p50_us - 1.0)
            self._set("measured: writes at a low rate", host_us=host_us)
        self._read_time(slowest)
        limited = sorted((row for row in rows if row not in below), key=_rate)
        self._limit(limited)
        # With the limit: what makes some of them shorter may take flash from all writes.
        judged = sorted({below[0], below[len(below) // 2], below[-1], *limited[:1]}, key=_rate)
        score = self._misfit(judged, self.estimate)
        in_bursts = ("burst_stripes", "write_slack_us")
        pace = in_bursts if self.estimate.trickle_gap_us else ("trickle_slack_us",)
        for key, values in SEARCHED.items():
            if key in pace:
                continue
            for value in values:
                if value == getattr(self.estimate, key):
                    continue
                other = self._misfit(judged, self._with(key, value))
                if other < score * 0.98:
                    score = other
                    self.estimate = self._with(key, value)
            self._set("measured: response times", **{key: getattr(self.estimate, key)})
        self._level(WHOLE)
        self._limit(limited)
        self._read_time(slowest)

    def _read_time(self, row: LatencyRow) -> None:
        """Find the time of a read, from the median where little else is going on."""
        found = self.play([row], part=WHOLE)[0].predicted["read_p50_us"]
        read_us = max(5.0, self.estimate.read_us + (row.read_p50_us or found) - found)
        self._set("measured: reads at a low rate", read_us=read_us)

    def _limit(self, rows: Sequence[LatencyRow]) -> None:
        """Find what reads take from writes at the limit, from rates above it, ascending."""
        if not rows:
            return
        row = rows[0]
        found = self.play([row], part=WHOLE)[0].predicted
        off = 1e6 / (row.writes_per_s or 1.0) - 1e6 / found["writes_per_s"]
        reads = found["reads_per_s"] / found["writes_per_s"]
        # One step: where flash is the limit beside it, more would take too much at lower rates.
        gap = min(max(0.0, self.estimate.read_gap_us + off / reads), 60.0)
        self._set("measured: the limit beside reads", read_gap_us=gap)

    def _misfit(self, rows: Sequence[LatencyRow], estimate: Estimate) -> float:
        total = 0.0
        for one in self.play(rows, estimate, WHOLE):
            judged = {"writes_per_s": LIMIT_WEIGHT} if self._is_limited(one.row) else TIMES
            for key, weight in judged.items():
                measured = getattr(one.row, key)
                if measured:
                    off = abs(math.log(max(one.predicted[key], 0.1) / measured))
                    total += weight * min(off, 2.0) ** 2
        return total


def _rate(row: LatencyRow) -> float:
    return row.offered_per_s


def _asked(row: LatencyRow) -> float:
    """Give the writes a second that were asked for, without the client's own."""
    return row.offered_per_s * 0.99


def _page_us(mib_s: float | None) -> float:
    """Microseconds that a page of 4 KiB takes at a throughput."""
    return 4096 / MIB / max(mib_s or 0.0, 1e-9) * 1e6


def path_costs(
    measured: np.ndarray[Any, Any],
    flash: np.ndarray[Any, Any],
    relocated: np.ndarray[Any, Any],
    program_us: float,
) -> tuple[float, float, float]:
    """Fit `max(flash, gap + per_page * relocated)` to times of a page, in microseconds.

    `relocated` is relocated pages for each page of the host's. Rows over the whole drive alone
    hardly tell the two costs apart: of what fits nearly as well those are taken that are like the
    time of a program, and of a read and a program. Gives the misfit, squared, with what they are
    unlike; gap; per_page.
    """
    best = (math.inf, 0.0, 0.0)
    for per_page in program_us * np.geomspace(0.05, 4.0, 45):
        gap = max(float(np.median(measured - per_page * relocated)), 0.05 * program_us)
        found = np.maximum(flash, gap + per_page * relocated)
        misfit = float(np.mean(np.log(found / measured) ** 2))
        unlike = math.log(gap / program_us) ** 2 + math.log(per_page / (1.3 * program_us)) ** 2
        score = misfit + (USUAL / 0.7) ** 2 * unlike
        if score < best[0]:
            best = (score, gap, float(per_page))
    return best
