"""Estimate of the duration of a probe, said before it begins.

An experiment has a budget of the device's time, and needs some requests whatever that is: on a slow
device those decide. A few requests on the device itself say how slow it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flashwright import _core
from flashwright._text import span

if TYPE_CHECKING:
    from flashwright._core import Device
    from flashwright.probing.plan import Step
    from flashwright.probing.targets import Region, Target

PAGE_BYTES = 4096
LONG_BYTES = 1 << 20
MOST_SECONDS = 1.0
"""Device time of each of the four measurements, if its requests are not slower than that."""
OFTEN_TAKEN = 1.0
"""Share of its budget that an experiment is taken to need on a fast device: some need less."""
FACTOR = 2.0
"""The estimate is meant to be right within this factor, in either direction."""


@dataclass(frozen=True)
class Work:
    """Least work of an experiment that gets `budget_seconds`.

    Random reads and writes of a page one by one, and MiB that are read and written otherwise.
    """

    random_reads: int
    read_mib: int
    random_writes: int
    written_mib: int
    budget_seconds: float

    def seconds(self, pace: Pace) -> float:
        """Give the device time that it takes."""
        return (
            self.random_reads * pace.random_read_seconds
            + self.read_mib * pace.read_mib_seconds
            + self.random_writes * (pace.random_write_seconds or 0.0)
            + self.written_mib * (pace.write_mib_seconds or 0.0)
        )


LEAST: dict[str, tuple[Work, ...]] = {
    "throughput_read": (Work(2757, 776, 0, 0, 9.6), Work(11153, 1240, 0, 0, 54.5)),
    "equations_read": (Work(2036, 156, 0, 0, 4.8), Work(13765, 392, 0, 0, 27.3)),
    "response_time_read": (Work(754, 4, 0, 0, 2.4), Work(754, 4, 0, 0, 13.6)),
    "depth_read": (Work(2796, 21, 0, 0, 2.4), Work(13542, 103, 0, 0, 13.6)),
    "matrix": (Work(0, 361, 3007, 641, 19.2), Work(0, 562, 3178, 683, 109.1)),
    "matrix_reads": (Work(14965, 497, 0, 0, 54.5),),
    "chunk_size": (Work(15528, 289, 0, 4, 4.8), Work(23526, 297, 0, 26, 27.3)),
    "interleaving": (Work(11658, 68, 0, 4, 4.8), Work(18722, 75, 0, 35, 27.3)),
    "mapping": (Work(2711, 2, 0, 6, 4.8), Work(8251, 7, 0, 39, 27.3)),
    "write_buffer": (Work(0, 0, 65, 16, 9.6), Work(0, 0, 142, 101, 54.5)),
    "throughput_write": (Work(0, 15, 429, 66, 14.4), Work(0, 355, 2008, 1185, 81.8)),
    "equations_write": (Work(0, 0, 527, 276, 9.6), Work(0, 0, 756, 346, 54.5)),
    "response_time_write": (Work(0, 0, 65, 16, 4.8), Work(0, 0, 90, 32, 27.3)),
    "mix": (Work(0, 24, 414, 88, 54.5),),
    "depth_write": (Work(0, 0, 1220, 46, 27.3),),
    "logs": (Work(0, 0, 154, 161, 81.8),),
    "erase_block_size": (Work(0, 0, 288, 177, 81.8),),
    "read_ahead": (Work(0, 12, 16, 87, 54.5),),
    "cleaning_onset": (Work(0, 0, 639, 1432, 218.2),),
    "steady_state": (Work(0, 0, 496, 418, 218.2),),
    "focused": (Work(0, 0, 52, 32, 9.6), Work(0, 0, 183, 179, 54.5)),
    "partitioned": (Work(0, 0, 168, 105, 54.5),),
    "write_patterns": (Work(0, 0, 22, 24, 9.6), Work(0, 0, 86, 136, 54.5)),
    "alignment": (Work(0, 0, 77, 210, 54.5),),
    "pauses": (Work(0, 0, 217, 94, 54.5),),
    "bursts": (Work(0, 0, 68, 100, 54.5),),
    "serial_parallel": (Work(0, 0, 102, 62, 27.3),),
    "thresholds": (Work(0, 0, 562, 171, 54.5),),
    "interference": (Work(0, 4, 46, 18, 4.8), Work(0, 20, 110, 59, 27.3)),
    "streams": (Work(5329, 264, 0, 0, 4.8), Work(7744, 3402, 0, 0, 27.3)),
}
"""Work by experiment, with the budgets of the quick and of the full set. It was counted on
simulated drives so slow that budgets play no part: `flashwright probe sd-card` and `usb-stick`, of
both sets. Random writes are the rest of the time, divided by the time of one.
"""


@dataclass(frozen=True)
class Pace:
    """Seconds of one request of a device, one by one."""

    random_read_seconds: float
    read_mib_seconds: float
    random_write_seconds: float | None = None
    write_mib_seconds: float | None = None


@dataclass(frozen=True)
class Estimate:
    """The device time of a probe, in seconds."""

    seconds: float
    pace: Pace
    slowest: str
    """The experiment that takes the most of it."""

    def document(self) -> dict[str, Any]:
        """Give it for a result."""
        return {
            "seconds": self.seconds,
            "low_seconds": self.seconds / FACTOR,
            "high_seconds": self.seconds * FACTOR,
            "slowest": self.slowest,
            **vars(self.pace),
        }


def pace_of(target: Target, device: Device, region: Region, *, may_write: bool) -> Pace:
    """Send a few requests of each kind, writes only if they are allowed.

    A simulated drive is made once more for that, filled, so that the probe begins on an untouched
    one.
    """
    if target.drive is not None:
        device = target.another()

    def seconds(size_bytes: int, *, is_random: bool, is_write: bool) -> float:
        return _core.request_seconds(
            device,
            size_bytes=size_bytes,
            is_random=is_random,
            is_write=is_write,
            region_offset=region.offset,
            region_bytes=region.length,
            seconds=MOST_SECONDS,
            seed=target.seed,
        )

    read, long_read = (
        seconds(PAGE_BYTES, is_random=True, is_write=False),
        seconds(LONG_BYTES, is_random=False, is_write=False),
    )
    if not may_write:
        return Pace(read, long_read)
    return Pace(
        read,
        long_read,
        # Long writes first: a write buffer that is full shows how fast the flash is.
        write_mib_seconds=seconds(LONG_BYTES, is_random=False, is_write=True),
        random_write_seconds=seconds(PAGE_BYTES, is_random=True, is_write=True),
    )


def estimate(steps: Sequence[Step], pace: Pace) -> Estimate:
    """Estimate the device time of experiments."""
    each = {step.label: _of_step(step, pace) for step in steps}
    return Estimate(sum(each.values()), pace, max(each, key=lambda label: each[label]))


def _of_step(step: Step, pace: Pace) -> float:
    least = LEAST.get(step.name)
    if least is None:
        return step.budget_seconds
    low, high = least[0], least[-1]
    share = 1.0
    if high.budget_seconds > low.budget_seconds:
        share = (step.budget_seconds - low.budget_seconds) / (
            high.budget_seconds - low.budget_seconds
        )
    share = min(1.0, max(0.0, share))
    needed = (1 - share) * low.seconds(pace) + share * high.seconds(pace)
    return max(OFTEN_TAKEN * step.budget_seconds, needed)


def said(found: Estimate, target: Target, *, fits: bool) -> str:
    """Say before a probe how long it will take, and what that is of."""
    low, high = span(round(found.seconds / FACTOR)), span(round(found.seconds * FACTOR))
    whose = (
        "simulated time, of which this machine needs less"
        if target.is_simulated
        else "the device's time"
    )
    line = (
        f"{target.given}: about {span(round(found.seconds))} ({low} to {high}) of {whose}, most "
        f"of it for {found.slowest}."
    )
    fitting = (
        " Then a profile is fitted, in seconds to minutes of this machine's time; --fit 0 leaves "
        "that out."
    )
    return line + (fitting if fits else "")
