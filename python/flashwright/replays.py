"""Replays: a recorded trace played on a device, and two replays side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from flashwright import _core, beyond, devices, slices
from flashwright._core import InputError
from flashwright._text import count, size
from flashwright.outputs import RECORDING
from flashwright.probing import safety
from flashwright.probing.targets import Region
from flashwright.runs import Job, Run, table
from flashwright.slices import CUT_FILE, Effort, Part, SizeAsked
from flashwright.sources import (
    PATTERN,
    STANDARD_INPUT,
    SYNTHETIC,
    Reading,
    check_source,
    file_name,
    on_disk,
)

if TYPE_CHECKING:
    from flashwright._core import Device, Progress, ReplayTrace
    from flashwright.flows import Flow
    from flashwright.probing.targets import Target
    from flashwright.slices import Sized

COMMAND = "replay"
OPERATIONS = ("read", "write", "trim", "flush")
CHANGING = ("write", "trim")
REMAPS = ("refuse", "fold", "scale", "dense")
OPEN_OUTSTANDING = 1024
"""Most requests outstanding on a real device where a trace's clock, and not the device, says when
they are sent.
"""
LEAST_REGION_BYTES = 1
_MIB = 1 << 20
_MOST_REQUEST_BYTES = 64 * _MIB


@dataclass(frozen=True)
class TracePart:
    """Which requests of a trace are played."""

    skip_seconds: float = 0.0
    seconds: float | None = None
    limit: int | None = None
    ops: tuple[str, ...] = OPERATIONS


@dataclass(frozen=True)
class Pace:
    """When requests are sent."""

    kind: str = "open_loop"
    """`open_loop`, `closed_loop` or `one_by_one`."""
    depth: int = 1
    factor: float = 1.0
    """Times as fast as recorded."""
    waiting: bool = False
    """Whether a closed loop keeps the trace's intervals between sending."""

    @property
    def is_timed(self) -> bool:
        """Whether requests are due at times."""
        return self.kind == "open_loop" or self.waiting

    def document(self) -> dict[str, Any]:
        """Tell the pace for a result."""
        if self.kind == "open_loop":
            return {"kind": self.kind, "factor": self.factor}
        said: dict[str, Any] = {"kind": self.kind, "depth": self.depth, "waiting": self.waiting}
        return {**said, "factor": self.factor} if self.waiting else said


@dataclass(frozen=True)
class ReplayPlan:
    """All that decides on a replay, but for the trace and the device."""

    pace: Pace = field(default_factory=Pace)
    part: TracePart = field(default_factory=TracePart)
    remap: str = REMAPS[0]
    region: Region = field(default_factory=Region)
    keep_going: bool = False
    beside: tuple[Flow, ...] = ()
    priority: int = 0
    choices: str = beyond.REMAP
    """Options of the command that say where addresses go that the device does not have."""


@dataclass(frozen=True)
class Placed:
    """A trace and a device as they are played: a simulated drive has the size of the disk."""

    target: Target
    path: Path
    reading: Reading
    plan: ReplayPlan
    sized: Sized | None = None
    """None if the device is no simulated drive."""

    @property
    def slices(self) -> int:
        """Of how many slices of a drive it is one."""
        return 1 if self.sized is None else self.sized.slices


def placed(
    target: Target,
    path: Path,
    reading: Reading,
    plan: ReplayPlan,
    asked: SizeAsked | None = None,
    effort: Effort | None = None,
) -> Placed:
    """Give a simulated drive the size of the disk that the trace is from; see `slices.take`.

    Raises InputError if a size is asked for, and it is no simulated drive; StoppedError.
    """
    asked = asked or SizeAsked()
    if target.drive is None or target.array is not None:
        if asked != SizeAsked():
            what = "a single simulated drive" if target.array else "a simulated drive"
            raise InputError(
                f"{target.given}: --capacity, --fill and --slices are for {what}; leave them out"
            )
        return Placed(target, path, reading, plan)
    effort = replace(effort or Effort(), state=target.state, overwrites=target.overwrites)
    part = Part(plan.part.skip_seconds, plan.part.seconds, plan.part.limit)
    sized = slices.take(target.drive, str(path), reading, asked, effort, part)
    if not sized.is_cut:
        return Placed(target, path, reading, plan, sized)
    return Placed(
        replace(target, drive=sized.device),
        Path(sized.source),
        replace(reading, format=None, skip_bad=0),
        replace(plan, part=TracePart(ops=plan.part.ops)),
        sized,
    )


