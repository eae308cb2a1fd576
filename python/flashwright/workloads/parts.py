"""Taking the requests to some part of a device out of a trace."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

Ranges = list[tuple[int, int]]
"""Byte ranges of the device, as (offset, length), in order and apart from each other."""


def union(ranges: Ranges) -> Ranges:
    """Merge ranges that overlap or touch."""
    merged: Ranges = []
    for offset, length in sorted(ranges):
        end = offset + length
        if merged and offset <= merged[-1][0] + merged[-1][1]:
            begin, old = merged[-1]
            merged[-1] = (begin, max(begin + old, end) - begin)
        else:
            merged.append((offset, length))
    return merged


def inside(offsets: npt.NDArray[np.uint64], ranges: Ranges) -> npt.NDArray[np.bool_]:
    """Tell of each offset whether a range holds it."""
    if not ranges:
        return np.zeros(len(offsets), bool)
    starts, lengths = np.array(ranges, np.uint64).T
    at = np.searchsorted(starts, offsets, side="right").astype(np.int64) - 1
    holds: npt.NDArray[np.bool_] = (at >= 0) & (offsets - starts[at] < lengths[at])
    return holds


def take_part(table: pa.Table, ranges: Ranges, *, keep_inside: bool) -> pa.Table:
    """Keep the requests that begin inside of `ranges` (or outside), and all flushes."""
    chosen = inside(table["offset"].to_numpy(), ranges) == keep_inside
    flush = pc.equal(table["op"].cast(pa.string()), pa.scalar("flush")).to_numpy()
    return table.filter(pa.array(chosen | flush))


def write_without_log(trace: Path, output: Path) -> Path:
    """Write a recording without the database's log to `output`.

    NAME.json beside NAME.parquet tells where the log lies.

    Raises OSError, and KeyError if the recording does not tell.
    """
    about = json.loads(trace.with_suffix(".json").read_text())
    ranges = [(offset, length) for offset, length in about["layout"]["log"]]
    table = take_part(pq.read_table(trace), ranges, keep_inside=False)
    output.parent.mkdir(parents=True, exist_ok=True)
    partial = output.with_suffix(".partial")
    pq.write_table(table, partial, compression="zstd")
    partial.replace(output)
    return output
