"""Cost of a run that writes to a real drive.

The most that it writes, and the share of the drive's life that this takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from flashwright import _core
from flashwright._text import percent, size

if TYPE_CHECKING:
    from flashwright.probing.session import Session
    from flashwright.probing.targets import Region, Target

ASSUMED_DRIVE_WRITES = 150
"""Full drive writes that a drive is taken to stand if nobody says: what makers promise of cheap QLC
drives; most others stand more.
"""
RATE_SECONDS = 0.5


def planned_bytes(device: _core.Device, region: Region, session: Session) -> int:
    """Estimate what the experiments that are left write at most.

    As fast as the device reads for all the time that they have. Flash reads faster than it writes,
    so this is more than most drives can do; an experiment that has to fill the region in spite of
    its budget may go beyond it. Reads for half a second.
    """
    seconds = sum(step.budget_seconds for step in session.steps if step.writes)
    if not seconds:
        return 0
    rate = _core.read_bytes_per_second(
        device, region_offset=region.offset, region_bytes=region.length, seconds=RATE_SECONDS
    )
    return int(rate * seconds)


def life_bytes(info: Mapping[str, Any], endurance_tbw: float | None) -> float | None:
    """Give the bytes that a host can write to the drive in its life; None if that is not known.

    A file's size says nothing of the drive below it.
    """
    if endurance_tbw is not None:
        return endurance_tbw * 1e12
    return (
        float(info["capacity_bytes"]) * ASSUMED_DRIVE_WRITES
        if info["kind"] == "block_device"
        else None
    )


def share_of_life(
    written_bytes: float, info: Mapping[str, Any], endurance_tbw: float | None
) -> str:
    """Say what share of the drive's life so many bytes are."""
    life = life_bytes(info, endurance_tbw)
    if life is None:
        return "what share of the drive's life that is, tbw= of disk(...) would say"
    basis = (
        f"of the {endurance_tbw:g} TB that tbw= gives it"
        if endurance_tbw is not None
        else f"if it stands {ASSUMED_DRIVE_WRITES} full drive writes, as the cheapest do; "
        "tbw= of disk(...) says it better"
    )
    return f"{percent(written_bytes / life, 2)} of the drive's life {basis}"


def warning(
    target: Target,
    device: _core.Device,
    region: Region,
    session: Session,
    endurance_tbw: float | None,
) -> str:
    """Say before a run what it destroys, and how much it writes at most.

    Also what that costs the drive.
    """
    info = device.info
    planned = planned_bytes(device, region, session)
    end = region.offset + (region.length or 0)
    return (
        f"{target.given}: what is in bytes {region.offset} to {end} ({size(end - region.offset)}) "
        f"is overwritten. At most {size(planned)} are written, as fast as it reads: "
        f"{share_of_life(planned, info, endurance_tbw)}."
    )