def trace_path(given: str) -> Path:
    """Find the trace that a name means: a file, or the folder of a recording.

    Raises InputError if it is none that can be replayed.
    """
    path = Path(given)
    if given == STANDARD_INPUT:
        raise InputError(
            "-: a replay reads its trace twice, first to know what it needs; write it to a file "
            "first"
        )
    if given.startswith((SYNTHETIC, PATTERN)) and not path.exists():
        raise InputError(
            f"{given}: it is made up, and a replay plays what was recorded; `flashwright trace "
            "synth` writes it as a trace"
        )
    if not on_disk(path).exists():
        raise InputError(f"{given}: no such file; name a trace file, or the folder of a recording")
    return Path(check_source(given))


def load(
    path: Path, reading: Reading, plan: ReplayPlan, progress: Progress | None = None
) -> ReplayTrace:
    """Read the trace once.

    Raises InputError if it cannot be read, nothing of it is selected, or it cannot be played at
    this pace.
    """
    part = plan.part
    trace = _core.load_replay(
        path,
        format=reading.format,
        skip_bad=reading.skip_bad,
        skip_seconds=part.skip_seconds,
        seconds=part.seconds,
        limit=part.limit,
        ops=part.ops,
        dense=plan.remap == "dense",
        progress=progress,
    )
    if not trace.has_times:
        if plan.pace.is_timed:
            raise InputError(
                f"{path}: it has no times; give --depth N or --one-by-one, without --waiting"
            )
        if part.skip_seconds or part.seconds is not None:
            raise InputError(
                f"{path}: it has no times, so that --skip and --seconds mean nothing; --limit N "
                "takes requests"
            )
    if trace.totals["volumes"] > 1:
        raise InputError(
            f"{path}: it is of {trace.totals['volumes']} volumes, in which equal addresses are "
            "different places; --remap dense puts what they touch side by side"
        )
    return trace


def changes(trace: ReplayTrace) -> bool:
    """Tell whether playing the trace changes what is on a device."""
    return any(trace.totals[op] for op in CHANGING)


def _changed(totals: Mapping[str, int]) -> str:
    said = [
        f"{size(totals[size_key])} are {done} by {count(totals[op])} "
        f"{op}{'' if totals[op] == 1 else 's'}"
        for op, done, size_key in (
            ("write", "written", "written_bytes"),
            ("trim", "trimmed", "trimmed_bytes"),
        )
        if totals[op]
    ]
    return " and ".join(said)


def target_for(target: Target, trace: ReplayTrace, plan: ReplayPlan) -> Target:
    """Give the device so that it takes what the trace sends.

    Raises InputError if the trace writes, and the device is a real one that may only be read.
    """
    if not target.may_write and plan.beside:
        raise InputError(
            f"{target.given}: what is played --beside may write to it; add --write if what is on "
            "the device may go"
        )
    if not target.may_write and changes(trace):
        totals = trace.totals
        raise InputError(
            f"{target.given}: {_changed(totals)} by the trace; add --write if what is on the "
            "device may go, or --reads-only"
        )
    is_open = "open_loop" in (plan.pace.kind, *(flow.document()["pace"] for flow in plan.beside))
    depths = plan.pace.depth + sum(flow.depth for flow in plan.beside)
    depth = OPEN_OUTSTANDING if is_open else depths
    most = max(_MIB, 1 << (max(trace.totals["longest_bytes"], 1) - 1).bit_length())
    return target.taking(depth, min(most, _MOST_REQUEST_BYTES))


