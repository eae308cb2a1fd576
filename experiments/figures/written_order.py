"""PARALLELISM 4.4 and 7: where pages lie by the order in which they were written.

Two things that the paper tells without a figure. Reads between the writes do not change the layout
(4.4). And pages of writers who take turns fall into one domain each, which caps what their readers
get; writers who are chosen at random have theirs in all domains (7, "Physical data layout").
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from experiments import engine
from experiments.drives.experiment import SEED, drive
from experiments.figures.drawing import Drawing, Shape

PROFILE = "intel-x25e"
PAGE_BYTES, DOMAINS = 4096, 10
Request = tuple[str, int, int]
"""What is done, the page, and who does it."""

_PAGES = 10_240
"""Pages that are written once each, in any order."""
_STRIDES = (1, 4, 7, 9, 10, 11, 14, 17, 19, 20)
_STRIDE_JOBS = 2
_JOBS = (1, 2, 4, 8, 16, 32)
_OF_WRITER = 2048
"""Pages of each writer."""
_LITTLE = 0.05
"""Bandwidths that differ by less than this share are the same."""


def bandwidth_after(before: Sequence[Request], read: Sequence[Request], jobs: int) -> float:
    """Give the bandwidth of reads by so many jobs, in 10^6 bytes a second.

    `before` is done first, in no time.
    """
    order = [*before, *read]
    table = pa.table(
        {
            "time_ns": pa.array(range(len(order)), pa.uint64()),
            "op": [op for op, _, _ in order],
            "offset": pa.array([PAGE_BYTES * page for _, page, _ in order], pa.uint64()),
            "length": pa.array([PAGE_BYTES] * len(order), pa.uint32()),
            "stream": pa.array([stream for _, _, stream in order], pa.uint32()),
        }
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "requests.parquet"
        pq.write_table(table, path)
        found = engine.play(
            drive(PROFILE).profile,
            {"of": str(path), "format": "parquet"},
            pace=f"closed({jobs})",
            seed=SEED,
            untimed=len(before),
            requests=len(read),
        )
    return float(found["bytes_per_second"]) / 1e6


@cache
def by_stride(stride: int, *, is_mixed: bool) -> float:
    """Give the bandwidth of two jobs who read each `stride`-th page in the order of writes.

    Pages are written in a random order, each once; `is_mixed`: with a read of any page after each.
    """
    chance = random.Random(SEED)  # noqa: S311
    pages = list(range(_PAGES))
    chance.shuffle(pages)
    before: list[Request] = []
    for page in pages:
        before.append(("write", page, 0))
        if is_mixed:
            before.append(("read", chance.randrange(_PAGES), 0))
    return bandwidth_after(before, [("read", page, 0) for page in pages[::stride]], _STRIDE_JOBS)


@cache
def of_a_writer(jobs: int, *, is_random: bool) -> float:
    """Give the bandwidth of jobs who read the pages of one of ten writers in any order.

    The writers took turns; `is_random`: the next was chosen at random.
    """
    chance = random.Random(SEED)  # noqa: S311
    turns = [writer for _ in range(_OF_WRITER) for writer in range(DOMAINS)]
    if is_random:
        chance.shuffle(turns)
    written = [0] * DOMAINS
    before: list[Request] = []
    for writer in turns:
        before.append(("write", writer * _OF_WRITER + written[writer], writer))
        written[writer] += 1
    pages = list(range(_OF_WRITER))
    chance.shuffle(pages)
    return bandwidth_after(before, [("read", page, 0) for page in pages], jobs)


def bandwidths(name: str, x: str, series: Mapping[str, Mapping[int, float]]) -> dict[str, Any]:
    """Give a chart of bandwidths in MB/s by a whole number, which `x` names."""
    return {
        "name": name,
        "title": "",
        "x": {"label": x, "unit": "", "is_log": False},
        "y": {"label": "bandwidth", "unit": "MB/s", "is_log": False},
        "series": [
            {"name": which, "points": [{"x": x, "y": y} for x, y in points.items()]}
            for which, points in series.items()
        ],
    }


def _stride_chart() -> dict[str, Any]:
    series = {
        name: {stride: by_stride(stride, is_mixed=is_mixed) for stride in _STRIDES}
        for name, is_mixed in (("writes alone", False), ("with reads between", True))
    }
    return bandwidths("stride_after_mixed_writes", "stride in the order of writes, pages", series)


def _writer_chart() -> dict[str, Any]:
    series = {
        name: {jobs: of_a_writer(jobs, is_random=is_random) for jobs in _JOBS}
        for name, is_random in (("writers in turn", False), ("writers at random", True))
    }
    return bandwidths("reads_of_one_writer", "jobs", series)


def _unchanged() -> tuple[str, bool]:
    """Tell whether the dips are where they were, and as deep, with reads between."""
    dips = [stride for stride in _STRIDES if stride % DOMAINS == 0]
    rest = [stride for stride in _STRIDES if stride % DOMAINS]
    worst = max(
        abs(by_stride(one, is_mixed=True) / by_stride(one, is_mixed=False) - 1) for one in _STRIDES
    )
    low = max(by_stride(one, is_mixed=True) for one in dips)
    high = min(by_stride(one, is_mixed=True) for one in rest)
    said = (
        f"with reads between {low:.1f} MB/s at multiples of {DOMAINS}, {high:.1f} and more "
        f"elsewhere; without them within {worst:.1%}"
    )
    return said, low < high and worst < _LITTLE


def _spread() -> tuple[str, bool]:
    turn, chance = (of_a_writer(_JOBS[-1], is_random=one) for one in (False, True))
    return f"{turn:.0f} MB/s in turn, {chance:.0f} at random ({_JOBS[-1]} jobs)", chance > 2 * turn


def _capped() -> tuple[str, bool]:
    few, many = (of_a_writer(jobs, is_random=False) for jobs in (_JOBS[2], _JOBS[-1]))
    said = f"{few:.0f} MB/s with {_JOBS[2]} jobs, {many:.0f} with {_JOBS[-1]}"
    return said, many < few * (1 + _LITTLE)


def drawings() -> list[Drawing]:
    """Give the two figures that the paper does not draw."""
    mixed = Shape(
        "layout of SSD-S after writes with reads between", "4.4", "as without", _unchanged
    )
    spread = Shape(
        "reads of one of ten writers", "7", "random selection avoids the worst case", _spread
    )
    capped = Shape("data within one domain", "7", "caps the bandwidth", _capped)
    return [
        Drawing(
            "4 mixed",
            "reading in the order of writes that had reads between, SSD-S",
            PROFILE,
            _stride_chart,
            shapes=[mixed],
        ),
        Drawing(
            "7 writers",
            "reading what one of ten writers wrote, SSD-S",
            PROFILE,
            _writer_chart,
            shapes=[spread, capped],
        ),
    ]
