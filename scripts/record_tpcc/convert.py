#!/usr/bin/env python3
"""Turns a recorded blktrace stream into the canonical Parquet store, as small as it gets; blkparse
checks it.
"""  # noqa: D205

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from flashwright._core import convert_trace

OPS = ("read", "write", "trim", "flush")
PAGE_BYTES = 4096
_SECTOR_BYTES = 512
_RECORD_BYTES, _PDU_LENGTH_AT = 48, 46


class VerificationError(RuntimeError):
    """The table is not what blkparse reads in the stream."""


def convert(
    raw: Path, parquet: Path, resolution_ns: int = 1, keep_seconds: float | None = None
) -> dict[str, Any]:
    """Write the requests issued (D events) as Parquet and return their numbers.

    Times and latencies are cut to a multiple of `resolution_ns`: below a microsecond they are
    mostly the tracer's own noise, and take a quarter of the file. `keep_seconds` keeps the requests
    issued in that time from the first.

    Raises:
        flashwright.InputError: the stream is malformed.
    """
    done = convert_trace(raw, parquet, from_format="blktrace", to_format="parquet")
    about = {
        key: value
        for key, value in (pq.read_metadata(parquet).metadata or {}).items()
        if key != b"ARROW:schema"
    }
    table = pq.read_table(parquet).replace_schema_metadata(about)
    for name in ("time_ns", "latency_ns"):
        cut = pc.multiply(
            pc.divide(table[name], pa.scalar(resolution_ns, pa.uint64())),
            pa.scalar(resolution_ns, pa.uint64()),
        )
        table = table.set_column(table.schema.get_field_index(name), table.schema.field(name), cut)
    if keep_seconds is not None:
        table = table.filter(
            pc.less(table["time_ns"], pa.scalar(int(keep_seconds * 1e9), pa.uint64()))
        )
        table = table.replace_schema_metadata(
            {**about, b"flashwright.requests": str(table.num_rows).encode()}
        )
    write_small(table, parquet, few_latencies=resolution_ns >= 1000)
    return summary(table) | {"first_request_monotonic_ns": done["start_ns"]}


def write_small(table: pa.Table, parquet: Path, *, few_latencies: bool) -> None:
    """Write a table of requests as small as Parquet gets it.

    `few_latencies`: so few different ones that a dictionary holds them. The encoding of each column
    was found by trying: 6 bytes a request, or 7.6 at a nanosecond.
    """
    dictionaries = ["op", "length", "stream"]
    encodings = {"time_ns": "DELTA_BINARY_PACKED", "offset": "BYTE_STREAM_SPLIT"}
    pq.write_table(
        table,
        parquet,
        compression="zstd",
        compression_level=22,
        use_dictionary=[*dictionaries, "latency_ns"] if few_latencies else dictionaries,
        column_encoding=encodings
        if few_latencies
        else {**encodings, "latency_ns": "BYTE_STREAM_SPLIT"},
        row_group_size=1 << 22,
    )


def summary(table: pa.Table) -> dict[str, Any]:
    """Count a table of requests.

    Pages are of 4096 bytes; the footprint is the pages written at least once.
    """
    op = pc.index_in(table["op"].cast(pa.string()), pa.array(OPS)).to_numpy()
    offset, length = table["offset"].to_numpy(), table["length"].to_numpy().astype(np.uint64)
    first, last = offset // PAGE_BYTES, (offset + np.maximum(length, 1) - 1) // PAGE_BYTES
    pages = (last - first + 1).astype(np.int64)
    written = op == 1
    touched = np.zeros(int(last.max()) + 2, np.int64)
    np.add.at(touched, first[written], 1)
    np.add.at(touched, last[written] + 1, -1)
    streams = Counter(table["stream"].to_numpy().tolist())
    return {
        "count": table.num_rows,
        "by_op": {name: int((op == number).sum()) for number, name in enumerate(OPS)},
        "bytes_by_op": {name: int(length[op == number].sum()) for number, name in enumerate(OPS)},
        "page_writes": int(pages[written].sum()),
        "page_reads": int(pages[op == 0].sum()),
        "written_footprint_pages": int((np.cumsum(touched) > 0).sum()),
        "unaligned_writes": int(
            ((offset[written] % PAGE_BYTES != 0) | (length[written] % PAGE_BYTES != 0)).sum()
        ),
        "without_latency": table["latency_ns"].null_count,
        "duration_s": float(table["time_ns"][-1].as_py() / 1e9),
        "by_stream": {str(stream): count for stream, count in streams.most_common(20)},
    }


