"""What the simulator does not count by itself: relocations of each set, and a hot set in time."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc
import pyarrow.parquet as pq

from flashwright import _core
from flashwright._core import FlashState, Workload
from flashwright.placement import U16, U32, Placement, Streams

HOT = 0.1
"""Part of the pages that TATP updates most (6.3)."""


class Counted(Placement):
    """One stream, as `none`; counts what is written and relocated of each set of pages."""

    def __init__(self, set_of: npt.NDArray[np.int64], after: int) -> None:
        """Take the set of each page, and the number of page writes after which it counts."""
        self._set_of, self._after = set_of, after

    def begin(self, _flash: FlashState, _seed: int) -> None:
        """Count from nothing."""
        self._writes = 0
        sets = int(self._set_of.max()) + 1
        self.written, self.relocated = (np.zeros(sets, np.int64) for _ in range(2))

    def host_streams(self, lpns: U32, *_: object) -> Streams:
        """Count what the host writes."""
        self._writes += len(lpns)
        self._count(self.written, lpns)
        return np.zeros(len(lpns), np.uint16)

    def relocation_streams(
        self, _block: int, _stream: int, _offsets: U16, lpns: U32, _flash: FlashState
    ) -> Streams:
        """Count what is relocated."""
        self._count(self.relocated, lpns)
        return np.zeros(len(lpns), np.uint16)

    def _count(self, counts: npt.NDArray[np.int64], lpns: U32) -> None:
        if self._writes > self._after:
            counts += np.bincount(self._set_of[lpns], minlength=len(counts))


@dataclass(frozen=True)
class OfSet:
    """What was counted of a set of pages."""

    frequency: float
    """Of updates of a page, over that of the most frequent set."""
    p_gc: float
    relocated: int
    """Pages, of which p_gc was counted."""


def p_gc_of_sets(
    workload: Workload, over_provisioning: float, pages_per_erase_block: int
) -> list[OfSet]:
    """Simulate sets that are mixed in one log, cleaned by LRU; count the second half of the writes.

    Gives the set whose p_gc is nearest to a half first: of it an exponent is known best.
    """
    weights = workload.update_weights()
    frequencies, set_of = np.unique(np.round(weights / weights.max(), 9), return_inverse=True)
    policy = Counted(set_of, workload.page_writes // 2)
    _core.simulate(
        workload,
        placement=policy,
        victim="lru",
        over_provisioning=over_provisioning,
        pages_per_erase_block=pages_per_erase_block,
        start="filled",
        seed=1,
    )
    relocated = policy.relocated
    p_gc = relocated / (relocated + policy.written)
    found = [
        OfSet(float(frequency), float(chance), int(pages))
        for frequency, chance, pages in zip(frequencies, p_gc, relocated, strict=True)
    ]
    return sorted(found, key=lambda one: abs(one.p_gc - 0.5))


def hot_set(trace: Path, page_size: int) -> tuple[float, float]:
    """Tell how uniform and how constant the hottest tenth of a trace's written pages is.

    Gives the share of its updates that the hotter half of it takes, and the share of the hottest
    tenth of the first half of the updates that is so in the second half, too. Each page's first
    write, which makes the database, is no update.
    """
    table = pq.read_table(trace, columns=["op", "offset", "length"])
    table = table.filter(pc.equal(table["op"].cast("string"), "write"))
    offset, length = (table[name].to_numpy().astype(np.int64) for name in ("offset", "length"))
    first, count = offset // page_size, -(-(offset % page_size + length) // page_size)
    begins = np.repeat(np.cumsum(count) - count, count)
    pages = np.repeat(first, count) + np.arange(count.sum()) - begins
    is_first = np.zeros(len(pages), bool)
    is_first[np.unique(pages, return_index=True)[1]] = True
    updates = pages[~is_first]
    known = len(np.unique(pages))
    size = round(HOT * known)
    _, counts = np.unique(updates, return_counts=True)
    ranked = np.sort(counts)[::-1][:size]
    before, after = (_hottest(part, size) for part in np.array_split(updates, 2))
    return (
        float(ranked[: size // 2].sum() / ranked.sum()),
        len(np.intersect1d(before, after)) / size,
    )


def _hottest(updates: npt.NDArray[np.int64], size: int) -> npt.NDArray[np.int64]:
    ids, counts = np.unique(updates, return_counts=True)
    return ids[np.argsort(-counts, kind="stable")[:size]]
