"""STABLEBUFFER table 1 (after uFLIP).

32 KB writes in four patterns on two drives with hybrid mapping.
"""

from __future__ import annotations

from functools import cache, partial

from experiments.drives.experiment import Point, SimulatedDrive, drive, mean_ms

TOLERANCE = 0.25
PUBLISHED_MS = {
    "mtron-sata7035": {
        "sequential": 0.4,
        "random": 9.0,
        "focused in 8 MB": 0.8,
        "4-way partitioned": 0.6,
    },
    "samsung-mcbqe32g": {
        "sequential": 0.6,
        "random": 18.0,
        "focused in 8 MB": 0.9,
        "4-way partitioned": 1.2,
    },
}
SPEC = {
    "sequential": "sequential(size=32Ki,reads=0)",
    "random": "random(size=32Ki,reads=0)",
    "focused in 8 MB": "focused(size=32Ki,reads=0,area=8Mi)",
    "4-way partitioned": "partitioned(size=32Ki,reads=0,ways=4)",
}


@cache
def _drive(name: str) -> SimulatedDrive:
    return drive(name)


@cache
def response_ms(name: str, pattern: str) -> float:
    """Give the mean response time of a pattern on a drive, one request at a time."""
    return mean_ms(_drive(name).run([SPEC[pattern]], 6_000, 4_000))


def points() -> list[Point]:
    """Give the eight figures of the table."""
    return [
        Point(
            f"{name}: {pattern}",
            "STABLEBUFFER table 1",
            published,
            "ms",
            partial(response_ms, name, pattern),
            TOLERANCE,
            fitted=True,
        )
        for name, row in PUBLISHED_MS.items()
        for pattern, published in row.items()
    ]
