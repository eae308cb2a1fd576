"""Size of the drive that a trace is played on: that of its disk, or a slice of it.

It is for every command that plays a trace on a profile. A profile is a kind of drive. Where the
size of the disk is known, from a recording or an option, the drive gets that size, with the share
of it full that held data. As much of it is simulated as a run may take, in time and memory.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import weakref
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from flashwright import _core, sources
from flashwright._core import InputError
from flashwright.devices import DriveProfile
from flashwright.progress import follow
from flashwright.slices import cut as cutting
from flashwright.slices.cut import STRIPE_BYTES, Cut, Part, Stopper, Survey
from flashwright.slices.disk import Disk, disk_of
from flashwright.slices.geometry import drive_of, has_own_geometry, is_page_mapped, row_bytes
from flashwright.sources import Reading

CUT_FILE = "slice.parquet"
"""File for the part of a trace that a slice takes."""
OWN = "own"
"""Value of a capacity: that of the profile."""
BUDGET_SECONDS = 60.0
"""Most seconds of a run by the estimate: half of two minutes, as machines differ."""
BUDGET_BYTES = 1.5 * (1 << 30)
LEAST_SLICE_BYTES = 1 << 30
_BASE_BYTES = 150 << 20
_BYTES_A_PAGE = 14.0
_BYTES_A_REQUEST = 24.0
# Pages a second on one core of 2 to 3 GHz: filled in order; written without a clock; with it.
_FILLED, _UNTIMED, _TIMED = 15e6, 1.5e6, 0.8e6
_REQUESTS = 2e6
_PROGRAMS = 4.0
"""Programs for each page written that are reckoned with."""


@dataclass(frozen=True)
class SizeAsked:
    """Size of the drive as the user gives it; None for what is to be found out."""

    capacity: int | str | None = None
    """Capacity in bytes, or OWN."""
    fill: float | None = None
    slices: int | None = None


@dataclass(frozen=True)
class Effort:
    """Work of a command on the drive, for an estimate of its cost."""

    repeat: int = 1
    state: str = "filled"
    overwrites: float | None = None
    capacities_written: float = 0.0
    """Full drive writes until which it is played over."""
    runs: int = 1
    at_once: int = 1
    """Number of runs that go on at the same time."""
    most_requests: int | None = None
    room: float = 1.0
    """Space that the trace's stripes need, in their own size: more than 1 below layers."""
    most_seconds: float | None = None
    """Most seconds of all runs by the estimate; None for BUDGET_SECONDS."""
    least_requests: int = 0
    """Fewest requests of a slice, as far as memory allows: percentiles of fewer say little."""


@dataclass(frozen=True)
class Sized:
    """A drive, and the trace as it is played on it."""

    device: DriveProfile
    source: str
    slices: int = 1
    part: Part | None = None
    """Part of the trace that is still to be chosen; None if it was chosen already."""
    plays: int | None = None
    """Number of plays, where it is played until the drive was written some times."""
    scale: float = 1.0
    """Bytes written by the whole trace for each byte that is written on the slice."""
    folder: _Folder | None = field(default=None, repr=False, compare=False)

    @property
    def is_cut(self) -> bool:
        """Tell whether the source is what was taken of another."""
        return self.folder is not None


