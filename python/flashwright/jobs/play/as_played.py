"""A recording in the words of a run of `play`, to be laid beside one that repeats it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from flashwright._core import InputError
from flashwright.jobs.play.names import DIRECT
from flashwright.jobs.play.said import OPERATIONS, RECORDED
from flashwright.quantiles import LEAST_FOR_P9999
from flashwright.runs import Run, sha256_of_file
from flashwright.sources import REQUESTS_FILE, file_name

QUANTILES = {"p50": 0.5, "p99": 0.99, "p999": 0.999}
_WINDOWS = 500
"""At most so many stretches of time in the figures over time."""
_CLASS_BITS = 10
"""A latency is kept by its highest bits, at most 0.1 % too large."""

U64 = npt.NDArray[np.uint64]


def as_played(recording: Run, folder: Path) -> Run:
    """Give what a device did while it was recorded, as a run of `play` has it.

    The result, and the tables latency and windows. Requests without a latency, whose end was not
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
    # To the last answer, as a run counts.
    seconds = max(float((time_ns + latency_ns).max() - time_ns.min()) / 1e9, 1e-9)
    lengths = requests["length"].to_numpy().astype(np.uint64)
    moved = {op: int(lengths[ops == op].sum()) for op in ("read", "write")}
    by_op = {op: latency_ns[(ops == op) & has_end] for op in OPERATIONS}
    device = str(recording.result["recording"]["device"]["name"])
    row: dict[str, Any] = {
        "device": device,
        "stack": None,
        "pace": RECORDED,
        "state": None,
        "verdict": None,
        "requests": requests.num_rows,
        "iops": requests.num_rows / seconds,
        "bytes_per_second": sum(moved.values()) / seconds,
        "read_bytes": moved["read"],
        "written_bytes": moved["write"],
        "seconds": seconds,
        "latency_ns": {op: _summary(found) for op, found in by_op.items() if len(found)},
        "flows": [],
        "sent": None,
        "simulated": None,
        "layers": None,
        "ended": None,
        "error": None,
    }
    source = {
        "name": file_name(path),
        "sources": [{"name": REQUESTS_FILE, "sha256": sha256_of_file(path)}],
        "part": {"of": str(path)},
    }
    ended_ns = time_ns + latency_ns - time_ns.min()
    ends = {op: (ended_ns[(ops == op) & has_end], by_op[op]) for op in OPERATIONS}
    tables = {"latency": _classes(by_op), "windows": _windows(ends, seconds)}
    result = {"source": source, "devices": [{"label": device}], "runs": [row]}
    return Run("play", result, {name: _of(row, table) for name, table in tables.items()})


def _of(row: dict[str, Any], table: pa.Table) -> pa.Table:
    """Give a table with the columns that say which run it is of."""
    for key in ("pace", "stack", "device"):
        column = pa.array([row[key] or DIRECT] * table.num_rows, pa.string())
        table = table.add_column(0, key, column)
    return table


def _summary(latency_ns: U64) -> dict[str, float | None]:
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
