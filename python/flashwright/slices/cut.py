"""The part of a trace that falls on a slice of its disk.

A slice holds one of N stripes of the disk. Which ones is chosen so that what decides on write
amplification stays as it was: stripes are ordered by how much is written to them, and every N-th
is taken, so that each frequency of overwriting has its share of the slice. The few stripes that
are written most would each be most of the slice, or be missing: all of them are kept, with one of
N of their requests. The stripes that are kept lie next to each other, in their old order. A request
keeps what of it falls on them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from flashwright import _core

if TYPE_CHECKING:
    from flashwright.sources import Reading

STRIPE_BYTES = 64 << 10
MOST_HOT_SHARE = 0.01
"""Share of a slice that its hot stripes may take, which are all kept."""
LEAST_SAMPLES = 64
"""A stripe with more than one of so many of a slice's writes is hot."""
_MOST_RUN = 256
_READ, _WRITE, _TRIM, _FLUSH = range(4)
_OPERATIONS = ("read", "write", "trim", "flush")
_COMPACT_AT = 4 << 20

U64 = npt.NDArray[np.uint64]
F64 = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


class Stopper:
    """Asks whether to go on; a core Progress that only stops."""

    def __init__(self) -> None:
        self.is_stopped = False

    def state(self) -> tuple[int, int]:
        """Tell no progress: how long a trace is shows at its end."""
        return 0, 0

    def cancel(self) -> None:
        """Stop at the next batch."""
        self.is_stopped = True

    def check(self) -> None:
        """Raise Cancelled after a stop."""
        if self.is_stopped:
            raise _core.Cancelled("stopped")


@dataclass(frozen=True)
class Part:
    """Part of a trace that is taken, by time and number of requests."""

    skip_seconds: float = 0.0
    seconds: float | None = None
    limit: int | None = None


@dataclass(frozen=True)
class Survey:
    """Stripes and bytes that a trace touches."""

    stripe_bytes: int
    stripes: U64
    """Numbers of the stripes that are read or written, ascending."""
    written: F64
    """Bytes written to each."""
    requests: int
    read_bytes: int
    reading: dict[str, Any] = field(default_factory=dict)
    """Remarks of the reader besides the requests, as `Trace.reading` has them."""

    @property
    def written_bytes(self) -> int:
        """Bytes that are written in all."""
        return int(self.written.sum())

    @property
    def touched_bytes(self) -> int:
        """Bytes of all stripes that are touched."""
        return len(self.stripes) * self.stripe_bytes


@dataclass(frozen=True)
class Cut:
    """Part of a trace that is on the slice."""

    path: Path
    requests: int
    taken: int
    """Requests of the trace that it was taken from: fewer than all where it would take too long."""
    written_bytes: int
    stripes: int
    hot_stripes: int
    stripe_bytes: int


def batches(opened: _core.Trace, part: Part, check: Callable[[], None]) -> Iterator[Any]:
    """Give the requests of a part of a trace as Arrow batches."""
    taken, begin_ns = 0, round(part.skip_seconds * 1e9)
    end_ns = None if part.seconds is None else begin_ns + round(part.seconds * 1e9)
    for batch in pa.RecordBatchReader.from_stream(opened):
        check()
        if begin_ns or end_ns is not None:
            time_ns = batch.column("time_ns").to_numpy()
            kept = time_ns >= begin_ns
            if end_ns is not None:
                kept &= time_ns < end_ns
            batch = batch.filter(pa.array(kept))  # noqa: PLW2901
        if part.limit is not None:
            batch = batch.slice(0, max(0, part.limit - taken))  # noqa: PLW2901
        taken += batch.num_rows
        if batch.num_rows:
            yield batch
        if part.limit is not None and taken >= part.limit:
            return


def _of(batch: Any) -> tuple[npt.NDArray[Any], U64, U64]:
    """Give operations, offsets and lengths of a batch."""
    op = batch.column("op")
    numbers = np.array([_OPERATIONS.index(name) for name in op.dictionary.to_pylist()], np.uint8)
    ops = numbers[op.indices.to_numpy()]
    offset = batch.column("offset").to_numpy().astype(np.uint64)
    return ops, offset, batch.column("length").to_numpy().astype(np.uint64)


