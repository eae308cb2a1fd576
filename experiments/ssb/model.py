"""What a plan takes on a drive with so many streams, from what a prober measures of the drive.

A drive is known by two curves: how long a random read of a page takes by how many are outstanding,
and how fast so many sequential streams are. A plan is known by counts: accesses, different pages,
pages in order, and the processor time of all. Nothing is fitted to times of queries.

A join by index is a closed network of streams that compute and then wait for one page (Little's
law); a scan overlaps computing with the next window of its read-ahead. PARALLELISM section 6.3
shows that an optimizer has to know this; PostgreSQL's knows one cost of a random page.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments.figures.drawing import chart, points
from experiments.ssb.drives import finding
from experiments.ssb.playing import MOST_AHEAD_PAGES
from experiments.ssb.queries import STREAMS, Plan
from experiments.ssb.schema import PAGE_BYTES

DEPTHS = (1, 2, 4, 8, 16, 32)
WINDOW_BYTES = MOST_AHEAD_PAGES * PAGE_BYTES
_PROBE_SECONDS = 30
_NEAR_MOST = 0.9
"""Share of the most throughput at which more outstanding requests are of no use."""
_ROUNDS = 100
_MOST_WORKERS = 15
"""Streams were looked at up to 16."""


@dataclass(frozen=True)
class Costs:
    """Reads of a drive as they were measured."""

    random_seconds: Mapping[int, float]
    """Mean time of a random read of a page by requests outstanding, in seconds."""
    sequential_rates: Mapping[int, float]
    """Bytes a second of all sequential streams together by their number, each reading windows of
    read-ahead one by one."""

    @classmethod
    def probed(cls, drive: str, region_bytes: int) -> Costs:
        """Measure a simulated drive by the prober, for a database of so many bytes."""
        depths = "+".join(map(str, DEPTHS))
        size = PAGE_BYTES >> 10
        spec = f"throughput_read(sizes={size}Ki,depths={depths},accesses=random)"
        random = finding(drive, spec, _PROBE_SECONDS, region_bytes)
        window = WINDOW_BYTES >> 10
        spec = f"streams(sizes={window}Ki,streams={depths})"
        ordered = finding(drive, spec, _PROBE_SECONDS, region_bytes)
        rates = points(chart(random, "throughput_random_read_by_depth"), f"{size} KiB")
        return cls(
            {int(depth): depth * PAGE_BYTES / (rate * 1e6) for depth, rate in rates.items()},
            {
                int(count): rate * 1e6
                for count, rate in points(chart(ordered, "streams"), f"{window} KiB").items()
            },
        )

    def random_at(self, depth: float) -> float:
        """Give the time of a random read with so many outstanding, between measured ones."""
        return float(
            np.interp(depth, list(self.random_seconds), list(self.random_seconds.values()))
        )

    def window_at(self, streams: int) -> float:
        """Give the time of a window of one of so many sequential streams."""
        rate = np.interp(streams, list(self.sequential_rates), list(self.sequential_rates.values()))
        return streams * WINDOW_BYTES / float(rate)

    @property
    def knee(self) -> int:
        """The least number of random reads outstanding that brings nearly the most throughput."""
        rates = {depth: depth / seconds for depth, seconds in self.random_seconds.items()}
        return min(depth for depth in rates if rates[depth] >= _NEAR_MOST * max(rates.values()))


@dataclass(frozen=True)
class Counts:
    """Counts of a plan, of all its parts together."""

    plan: Plan
    accesses: int
    """Accesses to pages."""
    random_pages: int
    """Different pages that are asked for in no order."""
    ordered_pages: int
    """Pages of tables that are read in order."""
    cpu_seconds: float
    """Processor time if all is in memory."""


def reads(accesses: float, pages: float, memory_pages: float) -> float:
    """Give how many of random accesses to so many pages have to be read (Mackert & Lohman 1989).

    As PostgreSQL counts them: none twice while memory has room, then a share of all further ones.
    `pages` are those of the relation.
    """
    if not pages:
        return 0.0
    different = 2 * pages * accesses / (2 * pages + accesses)
    if pages <= memory_pages:
        return min(different, pages)
    limit = 2 * pages * memory_pages / (2 * pages - memory_pages)
    if accesses <= limit:
        return different
    return memory_pages + (accesses - limit) * (pages - memory_pages) / pages


def seconds(costs: Costs, counts: Counts, streams: int, processors: int = 2) -> float:
    """Predict the time of a plan in so many equal parts at once."""
    of_windows = _ordered_seconds(costs, counts, streams, processors)
    if counts.plan is Plan.HASH:
        return of_windows
    if not counts.random_pages:
        return counts.cpu_seconds / min(streams, processors)
    own = counts.cpu_seconds / counts.random_pages
    rate = _reads_a_second(costs, own, streams, processors)
    return counts.random_pages / rate + of_windows


def _ordered_seconds(costs: Costs, counts: Counts, streams: int, processors: int) -> float:
    """Give the time of reading tables in order: of a scan with its computing, which overlaps."""
    windows = counts.ordered_pages / MOST_AHEAD_PAGES
    waiting = windows / streams * costs.window_at(streams)
    if counts.plan is Plan.INDEX:
        return waiting
    return max(waiting, counts.cpu_seconds / min(streams, processors))


def _reads_a_second(costs: Costs, own: float, streams: int, processors: int) -> float:
    """Solve the closed network: streams that compute for `own` seconds and wait for a page.

    Of streams that are not waiting for the drive, at most as many as processors compute.
    """
    low, high = 0.0, processors / own if own else math.inf
    high = min(high, streams / costs.random_at(1))
    for _ in range(_ROUNDS):
        rate = (low + high) / 2
        # Little: as many are outstanding as come meanwhile.
        computing = rate * own
        depth = streams - computing
        if depth >= 1e-9 and rate * costs.random_at(max(depth, 1.0)) < depth:
            low = rate
        else:
            high = rate
    return low


def best(
    costs: Costs, plans: Sequence[Counts], streams: Sequence[int] = STREAMS, processors: int = 2
) -> tuple[Counts, int, float]:
    """Give the plan and the number of streams with the least predicted time, and that time."""
    found = [
        (seconds(costs, counts, count, processors), place, count)
        for place, counts in enumerate(plans)
        for count in streams
    ]
    least, place, count = min(found)
    return plans[place], count, least


@dataclass(frozen=True)
class PlannerSettings:
    """Settings of PostgreSQL's optimizer for a drive."""

    random_page_cost: float
    """Of a random page in units of one in order (`seq_page_cost` 1), with all workers reading."""
    effective_io_concurrency: int
    """Random reads outstanding beyond which throughput hardly grows."""
    max_parallel_workers_per_gather: int
    """Workers beside the leader: as many streams as the drive serves at once."""

    def as_settings(self) -> dict[str, str]:
        """Give them as PostgreSQL reads them."""
        return {name: f"{value:g}" for name, value in self.__dict__.items()}


