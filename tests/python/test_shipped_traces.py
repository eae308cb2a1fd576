"""The traces that are shipped are what their descriptions say; and how traces are made small."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from experiments.figures import scheduler_layers
from flashwright import RunError, _core, data
from flashwright.layering.checkpoints import Taken, marked
from flashwright.recording import blkparse
from flashwright.recording.parts import LOGS, write_without
from support import ROOT, Cli, find_program

EXCERPT = ROOT / "tests/data/tpcc_postgres_excerpt.blktrace.zst"


@pytest.fixture(scope="module")
def excerpt(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The first events of the recording: the kernel's stream, and its table of requests."""
    folder = tmp_path_factory.mktemp("excerpt")
    raw, table = folder / "excerpt.blktrace", folder / "excerpt.parquet"
    with pa.CompressedInputStream(pa.OSFile(str(EXCERPT), "rb"), "zstd") as stream:
        raw.write_bytes(stream.read())
    _core.convert_trace(EXCERPT, table)
    return raw, table


@pytest.fixture(scope="module")
def about() -> Any:
    return json.loads((data.TPCC / "about.json").read_text())


def test_the_trace_has_the_numbers_that_its_description_says(about: Any) -> None:
    said = about["requests"]
    counted = _core.trace_stats(data.TPCC_REQUESTS)
    kinds = ("read", "write", "trim", "flush")
    assert said["by_op"] == {kind: counted[f"{kind}s".replace("hs", "hes")] for kind in kinds}
    assert said["bytes_by_op"] == {kind: counted.get(f"{kind}_bytes", 0) for kind in kinds}
    assert said["count"] == counted["requests"] == counted["requests_with_latency"]
    assert said["without_latency"] == 0
    assert said["page_writes"] == counted["page_writes"]
    assert said["page_reads"] == counted["page_reads"]
    assert said["written_footprint_pages"] == counted["footprint_written_pages"]
    assert said["duration_s"] == counted["duration_ns"] / 1e9
    table = pq.read_table(data.TPCC_REQUESTS)
    is_write = pc.equal(table["op"].cast(pa.string()), "write").to_numpy()
    ends = table["offset"].to_numpy() | table["length"].to_numpy()
    assert not (ends[is_write] % 4096).any()
    assert said["unaligned_writes"] == 0


def test_the_trace_begins_as_the_raw_excerpt_does(excerpt: tuple[Path, Path]) -> None:
    whole, part = pq.read_table(data.TPCC_REQUESTS), pq.read_table(excerpt[1])
    assert part.num_rows > 20_000
    for name in ("op", "offset", "length", "stream"):
        assert whole[name].slice(0, part.num_rows).to_pylist() == part[name].to_pylist()
    times = [(time or 0) // 1000 * 1000 for time in part["time_ns"].to_pylist()]
    assert whole["time_ns"].slice(0, part.num_rows).to_pylist() == times


def test_compact_cuts_times_and_drops_latencies_only(
    excerpt: tuple[Path, Path], cli: Cli, tmp_path: Path
) -> None:
    cli("trace", "convert", excerpt[1], "small.parquet", "--compact")
    exact, cut = pq.read_table(excerpt[1]), pq.read_table(tmp_path / "small.parquet")
    assert cut.schema.equals(exact.schema)
    for name in ("op", "offset", "length", "stream"):
        assert exact[name].to_pylist() == cut[name].to_pylist()
    assert cut["time_ns"].to_pylist() == [
        time // 1000 * 1000 for time in exact["time_ns"].to_pylist()
    ]
    assert set(cut["latency_ns"].to_pylist()) == {None}
    assert (tmp_path / "small.parquet").stat().st_size < 0.6 * excerpt[1].stat().st_size
    kept = pq.read_metadata(tmp_path / "small.parquet").metadata or {}
    assert int(kept[b"flashwright.requests"]) == cut.num_rows
    refused = cli("trace", "convert", excerpt[1], "small.iolog", "--compact", code=2)
    assert "--compact is for a TARGET that ends in .parquet" in refused.stderr


def test_blkparse_reads_the_same(excerpt: tuple[Path, Path]) -> None:
    find_program("blkparse")
    assert blkparse.compare(*excerpt) == pq.read_metadata(excerpt[1]).num_rows


@pytest.mark.parametrize("column", ["time_ns", "offset", "length", "stream"])
def test_a_changed_table_is_seen(column: str, excerpt: tuple[Path, Path], tmp_path: Path) -> None:
    find_program("blkparse")
    table = pq.read_table(excerpt[1])
    values = table[column].to_pylist()
    values[table.num_rows // 2] = (values[table.num_rows // 2] or 0) + 1
    field = table.schema.field(column)
    changed = tmp_path / "changed.parquet"
    pq.write_table(
        table.set_column(table.schema.get_field_index(column), field, pa.array(values, field.type)),
        changed,
    )
    with pytest.raises(RunError, match="blkparse says"):
        blkparse.compare(excerpt[0], changed)


def test_a_missing_request_is_seen(excerpt: tuple[Path, Path], tmp_path: Path) -> None:
    find_program("blkparse")
    table = pq.read_table(excerpt[1])
    pq.write_table(table.slice(1), tmp_path / "short.parquet")
    with pytest.raises(RunError, match=f"the table has {table.num_rows - 1:,}"):
        blkparse.compare(excerpt[0], tmp_path / "short.parquet")


@pytest.mark.parametrize("interval", scheduler_layers.INTERVALS)
def test_a_trace_for_the_scheduler_is_as_its_paper_has_it(interval: float) -> None:
    path = scheduler_layers.recording(interval)
    ends_s = [time / 1e9 for time in marked(path, Taken(ops=("read", "write"))).times_ns]
    # A sixth of the paper's times.
    assert len(ends_s) >= round(600 / interval) - 1
    assert 0 < ends_s[0] < interval / 6 + 1
    assert np.diff(ends_s) == pytest.approx(interval / 6, abs=1.5)
    table = pq.read_table(path)
    writes = table.filter(pc.equal(table["op"].cast(pa.string()), "write"))
    assert pc.mean(pc.equal(writes["length"], 4096)).as_py() > 0.99
    assert writes.num_rows > 82_000


def test_log_and_data_are_told_apart(about: Any, tmp_path: Path) -> None:
    log, rest = tmp_path / "log.parquet", tmp_path / "rest.parquet"
    kept = [write_without(data.TPCC, *part) for part in ((["other"], log), (LOGS, rest))]
    stats = _core.trace_stats(data.TPCC_REQUESTS)
    assert sum(kept) == stats["requests"] + stats["flushes"]
    # Where the log lies is where its description says.
    ranges = about["layout"]["log"]
    offsets = pq.read_table(log).filter(pc.field("op") != "flush")["offset"].to_numpy()
    inside = np.zeros(len(offsets), bool)
    for begin, length in ranges:
        inside |= (offsets >= begin) & (offsets < begin + length)
    assert inside.all()
    # PostgreSQL's own counters say how many data pages of 8 KiB it wrote in the whole recording.
    counters = about["postgres_counters"]
    pages = counters["buffers_checkpoint"] + counters["buffers_clean"] + counters["buffers_backend"]
    expected = pages * 8192 * about["kept_seconds"] / about["result"]["seconds"]
    assert abs(_core.trace_stats(rest)["write_bytes"] / expected - 1) < 0.03
