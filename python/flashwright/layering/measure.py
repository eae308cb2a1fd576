"""One stack of layers on one device with one trace.

What it took, above, in, and below the layers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from flashwright import _core
from flashwright.layering.checkpoints import Checkpoints
from flashwright.replays import Pace
from flashwright.runs import table

if TYPE_CHECKING:
    import pyarrow as pa

    from flashwright._core import Device, Progress, ReplayTrace
    from flashwright.probing.targets import Region, Target

DIRECT = "direct"
"""The stack without layers."""
ONE_BY_ONE = Pace("one_by_one")
"""How STABLEBUFFER and SCHEDULER measure."""
SAMPLE_EVERY_NS = 1_000_000


@dataclass(frozen=True)
class Measured:
    """What came of one stack."""

    stack: str
    outcome: dict[str, Any]
    """As `_core.replay_layers` gives it, without its tables."""
    tables: dict[str, pa.Table]
    """`latency` (classes of times), `windows`, `samples` (counters over time)."""
    device_info: dict[str, Any]

    @property
    def is_complete(self) -> bool:
        """Whether the whole trace was played."""
        return self.outcome["ended"] is None

    @cached_property
    def figures(self) -> dict[str, Any]:
        """The figures that stacks are compared by.

        Times in seconds or nanoseconds, as the key says; None where nobody can tell.
        `total_write_seconds` is how long the device had something to do other than reads: writes,
        trims, and flushes, which take what a drive's write buffer had put off. One by one it is the
        sum of their times; what overlaps counts once. What layers write back at the end is in it.
        """
        return figures(self.outcome)


def measure(
    target: Target,
    trace: ReplayTrace,
    stack: str = DIRECT,
    *,
    facts: Mapping[str, Any] | None = None,
    pace: Pace = ONE_BY_ONE,
    checkpoints: Checkpoints | None = None,
    remap: str = "refuse",
    region: Region | None = None,
    above_bytes: int | None = None,
    drain: bool = True,
    data: str | None = None,
    sample_every_ns: int = SAMPLE_EVERY_NS,
    progress: Progress | None = None,
) -> Measured:
    """Open the device, put the layers above it, and play the trace on them.

    A simulated drive is a new one each time, in the same state. `facts` is what is known of the
    device, for parameters that are `auto` (the keys of `_core.replay_layers`). The target's seed is
    that of the layers' policies, too. The layers have `region` of the device, and of what they
    offer the first `above_bytes` are used: all if they are left out. With `data` ("drained" or
    "killed"), of a target that holds data, writes carry bytes, and the stack is opened again.

    Raises InputError if the stack cannot be made on this device, or the trace does not fit.
    """
    device = target.open(progress)
    return measure_on(
        device,
        trace,
        stack,
        facts=facts,
        seed=target.seed,
        pace=pace,
        checkpoints=checkpoints,
        remap=remap,
        region=region,
        above_bytes=above_bytes,
        drain=drain,
        data=data,
        sample_every_ns=sample_every_ns,
        progress=progress,
    )


def measure_on(
    device: Device,
    trace: ReplayTrace,
    stack: str = DIRECT,
    *,
    facts: Mapping[str, Any] | None = None,
    seed: int = 1,
    pace: Pace = ONE_BY_ONE,
    checkpoints: Checkpoints | None = None,
    remap: str = "refuse",
    region: Region | None = None,
    above_bytes: int | None = None,
    drain: bool = True,
    data: str | None = None,
    sample_every_ns: int = SAMPLE_EVERY_NS,
    progress: Progress | None = None,
) -> Measured:
    """Do the same on a device that is open."""
    said = checkpoints or Checkpoints()
    place: dict[str, Any] = {}
    if region is not None:
        place = {"region_offset": region.offset, "region_bytes": region.length}
    if above_bytes is not None:
        place["above_bytes"] = above_bytes
    outcome = _core.replay_layers(
        device,
        trace,
        stack,
        facts=dict(facts or {}),
        seed=seed,
        pace="open" if pace.kind == "open_loop" else "closed",
        factor=pace.factor,
        depth=pace.depth,
        waiting=pace.waiting,
        remap=remap if remap in ("fold", "scale") else "refuse",
        **place,
        checkpoints_ns=list(said.times_ns),
        begins_ns=list(said.begins_ns),
        checkpoints_as=said.told_as,
        drain=drain,
        data=data,
        sample_every_ns=sample_every_ns,
        progress=progress,
    )
    tables = {name: table(columns) for name, columns in outcome.pop("tables").items()}
    return Measured(
        stack,
        outcome,
        {name: one for name, one in tables.items() if one.num_rows},
        dict(device.info),
    )


def figures(outcome: Mapping[str, Any]) -> dict[str, Any]:
    """Give the figures that stacks are compared by (see `Measured.figures`)."""
    layers = outcome["layers"]
    below = {op: layers["below"].get(op, {}) for op in ("read", "write", "trim", "flush")}
    above_bytes, below_bytes = outcome["bytes"].get("write", 0), below["write"].get("bytes", 0)
    flash, sent = layers["flash"], max(outcome["sent"], 1)
    seconds = {f"{op}_seconds_below": one.get("latency_ns", 0) / 1e9 for op, one in below.items()}
    # What overlaps counts once within reads and within all else, and not between them.
    device_seconds = sum(layers["busy_ns"].values()) / 1e9
    programmed_bytes = flash["page_programs"] * flash["page_bytes"] if flash else None
    return {
        "seconds": outcome["seconds"],
        "drain_seconds": layers["drain_seconds"],
        "iops": outcome["iops"],
        "bytes_per_second": outcome["bytes_per_second"],
        "writes_above": outcome["requests"].get("write", 0),
        "writes_above_bytes": above_bytes,
        "writes_below": below["write"].get("requests", 0),
        "writes_below_bytes": below_bytes,
        "reads_below": below["read"].get("requests", 0),
        "reads_below_bytes": below["read"].get("bytes", 0),
        "flushes_below": below["flush"].get("requests", 0),
        **seconds,
        "total_write_seconds": layers["busy_ns"]["changes"] / 1e9,
        "device_seconds": device_seconds,
        "layer_write_amplification": below_bytes / above_bytes if above_bytes else None,
        "programmed_bytes": programmed_bytes,
        "drive_write_amplification": programmed_bytes / below_bytes
        if programmed_bytes is not None and below_bytes
        else None,
        "erases": flash["erases"] if flash else None,
        "computing_ns_per_request": 1e9 * layers["computing_seconds"] / sent,
        "device_ns_per_request": 1e9 * device_seconds / sent,
    }
