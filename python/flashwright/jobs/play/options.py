"""Written by `make jobs` from crates/jobs: change it there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypedDict


class Play(TypedDict, total=False):
    """Plays SOURCE on each device, under each stack of layers, and measures what they
    answer.
    """

    on: str | Sequence[str]
    """A profile of `flashwright list profile`, a block device, a file, or one of `flashwright
    list device`, such as `hard_disk`. Settings of the device stand in parentheses:
    `profile(nvme-tlc, state=aged, op=28%)`, `disk(/dev/sdb, region=1Gi+4Gi)`, `array(raid5,
    of=intel-x25e)`. a,b or again for each.
    """
    stack: str | Sequence[str]
    """Layers from the top to the bottom with | between them, such as
    `scheduler(defer)|log_volume`; `direct` is the device alone, `auto` those that may be right
    for the device. a,b or again for each.
    """
    pace: str | Sequence[str]
    """Pace of the requests: `closed(32, think=5us)`, 32 outstanding; `open(factor=2)`, at the
    trace's times, twice as fast; `intervals(1)`, with its pauses. A number is a closed pace;
    1,8,32 are three. [default: closed(32); with --stack closed(1), as papers measure]
    """
    flow: str | Sequence[str]
    """Flow that is played beside SOURCE until that ends: `flow(io:random(reads=1),
    pace=closed(4), priority=1, region=1Gi+1Gi)`. Again for each.
    """
    untimed: float | str
    """First play N requests, or this share of SOURCE (85%), in no simulated time: a simulated
    drive comes into its steady state as fast as it can be counted.
    """
    warm_up: int | str
    """Leave the first N requests out of what is measured."""
    requests: int | str | None
    """Stop after N requests. [default: all; 1M of a source without end]"""
    duration: float | str | None
    """Stop after this much of the device's time."""
    fold: bool
    """Let addresses of SOURCE that a device does not have begin again at its start."""
    page_size: int | str
    """Bytes in a page of `synth:`."""
    facts: str | None
    """Facts that layers know of a device: the run folder of a probe; `measure`, on a second
    simulated drive; or `none`. [default: measure if it is simulated, else none]
    """
    checkpoints: str | None
    """Ends of the database's checkpoints: `every(60s)` of the trace, or `marks` of a recording;
    `as=signal` lets layers alone hear of it, instead of a flush among the requests.
    """
    data: Literal["drained", "killed"] | None
    """Give each write bytes and check each read; at the end write back and flush, or drop what
    layers hold as a killed process would; then open the stack again, and check all.
    """
    no_drain: bool
    """Let layers keep what they hold at the end, instead of writing it back."""
    write: bool
    """Allow writes to a block device or file: what is in the region is lost."""
    destroy_data: str | Sequence[str]
    """Confirm overwriting a device that holds data, by repeating its path. Again for each."""
    keep_going: bool
    """Count requests that fail, instead of stopping at the first."""
    dry_run: bool
    """Say what would be done, and send nothing."""
    record: str | None
    """Record what one device gets meanwhile, and hold it against the trace: of a block device
    as `flashwright record` does, of any other by a layer of our own.
    """
    against: str | None
    """Lay an earlier run, or the recording itself, beside it."""
    life: str | None
    """Data to compute a drive's life from: `life(writes_per_day=40G, cycles=3000)`."""
    per_request: bool
    """Write a table with a row for each request on a simulated drive."""
    timeline: int | str
    """Write down the first N activities of a simulated drive's dies, for ui.perfetto.dev."""
    audit: bool
    """Check the simulator's tables at the end."""
    seed: int
    """Seed of all that is random."""
