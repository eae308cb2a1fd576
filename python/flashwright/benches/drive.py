"""Simulation of a recorded run on a drive.

It tells how much more is written to the flash, and how long the drive takes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from flashwright import drive_runs, steady
from flashwright._core import InputError
from flashwright.devices import DriveProfile
from flashwright.jobs.play.remarks import caveats
from flashwright.probing import targets
from flashwright.slices import OWN
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

    `is_whole`, or of the size of the volume. `state` is the drive's before the first request, as
    its settings have it.
    """

    own: DriveProfile
    is_whole: bool = False
    state: str | Mapping[str, Any] = "filled"
    seed: int = 1

    @staticmethod
    def of(text: str, seed: int) -> DrivePlan:
        """Give the plan for a drive by its text, such as `profile(nvme-tlc, state=aged)`.

        Raises:
            InputError: it is no simulated drive, or something in it is wrong.
        """
        profile = targets.profile_of(text)
        if profile.get("capacity") not in (None, OWN) or {"fill", "slices"} & profile.keys():
            raise InputError(
                f"{text}: the drive has the size of the volume; capacity=own leaves it as it is"
            )
        own = targets.drive_of(profile)
        return DrivePlan(own, profile.get("capacity") == OWN, profile["state"], seed)

    @property
    def state_document(self) -> dict[str, Any]:
        """The state for a result."""
        if isinstance(self.state, str):
            return {"kind": self.state}
        return {"kind": "aged", **self.state["aged"]}

    def drive_for(self, volume_bytes: int) -> DriveProfile:
        """Give the drive for a volume of this size: that of the profile, if it is the whole.

        The same dies, so that speed is the profile's.

        Raises:
            InputError: the volume is larger than the whole drive, or none of its size can be built.
        """
        own = self.own
        if self.is_whole and volume_bytes > own.capacity_bytes:
            raise InputError(
                f"{own.name} has {own.capacity_bytes:,} bytes, and the volume {volume_bytes:,}: "
                "leave out capacity=own, or take a smaller volume"
            )
        return own if self.is_whole else _fitted(own, volume_bytes)

    def document(self, drive: DriveProfile) -> dict[str, Any]:
        """Tell what was simulated, for the result."""
        return {
            **drive.document(),
            "is_whole": drive.capacity_bytes == self.own.capacity_bytes,
            "state": self.state_document["kind"],
        }


@cache
def _fitted(own: DriveProfile, volume_bytes: int) -> DriveProfile:
    return drive_of(own, volume_bytes)


def drive_figures(
    plan: DrivePlan, drive: DriveProfile, trace: Path | None, row: dict[str, Any]
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
    source = {"of": str(trace), "repeat": plays}
    held = drive_runs.load(drive.toml, source, seed=plan.seed)
    warm_up = (held.requests or 0) // 2
    outcome = drive_runs.run(drive.toml, source, state=plan.state, seed=plan.seed, warm_up=warm_up)
    outcome["state"] = plan.state_document
    judged = steady.of_drive(
        drive.profile, drive.summary, {**outcome, "state": outcome["state"]["kind"]}, warm_up
    )
    measured = plays / 2
    later = ("parity_page_writes", "replica_page_writes")
    pages = sum(outcome[cause] for cause in _CAUSES)
    pages += sum(outcome.get(cause, 0) for cause in later)
    programmed = pages * drive.summary["page_bytes"]
    writes = outcome["latency_ns"]["write"]
    # A bench has no options that would make it steady: it plays a recording twice over.
    said = {
        **outcome,
        "judged": judged,
        "steady": {key: figure["steady"] for key, figure in judged.items()},
        "steady_with": None,
    }
    return {
        "drive_plays": plays,
        "drive_write_amplification": outcome["write_amplification"],
        "drive_is_steady": said["steady"]["write_amplification"] is True,
        "drive_flash_write_bytes": programmed / measured,
        "drive_flash_write_bytes_per_transaction": programmed / measured / row["transactions"]
        if row["transactions"]
        else None,
        "drive_bytes_amplification": programmed / measured / row["issued_write_bytes"],
        "drive_seconds": outcome["seconds"] / measured,
        "drive_most_transactions_per_second": row["transactions"] * measured / outcome["seconds"],
        "drive_erases": outcome["erases"] / measured,
        "drive_mean_write_ns": writes["mean"],
        "drive_p99_write_ns": writes["p99"],
        "drive_caveats": " ".join(caveats(said, drive.document())),
    }
