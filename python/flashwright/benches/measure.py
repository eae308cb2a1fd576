"""Figures of a recorded run, in all and for each transaction.

They are of three layers: the calls, the requests queued, and those that the device got.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from flashwright import _core
from flashwright.runs import Run

LAYERS = ("queued", "issued")
"""`queued`: what the file system sends to the block layer, before it is merged and split. `issued`:
what the device gets.
"""
CALLED = "called"
"""The layer of the database's system calls: SCHEDULER's logical I/O. Not in every recording."""
OPS = ("read", "write", "trim")
_PAGE_BYTES = 4096
_CALLS, _MARKS = "calls", "marks"


def layer_figures(
    layer: str, trace: Path | None, seconds: float, transactions: int
) -> dict[str, Any]:
    """Give the figures of one layer of a run that lasted so long.

    Columns of a row, all beginning with the layer's name. `trace` is None if nothing was sent
    there. Shares are 0 ... 1; those of nothing are None.
    """
    counted: Mapping[str, Any] = (
        {} if trace is None else _core.trace_stats(str(trace), page_size=_PAGE_BYTES)
    )
    found: dict[str, Any] = {}
    for op in OPS:
        number, volume = int(counted.get(f"{op}s", 0)), int(counted.get(f"{op}_bytes", 0))
        found |= {
            f"{layer}_{op}s": number,
            f"{layer}_{op}_bytes": volume,
            f"{layer}_{op}s_per_second": number / seconds,
            f"{layer}_{op}_bytes_per_second": volume / seconds,
            f"{layer}_mean_{op}_bytes": volume / number if number else None,
        }
    flushes = int(counted.get("flushes", 0))
    found |= {
        f"{layer}_flushes": flushes,
        f"{layer}_flushes_per_second": flushes / seconds,
        f"{layer}_sequential_share_of_writes": counted.get("sequential_share_of_writes")
        if found[f"{layer}_writes"]
        else None,
        f"{layer}_write_bytes_per_transaction": found[f"{layer}_write_bytes"] / transactions
        if transactions
        else None,
        f"{layer}_flushes_per_transaction": flushes / transactions if transactions else None,
    }
    return found


def device_times(trace: Path | None) -> dict[str, Any]:
    """Give how long the device took for its requests, from issue to completion.

    A machine's own changes show here.
    """
    found: dict[str, Any] = {}
    table = None if trace is None else pq.read_table(trace, columns=["op", "latency_ns"])
    for op in ("read", "write", "flush"):
        own = (
            None
            if table is None
            else table.filter(pc.equal(table["op"].cast(pa.string()), op))["latency_ns"]
        )
        times = None if own is None else pc.quantile(own, q=[0.5, 0.99]).to_pylist()
        found |= {
            f"issued_{op}_{name}_ns": None if times is None else times[at]
            for at, name in enumerate(("p50", "p99"))
        }
    return found


def between(row: Mapping[str, Any]) -> dict[str, Any]:
    """Give what lies between layers.

    Writes queued for each that the device got: above 1 if the block layer merged, below if it
    split. Bytes that the device got for each that the database wrote, and, with a drive, that flash
    programs for each of those: what amplifies, all together.
    """
    issued, called = row["issued_writes"], row.get(f"{CALLED}_write_bytes")
    programmed = row.get("drive_flash_write_bytes")
    return {
        "writes_queued_per_issued": row["queued_writes"] / issued if issued else None,
        "device_amplification": row["issued_write_bytes"] / called if called else None,
        "total_amplification": programmed / called if called and programmed is not None else None,
    }


def called_figures(recording: Run, seconds: float, transactions: int) -> dict[str, Any]:
    """Give the figures of the database's system calls on its files while it was measured.

    None if they were not recorded. Bytes are those that a call moved. A call that failed moved
    none, and counts.
    """
    table = _calls(recording)
    if table is None:
        return {}
    found: dict[str, Any] = {}
    for op in ("read", "write"):
        own = table.filter(pc.equal(table["op"].cast(pa.string()), op))
        moved = pc.max_element_wise(own["result"], pa.scalar(0, pa.int64()))
        number, volume = own.num_rows, int(pc.sum(moved).as_py() or 0)
        found |= {
            f"{CALLED}_{op}s": number,
            f"{CALLED}_{op}_bytes": volume,
            f"{CALLED}_{op}s_per_second": number / seconds,
            f"{CALLED}_{op}_bytes_per_second": volume / seconds,
            f"{CALLED}_mean_{op}_bytes": volume / number if number else None,
        }
    syncs = table.filter(pc.equal(table["op"].cast(pa.string()), "sync")).num_rows
    said = recording.result["path"]["calls"]
    return found | {
        "lost_call_events": said["lost_events"] + said["missed_events"],
        f"{CALLED}_flushes": syncs,
        f"{CALLED}_flushes_per_second": syncs / seconds,
        f"{CALLED}_write_bytes_per_transaction": found[f"{CALLED}_write_bytes"] / transactions
        if transactions
        else None,
        f"{CALLED}_flushes_per_transaction": syncs / transactions if transactions else None,
    }


def _calls(recording: Run) -> pa.Table | None:
    """Give the calls that began while it was measured."""
    if _CALLS in recording.table_files:
        table = pq.read_table(recording.table_files[_CALLS], columns=["time_ns", "op", "result"])
    elif _CALLS in recording.tables:
        table = recording.tables[_CALLS].select(["time_ns", "op", "result"])
    else:
        return None
    marks = recording.tables[_MARKS]
    [measured] = marks.filter(pc.equal(marks["kind"], "measurement")).to_pylist()
    during = pc.and_(
        pc.greater_equal(table["time_ns"], measured["time_ns"]),
        pc.less(table["time_ns"], measured["end_ns"]),
    )
    return table.filter(during)
