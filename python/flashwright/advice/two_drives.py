"""How long clients take whose log is on a drive of its own.

Each drive is played by itself. Together they are a closed network (`closed_network`): clients queue
at the log's drive, one flush at a time; between two commits they think, and read from the
other one. What the database writes there goes on behind their backs: a read that finds such a write
under way waits for the rest of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

from flashwright.advice.closed_network import rate_of

_ROUNDS = 50
_NEAR = 1e-4


@dataclass(frozen=True)
class Times:
    """What one drive did for its requests, sent one by one, in seconds."""

    reads: int
    reading: float
    """All reads together."""
    others: float
    """All else together."""
    rest: float
    """Mean rest of a write that somebody finds under way: the mean square over twice the mean."""
    flushes: int

    @property
    def busy(self) -> float:
        """All requests together."""
        return self.reading + self.others


def times_of(table: Path, plays: float) -> Times:
    """Read the requests of a run that played its load so many times; `plays` is above 0."""
    found = pq.read_table(table, columns=["latency_ns", "op"])
    took = found["latency_ns"].to_numpy().astype(np.float64) / 1e9
    op = found["op"].cast("string")
    is_read, is_write, is_flush = (
        pc.equal(op, name).to_numpy(zero_copy_only=False) for name in ("read", "write", "flush")
    )
    writes = took[is_write]
    return Times(
        round(is_read.sum() / plays),
        float(took[is_read].sum()) / plays,
        float(took[~is_read].sum()) / plays,
        float((writes**2).sum() / (2 * writes.sum())) if writes.sum() > 0 else 0.0,
        round(is_flush.sum() / plays),
    )


def seconds_of(data: Times, log: Times, clients: int, thinks: float) -> float:
    """Give the time in which clients get through a load.

    `thinks`: seconds that they think, of all requests together. It is at least the time that either
    drive is busy.
    """
    commits = max(log.flushes, 1)
    least = max(data.busy, log.busy)
    taken = data.busy + log.busy + thinks
    for _ in range(_ROUNDS):
        under_way = min(1.0, data.others / taken) if taken else 0.0
        reading = (data.reading + data.reads * under_way * data.rest) / commits
        away = clients * thinks / commits + reading
        found = max(least, commits / rate_of(clients, [log.busy / commits], away))
        if abs(found - taken) <= _NEAR * taken:
            break
        taken = (taken + found) / 2
    return taken
