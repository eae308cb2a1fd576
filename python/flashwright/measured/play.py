"""Play of a row of measurements on a simulated drive.

As the rows were measured (Haas et al., SSD-iq, VLDB 2025; the benchmark's source says what the
paper does not say): before a run the drive was erased and, but for `zns`, what is used of it
written once in order. Random patterns come from 512 outstanding requests, `sequential` and `zns`
one at a time, unless a row has a depth of its own; a zone is trimmed before it is written again.
Response times are those of one client, which sends 4,950 reads and 50 writes a second as the counts
of the rows show, beside 7 that send 99 % writes and have 64 outstanding each at most.
`writes_per_s` and `reads_per_s` are of all together.

The throughput of a row is the median over the time of the run's last 30 %, as the rows' is. Where
several zones are written at a time they are trimmed nearly together, so that a drive is fast after
that and slow before: more of the time than of the bytes. Other patterns are as fast at any time, or
in each pass (`each_once`); of them less is played, and the mean is taken.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from typing import Any

import numpy as np

from flashwright import _core, drive_runs
from flashwright._core import InputError
from flashwright.measured.rows import (
    LatencyRow,
    WriteRow,
    exponent_of,
    is_each_once,
    sets_of,
    zones_of,
)

GIB = 1 << 30
MIB = 1 << 20
DEPTH = 512
CLIENTS_DEPTH = 7 * 64
CLIENT_PAUSE_US = 200
CLIENT_READS = 0.95
"""Instead of 0.99: five times the writes, so that their 99th percentile is of enough of them."""
READ_SHARE = 0.01
LAST_PART = 0.3
"""Last part of a run, over which the throughput of `zns` is the median."""


@dataclass(frozen=True)
class Effort:
    """Length of the play of a row."""

    before: float = 0.85
    """Part of a run's writes that are done in no time, before the timed part begins."""
    warm_up: float = 0.1
    """Share of the used part that is written before the measurement."""
    window: float = 0.25
    """Share of the used part that is written during the measurement; of `zns` it is LAST_PART of
    the run, of `each_once` a whole pass.
    """
    aging: float = 5.0
    """Times that a drive was overwritten before response times are measured."""
    settle_s: float = 1.5
    measure_s: float = 5.0


FULL = Effort()
QUICK = Effort(window=0.15, warm_up=0.08, aging=2.5, settle_s=1.0, measure_s=3.0)


@dataclass(frozen=True)
class PlayedProfile:
    """A profile with what is needed of it here."""

    toml: str
    name: str
    logical_pages: int
    page_bytes: int
    slices: int
    zone_gap_us: float
    random_writes_per_s: float
    """A low estimate, from the time of programs."""

    @classmethod
    def of(cls, toml: str) -> PlayedProfile:
        """Take a profile."""
        keys = tomllib.loads(toml)
        summary, media = _core.profile_summary(toml), keys["media"]
        program_s = sum(media["program_us"]) / len(media["program_us"]) / 1e6
        at_once = summary["planes"] * media.get("pages_per_program", 1)
        return cls(
            toml,
            summary["name"],
            summary["logical_pages"],
            summary["page_bytes"],
            int(media.get("slices", 1)),
            float(keys["interface"].get("zone_gap_us", 0.0)),
            at_once / program_s / 6,
        )

    @property
    def capacity_gb(self) -> float:
        """Capacity of the whole drive, in 10^9 bytes."""
        return self.logical_pages * self.page_bytes * self.slices / 1e9

    def used_pages(self, gib: float) -> int:
        """Pages of the slice that stand for so many GiB of the drive; all if that is all."""
        pages = int(gib * GIB / self.slices / self.page_bytes)
        if pages > self.logical_pages * 1.01:
            raise InputError(
                f"{self.name}: {gib:g} GiB are used, and the profile's drive has "
                f"{self.logical_pages * self.page_bytes * self.slices / GIB:.0f} GiB"
            )
        return self.logical_pages if pages >= self.logical_pages * 0.997 else pages


