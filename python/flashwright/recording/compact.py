"""A table of requests made as small as Parquet gets it, to be kept with code."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from flashwright.outputs import replacing

_RESOLUTION_NS = pa.scalar(1000, pa.uint64())


def write_compact(path: Path) -> None:
    """Write a table of requests again: times in whole microseconds, and no latencies.

    Below a microsecond times are mostly the tracer's own noise, and latencies are of the machine
    that recorded. The encoding of each column was found by trying: 4 to 5 bytes a request.
    """
    about = pq.read_metadata(path).metadata or {}
    about.pop(b"ARROW:schema", None)
    table = pq.read_table(path).replace_schema_metadata(about)
    times = pc.multiply(pc.divide(table["time_ns"], _RESOLUTION_NS), _RESOLUTION_NS)
    unknown = pa.nulls(table.num_rows, pa.uint64())
    for name, column in (("time_ns", times), ("latency_ns", unknown)):
        place = table.schema.get_field_index(name)
        table = table.set_column(place, table.schema.field(name), column)
    with replacing(path) as part:
        pq.write_table(
            table,
            part,
            compression="zstd",
            compression_level=22,
            use_dictionary=["op", "length", "stream", "latency_ns"],
            column_encoding={"time_ns": "DELTA_BINARY_PACKED", "offset": "BYTE_STREAM_SPLIT"},
            row_group_size=1 << 22,
        )
