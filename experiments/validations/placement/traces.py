"""Speed of reading and converting traces, in requests a second on one thread."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from experiments.validations.placement.checks import Scale, judge, tolerance
from experiments.validations.placement.judged import Row, tell
from flashwright import _core
from flashwright._core import FlashwrightError

BEST_OF = 3
"""Times that reading a trace is measured; the best counts, as everything else only disturbs."""


def _seconds(work: Callable[[], object]) -> float:
    times = []
    for _ in range(BEST_OF):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def _read(path: Path) -> int:
    """Read a trace as Python gets it, batch by batch; give its requests."""
    reader = pa.RecordBatchReader.from_stream(_core.open_trace(path))
    return sum(batch.num_rows for batch in reader)


def trace_rows(scale: Scale, folder: Path) -> list[Row]:
    """Measure each format that traces of block devices come in."""
    kept = folder / "requests.parquet"
    spec = f"synth:zipf(s=0.99,pages=1Mi,updates={scale.requests})"
    tell(f"traces: writing {scale.requests} requests")
    _core.write_synthetic(spec, kept)
    texts = {
        "MSR CSV": _msr(kept, folder / "requests.csv"),
        "Alibaba CSV": _alibaba(kept, folder / "alibaba.csv"),
    }
    rows = []
    for name, path, wanted in [
        ("Parquet", kept, 5e6),
        *((name, path, 1e6) for name, path in texts.items()),
    ]:
        found = _read(path)
        if found != scale.requests:
            raise FlashwrightError(
                f"{path}: {found} requests were read, and {scale.requests} written"
            )
        tell(f"traces: {name}")
        for verb, work in (
            ("read", partial(_read, path)),
            (
                "convert to Parquet",
                partial(_core.convert_trace, path, folder / "converted.parquet"),
            ),
        ):
            rate = scale.requests / _seconds(work)
            rows.append(
                Row(
                    f"{scale.requests} requests, {name}",
                    None,
                    f"{verb}: requests a second",
                    rate,
                    reference_name="wanted",
                    reference=wanted,
                    deviation=rate / wanted - 1,
                    tolerance=tolerance(0.0, np.inf),
                    met=judge(rate / wanted - 1, 0.0, np.inf),
                )
            )
    return rows


def _lines(src: Path, dst: Path, line: Callable[[int, int, int, int], str]) -> Path:
    """Write a trace of page writes as text, as its recorder would have.

    There is no writer for formats that are only read.
    """
    with dst.open("w", encoding="ascii") as file:
        for batch in pa.RecordBatchReader.from_stream(_core.open_trace(src)):
            columns = [
                batch.column(name).to_pylist() for name in ("time_ns", "offset", "length", "stream")
            ]
            file.writelines(map(line, *columns))
    return dst


def _msr(src: Path, dst: Path) -> Path:
    # Ticks of 100 ns since 1601, as Windows counts them; 17 us is a usual response time.
    began = 128_166_372_000_000_000
    return _lines(
        src,
        dst,
        lambda time, offset, length, stream: (
            f"{began + time},host,{stream},Write,{offset},{length},170\n"
        ),
    )


def _alibaba(src: Path, dst: Path) -> Path:
    began = 1_577_808_000_000_000
    return _lines(
        src,
        dst,
        lambda time, offset, length, stream: f"{stream},W,{offset},{length},{began + time}\n",
    )
