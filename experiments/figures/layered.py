"""Stacks of layers under a recorded trace on a simulated drive.

Each run once for all figures that show it.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow.parquet as pq

from experiments import engine
from experiments.data import TPCC_DATA
from experiments.drives.experiment import drive
from experiments.figures.drawing import SEED
from flashwright.jobs.play.figures import figures
from flashwright.jobs.play.names import DIRECT
from flashwright.layering.checkpoints import Taken, marked
from flashwright.layering.known import MEASURE, facts_for
from flashwright.probing.targets import Target

if TYPE_CHECKING:
    from flashwright.engine.task import Task

TRACE_PAGE_BYTES = 8192
"""Bytes of a page of the database in the trace."""
Played: TypeAlias = Mapping[str, Any]
"""A run through a stack, as `drive_runs.run` gives it, and the figures of stacks."""


@dataclass(frozen=True)
class Case:
    """A stack on a drive under a part of the trace."""

    profile: str
    stack: str = DIRECT
    ops: tuple[str, ...] = ("read", "write")
    limit: int | None = None
    """Most requests of the trace."""
    seconds: float | None = None
    """Most seconds of the trace."""
    recording: Path | None = None
    """Requests to play instead of those of `TPCC_DATA`."""
    closes: bool = False
    """True if the window of deferring closes where the recording marked the end of a checkpoint."""
    waits: bool = False
    """True if requests keep the intervals of the trace."""
    stretch: float = 1.0
    """Times as long as in the trace that intervals are, if they are kept."""
    attempt: int = 0
    """Number among equal runs, of which the processor's time is measured."""
    page_bytes: int = TRACE_PAGE_BYTES
    """Bytes that a page of the trace is taken to have (see `with_pages_of`); not for a `recording`.
    """

    @property
    def path(self) -> Path:
        """The trace that it plays a part of."""
        return self.recording or with_pages_of(self.page_bytes)

    @property
    def source(self) -> dict[str, Any]:
        """Source of a play: the part of the trace, at its own addresses."""
        part = {"ops": "+".join(self.ops), "limit": self.limit, "for": self.seconds}
        return {"of": str(self.path), "fit": "as_is", **part}

    @property
    def pace(self) -> str:
        """One by one: at once, or after the trace's intervals."""
        return f"intervals(1,factor={1 / self.stretch:.6g})" if self.waits else "closed(1)"


@cache
def with_pages_of(page_bytes: int) -> Path:
    """Write the trace with pages of another size.

    Page n of the database is page n still, and as many pages are written by each request. A request
    that is not aligned to the trace's pages, or shorter than one, becomes the pages that it
    touches.
    """
    if page_bytes == TRACE_PAGE_BYTES:
        return TPCC_DATA
    table = pq.read_table(TPCC_DATA)
    offset, length = (table[name].to_numpy().astype(np.int64) for name in ("offset", "length"))
    first = offset // TRACE_PAGE_BYTES
    pages = np.where(length > 0, (offset + length - 1) // TRACE_PAGE_BYTES - first + 1, 0)
    for name, values in (("offset", first * page_bytes), ("length", pages * page_bytes)):
        column = table.schema.get_field_index(name)
        kind = table.schema.field(name)
        table = table.set_column(column, kind, [values.astype(kind.type.to_pandas_dtype())])
    folder = Path(tempfile.mkdtemp(prefix="flashwright-pages-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = folder / TPCC_DATA.name
    pq.write_table(table, path)
    return path


@cache
def known(profile: str) -> dict[str, Any]:
    """Give what the prober finds out about a drive."""
    return facts_for(Target.find(profile, seed=SEED), MEASURE, needed=True).values


class Runs:
    """All runs that were made."""

    def __init__(self) -> None:
        self._made: dict[Case, Played] = {}

    def of(self, case: Case) -> Played:
        """Give what came of a case, which is run if it was not."""
        self.make([case])
        return self._made[case]

    def make(self, cases: Iterable[Case]) -> None:
        """Run the cases that were not.

        Raises RunError if one fails.
        """
        missing = [case for case in dict.fromkeys(cases) if case not in self._made]
        if not missing:
            return
        for profile in dict.fromkeys(case.profile for case in missing if case.stack != DIRECT):
            known(profile)
        found = engine.plays([_task(case) for case in missing], "Runs through layers")
        for case, run in zip(missing, found, strict=True):
            self._made[case] = {**run, **figures(run)}

    @property
    def device_seconds(self) -> float:
        """Device time of all runs."""
        return sum(float(run["seconds"]) for run in self._made.values())

    @property
    def requests(self) -> int:
        """Requests of all runs."""
        return sum(int(run["sent"]["sent"]) for run in self._made.values())


def _task(case: Case) -> Task:
    at = None
    if case.closes:
        taken = Taken(seconds=case.seconds, limit=case.limit, ops=case.ops)
        at = marked(case.path, taken).setting()
    return engine.play_task(
        drive(case.profile).profile,
        case.source,
        case.attempt,
        stack=[case.stack],
        facts={} if case.stack == DIRECT else known(case.profile),
        pace=case.pace,
        checkpoints=at,
        seed=SEED,
    )


def latency_ms(run: Played, op: str) -> float:
    """Mean time from sending a request to its end, in milliseconds."""
    return float(run["latency_ns"][op]["mean"]) / 1e6


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
