#!/usr/bin/env python3
"""Makes a recording as small as it gets: times to the microsecond, and no latencies: those are of
the machine that recorded.

Of a recording's folder, the requests are kept and the marks of the database's checkpoints.
"""  # noqa: D205

from __future__ import annotations

import argparse
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from convert import write_small
from flashwright.layering.checkpoints import MARKS_FILE
from flashwright.sources import REQUESTS_FILE

_RESOLUTION_NS = pa.scalar(1000, pa.uint64())


def shrink(recorded: Path, parquet: Path) -> int:
    """Write the requests of a recording to `parquet`; returns how many there are."""
    table = pq.read_table(recorded)
    about = {
        key: value for key, value in (table.schema.metadata or {}).items() if key != b"ARROW:schema"
    }
    table = table.replace_schema_metadata(about)
    times = pc.multiply(pc.divide(table["time_ns"], _RESOLUTION_NS), _RESOLUTION_NS)
    unknown = pa.nulls(table.num_rows, pa.uint64())
    for name, column in (("time_ns", times), ("latency_ns", unknown)):
        place = table.schema.get_field_index(name)
        table = table.set_column(place, table.schema.field(name), column)
    write_small(table, parquet, few_latencies=True)
    return int(table.num_rows)


def shrink_recording(recorded: Path, folder: Path) -> tuple[int, int]:
    """Write the requests of a recording and the marks of its checkpoints to a folder.

    Returns how many there are of each.
    """
    folder.mkdir(parents=True, exist_ok=True)
    marks = pq.read_table(recorded / MARKS_FILE)
    marks = marks.filter(pc.equal(marks["kind"].cast(pa.string()), "checkpoint"))
    pq.write_table(marks, folder / MARKS_FILE, compression="zstd")
    return shrink(recorded / REQUESTS_FILE, folder / REQUESTS_FILE), int(marks.num_rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "recorded", type=Path, help=f"{REQUESTS_FILE} of a recording, or the folder of one"
    )
    parser.add_argument("small", type=Path, help="file to write, or of a folder the folder")
    given = parser.parse_args()
    if given.recorded.is_dir():
        requests, checkpoints = shrink_recording(given.recorded, given.small)
        print(f"{requests} requests and {checkpoints} checkpoints in {given.small}")
    else:
        print(f"{shrink(given.recorded, given.small)} requests in {given.small}")