class _Folder:
    """A folder for a trace, which is there as long as this object."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="flashwright-slice-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


@dataclass(frozen=True)
class _Cost:
    own: DriveProfile
    found: Survey
    disk_bytes: int
    effort: Effort

    @property
    def most_seconds(self) -> float:
        """Most seconds of all runs by the estimate."""
        asked = self.effort.most_seconds
        return BUDGET_SECONDS if asked is None else asked

    @property
    def _pages(self) -> float:
        """Physical pages of the whole drive."""
        share = self.disk_bytes / self.own.capacity_bytes
        return float(self.own.summary["physical_pages"]) * share

    def seconds(self, slices: int, plays: float | None = None) -> float:
        """Estimate how long all runs take, in seconds; `plays` are those that are wanted if None.

        Reading the trace comes on top.
        """
        effort, found = self.effort, self.found
        plays = self.plays if plays is None else plays
        pages = found.written_bytes * _PROGRAMS + found.read_bytes
        timed = pages / self.own.summary["page_bytes"] / _TIMED + found.requests / _REQUESTS
        share = 1.0
        if effort.most_requests is not None and found.requests:
            # A limit counts requests of the slice.
            share = min(1.0, effort.most_requests * slices / (found.requests * plays))
        aged = self._pages * (effort.overwrites or 0.0) * _PROGRAMS / _UNTIMED
        first = 0.0 if effort.state in ("fresh", "loaded") else self._pages / _FILLED
        at_once = min(effort.runs, effort.at_once)
        alone = float(first + aged + share * plays * timed)
        return alone / slices * effort.runs / at_once

    @property
    def plays(self) -> float:
        """Times that the trace is to be played."""
        effort = self.effort
        if not effort.capacities_written:
            return effort.repeat
        wanted = effort.capacities_written * self.disk_bytes / max(1, self.found.written_bytes)
        return max(2.0, wanted)

    def most_plays(self, slices: int) -> float:
        """Give the plays that the budget allows: 2 at least."""
        first, one = self.seconds(slices, 0.0), self.seconds(slices, 1.0)
        return max(2.0, (self.most_seconds - first) / max(one - first, 1e-9))

    def memory(self, slices: int) -> float:
        """Estimate the memory of the runs that go on at once, in bytes."""
        at_once = min(self.effort.runs, self.effort.at_once)
        held = self._pages * _BYTES_A_PAGE * at_once
        return _BASE_BYTES + (held + self.found.requests * _BYTES_A_REQUEST) / slices

    def slices(self) -> tuple[int, str]:
        """Give the fewest slices that the budget allows, a power of two, and why."""
        most = max(1, int(self.disk_bytes // LEAST_SLICE_BYTES))
        slices = 1
        reason = "the whole drive takes no longer than a run may"
        while slices * 2 <= most:
            long = self.seconds(slices) > self.most_seconds
            large = self.memory(slices) > BUDGET_BYTES
            long &= self.found.requests >= 2 * slices * self.effort.least_requests
            if not long and not large:
                break
            what = "time and memory" if long and large else "time" if long else "memory"
            reason = f"with fewer slices it would take more {what} than a run may"
            slices *= 2
        return slices, reason


def take(
    own: DriveProfile,
    source: str,
    reading: Reading,
    asked: SizeAsked | None = None,
    effort: Effort | None = None,
    part: Part | None = None,
    disk: Disk | None = None,
) -> Sized:
    """Give the drive for a trace, and the trace as it falls on it.

    `disk` is the one that it was recorded on, if the source does not lie in its recording. The
    profile's own drive where the size of the disk is not known, or was set by keys of the
    profile.

    Raises InputError if the source has no places on a disk, or no such drive can be built;
    StoppedError.
    """
    asked, effort, part = asked or SizeAsked(), effort or Effort(), part or Part()
    is_asked = asked.capacity not in (None, OWN)
    if not sources.is_file(source):
        if is_asked or asked.fill is not None or asked.slices is not None:
            raise InputError(
                f"{source}: capacity=, fill= and slices= in profile(...) are for a trace of a "
                "disk; "
                "a pattern goes by the drive that the profile describes"
            )
        return Sized(own, source, part=part)
    disk = disk or disk_of(source)
    known = asked.capacity if is_asked else None if disk is None else disk.size_bytes
    if known is None and (asked.fill is not None or asked.slices is not None):
        raise InputError(
            f"{source}: the size of its disk is not known; add capacity=256Gi to profile(...)"
        )
    if known is None or asked.capacity == OWN or (has_own_geometry(own) and not is_asked):
        return Sized(own, source, part=part)
    disk_bytes = int(known)
    if disk is None:
        _check_one_disk(source, reading)
    used = None if disk is None or is_asked else disk.used_share
    fill = asked.fill if asked.fill is not None else 1.0 if used is None else used
    said: dict[str, Any] = {
        "disk_bytes": disk_bytes,
        "size_from": "capacity=" if is_asked else "the recording",
        "fill": fill,
        "fill_from": "fill="
        if asked.fill is not None
        else "not known: taken as full"
        if used is None
        else "the file system",
    }
    return _Taking(own, source, reading, asked, effort, part, disk_bytes, said).sized()


def _check_one_disk(source: str, reading: Reading) -> None:
    """Raise InputError for a trace of several volumes: the same address is several places there."""
    part = {"of": source, "format": reading.format, "skip_bad": reading.skip_bad, "fit": "as_is"}
    asked = json.dumps({"source": part, "on": ["memory(bytes=1Mi)"]}).encode()
    found = follow(
        f"Reading {Path(source).name}",
        "bytes",
        following := _core.Progress(),
        lambda: _core.load_source(asked, progress=following),
    )
    volumes = (found.totals or {}).get("volumes", 1)
    if volumes > 1:
        raise InputError(
            f"{source}: it is of {volumes} volumes, and a drive of one size is one; leave out "
            "capacity="
        )


@dataclass(frozen=True)
class _Taking:
    own: DriveProfile
    source: str
    reading: Reading
    asked: SizeAsked
    effort: Effort
    part: Part
    disk_bytes: int
    said: dict[str, Any]

    def sized(self) -> Sized:
        is_sampled = is_page_mapped(self.own)
        stopper = Stopper()
        width = STRIPE_BYTES if is_sampled else row_bytes(self.own)
        found = follow(
            f"Reading what {Path(self.source).name} touches",
            "",
            stopper,
            lambda: cutting.survey(self.source, self.reading, self.part, width, stopper.check),
        )
        cost = _Cost(self.own, found, self.disk_bytes, self.effort)
        if not is_sampled:
            return self._packed(found, cost)
        slices, why = (
            cost.slices() if self.asked.slices is None else (self.asked.slices, "as asked")
        )
        most = max(1, self.disk_bytes // (LEAST_SLICE_BYTES >> 4))
        if slices > most:
            raise InputError(f"slices={slices}: {self.disk_bytes} bytes make {most} at most")
        slice_bytes = max(self.disk_bytes // slices, 1)
        folder = _Folder()
        made = self._cut(found, slices, slice_bytes, cost, folder)
        held = made.stripes * width * self.effort.room
        fill = max(float(self.said["fill"]), min(1.0, held / slice_bytes))
        drive = drive_of(self.own, max(slice_bytes, held), fill, slices)
        return self._result(
            drive,
            found,
            made,
            cost,
            folder,
            {
                **self.said,
                "fill": fill,
                "way": "whole" if slices == 1 else "sampled",
                "slices": slices,
                "why": why,
                "slice_bytes": slice_bytes,
            },
        )

    def _packed(self, found: Survey, cost: _Cost) -> Sized:
        """Take a drive that maps whole erase blocks.

        What is not touched changes nothing on it: no erase block of it is ever merged.
        """
        folder = _Folder()
        made = self._cut(found, 1, self.disk_bytes, cost, folder)
        held = max(found.touched_bytes * self.effort.room, found.stripe_bytes)
        held = min(held, self.disk_bytes)
        drive = drive_of(self.own, held)
        return self._result(
            drive,
            found,
            made,
            cost,
            folder,
            {
                **self.said,
                "way": "packed",
                "slices": 1,
                "why": "it maps whole erase blocks, and those that are not touched never move",
                "slice_bytes": drive.capacity_bytes,
            },
        )

    def _cut(
        self, found: Survey, slices: int, slice_bytes: int, cost: _Cost, folder: _Folder
    ) -> Cut:
        stopper, part = Stopper(), self.part
        least = 2.0 if self.effort.capacities_written else cost.plays
        too_long = cost.seconds(slices, least) / cost.most_seconds
        if too_long > 1 and self.asked.slices is None:
            part = replace(part, limit=max(1, int(found.requests / too_long)))
        return follow(
            f"Taking its part of {Path(self.source).name}",
            "",
            stopper,
            lambda: cutting.cut(
                self.source,
                self.reading,
                part,
                found,
                slices,
                slice_bytes,
                folder.path / CUT_FILE,
                stopper.check,
            ),
        )

    def _result(
        self,
        drive: DriveProfile,
        found: Survey,
        made: Cut,
        cost: _Cost,
        folder: _Folder,
        said: dict[str, Any],
    ) -> Sized:
        slices, plays = int(said["slices"]), None
        if self.effort.capacities_written:
            most = cost.plays if self.asked.slices else cost.most_plays(slices)
            plays = 2 * max(1, round(min(cost.plays, most)) // 2)
        estimate = {
            "seconds": round(cost.seconds(slices, plays), 1),
            "memory_bytes": round(cost.memory(slices)),
        }
        document = {
            **said,
            "stripe_bytes": made.stripe_bytes,
            "hot_stripes": made.hot_stripes,
            "requests": made.requests,
            "requests_of": found.requests,
            "taken_of": made.taken,
            "written_bytes": made.written_bytes,
            "written_bytes_of": found.written_bytes,
            "estimate": estimate,
            "reading": found.reading,
        }
        return Sized(
            replace(drive, slice=document),
            str(made.path),
            slices,
            plays=plays,
            scale=found.written_bytes / made.written_bytes if made.written_bytes else 1.0,
            folder=folder,
        )
