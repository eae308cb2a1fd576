"""Stacks of layers under a recorded trace on a simulated drive.

Each run once, two at a time, for all figures that show it.
"""

from __future__ import annotations

import atexit
import shutil
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.parquet as pq

from flashwright import data, replays
from flashwright._core import RunError
from flashwright.layering import facts as device_facts
from flashwright.layering.checkpoints import Checkpoints, marked
from flashwright.layering.measure import DIRECT, Measured, measure
from flashwright.probing.targets import Target
from flashwright.replays import Pace, ReplayPlan, TracePart
from flashwright.reproduce.figures.drawing import SEED
from flashwright.sources import Reading
from flashwright.sweeps.pool import Pool

if TYPE_CHECKING:
    from flashwright._core import Progress, ReplayTrace

TRACE_PAGE_BYTES = 8192
"""Bytes of a page of the database in the trace."""
THREADS = 2


@dataclass(frozen=True)
class Case:
    """A stack on a drive under a part of the trace."""

    profile: str
    stack: str = DIRECT
    ops: tuple[str, ...] = ("read", "write")
    limit: int | None = None
    """Requests of the trace."""
    seconds: float | None = None
    """Of the trace."""
    recording: Path | None = None
    """Requests to play instead of those of `data.TPCC_DATA`."""
    closes: bool = False
    """Whether the window of deferring closes where the recording marked the end of a checkpoint."""
    waits: bool = False
    """Whether requests keep the intervals of the trace."""
    page_bytes: int = TRACE_PAGE_BYTES
    """What a page of the trace is taken for (see `with_pages_of`); not for a `recording`."""

    @property
    def part(self) -> TracePart:
        """What of the trace is played."""
        return TracePart(limit=self.limit, seconds=self.seconds, ops=self.ops)


@cache
def with_pages_of(page_bytes: int) -> Path:
    """Write the trace with pages of another size.

    Page n of the database is page n still, and as many pages are written by each request. A request
    that is not aligned to the trace's pages, or shorter than one, becomes the pages that it
    touches.
    """
    if page_bytes == TRACE_PAGE_BYTES:
        return data.TPCC_DATA
    table = pq.read_table(data.TPCC_DATA)
    offset, length = (table[name].to_numpy().astype(np.int64) for name in ("offset", "length"))
    first = offset // TRACE_PAGE_BYTES
    pages = np.where(length > 0, (offset + length - 1) // TRACE_PAGE_BYTES - first + 1, 0)
    for name, values in (("offset", first * page_bytes), ("length", pages * page_bytes)):
        column = table.schema.get_field_index(name)
        kind = table.schema.field(name)
        table = table.set_column(column, kind, [values.astype(kind.type.to_pandas_dtype())])
    folder = Path(tempfile.mkdtemp(prefix="flashwright-pages-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = folder / data.TPCC_DATA.name
    pq.write_table(table, path)
    return path


@cache
def trace(
    ops: tuple[str, ...],
    limit: int | None,
    seconds: float | None,
    page_bytes: int = TRACE_PAGE_BYTES,
) -> ReplayTrace:
    """Read a part of the trace."""
    part = TracePart(limit=limit, seconds=seconds, ops=ops)
    return replays.load(with_pages_of(page_bytes), Reading(), ReplayPlan(Pace("one_by_one"), part))


@cache
def recorded(path: Path, part: TracePart) -> ReplayTrace:
    """Read a part of a recording."""
    return replays.load(path, Reading(), ReplayPlan(Pace("one_by_one"), part))


def played(case: Case) -> ReplayTrace:
    """Read what a case plays."""
    if case.recording is not None:
        return recorded(case.recording, case.part)
    return trace(case.ops, case.limit, case.seconds, case.page_bytes)


@cache
def target(profile: str) -> Target:
    """Give a drive, filled in order."""
    return Target.find(profile).opened_by("read_only", SEED)


@cache
def known(profile: str) -> dict[str, Any]:
    """Give what the prober finds out about a drive."""
    drive = target(profile)
    if not device_facts.is_cached(drive):
        sys.stderr.write(f"figures: probing {profile} ...\n")
        return dict(
            device_facts.measured(drive, device_facts.session(drive, drive.open()).run()).values
        )
    return dict(device_facts.of_cache(drive).values)


class Runs:
    """All runs that were made."""

    def __init__(self) -> None:
        self._made: dict[Case, Measured] = {}

    def of(self, case: Case) -> Measured:
        """Give what came of a case, which is run if it was not."""
        self.make([case])
        return self._made[case]

    def make(self, cases: Iterable[Case]) -> None:
        """Run the cases that were not, two at a time.

        Raises RunError if one fails.
        """
        missing = [case for case in dict.fromkeys(cases) if case not in self._made]
        if not missing:
            return
        for profile in dict.fromkeys(case.profile for case in missing if case.stack != DIRECT):
            known(profile)
        for case in missing:
            played(case)
        sys.stderr.write(f"figures: {len(missing)} runs ...\n")
        pool = Pool([partial(_measure, case) for case in missing], [0] * len(missing), THREADS)
        for case, ended in zip(missing, pool.run(), strict=True):
            if ended.result is None:
                raise RunError(f"{case.stack} on {case.profile}: {ended.error}")
            if not ended.result.is_complete:
                raise RunError(f"{case.stack} on {case.profile}: {ended.result.outcome['error']}")
            self._made[case] = ended.result

    @property
    def device_seconds(self) -> float:
        """Device time of all runs."""
        return sum(float(run.figures["seconds"]) for run in self._made.values())

    @property
    def requests(self) -> int:
        """Requests of all runs."""
        return sum(int(run.outcome["sent"]) for run in self._made.values())


def _measure(case: Case, progress: Progress) -> Measured:
    closes = (
        None if case.recording is None or not case.closes else marked(case.recording, case.part)
    )
    return measure(
        target(case.profile),
        played(case),
        case.stack,
        facts={} if case.stack == DIRECT else known(case.profile),
        pace=Pace("one_by_one", waiting=case.waits),
        checkpoints=closes or Checkpoints(),
        progress=progress,
    )


def latency_ms(run: Measured, op: str) -> float:
    """Mean time from sending a request to its end, in milliseconds."""
    return float(run.outcome["latency_ns"][op]["mean"]) / 1e6


def axis(label: str, unit: str, *, is_log: bool = False) -> dict[str, Any]:
    """Give an axis of a chart."""
    return {"label": label, "unit": unit, "is_log": is_log}


def named_values(name: str, y: dict[str, Any], values: dict[str, float]) -> dict[str, Any]:
    """Give a chart of one value for each name."""
    series = [
        {"name": one, "points": [{"x": place, "y": value}]}
        for place, (one, value) in enumerate(values.items())
    ]
    return {"name": name, "title": name, "x": axis("", ""), "y": y, "series": series}
