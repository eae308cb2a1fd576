"""What a simulated drive makes of a recorded run.

How much more flash is written, and how long the drive takes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from flashwright import _core, devices
from flashwright._core import InputError
from flashwright.devices import Device, Load
from flashwright.slices.geometry import drive_of

_MOST_PLAYS = 40
_CAPACITIES_WRITTEN = 3.0
"""A recording is played over until it has written the drive so often, as one alone may never make
it clean.
"""
_CAUSES = ("host_page_writes", "relocated_pages", "wear_moved_pages", "mapping_page_writes")


@dataclass(frozen=True)
class DrivePlan:
    """A profile, and the drive of it that is used.

    `is_whole`, or of the size of the volume. `state` is the drive's before the
    first request (see `devices.Load`).
    """

    own: Device
    is_whole: bool = False
    state: str = "filled"
    seed: int = 1

    def drive_for(self, volume_bytes: int) -> Device:
        """Give the drive for a volume of this size: that of the profile, if it is the whole.

        The same dies, so that speed is the profile's.

        Raises:
            InputError: the volume is larger than the whole drive, or none of its size can be built.
        """
        own = self.own
        if self.is_whole and volume_bytes > own.capacity_bytes:
            raise InputError(
                f"{own.name} has {own.capacity_bytes:,} bytes, and the volume {volume_bytes:,}: "
                "leave out --whole-drive, or take a smaller --volume"
            )
        return own if self.is_whole else _fitted(own, volume_bytes)

    def document(self, drive: Device) -> dict[str, Any]:
        """Tell what was simulated, for the result."""
        return {
            **drive.document(),
            "is_whole": drive.capacity_bytes == self.own.capacity_bytes,
            "state": self.state,
        }


@cache
def _fitted(own: Device, volume_bytes: int) -> Device:
    return drive_of(own, volume_bytes)


def drive_figures(
    plan: DrivePlan, drive: Device, trace: Path | None, row: dict[str, Any]
) -> dict[str, Any]:
    """Play a recording on a drive, and measure the second half.

    It is played until it has written the drive some times over. Gives columns of a row, each
    beginning with `drive_`. `drive_seconds` is how long the drive needs for the run's requests, 32
    of them outstanding; `flash_write_bytes` is what is programmed for them, which counts pages
    written in part as whole.
    """
    if trace is None or not row["issued_write_bytes"]:
        return {}
    wanted = math.ceil(_CAPACITIES_WRITTEN * drive.capacity_bytes / row["issued_write_bytes"])
    plays = 2 * max(1, min(_MOST_PLAYS, wanted) // 2)
    load = Load(state=plan.state, seed=plan.seed)
    requests = _core.load_requests(str(trace), seed=plan.seed, repeat=plays)
    total = requests.requests or 0
    load = Load(state=plan.state, seed=plan.seed, warm_up_requests=total // 2)
    outcome = devices.run(drive, requests, load)
    measured = plays / 2
    later = ("parity_page_writes", "replica_page_writes")
    pages = sum(outcome[cause] for cause in _CAUSES)
    pages += sum(outcome.get(cause, 0) for cause in later)
    programmed = pages * drive.summary["page_bytes"]
    writes = outcome["latency_ns"]["write"]
    # A study has no such options: it plays a recording twice over.
    said = {
        **outcome,
        "steady_with": None,
        "device": drive.document(),
        "state": {"kind": plan.state},
    }
    return {
        "drive_plays": plays,
        "drive_write_amplification": outcome["write_amplification"],
        "drive_is_steady": outcome["steady"]["write_amplification"] is True,
        "drive_flash_write_bytes": programmed / measured,
        "drive_flash_write_bytes_per_transaction": programmed / measured / row["transactions"]
        if row["transactions"]
        else None,
        "drive_bytes_amplification": programmed / measured / row["issued_write_bytes"],
        "drive_seconds": outcome["simulated_seconds"] / measured,
        "drive_most_transactions_per_second": row["transactions"]
        * measured
        / outcome["simulated_seconds"],
        "drive_erases": outcome["erases"] / measured,
        "drive_mean_write_ns": writes["mean"],
        "drive_p99_write_ns": writes["p99"],
        "drive_caveats": " ".join(devices.caveats(said)),
    }
