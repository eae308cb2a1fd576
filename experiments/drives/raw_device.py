"""The calls of a recorded database as requests of a raw device.

SCHEDULER 7.3.1 plays what it traced at the system calls of a database on a raw device. PostgreSQL
needs a file system: here each of its files is taken for a stretch of the raw device, one after the
other, and each call that read or wrote becomes a request of the bytes that it moved. Calls that the
page cache answered are among them, as on a raw device there is none.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

STRETCH_BYTES = 1 << 20
"""Files begin at multiples of it."""
DATA = ("heap", "index")
"""Purposes of the files that lie there: log and system files are on another device (table 7.1)."""


def requests(calls: pa.Table, files: pa.Table, marks: pa.Table) -> pa.Table:
    """Give the reads and writes of a database's data as requests, in the order of the calls.

    Those of the measurement: calls are recorded from the warm-up on.

    Args:
        calls: `calls.parquet` of a recording.
        files: `files.parquet` of it.
        marks: `marks.parquet` of it.
    """
    measured = marks.filter(pc.equal(marks["kind"], "measurement")).to_pylist()[0]
    calls = calls.filter(
        pc.and_(
            pc.greater_equal(calls["time_ns"], measured["time_ns"]),
            pc.less(calls["time_ns"], measured["end_ns"]),
        )
    )
    data = files.filter(pc.is_in(files["purpose"].cast(pa.string()), pa.array(DATA)))
    is_data = pc.is_in(calls["file"], data["file"].combine_chunks().cast(calls["file"].type))
    moved = pc.and_(
        pc.is_in(calls["op"].cast(pa.string()), pa.array(["read", "write"])),
        pc.and_(pc.greater(calls["result"], 0), pc.is_valid(calls["offset"])),
    )
    kept = calls.filter(pc.and_(is_data, moved)).sort_by("time_ns")
    file, offset, length, time = (
        kept[name].to_numpy().astype(np.int64) for name in ("file", "offset", "result", "time_ns")
    )
    return pa.table(
        {
            "time_ns": pa.array((time - time[0]).astype(np.uint64)),
            "op": kept["op"].cast(pa.string()),
            "offset": pa.array((_places(file, offset + length)[file] + offset).astype(np.uint64)),
            "length": pa.array(length.astype(np.uint32)),
            "stream": kept["pid"].cast(pa.uint32()),
        }
    )


def _places(file: npt.NDArray[np.int64], end: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Give the first byte of each file on the raw device, by its number."""
    sizes = np.zeros(int(file.max()) + 1, np.int64)
    np.maximum.at(sizes, file, end)
    stretches = -(-sizes // STRETCH_BYTES) * STRETCH_BYTES
    return np.concatenate(([0], np.cumsum(stretches)[:-1]))


def main(recording: Path, out: Path) -> None:
    """Write the requests of a recording as Parquet."""
    names = "calls", "files", "marks"
    found = requests(*(pq.read_table(recording / f"{name}.parquet") for name in names))
    pq.write_table(found, out, compression="zstd")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
