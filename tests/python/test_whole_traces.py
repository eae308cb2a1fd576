"""Traces that begin with the whole database, as a simulated device of its size needs them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from experiments.data import TATP, whole
from flashwright import _core, sources

PAGE = 8192
HALF = 4096


def recorded(path: Path, requests: list[tuple[int, str, int, int]]) -> Path:
    """Write requests of (milliseconds, operation, page, bytes) as a recording has them."""
    schema = pq.read_schema(TATP)
    columns = {
        "time_ns": [time * 1_000_000 + 7 for time, *_ in requests],
        "op": [op for _, op, *_ in requests],
        "offset": [page * PAGE for *_, page, _ in requests],
        "length": [length for *_, length in requests],
        "stream": [3] * len(requests),
        "latency_ns": [5] * len(requests),
        "handle": [None] * len(requests),
        "fua": [False] * len(requests),
    }
    arrays = [
        pa.array(columns[field.name]).dictionary_encode().cast(field.type)
        if pa.types.is_dictionary(field.type)
        else pa.array(columns[field.name], field.type)
        for field in schema
    ]
    pq.write_table(pa.table(arrays, schema=schema), path)
    return path


def test_pages_that_are_only_read_are_written_once_and_first(tmp_path: Path) -> None:
    requests = recorded(
        tmp_path / "requests.parquet",
        [
            (0, "read", 9, PAGE),
            (1, "write", 4, PAGE),
            (2, "write", 6, 2 * PAGE),
            (3, "write", 2, 4096),
            (4, "flush", 0, 0),
            (5, "write", 4, PAGE),
        ],
    )
    made = tmp_path / "whole.parquet"
    assert whole.write_whole(requests, made, PAGE) == (8, 3)
    table = pq.read_table(made)
    pages = (table["offset"].to_numpy() // HALF).tolist()
    assert pages == [8, 9, 12, 13, 14, 15, 18, 19, 8, 12, 8]
    assert table["time_ns"].to_pylist() == [0] * 8 + [1_000_000, 2_000_000, 5_000_000]
    assert table.schema.equals(pq.read_schema(requests))
    workload = sources.load(str(made), sources.Reading(page_size=HALF))
    assert (workload.logical_pages, workload.page_writes) == (8, 16)


def test_the_tatp_trace_is_small_and_begins_with_its_database() -> None:
    assert TATP.stat().st_size < 2_000_000
    table = pq.read_table(TATP)
    assert pc.unique(table["op"].cast(pa.string())).to_pylist() == ["write"]
    pages = table["offset"].to_numpy() // HALF
    at_start = int(np.argmax(np.diff(pages.astype(np.int64)) <= 0)) + 1
    workload = sources.load(str(TATP), sources.Reading(page_size=HALF))
    assert len(np.unique(pages[:at_start])) == at_start == workload.logical_pages
    assert _core.trace_stats(TATP)["reads"] == 0
