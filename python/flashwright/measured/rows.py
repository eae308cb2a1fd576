"""Rows of measurements: steady writes under a pattern, and response times under a rate."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from flashwright._core import InputError

PATTERNS = ("sequential", "uniform", "zipf", "zones", "zns")


@dataclass(frozen=True)
class WriteRow:
    """One run of writes: what it was, and its throughput once it was steady."""

    drive: str
    capacity_gb: float
    """Capacity by the data sheet, in 10^9 bytes."""
    used_gib: float
    """Part of the capacity that was written to; the rest never was."""
    pattern: str
    """One of PATTERNS."""
    parameters: str
    request_bytes: int
    written_capacities: float
    """Bytes written, as a multiple of the used part."""
    steady_mib_s: float | None
    """Measured throughput, in MiB/s; None where it is only asked for."""
    p50_us: float | None = None
    p99_us: float | None = None
    depth: int | None = None
    """Requests that were under way; None for as many as the rows of the source have."""

    @property
    def name(self) -> str:
        """Description in a few words."""
        words = f"{self.pattern} {self.parameters}".strip()
        depth = "" if self.depth is None else f", depth {self.depth}"
        return f"{words}, {self.used_gib:g} GiB{depth}"


@dataclass(frozen=True)
class LatencyRow:
    """One rate of requests, and response times beside it."""

    drive: str
    offered_per_s: float
    writes_per_s: float | None = None
    reads_per_s: float | None = None
    read_p50_us: float | None = None
    read_p99_us: float | None = None
    read_p999_us: float | None = None
    write_p50_us: float | None = None
    write_p99_us: float | None = None
    write_p999_us: float | None = None

    @property
    def name(self) -> str:
        """Description in a few words."""
        return f"{self.offered_per_s:,.0f} requests/s"


Row = WriteRow | LatencyRow


class _Line:
    """One line of a table, whose cells are read with errors that say where they are."""

    def __init__(self, path: Path, number: int, cells: Mapping[str, str | None]) -> None:
        self.path, self.number, self.cells = path, number, cells

    def wrong(self, key: str, value: str, right: str) -> InputError:
        return InputError(f"{self.path}:{self.number}: {key} is `{value}`: it must be {right}")

    def text(self, key: str) -> str:
        return (self.cells.get(key) or "").strip()

    def number_of(self, key: str, *, optional: bool = False) -> float | None:
        text = self.text(key)
        if not text and optional:
            return None
        try:
            value = float(text)
        except ValueError:
            raise self.wrong(key, text, "a number") from None
        if not math.isfinite(value) or value < 0:
            raise self.wrong(key, text, "a number from 0 on")
        return value

    def above_0(self, key: str) -> float:
        value = self.number_of(key)
        if not value:
            raise self.wrong(key, self.text(key), "a number above 0")
        return value

    def count(self, key: str) -> int | None:
        value = self.number_of(key, optional=True)
        if value is None:
            return None
        if value < 1 or value != int(value):
            raise self.wrong(key, self.text(key), "a whole number from 1 on")
        return int(value)


def _write_row(line: _Line) -> WriteRow:
    pattern = line.text("pattern")
    if pattern not in PATTERNS:
        raise line.wrong("pattern", pattern, f"one of {', '.join(PATTERNS)}")
    row = WriteRow(
        drive=line.text("drive"),
        capacity_gb=line.above_0("capacity_gb"),
        used_gib=line.above_0("used_gib"),
        pattern=pattern,
        parameters=line.text("parameters"),
        request_bytes=int(line.above_0("request_bytes")),
        written_capacities=line.above_0("written_capacities"),
        steady_mib_s=line.number_of("steady_mib_s", optional=True),
        p50_us=line.number_of("p50_us", optional=True),
        p99_us=line.number_of("p99_us", optional=True),
        depth=line.count("depth"),
    )
    try:
        sets_of(row), zones_of(row), exponent_of(row), is_each_once(row)
    except ValueError as error:
        raise line.wrong("parameters", row.parameters, str(error)) from None
    return row


def _latency_row(line: _Line) -> LatencyRow:
    keys = [key for key in LatencyRow.__dataclass_fields__ if key not in ("drive", "offered_per_s")]
    measured = {key: line.number_of(key, optional=True) for key in keys}
    return LatencyRow(line.text("drive"), line.above_0("offered_per_s"), **measured)


def read(paths: Iterable[Path]) -> list[Row]:
    """Read tables with the columns of `writes.csv` or of `latency.csv`.

    Raises:
        InputError: a file that cannot be read or is neither, or a cell that is wrong.
    """
    rows: list[Row] = []
    for path in paths:
        try:
            with path.open(newline="", encoding="utf-8") as file:
                table = csv.DictReader(file)
                columns = set(table.fieldnames or ())
                if {"pattern", "written_capacities"} <= columns:
                    make: Callable[[_Line], Row] = _write_row
                elif {"offered_per_s"} <= columns:
                    make = _latency_row
                else:
                    raise InputError(
                        f"{path}:1: neither the columns of steady writes (drive, capacity_gb, "
                        "used_gib, pattern, parameters, request_bytes, steady_mib_s, "
                        "written_capacities) nor those of response times (drive, offered_per_s, "
                        "read_p50_us, ...)"
                    )
                rows.extend(make(_Line(path, table.line_num, cells)) for cells in table)
        except OSError as error:
            raise InputError(f"{path}: cannot read it: {error.strerror}") from error
        except (UnicodeDecodeError, csv.Error) as error:
            raise InputError(f"{path}: not a table of comma-separated values: {error}") from error
    return rows


def of_drive(rows: Iterable[Row], drive: str) -> list[Row]:
    """Give the rows of one drive."""
    return [row for row in rows if row.drive == drive]


def exponent_of(row: WriteRow) -> float:
    """Give the exponent of a `zipf` row; 0 for others."""
    if row.pattern != "zipf":
        return 0.0
    try:
        return float(row.parameters)
    except ValueError:
        raise ValueError("the exponent, such as 0.8") from None


def is_each_once(row: WriteRow) -> bool:
    """Tell whether a `uniform` row is of writes that reach each place once before any again."""
    if row.pattern != "uniform" or not row.parameters:
        return False
    if row.parameters != "each_once":
        raise ValueError("empty, or each_once")
    return True


def sets_of(row: WriteRow) -> list[tuple[float, float]]:
    """Give the sets of a `zones` row: share of the pages, share of the writes."""
    if row.pattern != "zones":
        return []
    right = "pairs such as `s0.8 f0 s0.2 f1`: shares of pages and of writes"
    words = row.parameters.split()
    if not words or len(words) % 2:
        raise ValueError(right)
    pairs = []
    for size, share in zip(words[::2], words[1::2], strict=True):
        if not (size.startswith("s") and share.startswith("f")):
            raise ValueError(right)
        try:
            pairs.append((float(size[1:]), float(share[1:])))
        except ValueError:
            raise ValueError(right) from None
    sizes, shares = (sum(pair[part] for pair in pairs) for part in (0, 1))
    if abs(sizes - 1) > 1e-3 or shares <= 0:
        raise ValueError(right + "; the pages' shares sum to 1")
    return [(size, share / shares) for size, share in pairs]


def zones_of(row: WriteRow) -> tuple[int, float]:
    """Give the active zones and the MiB of a zone of a `zns` row; 1 and 0 for others."""
    if row.pattern != "zns":
        return 1, 0.0
    right = "such as `active_zones=8 zone_mib=1024`"
    try:
        found = dict(word.split("=", 1) for word in row.parameters.split())
        active, zone = int(found["active_zones"]), float(found["zone_mib"])
    except (ValueError, KeyError):
        raise ValueError(right) from None
    if active < 1 or zone <= 0:
        raise ValueError(right)
    return active, zone