def settings(costs: Costs) -> PlannerSettings:
    """Derive PostgreSQL's settings from a drive's costs.

    A random page is compared with one in order at the concurrency that the settings ask for, as
    PostgreSQL has one cost for all. It is never below 1: what is read in order is no dearer.
    """
    depth = costs.knee
    random = costs.random_at(depth) / depth
    ordered = costs.window_at(depth) / depth / MOST_AHEAD_PAGES
    return PlannerSettings(
        random_page_cost=round(max(1.0, random / ordered), 2),
        effective_io_concurrency=depth,
        max_parallel_workers_per_gather=min(depth - 1, _MOST_WORKERS),
    )


class ProbedDrive:
    """A drive that is nothing but its measured curves, in virtual time: see `playing.Drive`.

    All outstanding reads go on at once, each as fast as measured with so many outstanding: those of
    a page by the random curve, larger ones by that of sequential streams. What a drive does to one
    kind of read because of the other is not in it, nor is anything that depends on addresses.

    Reads of one length have a clock of their own, in whole reads, at which each ends one after it
    began.
    """

    def __init__(self, costs: Costs) -> None:
        """Begin at time 0, idle."""
        self._costs = costs
        self._now = 0.0
        self._depth = 0
        self._clocks: dict[int, float] = {}
        self._ends: dict[int, list[tuple[float, int]]] = {}
        """Ends of reads under way on the clock of their length, in pages."""
        self._whole: dict[tuple[int, int], float] = {}

    def read(self, number: int, offset: int, length: int) -> None:  # noqa: ARG002  (a drive's)
        """See `playing.Drive`."""
        pages = length // PAGE_BYTES
        end = self._clocks.setdefault(pages, 0.0) + 1
        heapq.heappush(self._ends.setdefault(pages, []), (end, number))
        self._depth += 1

    def _seconds(self, pages: int) -> float:
        """Give the time of a whole read with as many outstanding as there are now."""
        key = pages, self._depth
        if key not in self._whole:
            single = self._costs.random_at(self._depth)
            window = self._costs.window_at(self._depth)
            alone = min(single, window)
            # Between one page and a window the time grows with the pages.
            share = (pages - 1) / (MOST_AHEAD_PAGES - 1)
            self._whole[key] = single if pages == 1 else alone + (window - alone) * share
        return self._whole[key]

    def wait(self, until_ns: int | None) -> list[tuple[int, int]]:
        """See `playing.Drive`."""
        until = math.inf if until_ns is None else until_ns / 1e9
        least, first = math.inf, 0
        for pages, ends in self._ends.items():
            if ends:
                left = (ends[0][0] - self._clocks[pages]) * self._seconds(pages)
                if left < least:
                    least, first = left, pages
        step = max(0.0, min(least, until - self._now))
        for pages, ends in self._ends.items():
            if ends:
                self._clocks[pages] += step / self._seconds(pages)
        self._now += step
        if step < least:
            self._now = max(self._now, until)
            return []
        _, number = heapq.heappop(self._ends[first])
        self._depth -= 1
        return [(number, round(self._now * 1e9))]


def as_numbers(found: PlannerSettings) -> dict[str, Any]:
    """Give settings for JSON."""
    return dict(found.__dict__)
