"""A recording in the words of a replay.

So that a replay may be laid beside what it repeats.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from flashwright import replays
from flashwright._core import InputError
from flashwright.quantiles import LEAST_FOR_P9999
from flashwright.replays import OPERATIONS, TracePart
from flashwright.runs import Run, sha256_of_file
from flashwright.sources import REQUESTS_FILE, file_name

QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999}
RECORDED = "recorded"
"""The kind of pace of what was no replay."""
_WINDOWS = 500
"""At most so many stretches of time in the figures over time."""
_CLASS_BITS = 10
"""A latency is kept by its highest bits, at most 0.1 % too large."""

U64 = npt.NDArray[np.uint64]


def as_replay(recording: Run, folder: Path) -> Run:
    """Give what a device did while it was recorded, as a run of `replay` has it.

    `result`, and the tables latency and windows. Requests without a latency, whose end was not
    recorded, count as sent and in no time.

    Raises:
        InputError: the recording has no requests.
    """
    path = folder / REQUESTS_FILE
    try:
        requests = pq.read_table(path, columns=["time_ns", "op", "length", "latency_ns"])
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{path}: {error}; right would be a finished recording") from error
    if not requests.num_rows:
        raise InputError(f"{path}: it has no requests")
    time_ns = requests["time_ns"].to_numpy().astype(np.uint64)
    ops = np.array([str(op) for op in requests["op"].to_pylist()])
    has_end = requests["latency_ns"].is_valid().to_numpy()
    latency_ns = requests["latency_ns"].fill_null(0).to_numpy().astype(np.uint64)
    # To the last answer, as a replay counts.
    seconds = max(float((time_ns + latency_ns).max() - time_ns.min()) / 1e9, 1e-9)
    moved_bytes = int(
        requests["length"].to_numpy().astype(np.uint64)[np.isin(ops, ("read", "write"))].sum()
    )
    by_op = {op: latency_ns[(ops == op) & has_end] for op in OPERATIONS}
    result: dict[str, Any] = {
        "trace": {
            "name": file_name(path),
            "sources": [{"name": REQUESTS_FILE, "sha256": sha256_of_file(path)}],
            "part": {**asdict(TracePart()), "ops": list(OPERATIONS)},
        },
        "device": {"name": recording.result["recording"]["device"]["name"]},
        "pace": {"kind": RECORDED},
        "sent": requests.num_rows,
        "iops": requests.num_rows / seconds,
        "bytes_per_second": moved_bytes / seconds,
        "seconds": seconds,
        "latency_ns": {op: _summary(found) for op, found in by_op.items()},
        "response_ns": None,
        "lateness_ns": None,
        "held_ns": None,
        "provenance": recording.result["provenance"],
    }
    ended_ns = time_ns + latency_ns - time_ns.min()
    tables = {
        "latency": _classes(by_op),
        "windows": _windows(
            {op: (ended_ns[(ops == op) & has_end], by_op[op]) for op in OPERATIONS}, seconds
        ),
    }
    return Run(replays.COMMAND, result, tables)


def _summary(latency_ns: U64) -> dict[str, float | None] | None:
    if not len(latency_ns):
        return None
    levels = np.quantile(latency_ns, list(QUANTILES.values()), method="inverted_cdf")
    return {
        "count": len(latency_ns),
        "mean": float(latency_ns.mean()),
        **{name: int(value) for name, value in zip(QUANTILES, levels, strict=True)},
        "p9999": int(np.quantile(latency_ns, 0.9999, method="inverted_cdf"))
        if len(latency_ns) >= LEAST_FOR_P9999
        else None,
        "max": int(latency_ns.max()),
    }


def _classes(by_op: dict[str, U64]) -> pa.Table:
    rows: dict[str, list[Any]] = {"of": [], "op": [], "to_ns": [], "count": []}
    for op, latency_ns in by_op.items():
        shift = np.maximum(np.frexp(latency_ns.astype(np.float64))[1] - _CLASS_BITS, 0).astype(
            np.uint64
        )
        upper, counts = np.unique(
            (((latency_ns >> shift) + np.uint64(1)) << shift) - np.uint64(1), return_counts=True
        )
        for name, values in (
            ("of", ["latency"] * len(upper)),
            ("op", [op] * len(upper)),
            ("to_ns", upper),
            ("count", counts),
        ):
            rows[name].extend(values)
    return pa.table(rows)


def _windows(by_op: dict[str, tuple[U64, U64]], seconds: float) -> pa.Table:
    each = seconds / _WINDOWS
    rows: dict[str, list[Any]] = {
        "start_s": [],
        "seconds": [],
        "op": [],
        "requests": [],
        "mean_latency_ns": [],
    }
    for op, (ended_ns, latency_ns) in by_op.items():
        number = np.minimum(ended_ns.astype(np.float64) / 1e9 / each, _WINDOWS - 1).astype(np.int64)
        counts = np.bincount(number, minlength=_WINDOWS)
        sums = np.bincount(number, latency_ns.astype(np.float64), _WINDOWS)
        for window in np.flatnonzero(counts):
            rows["start_s"].append(window * each)
            rows["seconds"].append(each)
            rows["op"].append(op)
            rows["requests"].append(int(counts[window]))
            rows["mean_latency_ns"].append(float(sums[window] / counts[window]))
    return pa.table(rows)
