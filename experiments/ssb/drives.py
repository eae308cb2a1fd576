"""Drives that queries run on: profiles of flash drives, and hard disks."""

from __future__ import annotations

from typing import Any

from experiments.figures.drawing import is_hard_disk, probed
from flashwright import _core
from flashwright._core import Device, InputError

SEED = 1
LEAST_REGION_BYTES = 4 << 30
"""Otherwise streams come round to what is still in the disk's cache."""
_LEAST_GIB = {"nvme-tlc": 24, "micron-7450-pro": 4}
"""Drives that have many dies are not cut below this."""


def hard_disks() -> list[str]:
    """Give the names of hard disks that the core can simulate; there may be none."""
    names = [one["name"] for one in _core.variants("profile")]
    names += [entry["name"] for entries in _core.registry().values() for entry in entries]
    return sorted({name for name in names if is_hard_disk(name)})


def default_drives() -> list[str]:
    """Give the paper's drive, drives of today, and a hard disk if there is one."""
    return ["intel-x25e", "nvme-tlc", "micron-7450-pro", *hard_disks()[:1]]


def size_of(drive: str, scale: float) -> int:
    """Give the bytes that an emulated drive is cut down to, with room for database and log."""
    needed = 2 + 1.6 * scale
    return max(round(needed + 0.5), _LEAST_GIB.get(drive, 1)) << 30


def device_of(drive: str) -> Device:
    """Make a simulated drive, filled in order."""
    if is_hard_disk(drive):
        return _core.open_device(drive)
    toml = _core.check_profile(_core.profile_toml(drive), drive, [])
    return _core.simulated_device(toml, name=drive, state="filled", seed=SEED)


def check_room(drive: str, needed_bytes: int) -> None:
    """Make sure that a database fits on the whole of a simulated drive.

    Raises:
        InputError: it does not.
    """
    if is_hard_disk(drive):
        capacity = int(device_of(drive).info["capacity_bytes"])
    else:
        toml = _core.check_profile(_core.profile_toml(drive), drive, [])
        capacity = int(_core.profile_summary(toml)["capacity_bytes"])
    if needed_bytes > capacity:
        raise InputError(
            f"{drive}: it has {capacity} bytes, and the database {needed_bytes}: choose a lower "
            "scale factor"
        )


def finding(drive: str, spec: str, budget_seconds: float, region_bytes: int) -> dict[str, Any]:
    """Run an experiment of the prober on a drive.

    On a hard disk within its first bytes, as seeks hang on how far places lie apart, and at least
    `LEAST_REGION_BYTES` of them. A flash drive is measured as a whole.
    """
    region = max(region_bytes, LEAST_REGION_BYTES) if is_hard_disk(drive) else None
    return probed(drive, region).find(spec, budget_seconds)
