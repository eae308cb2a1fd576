"""Rows of measurements from the JSON that fio writes."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flashwright._core import InputError, parse_bytes
from flashwright.measured.rows import Row, WriteRow

GIB = 1 << 30
MIB = 1 << 20
NANOS_PER_US = 1e3


@dataclass
class FioRows:
    """What was taken of files of fio's, and what was not."""

    rows: list[Row] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    """File, job and reason, for each job that became no row."""


def read(paths: Iterable[Path], drive: str, capacity_gb: float) -> FioRows:
    """Read jobs in their order: each begins in the state that those before have left.

    A job of writes alone, in sequence or at random, becomes a row of steady writes, with the mean
    throughput of the job: a job that was not long enough to become steady is no good row. What was
    written before counts as written, too.

    Raises:
        InputError: a file that cannot be read, or is not what fio writes with
            `--output-format=json`.
    """
    found, written = FioRows(), 0.0
    for path in paths:
        for number, job in enumerate(_jobs(path), 1):
            name = f"{path}: job {number} ({job.get('jobname', 'without a name')})"
            options = {**job["globals"], **job.get("job options", {})}
            write = job.get("write", {})
            capacity = capacity_gb * 1e9
            written += float(write.get("io_bytes", 0))
            row = _row(drive, capacity_gb, options, write, written / capacity)
            if isinstance(row, str):
                found.left_out.append(f"{name}: {row}")
            else:
                found.rows.append(row)
    return found


def _jobs(path: Path) -> list[dict[str, Any]]:
    try:
        text = path.read_text(encoding="utf-8")
        document = json.loads(text[text.index("{") :])
        jobs = document["jobs"]
        return [{"globals": document.get("global options", {}), **job} for job in jobs]
    except OSError as error:
        raise InputError(f"{path}: cannot read it: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{path}: not what fio writes with --output-format=json: {error}"
        ) from error


def _row(
    drive: str, capacity_gb: float, options: dict[str, Any], write: dict[str, Any], written: float
) -> WriteRow | str:
    """Make a row of a job, or tell why it is none."""
    how = options.get("rw", options.get("readwrite", "read"))
    if how not in ("write", "randwrite"):
        return f"rw={how} is no job of writes alone"
    if "rate_iops" in options or "rate" in options:
        return "its rate is limited, so that it does not show what the drive can do"
    throughput = float(write.get("bw_bytes", 0)) / MIB
    if throughput <= 0:
        return "it wrote nothing"
    size = parse_bytes(str(options.get("bs", options.get("blocksize", "4k"))))
    if not size:
        return f"bs={options.get('bs')} is no size"
    used = _bytes(options.get("size")) or capacity_gb * 1e9
    pattern, parameters = "sequential" if how == "write" else "uniform", ""
    distribution = str(options.get("random_distribution", "random"))
    if how == "randwrite" and distribution.startswith("zipf:"):
        pattern, parameters = "zipf", distribution.split(":")[1]
    elif how == "randwrite" and distribution != "random":
        return f"random_distribution={distribution} is not known here"
    percentiles = write.get("clat_ns", {}).get("percentile", {})
    times = {
        key: float(percentiles[at]) / NANOS_PER_US
        for key, at in (("p50_us", "50.000000"), ("p99_us", "99.000000"))
        if at in percentiles
    }
    return WriteRow(
        drive=drive,
        capacity_gb=capacity_gb,
        used_gib=used / GIB,
        pattern=pattern,
        parameters=parameters,
        request_bytes=size,
        written_capacities=max(written * capacity_gb * 1e9 / used, 0.5),
        steady_mib_s=throughput,
        **times,
    )


def _bytes(text: Any) -> float | None:
    """Give a size in bytes; none for none, and for a share of the device."""
    if text is None or str(text).endswith("%"):
        return None
    found = parse_bytes(str(text))
    return None if found is None else float(found)