def survey(
    source: str, reading: Reading, part: Part, stripe_bytes: int, check: Callable[[], None]
) -> Survey:
    """Read a trace once: which stripes it touches, and how much is written to each."""
    width = np.uint64(stripe_bytes)
    stripes: U64 = np.zeros(0, np.uint64)
    written: F64 = np.zeros(0)
    waiting: list[tuple[U64, F64]] = []
    held = requests = read_bytes = 0
    opened = _core.open_trace(source, reading.format, reading.skip_bad)
    for batch in batches(opened, part, check):
        ops, offset, length = _of(batch)
        requests += len(ops)
        read_bytes += int(length[ops == _READ].sum())
        is_data = ((ops == _READ) | (ops == _WRITE)) & (length > 0)
        is_write, offset, length = (ops == _WRITE)[is_data], offset[is_data], length[is_data]
        end = offset + length
        first = offset // width
        number = ((end - np.uint64(1)) // width - first + np.uint64(1)).astype(np.int64)
        before = np.cumsum(number) - number
        request = np.repeat(np.arange(len(number)), number)
        stripe = first[request] + (np.arange(len(request)) - before[request]).astype(np.uint64)
        begin = np.maximum(offset[request], stripe * width)
        size = np.minimum(end[request], (stripe + np.uint64(1)) * width) - begin
        waiting.append((stripe, np.where(is_write[request], size, 0).astype(float)))
        held += len(stripe)
        if held >= _COMPACT_AT:
            stripes, written = _summed([(stripes, written), *waiting])
            waiting, held = [], 0
    stripes, written = _summed([(stripes, written), *waiting])
    return Survey(stripe_bytes, stripes, written, requests, read_bytes, opened.reading)


def _summed(parts: list[tuple[U64, F64]]) -> tuple[U64, F64]:
    stripes = np.concatenate([part[0] for part in parts])
    found, at = np.unique(stripes, return_inverse=True)
    written = np.bincount(at, np.concatenate([part[1] for part in parts]), len(found))
    return found.astype(np.uint64), written.astype(np.float64)


def chosen(found: Survey, slices: int, slice_bytes: int) -> tuple[U64, Bools]:
    """Give the stripes of a slice, ascending, and which of them are kept whole (see above)."""
    count = len(found.stripes)
    if slices == 1:
        return found.stripes, np.zeros(count, bool)
    # Stable: equal ones stay in the order of their addresses, so that all parts of the disk count.
    order = np.argsort(-found.written, kind="stable")
    most = found.written_bytes / (slices * LEAST_SAMPLES)
    hottest = int((found.written > most).sum())
    hottest = min(hottest, int(slice_bytes * MOST_HOT_SHARE / found.stripe_bytes))
    kept = np.concatenate([order[:hottest], order[hottest + slices // 2 :: slices]])
    is_hot = np.zeros(count, bool)
    is_hot[order[:hottest]] = True
    kept.sort()
    return found.stripes[kept], is_hot[kept]


def cut(
    source: str,
    reading: Reading,
    part: Part,
    found: Survey,
    slices: int,
    slice_bytes: int,
    target: Path,
    check: Callable[[], None],
) -> Cut:
    """Write what of a trace falls on a slice to a trace of its own.

    Its times are divided by the number of slices: as many requests come in a second as on the whole
    drive.
    """
    stripes, is_hot = chosen(found, slices, slice_bytes)
    width = found.stripe_bytes
    thinner = _Thinner(slices, max(1, min(_MOST_RUN, found.requests // (slices * LEAST_SAMPLES))))
    requests = taken = written = 0
    opened = _core.open_trace(source, reading.format, reading.skip_bad)
    writer: pq.ParquetWriter | None = None
    try:
        for batch in batches(opened, part, check):
            ops, offset, length = _of(batch)
            is_flush = ops == _FLUSH
            begin, end, lowest = _placed(stripes, width, offset, length)
            kept = (begin < end) & ~is_flush
            if slices > 1:
                of_hot = np.zeros(len(ops), bool)
                of_hot[kept] = is_hot[lowest[kept]]
                kept &= ~of_hot | thinner.take(of_hot, "hot")
                kept |= is_flush & thinner.take(is_flush, "flush")
            else:
                kept |= is_flush
            columns = {
                "time_ns": batch.column("time_ns").to_numpy() // np.uint64(slices),
                "offset": np.where(is_flush, 0, begin).astype(np.uint64),
                "length": np.where(is_flush, 0, end - begin).astype(np.uint32),
            }
            for name, values in columns.items():
                at = batch.schema.get_field_index(name)
                batch = batch.set_column(  # noqa: PLW2901
                    at, batch.schema.field(at), pa.array(values, batch.schema.field(at).type)
                )
            rows = batch.filter(pa.array(kept))
            requests += rows.num_rows
            taken += len(ops)
            written += int(columns["length"][kept & (ops == _WRITE)].sum(dtype=np.int64))
            if writer is None:
                writer = pq.ParquetWriter(target, batch.schema, compression="lz4")
            writer.write_batch(rows)
    finally:
        if writer is not None:
            writer.close()
    return Cut(target, requests, taken, written, len(stripes), int(is_hot.sum()), width)


def _placed(
    stripes: U64, width: int, offset: U64, length: U64
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Give where requests begin and end on the slice, and the first stripe of each.

    What lies between two stripes that are kept is none, so a request stays in one piece.
    """
    wide = np.uint64(width)
    last = offset + np.maximum(length, np.uint64(1)) - np.uint64(1)
    low = np.searchsorted(stripes, offset // wide).astype(np.int64)
    high = np.searchsorted(stripes, last // wide, side="right").astype(np.int64)
    there = (low < high) & (length > 0)
    first_at, last_at = np.where(there, low, 0), np.where(there, high - 1, 0)
    if not len(stripes):
        nothing = np.zeros(len(offset), np.int64)
        return nothing, nothing, nothing
    inside = np.where(stripes[first_at] == offset // wide, offset % wide, np.uint64(0))
    until = np.where(stripes[last_at] == last // wide, last % wide + np.uint64(1), wide)
    begin = np.where(there, low * width + inside.astype(np.int64), 0)
    end = np.where(there, (high - 1) * width + until.astype(np.int64), 0)
    return begin, end, low


class _Thinner:
    """Takes one of N of what comes, in runs, so that what was in sequence stays so."""

    def __init__(self, slices: int, run: int) -> None:
        self._slices, self._run = slices, run
        self._seen = {"hot": 0, "flush": 0}

    def take(self, which: Bools, kind: str) -> Bools:
        """Tell which of these are taken."""
        number = self._seen[kind] + np.cumsum(which) - 1
        self._seen[kind] += int(which.sum())
        run = self._run if kind == "hot" else 1
        taken: Bools = which & (number // run % self._slices == 0)
        return taken
