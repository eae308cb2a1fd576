"""Make a trace of page writes that begins with the whole database.

`python -m experiments.data.whole RECORDING/requests.parquet OUTPUT`

A simulated device is as large as what a trace writes. MULTILOG 6.1 has it as large as the database,
of which most pages may only be read. So each page that a recording reads or writes is written once
first, in the order of addresses, and then comes what it wrote.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

PAGE_BYTES = 4096
"""Pages that are written first: the smallest that a file system places."""
TIME_STEP_NS = 1_000_000
"""Times are kept to the millisecond: no check asks for more, and the file becomes smaller."""


def write_whole(requests: Path, output: Path, least_bytes: int) -> tuple[int, int]:
    """Write such a trace of a recording's requests.

    Only those of at least so many bytes, a page of the database, count: smaller ones are the file
    system's. Latencies, and which
    process wrote, are left out. Gives the pages that are written first, and the writes after them.
    """
    table = pq.read_table(requests)
    op = table["op"].cast(pa.string())
    is_whole = pc.greater_equal(table["length"], least_bytes)
    touched = table.filter(pc.and_(pc.is_in(op, pa.array(["read", "write"])), is_whole))
    writes = table.filter(pc.and_(pc.equal(op, "write"), is_whole))
    pages = np.unique(
        np.concatenate(
            [
                np.arange(offset // PAGE_BYTES, -(-(offset + length) // PAGE_BYTES))
                for offset, length in zip(
                    touched["offset"].to_numpy().astype(np.int64),
                    touched["length"].to_numpy().astype(np.int64),
                    strict=True,
                )
            ]
        )
    )
    count = len(pages)
    times = writes["time_ns"].to_numpy() // TIME_STEP_NS * TIME_STEP_NS
    ahead = {
        "time_ns": np.zeros(count),
        "op": np.full(count, "write"),
        "offset": pages * PAGE_BYTES,
        "length": np.full(count, PAGE_BYTES),
        "stream": np.zeros(count),
        "latency_ns": pa.nulls(count),
        "handle": pa.nulls(count),
        "fua": np.zeros(count, bool),
    }
    schema = table.schema
    first = pa.table(
        {field.name: _as(ahead[field.name], field.type) for field in schema},
        schema=schema,
    )
    replaced = {
        "time_ns": pa.array(times),
        "stream": pa.array(np.zeros(len(times), np.uint32)),
        "latency_ns": pa.nulls(len(times), pa.uint64()),
    }
    for name, column in replaced.items():
        place = schema.get_field_index(name)
        writes = writes.set_column(place, schema.field(name), column)
    whole = pa.concat_tables([first, writes]).combine_chunks()
    about = {**(schema.metadata or {}), b"flashwright.requests": str(whole.num_rows).encode()}
    pq.write_table(
        whole.replace_schema_metadata(about),
        output,
        compression="zstd",
        compression_level=19,
        # Differences of times take a fifth of what times take.
        use_dictionary=[name for name in schema.names if name != "time_ns"],
        column_encoding={"time_ns": "DELTA_BINARY_PACKED"},
    )
    return count, writes.num_rows


def _as(values: pa.Array | np.ndarray, kind: pa.DataType) -> pa.Array:
    """Give values as an Arrow array of this type, which may be a dictionary."""
    array = values if isinstance(values, pa.Array) else pa.array(values)
    return (
        array.dictionary_encode().cast(kind) if pa.types.is_dictionary(kind) else array.cast(kind)
    )


if __name__ == "__main__":
    database_pages, later_writes = write_whole(Path(sys.argv[1]), Path(sys.argv[2]), 8192)
    sys.stderr.write(f"{database_pages:,} pages, and {later_writes:,} writes after them\n")
