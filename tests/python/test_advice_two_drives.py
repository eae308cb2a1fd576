"""Clients whose log is on a drive of its own, against what was worked out by hand."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flashwright.advice.two_drives import Times, seconds_of, times_of

LOG = Times(0, 0.0, 12.0, 0.0, 1000)
"""1,000 flushes of 12 ms."""


def test_one_client_waits_for_one_after_the_other() -> None:
    """Nothing goes on behind its back: it reads, thinks and commits in turn."""
    data = Times(500, 5.0, 0.0, 0.0, 0)
    assert seconds_of(data, LOG, 1, 3.0) == pytest.approx(5.0 + 12.0 + 3.0)


def test_four_clients_queue_at_the_log() -> None:
    """Each reads for 37 ms: by hand, the rates are 20.4, 38.5, 53.7 and 65.4 a second."""
    data = Times(1000, 37.0 / 4, 0.0, 0.0, 0)
    # 37 ms away for each of 4 clients: reads of 9.25 ms, and time to think for the rest.
    thinks = (37.0 - 37.0 / 4) / 4
    assert 1000 / seconds_of(data, LOG, 4, thinks) == pytest.approx(65.4, abs=0.1)


def test_many_clients_keep_the_log_busy() -> None:
    assert seconds_of(Times(0, 0.0, 0.0, 0.0, 0), LOG, 64, 1.0) == pytest.approx(12.0, rel=0.01)


def test_the_busier_drive_is_the_limit() -> None:
    data = Times(0, 0.0, 50.0, 0.04, 10)
    assert seconds_of(data, LOG, 4, 0.0) == pytest.approx(50.0, rel=1e-3)


def test_reads_wait_for_writes_behind_their_backs() -> None:
    reads, writes = Times(1000, 1.0, 0.0, 0.0, 0), Times(1000, 1.0, 6.0, 0.04, 10)
    alone, behind = (seconds_of(one, LOG, 1, 0.0) for one in (reads, writes))
    # Under way for 6 s of all, and then 40 ms are left.
    assert behind == pytest.approx(alone + 1000 * 6.0 / behind * 0.04, rel=1e-3)


def test_times_are_those_of_the_requests(tmp_path: Path) -> None:
    table = pa.table(
        {
            "latency_ns": [10**9, 2 * 10**9, 4 * 10**9, 3 * 10**9],
            "op": ["read", "write", "write", "flush"],
        }
    )
    pq.write_table(table, tmp_path / "requests.parquet")
    found = times_of(tmp_path / "requests.parquet", 1.0)
    assert (found.reads, found.reading, found.others, found.flushes) == (1, 1.0, 9.0, 1)
    assert found.rest == pytest.approx((4 + 16) / (2 * 6))
    assert times_of(tmp_path / "requests.parquet", 2.0).others == 4.5
