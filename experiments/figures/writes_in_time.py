"""STABLEBUFFER figure 3: whether writes that are near in time are near in place, too.

The paper shows a segment of its trace and says that writes look random over a short time and are
clustered over a long one (4.1). Measured: the share of different pages of a period that have
another one of the period near them. Where a short period has few and a long one many, beyond what
pages drawn at random would have, both are so. The bars are ours, as the paper gives none.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc
import pyarrow.parquet as pq

from experiments.data import TPCC_DATA
from experiments.figures.drawing import SEED, Drawing, Shape
from experiments.figures.layered import TRACE_PAGE_BYTES, axis

PERIODS = (16, 64, 256, 1024, 4096, 16384)
"""Writes of a period."""
SHORT, LONG = PERIODS[0], 4096
NEAR_PAGES = 4
"""How far apart pages are at most that count as clustered."""
MOST_PERIODS = 300
"""Periods that are looked at, from the start of the trace."""
FEW, MANY = 0.1, 0.5
"""Shares of clustered pages that look random, and clustered."""

Pages = npt.NDArray[np.int64]


def _written() -> Pages:
    table = pq.read_table(TPCC_DATA, columns=["op", "offset"])
    is_write = pc.equal(table["op"].cast("string"), "write")
    offset: Pages = table["offset"].filter(is_write).to_numpy().astype(np.int64)
    return offset // TRACE_PAGE_BYTES


def clustered(pages: Pages, period: int) -> float:
    """Give the mean share of a period's different pages that have another one near them."""
    shares = []
    for begin in range(0, min(len(pages), MOST_PERIODS * period) - period + 1, period):
        near = np.diff(np.unique(pages[begin : begin + period])) <= NEAR_PAGES
        has_near = np.concatenate([[False], near]) | np.concatenate([near, [False]])
        shares.append(float(has_near.mean()))
    return float(np.mean(shares))


@cache
def shares() -> dict[str, dict[int, float]]:
    """Give the shares by period: of our trace, and of pages drawn at random over its addresses."""
    pages = _written()
    drawn = np.random.default_rng(SEED).integers(0, int(pages.max()) + 1, len(pages))
    return {
        name: {period: clustered(of, period) for period in PERIODS}
        for name, of in (("our trace", pages), ("pages drawn at random", drawn))
    }


def _chart() -> dict[str, Any]:
    series = [
        {"name": name, "points": [{"x": period, "y": 100 * one} for period, one in found.items()]}
        for name, found in shares().items()
    ]
    return {
        "name": "figure 3",
        "title": "",
        "x": axis("period", "writes", is_log=True),
        "y": axis(f"pages with another within {NEAR_PAGES} pages", "%"),
        "series": series,
    }


def _judged() -> tuple[str, bool]:
    ours, drawn = shares().values()
    words = ", ".join(
        f"{period:,} writes: {ours[period]:.0%} (drawn at random: {drawn[period]:.1%})"
        for period in (SHORT, LONG)
    )
    is_clustered = ours[LONG] > MANY and ours[LONG] > 2 * drawn[LONG]
    return words, ours[SHORT] < FEW and is_clustered


def drawings() -> list[Drawing]:
    """Give figure 3, in numbers."""
    shape = Shape(
        f"pages of a period with another within {NEAR_PAGES} pages (bars: below {FEW:.0%}, "
        f"above {MANY:.0%} and twice what is drawn)",
        "4.1, fig. 3",
        "random in a short time, clustered in a relatively long one",
        _judged,
    )
    return [Drawing("3 trace", "clusters of writes", "trace", _chart, shapes=[shape])]
