"""The layers of a recording side by side, as a run, with what a simulated drive makes of it."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flashwright import slices, sources
from flashwright._core import InputError
from flashwright.devices import DriveProfile
from flashwright.drive_runs import preparing
from flashwright.probing.targets import drive_of, profile_of
from flashwright.progress import work
from flashwright.recording.waterfall import (
    program_flash,
    read_tables,
    requests_within,
    waterfall,
    window,
)
from flashwright.runs import Job, Run
from flashwright.slices import Effort, SizeAsked
from flashwright.slices.disk import disk_of
from flashwright.sources import REQUESTS_FILE, Reading

COMMAND = "waterfall"
_CAPACITIES_WRITTEN = 3.0
_MOST_PLAYS = 40


@dataclass(frozen=True)
class FlashPlan:
    """The drive whose flash is asked for."""

    own: DriveProfile
    size: SizeAsked = field(default_factory=SizeAsked)
    state: str | Mapping[str, Any] = "filled"
    """Before the first request, as the settings of a drive have it."""
    seed: int = 1

    @staticmethod
    def of(text: str, seed: int = 1) -> FlashPlan:
        """Give the plan for a drive by its text, such as `profile(nvme-tlc, state=aged)`.

        Raises InputError if it is no simulated drive, or something in it is wrong.
        """
        profile = profile_of(text)
        size = SizeAsked(profile.get("capacity"), profile.get("fill"), profile.get("slices"))
        return FlashPlan(drive_of(profile), size, profile["state"], seed)

    @property
    def state_name(self) -> str:
        """The state without its parameters."""
        return self.state if isinstance(self.state, str) else next(iter(self.state))

    @property
    def overwrites(self) -> float | None:
        """Times that an aged drive was overwritten; None in another state."""
        return None if isinstance(self.state, str) else float(self.state["aged"]["overwrites"])


def side_by_side(recording: Path, plan: FlashPlan | None) -> Run:
    """Lay the layers of a recording side by side, down to the flash of a drive if one is given.

    Raises InputError if it is no recording with the calls of a database, nothing was written while
    it was recorded, or the drive is too small.
    """
    about = Run.read_result(recording).result
    if "path" not in about:
        raise InputError(
            f"{recording}: no recording with the calls of a database; make one with `flashwright "
            "bench ... --record`"
        )
    said = about["recording"]
    tables = read_tables(recording)
    flash = None
    if plan is not None:
        flash = _flash(recording, plan, window(tables, about["path"]))
    found = waterfall(tables, about["path"], flash=flash)
    result = {
        "waterfall": found.result,
        "path": about["path"],
        "recorded": about["provenance"]["command"],
    }
    identity = [
        about["requests"],
        said["start_monotonic_ns"],
        *([] if plan is None else [plan.own.toml, plan.size, plan.state, plan.seed]),
    ]
    inputs = [sources.describe(str(recording / REQUESTS_FILE))]
    job = Job(COMMAND, identity, inputs, None if plan is None else plan.seed)
    return job.run(result, found.tables)


def _flash(recording: Path, plan: FlashPlan, during_ns: tuple[int, int]) -> dict[str, Any]:
    """Give what a drive of the disk's size programs for what was recorded in this time.

    It is played until the drive is written some times over.
    """
    with tempfile.TemporaryDirectory(prefix="flashwright-") as folder:
        part = Path(folder) / REQUESTS_FILE
        written = requests_within(recording / REQUESTS_FILE, *during_ns, part)
        if not written:
            raise InputError(f"{recording}: nothing was written while it was recorded")
        effort = Effort(
            state=plan.state_name,
            overwrites=plan.overwrites,
            capacities_written=_CAPACITIES_WRITTEN,
        )
        sized = slices.take(
            plan.own,
            str(part),
            Reading(format="parquet"),
            plan.size,
            effort,
            disk=disk_of(str(recording / REQUESTS_FILE)),
        )
        plays = sized.plays
        if plays is None:
            wanted = _CAPACITIES_WRITTEN * sized.device.capacity_bytes / written
            plays = 2 * max(1, min(_MOST_PLAYS, round(wanted)) // 2)
        found = work(
            f"Playing it {plays} times on {sized.device.name}",
            "requests",
            lambda progress: program_flash(
                Path(sized.source), sized.device, plan.state, plan.seed, plays, progress
            ),
            preparing=preparing(plan.state_name, sized.device.name),
        )
    found["by_part"] = {
        name: round(value * sized.scale) for name, value in found["by_part"].items()
    }
    return found
