"""How long a drive lives, from its endurance and the rate at which it is written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flashwright import _core
from flashwright._core import InputError

RECORDED = "recorded"
GIVEN = "given"
ASSUMED = "assumed"
SECONDS_IN_DAY = 86_400


@dataclass(frozen=True)
class Wear:
    """What a life is asked for: `--endurance`, `--writes-per-day`, `--capacity`, `--fill`."""

    endurance: float = 3000
    writes_per_day: float | str | None = None
    """How often a day the host writes its data once over; `trace`: as recorded. None: as recorded
    if a capacity is given, or else once.
    """
    capacity: int | None = None
    """Bytes that the host can store on the drive; None: as many as the workload touches."""
    fill: float = 1.0
    """Share of the capacity that holds data."""


@dataclass(frozen=True)
class Lifetime:
    """An erase block can be erased `endurance` times.

    The host writes its data over `writes_per_day` times a day.
    """

    endurance: float
    writes_per_day: float
    rate: str = GIVEN
    """`recorded`, `given` or `assumed`."""
    capacity_bytes: int | None = None
    fill: float = 1.0

    def years(
        self, write_amplification: float, over_provisioning: float, erases: int = 1
    ) -> float | None:
        """Give the years until the media was programmed `endurance` times over.

        None if nothing was erased: such a run does not say what cleaning costs. Wear is taken as
        even. Media of (1 + over_provisioning) times the data take up `write_amplification` times
        what the host writes.
        """
        if not erases:
            return None
        # Capacities in units of the data: their size cancels out.
        return _core.lifetime_years(
            self.endurance, 1 + over_provisioning, write_amplification, self.writes_per_day
        )

    def document(self) -> dict[str, Any]:
        """Give the assumptions, for the result."""
        return {
            "endurance_cycles": self.endurance,
            "drive_writes_per_day": self.writes_per_day,
            "rate": self.rate,
            "capacity_bytes": self.capacity_bytes,
            "fill": self.fill,
        }


def lifetime_of(name: str, wear: Wear, bytes_per_day: float | None, data_bytes: int) -> Lifetime:
    """Resolve the write rate of a workload.

    `bytes_per_day` as recorded, None if the workload `name` has no times; `data_bytes` that it
    touches.

    Raises InputError if the recorded rate is asked for and there is none.
    """
    rate = wear.writes_per_day
    if wear.capacity is not None:
        data_bytes = max(1, round(wear.capacity * wear.fill))
    if rate is None and wear.capacity is None:
        return Lifetime(wear.endurance, 1.0, ASSUMED)
    if isinstance(rate, float | int):
        return Lifetime(wear.endurance, float(rate), GIVEN, wear.capacity, wear.fill)
    if bytes_per_day is None:
        asked = "--writes-per-day trace" if rate is not None else "--capacity"
        raise InputError(
            f"{asked}: {name} has no times, so its rate is not known; give --writes-per-day a "
            "number"
        )
    per_day = bytes_per_day / data_bytes
    return Lifetime(wear.endurance, per_day, RECORDED, wear.capacity, wear.fill)
