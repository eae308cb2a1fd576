"""Holds a recording against blkparse, which reads the same stream by itself."""

from __future__ import annotations

import itertools
import subprocess
from pathlib import Path

import pyarrow.parquet as pq

from flashwright._core import RunError

from .tools import need

_SECTOR_BYTES = 512
_FORMAT = "%a %d %S %N %p %T %t\n"
Row = tuple[int, str, int, int, int]


def compare(raw: Path, requests: Path, start_bytes: int = 0) -> int:
    """Compare a table of requests issued with what blkparse reads in the stream.

    Gives their number. Time, kind, offset, length and process of every request, in order; requests
    of the same nanosecond, on two processors, have no order. `start_bytes`: where the partition
    whose offsets the table has begins on the disk.

    Raises:
        InputError: blkparse is not installed.
        RunError: they differ; the message has the first difference.
    """
    need("blkparse")
    # Of a stream of one file it wants nothing but its standard input; the files of many processors
    # it finds itself.
    source = "-" if raw.suffix == ".blktrace" else str(raw.with_suffix("").with_suffix(""))
    command = ["blkparse", "-q", "-i", source, "-a", "issue", "-f", _FORMAT]
    with raw.open("rb") as stream:
        done = subprocess.run(command, stdin=stream, capture_output=True, check=False)
    if done.returncode != 0:
        raise RunError(
            f"blkparse: exit {done.returncode}: {done.stderr.decode(errors='replace').strip()}"
        )
    theirs = _read(done.stdout.decode(), start_bytes)
    names = ("time_ns", "op", "offset", "length", "stream")
    table = pq.read_table(requests, columns=list(names))
    ours: list[Row] = list(zip(*(table[name].to_pylist() for name in names), strict=True))
    if len(theirs) != len(ours):
        raise RunError(
            f"blkparse sees {len(theirs):,} issued requests, the table has {len(ours):,}"
        )
    for row, (a, b) in enumerate(zip(sorted(theirs), sorted(ours), strict=True)):
        if a != b:
            raise RunError(f"row {row}: blkparse says {a}, the table {b}")
    reversals = sum(a[0] > b[0] for a, b in itertools.pairwise(ours))
    if reversals:
        raise RunError(f"{reversals:,} requests of the table are earlier than the one before")
    return len(ours)


def _read(text: str, start_bytes: int) -> list[Row]:
    rows: list[Row] = []
    first: int | None = None
    for line in text.splitlines():
        if not line.startswith("D "):
            continue
        _, rwbs, sector, length, pid, seconds, nanoseconds = line.split()
        time = int(seconds) * 10**9 + int(nanoseconds)
        first = time if first is None else min(first, time)
        op = _op(rwbs, int(length))
        rows.append(
            (
                time,
                op,
                0 if op == "flush" else int(sector) * _SECTOR_BYTES - start_bytes,
                int(length),
                int(pid),
            )
        )
    return [(time - (first or 0), *rest) for time, *rest in rows]  # type: ignore[misc]


def _op(rwbs: str, length: int) -> str:
    if "D" in rwbs:
        return "trim"
    if rwbs.startswith("F") and length == 0:
        return "flush"
    return "write" if "W" in rwbs else "read"
