"""The recorded trace in the repository, and the conversion that made it."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from flashwright import data, replays
from flashwright.layering.checkpoints import MARKS_FILE, marked
from flashwright.reproduce.figures import scheduler_layers
from flashwright.sources import REQUESTS_FILE
from flashwright.workloads import parts

ROOT = Path(__file__).parents[2]
TRACES = data.TRACES
EXCERPT = ROOT / "tests/data/tpcc_postgres_excerpt.blktrace.zst"

sys.path.insert(0, str(ROOT / "scripts/record_tpcc"))
import convert  # noqa: E402
import shrink  # noqa: E402

needs_blkparse = pytest.mark.skipif(
    shutil.which("blkparse") is None, reason="needs blkparse (package blktrace)"
)


@pytest.fixture(scope="module")
def excerpt_table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("excerpt") / "excerpt.parquet"
    convert.convert(EXCERPT, path)
    return path


def test_the_trace_has_the_numbers_that_its_description_says() -> None:
    said = json.loads((TRACES / "tpcc_postgres.json").read_text())["requests"]
    table = pq.read_table(TRACES / "tpcc_postgres.parquet")
    counted = convert.summary(table)
    counted.pop("by_stream")
    assert {key: said[key] for key in counted} == counted
    assert counted["without_latency"] == 0
    assert counted["unaligned_writes"] == 0


def test_the_trace_begins_as_the_raw_excerpt_does(excerpt_table: Path) -> None:
    whole, part = pq.read_table(TRACES / "tpcc_postgres.parquet"), pq.read_table(excerpt_table)
    assert part.num_rows > 20_000
    for name in ("op", "offset", "length", "stream"):
        assert whole[name].slice(0, part.num_rows).to_pylist() == part[name].to_pylist()
    times = [(time or 0) // 1000 * 1000 for time in part["time_ns"].to_pylist()]
    assert whole["time_ns"].slice(0, part.num_rows).to_pylist() == times


def test_resolution_cuts_times_only(excerpt_table: Path, tmp_path: Path) -> None:
    coarse = tmp_path / "coarse.parquet"
    convert.convert(EXCERPT, coarse, resolution_ns=1000)
    exact, cut = pq.read_table(excerpt_table), pq.read_table(coarse)
    for name in ("op", "offset", "length", "stream"):
        assert exact[name].to_pylist() == cut[name].to_pylist()
    for name in ("time_ns", "latency_ns"):
        expected = [
            None if value is None else value // 1000 * 1000 for value in exact[name].to_pylist()
        ]
        assert expected == cut[name].to_pylist()
    kept = pq.read_metadata(coarse).metadata or {}
    assert int(kept[b"flashwright.requests"]) == cut.num_rows


@needs_blkparse
def test_blkparse_reads_the_same(excerpt_table: Path) -> None:
    assert convert.verify(EXCERPT, excerpt_table).startswith(
        f"{pq.read_metadata(excerpt_table).num_rows} issued requests"
    )


@needs_blkparse
@pytest.mark.parametrize("column", ["time_ns", "offset", "length", "stream"])
def test_a_changed_table_is_seen(column: str, excerpt_table: Path, tmp_path: Path) -> None:
    table = pq.read_table(excerpt_table)
    values = table[column].to_pylist()
    values[table.num_rows // 2] = (values[table.num_rows // 2] or 0) + 1
    field = table.schema.field(column)
    changed = tmp_path / "changed.parquet"
    pq.write_table(
        table.set_column(table.schema.get_field_index(column), field, pa.array(values, field.type)),
        changed,
    )
    with pytest.raises(convert.VerificationError, match="blkparse says"):
        convert.verify(EXCERPT, changed)


@needs_blkparse
def test_a_missing_request_is_seen(excerpt_table: Path, tmp_path: Path) -> None:
    table = pq.read_table(excerpt_table)
    pq.write_table(table.slice(1), tmp_path / "short.parquet")
    with pytest.raises(convert.VerificationError, match=f"the table has {table.num_rows - 1}"):
        convert.verify(EXCERPT, tmp_path / "short.parquet")


def test_of_a_recording_requests_and_checkpoints_are_kept(
    excerpt_table: Path, tmp_path: Path
) -> None:
    recorded, small = tmp_path / "recorded", tmp_path / "new" / "small"
    recorded.mkdir()
    shutil.copy(excerpt_table, recorded / REQUESTS_FILE)
    kinds = pa.array(["begin", "checkpoint", "end", "checkpoint"]).dictionary_encode()
    marks = pa.table(
        {"time_ns": [1, 2_000, 9, 7_000], "end_ns": [None, 3_000, None, 8_000], "kind": kinds}
    )
    pq.write_table(marks, recorded / MARKS_FILE)
    exact = pq.read_table(excerpt_table)
    assert shrink.shrink_recording(recorded, small) == (exact.num_rows, 2)
    cut = pq.read_table(small / REQUESTS_FILE)
    assert cut["offset"].to_pylist() == exact["offset"].to_pylist()
    assert cut["time_ns"].to_pylist() == [
        time // 1000 * 1000 for time in exact["time_ns"].to_pylist()
    ]
    assert set(cut["latency_ns"].to_pylist()) == {None}
    assert pq.read_table(small / MARKS_FILE)["end_ns"].to_pylist() == [3_000, 8_000]


@pytest.mark.parametrize("interval", scheduler_layers.INTERVALS)
def test_a_trace_for_the_scheduler_is_as_its_paper_has_it(interval: float) -> None:
    path = scheduler_layers.recording(interval)
    ends_s = [time / 1e9 for time in marked(path, replays.Part(ops=("read", "write"))).times_ns]
    # A sixth of the paper's times.
    assert len(ends_s) >= round(600 / interval) - 1
    assert 0 < ends_s[0] < interval / 6 + 1
    assert np.diff(ends_s) == pytest.approx(interval / 6, abs=1.5)
    table = pq.read_table(path)
    writes = table.filter(pc.equal(table["op"].cast(pa.string()), "write"))
    assert pc.mean(pc.equal(writes["length"], 4096)).as_py() > 0.99
    assert writes.num_rows > 82_000


def test_log_and_data_are_told_apart() -> None:
    about = json.loads((TRACES / "tpcc_postgres.json").read_text())
    ranges = [(offset, length) for offset, length in about["layout"]["log"]]
    assert parts.union(ranges) == ranges
    table = pq.read_table(TRACES / "tpcc_postgres.parquet")
    log, rest = (parts.take_part(table, ranges, keep_inside=keep) for keep in (True, False))
    flushes = about["requests"]["by_op"]["flush"]
    assert log.num_rows + rest.num_rows == table.num_rows + flushes
    # PostgreSQL's own counters say how many data pages of 8 KiB it wrote in the whole recording.
    counters = about["postgres_counters"]
    pages = counters["buffers_checkpoint"] + counters["buffers_clean"] + counters["buffers_backend"]
    expected = pages * 8192 * about["kept_seconds"] / about["result"]["seconds"]
    assert abs(convert.summary(rest)["bytes_by_op"]["write"] / expected - 1) < 0.03


def test_ranges_are_merged_and_searched() -> None:
    ranges = parts.union([(40, 10), (0, 10), (10, 5), (42, 2), (45, 10)])
    assert ranges == [(0, 15), (40, 15)]
    held = parts.inside(np.arange(60, dtype=np.uint64), ranges)
    assert [int(at) for at in np.flatnonzero(held)] == [*range(15), *range(40, 55)]
    assert not parts.inside(np.arange(5, dtype=np.uint64), []).any()
