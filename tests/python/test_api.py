"""The package as a library: what the docstring of `flashwright` promises."""

from __future__ import annotations

from pathlib import Path

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import flashwright
from flashwright import _core, models

SMALL = "synth:kmodal(sets=0.2:0.8,0.8:0.2,pages=65536,updates=12x)"


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Give a small trace with every kind of request."""
    path = tmp_path / "small.blkparse.iolog"
    lines = ["fio version 3 iolog", "0 /dev/x add", "0 /dev/x open"]
    lines += [
        f"{number} /dev/x {op} {number * 4096} 4096"
        for number, op in enumerate(["write", "read", "write", "trim"], 1)
    ]
    path.write_text("\n".join([*lines, "9 /dev/x sync 0 0"]) + "\n")
    return path


def test_a_trace_is_an_arrow_stream(trace: Path) -> None:
    table = pa.RecordBatchReader.from_stream(flashwright.open_trace(trace)).read_all()
    columns = ["time_ns", "op", "offset", "length", "stream", "latency_ns", "handle", "fua"]
    assert table.column_names == columns
    assert table["op"].to_pylist() == ["write", "read", "write", "trim", "flush"]
    assert pl.DataFrame(flashwright.open_trace(trace)).height == 5
    with duckdb.connect() as connection:
        written = (
            connection.register("requests", table)
            .execute("select count(*) from requests where op = 'write'")
            .fetchall()
        )
    assert written == [(2,)]


def test_simulation_beside_the_models() -> None:
    workload = flashwright.load_workload(SMALL)
    weights = workload.update_weights()
    assert weights.sum() == pytest.approx(1.0)
    bound = 1.0 + float(models.cleaning_cost_bound(weights, 0.3))
    found = flashwright.simulate(workload, "multi_log_optimal", over_provisioning=0.3, audit=True)
    assert found["victim"] == "lru"
    assert found["write_amplification"] == pytest.approx(bound, rel=0.03)
    assert found.table("p_gc_histogram")["victims"].sum() == found["erases"]
    assert found.table("over_time")["relocated_pages"].sum() == found["relocated_pages"]


def test_the_same_run_twice_is_the_same() -> None:
    workload = flashwright.load_workload(SMALL)
    first, second = (flashwright.simulate(workload, "multi_log") for _ in range(2))
    assert first["relocated_pages"] == second["relocated_pages"]
    np.testing.assert_array_equal(
        first.table("over_time")["erases"], second.table("over_time")["erases"]
    )


@pytest.mark.parametrize("policy", [entry["name"] for entry in flashwright.registry()["placement"]])
def test_every_placement_runs_with_the_victim_of_its_authors(policy: str) -> None:
    workload = flashwright.load_workload(SMALL)
    found = flashwright.simulate(workload, policy, over_provisioning=0.4, audit=True)
    # With the future known, nothing has to be relocated where there is this much spare space.
    assert (1.0 if policy == "future_knowledge" else 1.01) <= found["write_amplification"] < 4.0


def test_wrong_names_list_the_known_ones() -> None:
    workload = flashwright.load_workload("synth:uniform(pages=4096,updates=1x)")
    with pytest.raises(flashwright.InputError, match="known are: none, separate"):
        flashwright.simulate(workload, "no_such_policy")
    with pytest.raises(flashwright.InputError, match="window=2 is not a number from 0 to 1"):
        flashwright.simulate(workload, victim="window_greedy(window=2)")


def test_work_stops_when_asked() -> None:
    progress = flashwright.Progress()
    progress.cancel()
    with pytest.raises(flashwright.Cancelled):
        _core.simulate(flashwright.load_workload(SMALL), progress=progress)


@pytest.mark.parametrize("compression", ["snappy", "lz4", "zstd", "none"])
def test_parquet_of_other_tools_is_read(tmp_path: Path, compression: str) -> None:
    """Pyarrow, pandas and DuckDB compress with Snappy unless told otherwise."""
    table = pa.table(
        {"time_ns": [0, 5], "op": ["write", "write"], "offset": [0, 8192], "length": [4096, 8192]}
    )
    pq.write_table(table, tmp_path / "made.parquet", compression=compression)
    assert flashwright.load_workload(str(tmp_path / "made.parquet")).page_writes == 3
