"""A load for advice: the requests of a source, each with what it is for, and what they say.

It is kept as a trace in the canonical store whose column `stream` is the number of the purpose in
`recording.files.PURPOSES`. What is not of a recording has the purpose `unknown`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from flashwright import _core
from flashwright._core import InputError
from flashwright.advice.commits import commits_of
from flashwright.advice.setup import Commits
from flashwright.recording.files import PURPOSES
from flashwright.recording.owners import SHARES
from flashwright.runs import sha256_of, sha256_of_file
from flashwright.slices.cut import Stopper
from flashwright.slices.disk import Disk, disk_of
from flashwright.sources import REQUESTS_FILE, SYNTHETIC, check_source, file_name, on_disk

LOG = PURPOSES.index("wal")
_UNKNOWN = PURPOSES.index("unknown")
_OTHERS = PURPOSES.index("others")
_METADATA = PURPOSES.index("metadata")
_SHARES = tuple(f"{name}_bytes" for name in SHARES)
OWNERS_FILE = "owners.parquet"
_BATCH_ROWS = 1 << 17
_OPERATIONS = ("read", "write", "trim", "flush")
READ, WRITE, TRIM, FLUSH = range(4)
Longs = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Load:
    """Requests to a disk, in a file, with what is known of them."""

    name: str
    path: Path
    """Parquet in the canonical form; `stream` is the number of the purpose."""
    content_hash: str
    seconds: float
    """From the first request to the last; 0 without times."""
    requests: Mapping[str, int]
    """Number by operation."""
    bytes: Mapping[str, int]
    """Bytes by operation."""
    written_by: Mapping[str, int]
    """Bytes written by purpose."""
    disk: Disk | None = None
    """The disk that it was recorded on; None if that is not known."""
    commits: Commits | None = None
    """Commits as the recorded disk answered them; None if the source has no latencies."""
    end_bytes: int = 0
    """One behind the last byte that is named."""
    flushes_of_commit: int = 1
    """Flushes for which a commit waits, one after the other."""
    begin_ns: int = 0
    """Time of the first request."""
    work: float = 1.0
    """Transactions over those of the recording."""
    reading: Mapping[str, Any] = field(default_factory=dict)
    """Remarks of the reader: skipped, left_out, lost_events, warnings."""

    @property
    def knows_purposes(self) -> bool:
        """Tell whether requests are known to be of files of a database."""
        return any(name not in ("unknown", "others") for name in self.written_by)

    @property
    def written_bytes(self) -> int:
        """Bytes written."""
        return self.bytes["write"]

    def share(self, *purposes: str) -> float:
        """Give the share of the written bytes that is for these purposes."""
        if not self.written_bytes:
            return 0.0
        return sum(self.written_by.get(name, 0) for name in purposes) / self.written_bytes


def read(
    source: str, folder: Path, form: str | None = None, skip_bad: int = 0, *, stopper: Stopper
) -> Load:
    """Read a trace file or the folder of a recording; `folder` is where the load is kept.

    Raises:
        InputError: it cannot be read, writes nothing, or is a pattern.
        Cancelled: the stopper was asked to stop.
    """
    if source.startswith(SYNTHETIC):
        raise InputError(
            f"{source}: advice is for a database's own requests; name a recording or a trace file"
        )
    path = Path(check_source(source))
    owners = path.with_name(OWNERS_FILE)
    is_recording = path.name == REQUESTS_FILE and owners.is_file()
    opened = None if is_recording else _core.open_trace(str(path), form, skip_bad)
    batches = (
        _recorded(path, owners)
        if opened is None
        else ((batch, None) for batch in pa.RecordBatchReader.from_stream(opened))
    )
    target = folder / "load.parquet"
    counting = _Counting()
    writer: pq.ParquetWriter | None = None
    try:
        for batch, purposes in batches:
            stopper.check()
            made = counting.add(batch, purposes)
            writer = writer or pq.ParquetWriter(target, made.schema, compression="lz4")
            writer.write_batch(made)
    finally:
        if writer is not None:
            writer.close()
    if not counting.bytes[WRITE]:
        raise InputError(f"{source}: it has no writes, so there is nothing to advise on")
    digest = sha256_of(on_disk(path))
    return Load(
        file_name(path),
        target,
        digest if not is_recording else _joined(digest, sha256_of_file(owners)),
        counting.seconds,
        dict(zip(_OPERATIONS, counting.requests.tolist(), strict=True)),
        dict(zip(_OPERATIONS, counting.bytes.tolist(), strict=True)),
        counting.written_by(),
        disk_of(str(path)),
        counting.commits(),
        counting.end_bytes,
        begin_ns=counting.begin_ns,
        reading={} if opened is None else opened.reading,
    )


def of_file(path: Path, name: str, disk: Disk | None, flushes_of_commit: int = 1) -> Load:
    """Give the load of a file that is in the form of `read` already, such as of a what-if.

    Its `stream` has to be the number of the purpose.
    """
    counting = _Counting()
    for batch in pq.ParquetFile(path).iter_batches(_BATCH_ROWS):
        counting.add(batch, batch.column("stream").to_numpy().astype(np.int64))
    return Load(
        name,
        path,
        sha256_of_file(path),
        counting.seconds,
        dict(zip(_OPERATIONS, counting.requests.tolist(), strict=True)),
        dict(zip(_OPERATIONS, counting.bytes.tolist(), strict=True)),
        counting.written_by(),
        disk,
        None,
        counting.end_bytes,
        flushes_of_commit,
    )


def _joined(*hashes: str) -> str:
    return hashlib.sha256("".join(hashes).encode()).hexdigest()


def _recorded(requests: Path, owners: Path) -> Iterator[tuple[Any, Longs]]:
    """Give the requests of a recording with the purpose of each; both files go row for row."""
    file = pq.ParquetFile(owners)
    wanted = [name for name in ("purpose", *_SHARES) if name in file.schema_arrow.names]
    whose = file.iter_batches(_BATCH_ROWS, columns=wanted)
    columns = ["time_ns", "op", "offset", "length", "stream", "latency_ns"]
    for batch in pq.ParquetFile(requests).iter_batches(_BATCH_ROWS, columns=columns):
        yield batch, _purposes(next(whose))


def _purposes(owners: Any) -> Longs:
    """Give the purpose of each request: of whoever most of its bytes are."""
    purpose = owners.column("purpose")
    names = purpose.dictionary.to_pylist()
    numbers = np.array([PURPOSES.index(name) for name in names], np.int64)
    found: Longs = numbers[purpose.indices.to_numpy()]
    if not set(_SHARES) <= set(owners.schema.names):
        # A part of a recording, whose requests are each of one purpose.
        return found
    amounts = np.stack([owners.column(name).to_numpy() for name in _SHARES])
    most = amounts.argmax(axis=0)
    any_known = amounts.max(axis=0) > 0
    of_others = any_known & (most == SHARES.index("others"))
    is_named = np.isin(found, [PURPOSES.index(name) for name in ("journal", "metadata")])
    of_system = any_known & np.isin(most, [SHARES.index("own"), SHARES.index("shared")])
    found = np.where(of_system & ~is_named, _METADATA, found)
    purposes: Longs = np.where(of_others, _OTHERS, found)
    return purposes


class _Counting:
    """Counts what requests are, as they are read."""

    def __init__(self) -> None:
        self.requests = np.zeros(4, np.int64)
        self.bytes = np.zeros(4, np.int64)
        self.end_bytes = 0
        self._by_purpose = np.zeros(len(PURPOSES), np.int64)
        self._times: list[tuple[int, int]] = []
        self._of_commits: list[tuple[Longs, Longs, Longs]] = []
        self._has_latencies = True

    @property
    def seconds(self) -> float:
        """Seconds from the first request to the last."""
        if not self._times:
            return 0.0
        return (max(end for _, end in self._times) - min(at for at, _ in self._times)) / 1e9

    @property
    def begin_ns(self) -> int:
        """Time of the first request; 0 without any."""
        return min((at for at, _ in self._times), default=0)

    def add(self, batch: Any, purposes: Longs | None) -> Any:
        """Count a batch, and give it as it is kept."""
        op = batch.column("op")
        names = [_OPERATIONS.index(name) for name in op.dictionary.to_pylist()]
        ops = np.array(names, np.int64)[op.indices.to_numpy()]
        length = batch.column("length").to_numpy().astype(np.int64)
        time_ns = batch.column("time_ns").to_numpy()
        stream = np.full(len(ops), _UNKNOWN, np.int64) if purposes is None else purposes
        self.requests += np.bincount(ops, minlength=4)
        self.bytes += np.bincount(ops, length, 4).astype(np.int64)
        is_write = ops == WRITE
        self._by_purpose += np.bincount(stream[is_write], length[is_write], len(PURPOSES)).astype(
            np.int64
        )
        if len(ops):
            self._times.append((int(time_ns[0]), int(time_ns.max())))
            is_data = ops != FLUSH
            ends = batch.column("offset").to_numpy()[is_data] + length[is_data].astype(np.uint64)
            self.end_bytes = max(self.end_bytes, int(ends.max(initial=0)))
        self._commits(batch, ops, stream, time_ns)
        at = batch.schema.get_field_index("stream")
        kept = pa.array(stream, batch.schema.field(at).type)
        return batch.set_column(at, batch.schema.field(at), kept)

    def _commits(self, batch: Any, ops: Longs, stream: Longs, time_ns: npt.NDArray[Any]) -> None:
        latency = batch.column("latency_ns")
        if latency.null_count == len(latency):
            self._has_latencies = False
            return
        of_log = (ops == WRITE) & np.isin(stream, (LOG, _UNKNOWN))
        kept = (of_log | (ops == FLUSH)) & latency.is_valid().to_numpy(zero_copy_only=False)
        took = latency.fill_null(0).to_numpy()[kept].astype(np.int64)
        self._of_commits.append((time_ns[kept].astype(np.int64), took, ops[kept]))

    def commits(self) -> Commits | None:
        """Give the commits as they were recorded; None without latencies."""
        if not self._has_latencies or not self._of_commits:
            return None
        begin, took, ops = (
            np.concatenate([one[number] for one in self._of_commits]) for number in range(3)
        )
        if not took.any():
            return None
        return commits_of(begin, took, ops == WRITE, ops == FLUSH)

    def written_by(self) -> dict[str, int]:
        """Give the bytes written by purpose, without those that have none."""
        return {name: int(one) for name, one in zip(PURPOSES, self._by_purpose, strict=True) if one}