def verify(
    raw: Path, parquet: Path, resolution_ns: int = 1, keep_seconds: float | None = None
) -> str:
    """Compare the table with what blkparse reads.

    Time, kind, offset, length and process of every issued request. Requests of the same nanosecond,
    on two CPUs, have no order; blkparse and our reader break the tie differently.

    Raises:
        VerificationError: they differ; the message has the first difference.
    """
    command = ["blkparse", "-q", "-i", "-", "-a", "issue", "-f", "%a %d %S %N %p %T %t\n"]
    done = subprocess.run(command, input=_decompressed(raw), capture_output=True, check=True)
    lines = [line.split() for line in done.stdout.decode().splitlines() if line.startswith("D ")]
    table = pq.read_table(parquet)
    times = [int(seconds) * 10**9 + int(nanoseconds) for *_, seconds, nanoseconds in lines]
    if keep_seconds is not None:
        times = [time for time in times if time - times[0] < int(keep_seconds * 1e9)]
        lines = lines[: len(times)]
    if len(lines) != table.num_rows:
        raise VerificationError(
            f"blkparse sees {len(lines)} issued requests, the table has {table.num_rows}"
        )
    theirs = []
    for (_, rwbs, sector, length, pid, *_), time in zip(lines, times, strict=True):
        at = (time - times[0]) // resolution_ns * resolution_ns
        op = _op_of_rwbs(rwbs, int(length))
        offset = 0 if op == "flush" else int(sector) * _SECTOR_BYTES
        theirs.append((at, op, offset, int(length), int(pid)))
    ours = list(
        zip(
            *(table[name].to_pylist() for name in ("time_ns", "op", "offset", "length", "stream")),
            strict=True,
        )
    )
    for row, (a, b) in enumerate(zip(sorted(theirs), sorted(ours), strict=True)):
        if a != b:
            raise VerificationError(f"row {row}: blkparse says {a}, the table {b}")
    return f"{len(lines)} issued requests: same times, kinds, offsets, lengths and processes"


def _op_of_rwbs(rwbs: str, length: int) -> str:
    if "D" in rwbs:
        return "trim"
    if rwbs.startswith("F") and length == 0:
        return "flush"
    return "write" if "W" in rwbs else "read"


def _decompressed(path: Path) -> bytes:
    with pa.CompressedInputStream(pa.OSFile(str(path), "rb"), "zstd") as stream:
        return bytes(stream.read())


def excerpt(raw: Path, output: Path, events: int) -> None:
    """Write the first `events` records of a stream of version 1, byte for byte.

    In this machine's byte order.
    """
    data, at = _decompressed(raw), 0
    for _ in range(events):
        if at >= len(data):
            break
        at += _RECORD_BYTES + int.from_bytes(
            data[at + _PDU_LENGTH_AT : at + _RECORD_BYTES], sys.byteorder
        )
    output.write_bytes(pa.Codec("zstd", 19).compress(data[:at], asbytes=True))


def main() -> int:
    """Convert and check one recording, and print its numbers as JSON."""
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("raw", type=Path)
    p.add_argument("parquet", type=Path)
    p.add_argument(
        "--resolution-ns", type=int, default=1, help="cut times to a multiple of this (%(default)s)"
    )
    p.add_argument(
        "--keep-seconds", type=float, default=None, help="keep only the first so many seconds"
    )
    args = p.parse_args()
    numbers = convert(args.raw, args.parquet, args.resolution_ns, args.keep_seconds)
    numbers["checked_against_blkparse"] = verify(
        args.raw, args.parquet, args.resolution_ns, args.keep_seconds
    )
    print(json.dumps(numbers, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
