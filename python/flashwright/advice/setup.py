"""What is simulated for advice: a load on a drive, and the figures that come of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flashwright.advice.load import Load

HERE, APART = "the drive", "the log's drive"
"""Names of the drives of a setup."""


@dataclass(frozen=True)
class Drive:
    """A drive: a profile at the size of a disk."""

    profile: str
    """Name of a built-in profile, or the path of a file."""
    overrides: tuple[str, ...] = ()
    """Keys of the profile, as `key=value`."""
    capacity_bytes: int | None = None
    """None for the profile's own."""
    fill: float | None = None
    """Share of the capacity that holds data, 0 to 1; None if it is not known, and taken as full."""


@dataclass(frozen=True)
class Setup:
    """A load, the drive that it is on, and what lies between them."""

    load: Load
    drive: Drive
    log_apart: Drive | None = None
    """A second drive that the log is on."""
    handles: bool = False
    """Whether log and data are told apart by placement handles; the drive has some then."""
    stack: str | None = None
    """Layers over the drive."""
    trims: bool = True
    """False if the drive is not told what is free: trims of the load are left out."""
    merge_seconds: float = 0.0
    """Commits of so many seconds wait for one flush together; 0 for each its own."""
    settings: tuple[tuple[str, str], ...] = ()
    """Settings of the database under which it would make the load; empty as recorded."""
    waits: float | None = 0.0
    """Seconds that a commit waits beside the drive; None if it does not wait for the drive."""

    def changed(self, **changes: Any) -> Setup:
        """Give the same but for these fields."""
        return replace(self, **changes)

    def identity(self) -> dict[str, Any]:
        """Give all that decides on its figures, for the key of a result."""
        return {
            "load": self.load.content_hash,
            "work": self.load.work,
            "drive": _document(self.drive),
            "log_apart": None if self.log_apart is None else _document(self.log_apart),
            "handles": self.handles,
            "stack": self.stack,
            "trims": self.trims,
            "merge_seconds": self.merge_seconds,
            "waits": self.waits,
            "flushes_of_commit": self.load.flushes_of_commit,
        }


def _document(drive: Drive) -> list[Any]:
    return [drive.profile, list(drive.overrides), drive.capacity_bytes, drive.fill]


@dataclass(frozen=True)
class Interval:
    """A figure with its 95 % interval; the ends are None where nothing is known of it."""

    value: float
    low: float | None = None
    high: float | None = None

    def times(self, factor: float) -> Interval:
        """Give it by a factor above 0."""
        low = None if self.low is None else self.low * factor
        high = None if self.high is None else self.high * factor
        return Interval(self.value * factor, low, high)

    def over(self, other: Interval) -> Interval:
        """Give the ratio of two that are independent of each other."""
        if not other.value:
            return Interval(math.nan)
        value = self.value / other.value
        if self.low is None or self.high is None or other.low is None or other.high is None:
            return Interval(value)
        if not self.value or other.low <= 0:
            return Interval(value)
        own = max(self.high - self.value, self.value - self.low) / self.value
        its = max(other.high - other.value, other.value - other.low) / other.value
        wide = value * math.hypot(own, its)
        return Interval(value, max(0.0, value - wide), value + wide)

    def document(self) -> dict[str, float | None]:
        """Give it for a result."""
        return {"value": self.value, "low": self.low, "high": self.high}

    @staticmethod
    def of(document: Mapping[str, Any]) -> Interval:
        """Give what `document` made."""
        return Interval(document["value"], document["low"], document["high"])