def _source(row: WriteRow, drive: PlayedProfile, used: int, requests: int) -> tuple[str, int]:
    """Give the source of a row, and how many the source of the rows keeps outstanding."""
    size = row.request_bytes
    places = used * drive.page_bytes // size
    whole = places * size
    if row.pattern == "uniform":
        order = "shuffled" if is_each_once(row) else "random"
        return f"io:{order}(size={size},range={whole})", DEPTH
    if row.pattern == "zipf":
        source = f"synth:zipf(s={exponent_of(row)},pages={places},updates={requests})"
        return source, DEPTH
    if row.pattern == "zones":
        sets = ",".join(f"{pages:.6g}:{share:.6g}" for pages, share in sets_of(row))
        source = f"synth:kmodal(sets={sets},pages={places},updates={requests})"
        return source, DEPTH
    if row.pattern == "sequential":
        return f"io:sequential(size={size},range={whole})", 1
    active, zone_mib = zones_of(row)
    zone = max(1, int(zone_mib * MIB / drive.slices) // size) * size
    # A slice's zone holds few requests: drawn at random, zones would fill at different times.
    turns = "turns" if drive.slices > 1 else "random"
    source = f"io:zones(size={size},zone={zone},active={active},next={turns},range={whole})"
    return source, 1


def write(
    row: WriteRow,
    drive: PlayedProfile,
    effort: Effort = FULL,
    progress: _core.Progress | None = None,
) -> dict[str, Any]:
    """Play a row of steady writes; gives the outcome with `steady_mib_s`.

    Raises InputError, RunError, Cancelled.
    """
    used = drive.used_pages(row.used_gib)
    a_request = max(1, row.request_bytes // drive.page_bytes)
    all_requests = int(row.written_capacities * used / a_request)
    source, depth = _source(row, drive, used, all_requests)
    before = effort.before
    if row.pattern == "sequential":
        # It is written about once: there is no more to come.
        before = min(before, 0.5)
    warm_up = int(effort.warm_up * used / a_request)
    # A drive copies nothing when a pass of `each_once` begins, and most towards its end.
    window = 1.0 if is_each_once(row) else effort.window
    timed = LAST_PART * all_requests if row.pattern == "zns" else window * used / a_request
    count = max(1, int(timed))
    untimed = max(0, min(int(all_requests * before), all_requests - warm_up - count))
    think = drive.zone_gap_us if row.pattern == "zns" else 0.0
    outcome = drive_runs.run(
        drive.toml,
        source,
        progress,
        pace=f"closed({row.depth or depth},think={think})",
        **({"page_size": row.request_bytes} if source.startswith("synth:") else {}),
        state="fresh" if row.pattern in ("sequential", "zns") else "loaded",
        untimed=untimed,
        warm_up=warm_up,
        requests=warm_up + count,
    )
    steady = _median(outcome) if row.pattern == "zns" else outcome["bytes_per_second"]
    return {**outcome, "steady_mib_s": steady / MIB}


def _done_by(seconds: float, over_time: dict[str, Any], what: str) -> float:
    """Give how many requests were done until then; a window's are spread evenly over it."""
    done = np.cumsum(over_time[what])
    return float(np.interp(seconds, np.r_[0.0, over_time["seconds"]], np.r_[0.0, done]))


def _median(outcome: dict[str, Any]) -> float:
    """Give the throughput that half of the time is below, in bytes a second."""
    over_time = outcome["tables"]["over_time"]
    speeds = np.asarray(over_time["written_bytes_per_second"])
    seconds = np.asarray(over_time["length_seconds"])
    order = np.argsort(speeds)
    passed = np.cumsum(seconds[order])
    return float(speeds[order][np.searchsorted(passed, passed[-1] / 2)])


def latency(
    row: LatencyRow,
    drive: PlayedProfile,
    effort: Effort = FULL,
    progress: _core.Progress | None = None,
) -> dict[str, float]:
    """Play a rate; gives response times in microseconds, and writes and reads a second.

    Raises InputError, RunError, Cancelled.
    """
    rate = row.offered_per_s
    load = f"io:random(reads={READ_SHARE},pause_us={1e6 / rate!r},gaps=exponential)"
    client = f"io:random(reads={CLIENT_READS},pause_us={CLIENT_PAUSE_US},gaps=exponential)"
    overrides = ["interface.queues=2", f"interface.queue_depth={CLIENTS_DEPTH}"]
    toml = _core.check_profile(drive.toml, drive.name, overrides)
    client_flow = {"source": {"of": client}, "pace": "open", "queue": 1}
    outcome = drive_runs.run(
        toml,
        load,
        progress,
        pace="open",
        flow=[client_flow],
        state={"aged": {"overwrites": effort.aging}},
        # More than the drive can do would not be done in that time.
        warm_up=int(effort.settle_s * min(rate + 5e3, drive.random_writes_per_s)),
        duration=effort.settle_s + effort.measure_s,
    )
    client_ns = outcome["flows"][1]["latency_ns"]
    # Requests that wait when the client ends are still done, faster than beside it.
    seconds = outcome["flows"][1]["seconds"]
    over_time = outcome["tables"]["over_time"]
    found = {
        f"{op}_{part}_us": client_ns[op][part] / 1e3
        for op in ("read", "write")
        for part in ("p50", "p99", "p999")
    }
    done = {
        f"{what}s_per_s": _done_by(seconds, over_time, f"{what}s") / seconds
        for what in ("write", "read")
    }
    return {**found, **done}
