"""PARALLELISM sections 4.3 and 5 on SSD-S: parallel jobs, interference, read-ahead, layout.

The profile `intel-x25e` was fitted to the points marked so. Some of the others are made of these by
construction, as a ratio is of two points, or as random writes cost what sequential ones do where
pages are mapped. What is left is what the mechanisms predict.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import pairwise

from experiments.drives.experiment import (
    Point,
    SimulatedDrive,
    drive,
    mean_ms,
    megabytes_per_second,
)

GIB = 1 << 30
REQUESTS, WARM_UP = 20_000, 4_000
DEPTHS = (1, 2, 4, 6, 8, 10, 12, 16, 24, 32)
TOLERANCE = 0.2
DOMAINS = 10


@cache
def ssd_s() -> SimulatedDrive:
    """Give SSD-S, filled in order as section 3.2 does before each experiment."""
    return drive("intel-x25e")


def random(size: str, reads: int, number: int = 0) -> str:
    """Give a random job over 1024 MB, as in section 3.2."""
    return f"random(size={size},reads={reads},range=1Gi,offset={number}Gi)"


def sequential(size: str, reads: int, number: int = 0) -> str:
    """Give a sequential job over the number-th 1024 MB."""
    return f"sequential(size={size},reads={reads},range=1Gi,offset={number}Gi)"


@cache
def bandwidth(*patterns: str) -> float:
    """Give the aggregate bandwidth of jobs side by side, in MB/s."""
    return megabytes_per_second(ssd_s().run(patterns, REQUESTS, WARM_UP))


@cache
def shares() -> tuple[float, float]:
    """Give the bandwidths in MB/s of a random reader and a sequential writer side by side."""
    found = ssd_s().run((random("4Ki", 1), sequential("4Ki", 0, 1)), REQUESTS, WARM_UP)
    reads, writes = found["read_bytes"], found["written_bytes"]
    return reads / found["seconds"] / 1e6, writes / found["seconds"] / 1e6


def jobs(count: int, size: str, reads: int) -> float:
    """Give the bandwidth of so many random jobs."""
    return bandwidth(*[random(size, reads)] * count)


@cache
def latency_in(domains: int, count: int) -> float:
    """Give the mean latency in ms of so many random readers within some of the domains.

    A chunk of one page is in each in turn.
    """
    apart = DOMAINS // domains
    pattern = f"random(size=4Ki,reads=1,range=1Gi,align={4 * apart}Ki)"
    return mean_ms(ssd_s().run([pattern] * count, REQUESTS, WARM_UP))


def streams(count: int) -> float:
    """Give the bandwidth of so many sequential readers of 4 KB (section 5.3).

    Each is in its own 1024 MB.
    """
    return bandwidth(*(sequential("4Ki", 1, number) for number in range(count)))


def knee() -> float:
    """Give the number of jobs beyond which a further one adds little (4 KB random reads).

    Each further one adds less than a tenth of what the first one has.
    """
    alone = jobs(1, "4Ki", 1)
    for fewer, more in pairwise(DEPTHS):
        if (jobs(more, "4Ki", 1) - jobs(fewer, "4Ki", 1)) / (more - fewer) < alone / 10:
            return fewer
    return DEPTHS[-1]


def pair(domain: str) -> float:
    """Give the bandwidth of two readers in one domain, or in two (section 4.3)."""
    # Chunks 0, 10, 20 ... lie in one domain, and alternate between its two sub-domains.
    first = "stride(size=4Ki,reads=1,distance=80Ki,range=1Gi)"
    offset = 80 * 6000 if domain == "same" else 80 * 6000 + 4
    return bandwidth(first, f"stride(size=4Ki,reads=1,distance=80Ki,range=1Gi,offset={offset}Ki)")


def points() -> list[Point]:
    """Give all published figures of the sections, fitted or not."""

    def point(
        what: str,
        where: str,
        published: float,
        ours: Callable[[], float],
        *,
        unit: str = "MB/s",
        fitted: bool = False,
        follows: str = "",
        remark: str = "",
    ) -> Point:
        where = f"PARALLELISM {where}"
        return Point(what, where, published, unit, ours, TOLERANCE, fitted, follows, remark)

    disagree = (
        "145 MB/s at 32 jobs means 0.9 ms a request, and 5.4 says 0.7: no drive can have both"
    )
    write = sequential("4Ki", 0, 1), random("4Ki", 0, 1)
    return [
        point("4 KB random reads, 1 job", "table 2", 21.3, lambda: jobs(1, "4Ki", 1), fitted=True),
        point(
            "4 KB random reads, 32 jobs",
            "5.1",
            145,
            lambda: jobs(32, "4Ki", 1),
            fitted=True,
            remark=disagree,
        ),
        point(
            "the same, 32 jobs over 1",
            "5.1",
            7.2,
            lambda: jobs(32, "4Ki", 1) / jobs(1, "4Ki", 1),
            unit="x",
            follows="two fitted points",
        ),
        point("returns diminish beyond, jobs", "5.1 (8-10)", 9, knee, unit="jobs"),
        point("16 KB random reads, 1 job", "5.1", 65.5, lambda: jobs(1, "16Ki", 1)),
        point(
            "16 KB random reads, 32 jobs", "5.1", 225.5, lambda: jobs(32, "16Ki", 1), fitted=True
        ),
        point(
            "64 KB sequential reads, 1 job", "5.1", 221.3, lambda: bandwidth(sequential("64Ki", 1))
        ),
        point("4 KB writes, 32 jobs", "5.1", 186.1, lambda: jobs(32, "4Ki", 0), fitted=True),
        point(
            "4 KB, 32 jobs: writes over reads",
            "5.1",
            1.283,
            lambda: jobs(32, "4Ki", 0) / jobs(32, "4Ki", 1),
            unit="x",
            follows="two fitted points",
        ),
        point(
            "highest write bandwidth (256 KB, 32 jobs)",
            "5.1",
            200,
            lambda: jobs(32, "256Ki", 0),
            fitted=True,
            remark="`in_flight_pages` was set for it",
        ),
        point(
            "sequential reads alone",
            "table 2",
            72.6,
            lambda: streams(1),
            follows="one sequential stream",
        ),
        point("sequential writes alone", "table 2", 61.4, lambda: bandwidth(write[0]), fitted=True),
        point(
            "random writes alone",
            "table 2",
            59.4,
            lambda: bandwidth(write[1]),
            follows="sequential writes alone",
        ),
        point(
            "sequential reads + sequential writes",
            "table 2",
            109.2,
            lambda: bandwidth(sequential("4Ki", 1), write[0]),
            fitted=True,
        ),
        point(
            "sequential reads + random writes",
            "table 2",
            103.5,
            lambda: bandwidth(sequential("4Ki", 1), write[1]),
            follows="the same with sequential writes",
        ),
        point(
            "random reads + sequential writes",
            "table 2",
            32.8,
            lambda: bandwidth(random("4Ki", 1), write[0]),
            follows="the same with random writes",
        ),
        point("of these the reads", "table 2", 19.4, lambda: shares()[0]),
        point("of these the writes", "table 2", 13.4, lambda: shares()[1]),
        point(
            "random reads + random writes",
            "table 2",
            33.2,
            lambda: bandwidth(random("4Ki", 1), write[1]),
            fitted=True,
        ),
        point("one sequential stream of 4 KB reads", "5.3", 65, lambda: streams(1), fitted=True),
        point("two sequential streams of 4 KB reads", "5.3", 37, lambda: streams(2)),
        point(
            "two streams over one: the dip",
            "5.3",
            0.57,
            lambda: streams(2) / streams(1),
            unit="x",
            follows="one and two streams",
        ),
        point("32 jobs in one domain", "5.4", 3, lambda: latency_in(1, 32), unit="ms", fitted=True),
        point(
            "32 jobs over ten domains",
            "5.4",
            0.7,
            lambda: latency_in(10, 32),
            unit="ms",
            follows="4 KB random reads, 32 jobs",
            remark=disagree,
        ),
        point(
            "one domain over ten",
            "5.4",
            4.2,
            lambda: latency_in(1, 32) / latency_in(10, 32),
            unit="x",
            follows="two of these",
        ),
        point("2 readers in one domain", "4.3", 33, lambda: pair("same")),
        point("2 readers in two domains", "4.3", 40, lambda: pair("other")),
    ]
