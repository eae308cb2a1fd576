#!/usr/bin/env python3
"""Makes a recording's requests as small as they get: times to the microsecond, and no latencies: those are of the machine that recorded."""

from __future__ import annotations

import argparse
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from convert import write_small

_RESOLUTION_NS = pa.scalar(1000, pa.uint64())


def shrink(recorded: Path, parquet: Path) -> int:
    """Write the requests of a recording to `parquet`; returns how many there are."""
    table = pq.read_table(recorded)
    about = {key: value for key, value in (table.schema.metadata or {}).items() if key != b"ARROW:schema"}
    table = table.replace_schema_metadata(about)
    times = pc.multiply(pc.divide(table["time_ns"], _RESOLUTION_NS), _RESOLUTION_NS)
    unknown = pa.nulls(table.num_rows, pa.uint64())
    for name, column in (("time_ns", times), ("latency_ns", unknown)):
        place = table.schema.get_field_index(name)
        table = table.set_column(place, table.schema.field(name), column)
    write_small(table, parquet, few_latencies=True)
    return int(table.num_rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recorded", type=Path, help="requests.parquet of a recording")
    parser.add_argument("parquet", type=Path, help="file to write")
    given = parser.parse_args()
    print(f"{shrink(given.recorded, given.parquet)} requests in {given.parquet}")
