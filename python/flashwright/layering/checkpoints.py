"""Checkpoints of a database in a trace.

Assumed at even intervals, or as a recording marked them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from flashwright._core import InputError
from flashwright.sources import REQUESTS_FILE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flashwright._core import Source

MARKS = "marks"
MARKS_FILE = "marks.parquet"
TOLD_AS = ("flush", "signal")
"""Ways to tell layers of a checkpoint's end: by a flush among the requests, or beside them."""
_WANTS_BEGINS = re.compile(r"\bwindow\s*=\s*checkpoint_begin\b")
_MOST = 1_000_000


@dataclass(frozen=True)
class Checkpoints:
    """Times of the database's checkpoints.

    They are on the clock of the part of a trace that is played.
    """

    times_ns: tuple[int, ...] = ()
    told_as: str = TOLD_AS[0]
    origin: str = "none"
    """Source of the times, for people."""
    begins_ns: tuple[int, ...] = ()
    """Times of their begins, as far as they are known: layers hear of them beside the requests."""

    def on_slice(self, slices: int) -> Checkpoints:
        """Give them on the clock of one of so many slices of a drive."""
        if slices == 1:
            return self
        return replace(
            self,
            times_ns=tuple(one // slices for one in self.times_ns),
            begins_ns=tuple(one // slices for one in self.begins_ns),
        )

    def setting(self) -> dict[str, Any] | None:
        """Give them as a run of `play` takes them; None if there are none."""
        if not self.times_ns:
            return None
        at = {"ends_ns": self.times_ns, "begins_ns": self.begins_ns, "as": self.told_as}
        return {"at": at}

    def document(self) -> dict[str, Any]:
        """Tell them for a result."""
        return {
            "number": len(self.times_ns),
            "told_as": self.told_as,
            "origin": self.origin,
            "beginnings": len(self.begins_ns),
        }

    def check(self, stacks: Sequence[str]) -> None:
        """Refuse stacks that wait for the beginnings of checkpoints where only the ends are known.

        Raises InputError if one does.
        """
        if not self.times_ns or self.begins_ns:
            return
        for stack in stacks:
            if _WANTS_BEGINS.search(stack):
                raise InputError(
                    f"{stack}: window=checkpoint_begin hears of no beginning, as of checkpoints "
                    f"{self.origin} only the ends are known; right would be window=checkpoint_end, "
                    f"or --checkpoints {MARKS} of a recording"
                )


def every(seconds: float, trace: Source, told_as: str = TOLD_AS[0], slices: int = 1) -> Checkpoints:
    """Assume a checkpoint that ends each `seconds` of the trace.

    `trace` is as it falls on one of so many slices. They are on the clock of the whole trace.

    Raises InputError if the trace has no times, or so many checkpoints would be more than a
    million.
    """
    if not trace.has_times:
        raise InputError("--checkpoints every: the trace has no times; leave it out")
    step, duration_ns = round(seconds * 1e9), int(trace.duration_ns or 0) * slices
    if step < 1 or duration_ns // step > _MOST:
        raise InputError(
            f"--checkpoints every({seconds:g}): more than {_MOST} checkpoints in "
            f"{duration_ns / 1e9:g} s of the trace; take longer intervals"
        )
    return Checkpoints(
        tuple(range(step, duration_ns + 1, step)), told_as, f"assumed every {seconds:g} s"
    )


@dataclass(frozen=True)
class Taken:
    """Part of a trace that is played."""

    skip_seconds: float = 0.0
    seconds: float | None = None
    limit: int | None = None
    ops: tuple[str, ...] = ("read", "write", "trim", "flush")


def marked(trace_path: Path, part: Taken, told_as: str = TOLD_AS[0]) -> Checkpoints:
    """Take the checkpoints that a recording marked.

    Their ends and beginnings within the part that is played.

    Raises InputError if the trace is not of a recording, or that has no checkpoint in this part.
    """
    path = trace_path.with_name(MARKS_FILE)
    if trace_path.name != REQUESTS_FILE or not path.is_file():
        raise InputError(
            f"--checkpoints {MARKS}: {trace_path} is not of a recording with marks; right would be "
            "its folder, or --checkpoints every(60s)"
        )
    marks = pq.read_table(path, columns=["kind", "time_ns", "end_ns"]).filter(
        pc.field("kind") == "checkpoint"
    )
    ends = marks["end_ns"].to_pylist()
    first_ns, last_ns = _span(pq.read_table(trace_path, columns=["time_ns", "op", "length"]), part)
    times = tuple(sorted(end - first_ns for end in ends if first_ns < end <= last_ns))
    if not times:
        raise InputError(
            f"--checkpoints {MARKS}: of {len(ends)} checkpoints in {path} none ends within the "
            "part of the trace that is played; right would be --checkpoints every(60s)"
        )
    begins = {
        begin - first_ns for begin in marks["time_ns"].to_pylist() if first_ns <= begin <= last_ns
    }
    return Checkpoints(
        times,
        told_as,
        f"{len(times)} of {len(ends)} that the recording marked",
        begins_ns=tuple(sorted(begins)),
    )


def _span(requests: pa.Table, part: Taken) -> tuple[int, int]:
    """Give the times of the first and the last request that a selection takes."""
    flush = pc.equal(requests["op"].cast("string"), "flush")
    taken = pc.and_(
        pc.is_in(requests["op"].cast("string"), value_set=_strings(part.ops)),
        pc.or_(flush, pc.greater(requests["length"], 0)),
    )
    times = requests["time_ns"].filter(taken)
    begins_ns = round(part.skip_seconds * 1e9)
    times = times.filter(pc.greater_equal(times, begins_ns))
    if part.seconds is not None:
        times = times.filter(pc.less(times, begins_ns + round(part.seconds * 1e9)))
    times = times if part.limit is None else times.slice(0, part.limit)
    return (int(times[0].as_py()), int(times[-1].as_py())) if len(times) else (0, -1)


def _strings(values: tuple[str, ...]) -> pa.Array:
    return pa.array(values, pa.string())
