"""SCHEDULER figures 4.3, 4.7, 4.11 and 4.15: the hard disk beside three SSDs.

The paper shows its disk as images. What it says of them is judged on `hard_disk`, a desktop's disk
of that time; none of its parameters was fitted to these figures.
"""

from __future__ import annotations

from functools import partial

from experiments.figures.drawing import Drawing, Shape, chart, points
from experiments.figures.scheduler_curves import (
    THREADS,
    distribution,
    response_read,
    throughput,
)
from experiments.figures.scheduler_drives import DRIVES, HARD_DISK

KINDS = ("read", "write", "mix (50r50w)")
SMALL = 4096
MUCH, CLEARLY = 5.0, 1.5
"""Bars of ours: how many times a much higher throughput is, and one that improves clearly."""
WIDE = 2.0
"""Bar of ours: from how many times on a variance is not small."""
TAILS = (0.05, 0.95)
"""Shares of requests between which response times vary."""


def _in_most_cases() -> tuple[str, bool]:
    disk = {kind: points(throughput(HARD_DISK, "sequential", 1), kind) for kind in KINDS}
    cases, higher, exceptions = 0, 0, []
    for profile, name in DRIVES.items():
        for kind in KINDS:
            ours = points(throughput(profile, "sequential", 1), kind)
            above = sum(ours[size] > disk[kind][size] for size in disk[kind])
            cases, higher = cases + len(disk[kind]), higher + above
            if above < len(disk[kind]):
                exceptions.append(f"{name} {kind}")
    said = f"in {higher} of {cases} sizes and kinds; exceptions are of {', '.join(exceptions)}"
    return said, cases / 2 < higher < cases


def _much_higher() -> tuple[str, bool]:
    disk = points(throughput(HARD_DISK, "random", 1), "read")[SMALL]
    times = {
        name: points(throughput(profile, "random", 1), "read")[SMALL] / disk
        for profile, name in DRIVES.items()
    }
    said = ", ".join(f"{name} {one:.0f} times" for name, one in times.items())
    return said, min(times.values()) > MUCH


def _improves() -> tuple[str, bool]:
    one, thirty = (
        points(throughput(HARD_DISK, "random", depth), "read")[SMALL] for depth in (1, THREADS)
    )
    return f"{thirty / one:.2f} times", thirty > CLEARLY * one


def spread(profile: str) -> float:
    """Give how many times the response of the slow end of random reads is that of the fast end."""
    drawn = chart(response_read(profile), "response_time_read_distribution")
    curve = sorted((y, x) for x, y in points(drawn, drawn["series"][0]["name"]).items())
    fast, slow = (next(x for y, x in curve if y >= share) for share in TAILS)
    return slow / fast


def _no_small_variance() -> tuple[str, bool]:
    disk, others = spread(HARD_DISK), {name: spread(one) for one, name in DRIVES.items()}
    said = ", ".join(f"{name} {times:.2f}" for name, times in others.items())
    words = f"the slowest of 90 % takes {disk:.1f} times the fastest; {said}"
    return words, disk > WIDE and max(others.values()) < CLEARLY


def drawings() -> list[Drawing]:
    """Give the four figures."""
    name = "hard disk"
    return [
        Drawing(
            "4.3",
            f"throughput of sequential access, {name}",
            HARD_DISK,
            partial(throughput, HARD_DISK, "sequential", 1),
            shapes=[
                Shape(
                    "SSDs above the hard disk, sequential access",
                    "4.3.1",
                    "in most cases, with several exceptions",
                    _in_most_cases,
                )
            ],
        ),
        Drawing(
            "4.7",
            f"throughput of random access, single thread, {name}",
            HARD_DISK,
            partial(throughput, HARD_DISK, "random", 1),
            shapes=[
                Shape(
                    f"4 KB random reads of SSDs over the hard disk's (bar: {MUCH:g} times)",
                    "4.3.1",
                    "much higher",
                    _much_higher,
                )
            ],
        ),
        Drawing(
            "4.11",
            f"throughput of random access, thirty threads, {name}",
            HARD_DISK,
            partial(throughput, HARD_DISK, "random", THREADS),
            shapes=[
                Shape(
                    f"hard disk: 4 KB random reads (bar: {CLEARLY:g} times)",
                    "4.3.1",
                    "improve clearly with thirty threads",
                    _improves,
                )
            ],
        ),
        Drawing(
            "4.15",
            f"response times of random access, {name}",
            HARD_DISK,
            partial(distribution, HARD_DISK),
            shapes=[
                Shape(
                    "variance of 4 KB random reads: the hard disk beside SSDs (bars: above "
                    f"{WIDE:g}, below {CLEARLY:g} times)",
                    "4.3.2",
                    "small for SSDs, not for conventional hard disks",
                    _no_small_variance,
                )
            ],
        ),
    ]
