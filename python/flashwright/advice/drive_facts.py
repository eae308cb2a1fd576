"""What is asked of a simulated drive beside a load: its mapping, and its times by pattern."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from flashwright import drive_runs
from flashwright.advice.case import Case
from flashwright.advice.setup import Drive
from flashwright.devices import DriveProfile
from flashwright.slices.geometry import drive_of
from flashwright.slices.geometry import is_page_mapped as _maps_pages

DEPTHS = (1, 2, 4, 8, 16, 32, 64)
PAGE = "8Ki"
"""Bytes of a page of PostgreSQL."""
_SMALL_BYTES = 1 << 30
_READS, _WRITES = 3000, 500


@lru_cache(maxsize=64)
def _profile(name: str, overrides: tuple[str, ...]) -> DriveProfile:
    return DriveProfile.load(name, overrides)


def profile(drive: Drive) -> DriveProfile:
    """Give the profile of a drive, with its overrides."""
    return _profile(drive.profile, drive.overrides)


def is_page_mapped(drive: Drive) -> bool:
    """Tell whether pages go anywhere, so that all space that holds nothing is spare."""
    return _maps_pages(profile(drive))


def scheme(drive: Drive) -> str:
    """Give the name of the mapping."""
    return str(profile(drive).profile["ftl"]["scheme"]).partition("(")[0]


def is_protected(drive: Drive) -> bool:
    """Tell whether capacitors keep what the drive has acknowledged."""
    return bool(profile(drive).profile["write_buffer"].get("power_loss_protected"))


def capacity_bytes(case: Case) -> int:
    """Give the capacity of the drive as it is simulated."""
    return case.base.drive.capacity_bytes or profile(case.base.drive).capacity_bytes


def fill(case: Case) -> float:
    """Give the share of the capacity that holds data, as it is simulated."""
    return 1.0 if case.base.drive.fill is None else case.base.drive.fill


@lru_cache(maxsize=64)
def _small(name: str, overrides: tuple[str, ...]) -> DriveProfile:
    """Give the drive with few erase blocks: its times are the same, and it is full at once."""
    return drive_of(_profile(name, overrides), _SMALL_BYTES)


@dataclass(frozen=True)
class Reads:
    """Reads of 8 KiB on a drive that does nothing else."""

    random: tuple[float, ...]
    """Reads a second at random, for each of DEPTHS."""
    sequential: float
    """Reads a second in sequence, one at a time."""

    @property
    def random_over_sequential(self) -> float:
        """Time of a read at random in that of one in sequence, one at a time."""
        return self.sequential / self.random[0]

    def enough(self, of_most: float = 0.9) -> int:
        """Give the least depth that reaches this share of the most."""
        most = max(self.random)
        return next(
            depth
            for depth, found in zip(DEPTHS, self.random, strict=True)
            if found >= of_most * most
        )


@lru_cache(maxsize=16)
def _reads(name: str, overrides: tuple[str, ...]) -> Reads:
    def iops(order: str, depth: int) -> float:
        found = drive_runs.run(
            _small(name, overrides).toml,
            f"io:{order}(reads=1,size={PAGE})",
            pace={"closed": {"depth": depth}},
            requests=_READS,
            seed=1,
        )
        return float(found["iops"])

    return Reads(tuple(iops("random", depth) for depth in DEPTHS), iops("sequential", 1))


def reads(drive: Drive) -> Reads:
    """Measure reads on the simulated drive: once, within a second.

    Raises InputError, RunError.
    """
    return _reads(drive.profile, drive.overrides)


@lru_cache(maxsize=16)
def _writes(name: str, overrides: tuple[str, ...]) -> tuple[float, float]:
    def mean_seconds(order: str) -> float:
        found = drive_runs.run(
            _small(name, overrides).toml,
            f"io:{order}(reads=0,size=4Ki)",
            pace={"closed": {"depth": 1}},
            requests=_WRITES,
            seed=1,
        )
        return float(found["latency_ns"]["write"]["mean"]) / 1e9

    return mean_seconds("random"), mean_seconds("sequential")


def writes(drive: Drive) -> tuple[float, float]:
    """Give the mean seconds of a write of 4 KiB at random, and in sequence, on a full drive.

    Raises InputError, RunError.
    """
    return _writes(drive.profile, drive.overrides)
