"""Drives that a fleet holds its data on, and those that its writes wear out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from flashwright._core import InputError
from flashwright.comparing.policies import own_victim
from flashwright.devices import LEFT_FREE, PAGE_MAPPED, DriveProfile

YEARS = 5
"""Years for which drives are bought."""
_DAYS_IN_YEAR = 365.25


@dataclass(frozen=True)
class FleetDrive:
    """The drive that the volumes of a fleet lie on."""

    name: str
    capacity_bytes: int
    over_provisioning: float
    """(physical - logical) / logical, as it is sold."""
    endurance_bytes: float | None
    """Bytes that its flash can be programmed with; None if nothing is known of it."""
    placement: str
    victim: str

    @staticmethod
    def of(device: DriveProfile) -> FleetDrive:
        """Describe a drive of a profile. Raises InputError if it maps whole erase blocks."""
        ftl = device.profile["ftl"]
        scheme = str(ftl["scheme"]).partition("(")[0]
        if scheme not in PAGE_MAPPED:
            raise InputError(
                f"{device.name}: it maps with `{scheme}`, and a fleet is counted on drives that "
                "map pages; right would be a profile such as nvme-tlc"
            )
        placement = str(ftl["placement"])
        return FleetDrive(
            device.name,
            device.capacity_bytes,
            device.over_provisioning,
            device.endurance_bytes,
            placement,
            str(ftl["victim"] or own_victim(placement)),
        )

    def over_provisionings(self) -> list[float]:
        """Give its own over-provisioning, and those with a share of it left free."""
        whole = 1 + self.over_provisioning
        return [self.over_provisioning, *(whole / (1 - left) - 1 for left in LEFT_FREE)]

    def left_free(self, over_provisioning: float) -> float:
        """Give the share that is left free for an over-provisioning; 0 as it is sold."""
        return max(0.0, 1 - (1 + self.over_provisioning) / (1 + over_provisioning))

    def document(self) -> dict[str, Any]:
        """Give it as JSON holds it."""
        return {**vars(self), "years": YEARS}


def costs(
    sums: Sequence[dict[str, Any]],
    drive: FleetDrive | None,
    data_bytes: int,
    bytes_per_day: float | None,
) -> list[dict[str, Any]]:
    """Add to each sum the drives that it takes.

    `left_free`, the share of a drive; `drives`, which the data fill; `drives_worn_a_year`, whose
    endurance the writes use up; `drives_bought`, in YEARS: whichever of both is more. None where it
    is not known.
    """
    if drive is None:
        return list(sums)
    found = []
    for one in sums:
        free = drive.left_free(one["over_provisioning"])
        held = data_bytes / (drive.capacity_bytes * (1 - free))
        worn = None
        if bytes_per_day is not None and drive.endurance_bytes is not None:
            worn = one["flash_bytes_per_day"] * _DAYS_IN_YEAR / drive.endurance_bytes
        bought = None if worn is None else max(held, YEARS * worn)
        found.append(
            {
                **one,
                "left_free": free,
                "drives": held,
                "drives_worn_a_year": worn,
                "drives_bought": bought,
            }
        )
    return found
