"""How long a drive lives, from its endurance and the rate at which it is written."""

from __future__ import annotations

from dataclasses import dataclass

from flashwright import _core
from flashwright._core import InputError


@dataclass(frozen=True)
class Lifetime:
    """An erase block can be erased `endurance` times.

    The host writes the logical capacity over `writes_per_day` times a day.
    """

    endurance: float
    writes_per_day: float

    def years(self, write_amplification: float, over_provisioning: float) -> float:
        """Give the years until the media was programmed `endurance` times over.

        Its wear is taken as even. Media of (1 + over_provisioning) times the logical capacity take
        up `write_amplification` times what the host writes.
        """
        # Capacities in units of the logical capacity: its size cancels out.
        return _core.lifetime_years(
            self.endurance, 1 + over_provisioning, write_amplification, self.writes_per_day
        )

    def document(self) -> dict[str, float]:
        """Give the assumptions, for the result."""
        return {"endurance_cycles": self.endurance, "drive_writes_per_day": self.writes_per_day}


def lifetime_of(
    name: str, recorded: float | None, endurance: float, writes_per_day: float | str
) -> Lifetime:
    """Resolve `trace` as the write rate.

    `recorded` drive writes a day, if the workload `name` has times.

    Raises InputError if the rate of the trace is asked for and it has no times.
    """
    if not isinstance(writes_per_day, str):
        return Lifetime(endurance, writes_per_day)
    if recorded is None:
        raise InputError(
            f"{name}: it has no times, so give --writes-per-day a number instead of `trace`"
        )
    return Lifetime(endurance, recorded)
