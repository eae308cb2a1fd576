"""SCHEDULER 4.3 on the Mtron: performance equations, the two belts, the bathtub."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from experiments.drives.experiment import (
    Point,
    SimulatedDrive,
    drive,
    mean_ms,
    megabytes_per_second,
)

SECTOR = 512
SECTORS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048)
TOLERANCE = 0.15
MIXES = tuple(range(0, 101, 10))


def _random_write(sectors: int) -> float:
    if sectors <= 128:
        return 7298.8
    return 4.6076 * sectors + 7043.9 if sectors <= 1024 else 4.4768 * sectors + 7083.6


@dataclass(frozen=True)
class Equation:
    """A line y = ax + b of the paper: microseconds by sectors."""

    number: str
    name: str
    spec: str
    us: Callable[[int], float]


EQUATIONS = (
    Equation(
        "4.1", "sequential read", "sequential(size={size},reads=1)", lambda x: 4.0247 * x + 41.3
    ),
    Equation("4.2", "random read", "random(size={size},reads=1)", lambda x: 4.0160 * x + 58.0),
    Equation(
        "4.3", "sequential write", "sequential(size={size},reads=0)", lambda x: 4.2495 * x + 26.4
    ),
    Equation("4.4", "random write", "random(size={size},reads=0)", _random_write),
)


@cache
def mtron() -> SimulatedDrive:
    """Give the Mtron."""
    return drive("mtron-pro-7500")


@cache
def response_us(spec: str, sectors: int) -> float:
    """Give the mean response time of requests of so many sectors, one at a time."""
    # Sequential writes of a sector fill a superblock only after thousands.
    requests = 400 if sectors > 256 else 12_000 if spec.startswith("sequential") else 3_000
    return 1e3 * mean_ms(mtron().run([spec.format(size=sectors * SECTOR)], requests, requests // 2))


def points() -> list[Point]:
    """Give each equation at each request size."""
    return [
        Point(
            f"{equation.name}, {sectors} sectors",
            f"SCHEDULER eq. {equation.number}",
            equation.us(sectors),
            "us",
            partial(response_us, equation.spec, sectors),
            TOLERANCE,
            fitted=True,
        )
        for equation in EQUATIONS
        for sectors in SECTORS
    ]


@cache
def mix(pattern: str, percent: int) -> float:
    """Give the bandwidth in MB/s of 4 KB requests of which so many percent are reads."""
    return megabytes_per_second(
        mtron().run([f"{pattern}(size=4Ki,reads={percent / 100})"], 6_000, 3_000)
    )


def bathtub() -> list[tuple[str, Sequence[float]]]:
    """Give the bandwidth by share of reads, 0 ... 100 % (figures 4.20 and 4.26)."""
    return [
        (pattern, [mix(pattern, percent) for percent in MIXES])
        for pattern in ("sequential", "random")
    ]


def belts() -> dict[str, Any]:
    """Give the shares of 4 KB random writes by response time (figure 4.19).

    Below 100 us, between the belts, and in 10 ... 30 ms.
    """
    found = mtron().run(["random(size=4Ki,reads=0)"], 6_000, 3_000)
    table = found["tables"]["latency_histogram"]
    rows = [
        (value, count)
        for op, value, count in zip(table["op"], table["value_ns"], table["count"], strict=True)
        if op == "write"
    ]
    total = sum(count for _, count in rows)
    share = {
        "below 100 us": sum(count for value, count in rows if value < 100_000) / total,
        "10 ... 30 ms": sum(count for value, count in rows if 10e6 <= value <= 30e6) / total,
    }
    return {**share, "elsewhere": 1 - sum(share.values())}
