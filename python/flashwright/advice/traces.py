"""The requests of a load as another setup would send them, each as a trace of its own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from flashwright.advice.load import FLUSH, LOG, TRIM, WRITE
from flashwright.advice.setup import APART, HERE, Setup

_PAGE_BYTES = 4096
_OPERATIONS = ("read", "write", "trim", "flush")
LOG_HANDLE = 1
"""Placement handle of the log; everything else has 0."""
Longs = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass
class Requests:
    """Requests by columns, in the order of their times."""

    time_ns: Longs
    op: Longs
    offset: Longs
    length: Longs
    stream: Longs

    def taken(self, which: Bools | Longs) -> Requests:
        """Give some of them."""
        return Requests(
            self.time_ns[which],
            self.op[which],
            self.offset[which],
            self.length[which],
            self.stream[which],
        )

    @property
    def is_log(self) -> Bools:
        """Tell which are writes of the log."""
        found: Bools = (self.op == WRITE) & (self.stream == LOG)
        return found

    @property
    def written_bytes(self) -> int:
        """Bytes written."""
        return int(self.length[self.op == WRITE].sum())


def load(path: Path) -> Requests:
    """Read what `load.read` has kept."""
    table = pq.read_table(path, columns=["time_ns", "op", "offset", "length", "stream"])
    op = table["op"].combine_chunks()
    numbers = np.array([_OPERATIONS.index(name) for name in op.dictionary.to_pylist()], np.int64)
    return Requests(
        table["time_ns"].to_numpy().astype(np.int64),
        numbers[op.indices.to_numpy()],
        table["offset"].to_numpy().astype(np.int64),
        table["length"].to_numpy().astype(np.int64),
        table["stream"].to_numpy().astype(np.int64),
    )


def write(requests: Requests, path: Path, *, handles: bool = False) -> None:
    """Write them in the canonical form, with a placement handle for the log if that is asked."""
    ops = pa.DictionaryArray.from_arrays(
        pa.array(requests.op.astype(np.uint8)), pa.array(_OPERATIONS)
    )
    columns: dict[str, Any] = {
        "time_ns": pa.array(requests.time_ns.astype(np.uint64)),
        "op": ops,
        "offset": pa.array(requests.offset.astype(np.uint64)),
        "length": pa.array(requests.length.astype(np.uint32)),
        "stream": pa.array(requests.stream.astype(np.uint32)),
        "latency_ns": pa.nulls(len(requests.op), pa.uint64()),
    }
    if handles:
        handle = np.where(requests.is_log, LOG_HANDLE, 0).astype(np.uint8)
        columns["handle"] = pa.array(handle)
    pq.write_table(pa.table(columns), path, compression="lz4")


def of(setup: Setup) -> dict[str, Requests]:
    """Give what each drive of a setup gets, by the drive's name."""
    requests = load(setup.load.path)
    if not setup.trims:
        requests = requests.taken(requests.op != TRIM)
    if setup.merge_seconds:
        requests = merged(requests, setup.merge_seconds)
    if setup.log_apart is None:
        return {HERE: requests}
    log, rest = apart(requests)
    return {HERE: rest, APART: log}


def merged(requests: Requests, seconds: float) -> Requests:
    """Let commits of the same `seconds` share one flush, and write each log page once for it.

    Log pages that are written again in that time (the last page of one commit is the first of the
    next) are written once; they and one flush come at the end of the time. What a file system
    writes to its own journal for each flush stays: how much of it would be left is not known, so
    the gain is on the low side.
    """
    wide = round(seconds * 1e9)
    is_log, is_flush = requests.is_log, requests.op == FLUSH
    group = requests.time_ns // wide
    pages = _pages(requests, group, np.flatnonzero(is_log))
    flushed = np.unique(group[is_flush])
    nothing = np.zeros(len(flushed), np.int64)
    flushes = Requests(
        (flushed + 1) * wide - 1, np.full(len(flushed), FLUSH), nothing, nothing, nothing
    )
    pages.time_ns = (pages.time_ns + 1) * wide - 1
    return in_order([requests.taken(~is_log & ~is_flush), pages, flushes])


def _pages(requests: Requests, group: Longs, rows: Longs) -> Requests:
    """Give the log pages written in each group, each once, as runs; times are groups."""
    begin, length = requests.offset[rows], requests.length[rows]
    first = begin // _PAGE_BYTES
    count = (begin + np.maximum(length, 1) - 1) // _PAGE_BYTES - first + 1
    of_row = np.repeat(np.arange(len(rows)), count)
    nth = np.arange(len(of_row)) - np.repeat(np.cumsum(count) - count, count)
    of_group, page = group[rows][of_row], first[of_row] + nth
    order = np.lexsort((page, of_group))
    of_group, page = of_group[order], page[order]
    is_new = np.ones(len(page), bool)
    is_new[1:] = (np.diff(page) != 0) | (np.diff(of_group) != 0)
    of_group, page = of_group[is_new], page[is_new]
    begins = np.ones(len(page), bool)
    begins[1:] = (np.diff(page) != 1) | (np.diff(of_group) != 0)
    at = np.flatnonzero(begins)
    size = np.diff(np.append(at, len(page)))
    return Requests(
        of_group[at],
        np.full(len(at), WRITE),
        page[at] * _PAGE_BYTES,
        size * _PAGE_BYTES,
        np.full(len(at), LOG),
    )


def apart(requests: Requests) -> tuple[Requests, Requests]:
    """Give the log's requests, and the others.

    A flush goes to the drive whose writes it follows: to both if both were written since the flush
    before it, to the data's if neither was.
    """
    is_log, is_flush = requests.is_log, requests.op == FLUSH
    is_data = (requests.op == WRITE) & ~is_log
    turn = np.cumsum(is_flush) - is_flush
    turns = int(turn[-1]) + 1 if len(turn) else 1
    has_log = np.bincount(turn[is_log], minlength=turns) > 0
    has_data = np.bincount(turn[is_data], minlength=turns) > 0
    to_log = is_flush & has_log[turn]
    to_data = is_flush & (has_data[turn] | ~has_log[turn])
    log = requests.taken(is_log | to_log)
    return log, requests.taken((~is_log & ~is_flush) | to_data)


def in_order(parts: list[Requests]) -> Requests:
    """Give them as one, in the order of their times."""
    joined = Requests(
        *(
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("time_ns", "op", "offset", "length", "stream")
        )
    )
    # Of one time the flush comes last.
    return joined.taken(np.lexsort((joined.op == FLUSH, joined.time_ns)))
