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

_MOST_PLAYS = 40
_CAPACITIES_WRITTEN = 3.0
"""A recording is played over until it has written the drive so often, as one alone may never make
it clean.
"""
_ERASE_BLOCKS = "media.erase_blocks_per_plane"
_CAUSES = ("host_page_writes", "relocated_pages", "wear_moved_pages", "mapping_page_writes")


@dataclass(frozen=True)
class DrivePlan:
    """A profile, and the drive of it that is used.

    `is_whole`, or with as many erase blocks as hold the volume. `state` is the drive's before the
    first request (see `devices.Load`).
    """

    own: Device
    is_whole: bool = False
    state: str = "filled"
    seed: int = 1

    def drive_for(self, volume_bytes: int) -> Device:
        """Give the drive for a volume of this size.

        The same dies, so that speed is the profile's, with fewer erase blocks.

        Raises:
            InputError: the volume is larger than the drive.
        """
        own = self.own
        if volume_bytes > own.capacity_bytes:
            raise InputError(
                f"{own.name} has {own.capacity_bytes:,} bytes, and the volume {volume_bytes:,}: "
                "take a larger drive, or a smaller --volume"
            )
        return own if self.is_whole else _fitted(self, volume_bytes)

    def with_blocks(self, erase_blocks: int) -> Device | None:
        """Give the drive with so many erase blocks a plane; None if it cannot be built of them."""
        try:
            fitted = Device.load(
                self.own.given, (*self.own.overrides, f"{_ERASE_BLOCKS}={erase_blocks}")
            )
            requests = _core.load_requests("io:random(reads=1)", seed=1)
            devices.run(fitted, requests, Load(state="fresh", most_requests=1))
        except InputError:
            return None
        return fitted

    def document(self, drive: Device) -> dict[str, Any]:
        """Tell what was simulated, for the result."""
        return {
            **drive.document(),
            "is_whole": drive.capacity_bytes == self.own.capacity_bytes,
            "state": self.state,
        }


@cache
def _fitted(plan: DrivePlan, volume_bytes: int) -> Device:
    """Give the smallest drive that can be built of the plan's profile and holds the volume."""
    own = plan.own
    most = int(own.profile["media"]["erase_blocks_per_plane"])
    number = max(1, math.ceil(most * volume_bytes / own.capacity_bytes))
    while number < most:
        fitted = plan.with_blocks(number)
        if fitted is not None and fitted.capacity_bytes >= volume_bytes:
            return fitted
        # The smaller a drive, the larger what a mapping needs of it beside the data.
        number = max(number + 1, round(number * 1.03))
    return own


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