def region_of(trace: ReplayTrace, device: Device, plan: ReplayPlan) -> Region:
    """Give the region on the device.

    Raises InputError if it is not one of the device, or the trace needs more and is not to be
    remapped.
    """
    region = plan.region.on(device.info, LEAST_REGION_BYTES)
    end, length = trace.totals["end_bytes"], region.length or 0
    if plan.remap in ("fold", "scale"):
        return region
    where = device.info["name"] if plan.region == Region() else f"--region of {device.info['name']}"
    beyond.check("the trace", end, where, length, "" if plan.remap == "dense" else plan.choices)
    return region


def warning(
    target: Target,
    trace: ReplayTrace,
    region: Region,
    endurance_tbw: float | None,
    info: Mapping[str, Any],
) -> str:
    """Say before a replay what it writes, and what that costs the drive."""
    totals, end = trace.totals, region.offset + (region.length or 0)
    said = f"{target.given}: {_changed(totals)}"
    return (
        f"{said}, with random data, within bytes {region.offset} to {end} "
        f"({size(end - region.offset)}): "
        f"{safety.share_of_life(totals['written_bytes'], info, endurance_tbw)}."
    )


def play(
    device: Device,
    trace: ReplayTrace,
    region: Region,
    plan: ReplayPlan,
    progress: Progress | None = None,
    record_to: Path | None = None,
    beside: Sequence[dict[str, Any]] = (),
) -> dict[str, Any]:
    """Play the trace; gives the figures with `tables`, and how it ended.

    `beside` are further flows, as `flows.load` gives them.
    `record_to`: the Parquet file that a layer of ours above the device writes what it is sent into.
    """
    pace = plan.pace
    return _core.replay(
        device,
        trace,
        pace="open" if pace.kind == "open_loop" else "closed",
        factor=pace.factor,
        depth=pace.depth,
        waiting=pace.waiting,
        remap=plan.remap if plan.remap in ("fold", "scale") else "refuse",
        region_offset=region.offset,
        region_bytes=region.length,
        keep_going=plan.keep_going,
        record_to=record_to,
        beside=beside,
        priority=plan.priority,
        progress=progress,
    )


def trace_document(path: Path, trace: ReplayTrace, plan: ReplayPlan) -> dict[str, Any]:
    """Tell the trace for a result."""
    return {
        "name": file_name(path),
        "format": trace.format,
        "has_times": trace.has_times,
        **trace.reading,
        "sources": trace.sources,
        "part": {**asdict(plan.part), "ops": list(plan.part.ops)},
        "totals": trace.totals,
    }


def inputs(path: Path, trace: ReplayTrace) -> list[dict[str, Any]]:
    """Tell the files of a trace for the provenance; `path` is as it was given."""
    if [one["name"] for one in trace.sources] == [CUT_FILE]:
        return [devices.describe(str(path))]
    return [
        {
            "source": str(on_disk(path).with_name(one["name"])),
            "sha256": one["sha256"],
            "content_hash": None,
        }
        for one in trace.sources
    ]


def make_run(
    about_trace: dict[str, Any],
    about_device: Mapping[str, Any],
    region: Region,
    plan: ReplayPlan,
    outcome: dict[str, Any],
    job: Job,
) -> Run:
    """Give what came of a replay as a run."""
    tables = {name: table(columns) for name, columns in outcome.pop("tables").items()}
    totals, pace = about_trace["totals"], plan.pace
    result = {
        "trace": about_trace,
        "device": dict(about_device),
        "region": region.document(),
        "remap": plan.remap,
        "pace": pace.document(),
        "keep_going": plan.keep_going,
        "beside": [flow.document() for flow in plan.beside],
        "priority": plan.priority,
        "complete": outcome["ended"] is None,
        # At another speed where there is one: what the replay would take if it kept to the trace's
        # clock.
        "trace_seconds": totals["duration_ns"] / 1e9 / (pace.factor if pace.is_timed else 1.0)
        if about_trace["has_times"]
        else None,
        **outcome,
    }
    return job.run(result, {name: found for name, found in tables.items() if found.num_rows})