@dataclass(frozen=True)
class Commits:
    """Times that commits wait for the drive, in seconds: log writes, then the flush."""

    count: int
    mean: float
    p50: float
    p99: float
    p999: float
    flush_mean: float = 0.0
    """Mean of the flush alone."""
    turn_p99: float = 0.0
    """99th percentile of the time in which each client commits once; 0 if it is not known."""
    p25: float = 0.0
    """What a quarter of them did not exceed."""

    def waiting(self, seconds: float | None) -> Commits:
        """Give those that wait so much longer; None: that do not wait for the drive at all."""
        if seconds is None:
            return Commits(self.count, 0.0, 0.0, 0.0, 0.0)
        return replace(
            self,
            mean=self.mean + seconds,
            p25=self.p25 + seconds,
            p50=self.p50 + seconds,
            p99=self.p99 + seconds,
            p999=self.p999 + seconds,
        )

    def document(self) -> dict[str, float]:
        """Give it for a result."""
        return {
            "count": self.count,
            "mean_seconds": self.mean,
            "p50_seconds": self.p50,
            "p99_seconds": self.p99,
            "p999_seconds": self.p999,
            "flush_mean_seconds": self.flush_mean,
            "turn_p99_seconds": self.turn_p99,
            "p25_seconds": self.p25,
        }

    @staticmethod
    def of(document: Mapping[str, Any]) -> Commits:
        """Give what `document` made."""
        names = ("mean", "p50", "p99", "p999", "flush_mean", "turn_p99", "p25")
        return Commits(int(document["count"]), *(document[f"{name}_seconds"] for name in names))


@dataclass(frozen=True)
class Figures:
    """What a setup does, over the time of its load. Bytes are of the whole load."""

    host_bytes: float
    """Bytes that the drives are written."""
    flash_bytes: Interval
    """Bytes that their flash programs, for whatever cause."""
    by_drive: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """`host_bytes`, `flash_bytes`, `endurance_bytes` (that it can program in its life) of each."""
    commits: Commits | None = None
    """None if nothing says what a commit is."""
    seconds_taken: float = 0.0
    """Time in which the drives took the load once, by their own clock."""
    busy_seconds: float = 0.0
    """The same without the pauses of clients."""
    steady: bool | None = None
    """Whether write amplification has found its level; None if the run is too short to say."""
    unsteady: str | None = None
    slices: int = 1
    """The drive that was simulated is one of so many slices."""
    seconds_simulated: float = 0.0

    @property
    def write_amplification(self) -> float:
        """Bytes programmed for each byte that the drives were written."""
        return self.flash_bytes.value / self.host_bytes if self.host_bytes else math.nan

    def life_share(self) -> Interval:
        """Give the share of its life that the load takes of the drive that wears out first.

        The value is NaN if the endurance of one is not known.
        """
        known = [one for one in self.by_drive.values() if one.get("endurance_bytes")]
        if len(known) < len(self.by_drive):
            # The one of which nothing is known may be the first.
            return Interval(math.nan)
        shares = [one["flash_bytes"] / one["endurance_bytes"] for one in known]
        if not shares or not self.flash_bytes.value:
            return Interval(max(shares, default=math.nan))
        return self.flash_bytes.times(max(shares) / self.flash_bytes.value)

    def document(self) -> dict[str, Any]:
        """Give it for a result, and to be kept."""
        return {
            "host_bytes": self.host_bytes,
            "flash_bytes": self.flash_bytes.document(),
            "by_drive": {name: dict(one) for name, one in self.by_drive.items()},
            "commits": None if self.commits is None else self.commits.document(),
            "seconds_taken": self.seconds_taken,
            "busy_seconds": self.busy_seconds,
            "steady": self.steady,
            "unsteady": self.unsteady,
            "slices": self.slices,
            "seconds_simulated": self.seconds_simulated,
        }

    @staticmethod
    def of(document: Mapping[str, Any]) -> Figures:
        """Give what `document` made."""
        rest = {
            key: value
            for key, value in document.items()
            if key in Figures.__dataclass_fields__ and key not in ("flash_bytes", "commits")
        }
        found = document["commits"]
        return Figures(
            flash_bytes=Interval.of(document["flash_bytes"]),
            commits=None if found is None else Commits.of(found),
            **rest,
        )