def identity(
    about_trace: Mapping[str, Any],
    about_device: Mapping[str, Any],
    region: Region,
    plan: ReplayPlan,
) -> list[Any]:
    """Give what goes into a replay."""
    return [about_trace["sources"], dict(about_device), region.document(), asdict(plan)]


def compare(
    path: Path, reading: Reading, run: Run, recorded: Path, shift_bytes: int
) -> dict[str, Any]:
    """Hold what the device got against the trace.

    Operation, offset and length of every request, in their order. `shift_bytes`: where address 0 of
    the trace is in the recording.
    """
    result = run.result
    changed = sorted(name for name, number in result["fitted"].items() if number)
    if (
        result["trace"]["part"] != {**asdict(TracePart()), "ops": list(OPERATIONS)}
        or result["remap"] != "refuse"
        or changed
    ):
        return {
            "compared": False,
            "why_not": "a part of the trace was played, or requests of it were changed for the "
            "device",
        }
    opened = _core.open_trace(path, reading.format, reading.skip_bad)
    theirs = _sequence(pa.RecordBatchReader.from_stream(opened).read_all(), shift_bytes)
    got = _sequence(pq.read_table(recorded, columns=["op", "offset", "length"]), 0)
    both = min(theirs.num_rows, got.num_rows)
    differs = np.zeros(both, bool)
    for name in theirs.column_names:
        equal = pc.equal(theirs[name].slice(0, both), got[name].slice(0, both))
        differs |= ~equal.combine_chunks().to_numpy(zero_copy_only=False)
    first = (
        int(differs.argmax())
        if differs.any()
        else both
        if theirs.num_rows != got.num_rows
        else None
    )
    return {
        "compared": True,
        "same": first is None,
        "trace_requests": theirs.num_rows,
        "recorded_requests": got.num_rows,
        "first_difference": None
        if first is None
        else {"request": first, "trace": _row(theirs, first), "recorded": _row(got, first)},
    }


def _sequence(requests: pa.Table, shift_bytes: int) -> pa.Table:
    op, length = requests["op"].cast(pa.string()), requests["length"]
    moved = pc.add(requests["offset"], pa.scalar(shift_bytes, pa.uint64()))
    offset = pc.if_else(pc.equal(op, "flush"), pa.scalar(0, pa.uint64()), moved)
    columns = pa.table({"op": op, "offset": offset, "length": length})
    # A request of no bytes that is no flush is not played.
    return columns.filter(pc.or_(pc.equal(op, "flush"), pc.greater(length, 0)))


def _row(requests: pa.Table, number: int) -> dict[str, Any] | None:
    return requests.slice(number, 1).to_pylist()[0] if number < requests.num_rows else None


def read(folder: Path) -> Run:
    """Read a replay that was made, or a recording in the words of one.

    Raises InputError if the folder is neither.
    """
    command = Run.read_result(folder).command
    if command == RECORDING:
        # It speaks of replays.
        from flashwright.recording.as_replay import as_replay  # noqa: PLC0415

        return as_replay(Run.read_result(folder), folder)
    if command != COMMAND:
        raise InputError(f"{folder}: a run of `{command}`, and not of `{COMMAND}` or `{RECORDING}`")
    return Run.read(folder)


def beside(run: Run, other: Run) -> Run:
    """Lay another replay beside this one."""
    theirs = {
        key: value for key, value in other.result.items() if key not in ("against", "provenance")
    }
    run.result["against"] = {**theirs, "command": other.result["provenance"]["command"]}
    for name in ("latency", "windows"):
        if name in other.tables:
            run.tables[f"against_{name}"] = other.tables[name]
    return run
