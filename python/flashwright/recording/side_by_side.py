"""The layers of a recording side by side, as a run, with what a simulated drive makes of it."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flashwright import devices, slices
from flashwright._core import InputError
from flashwright.devices import Device, Load
from flashwright.drive_runs import preparing
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

    own: Device
    size: SizeAsked = field(default_factory=SizeAsked)
    state: str = "filled"
    """Before the first request; see `devices.Load`."""
    seed: int = 1


def side_by_side(recording: Path, plan: FlashPlan | None) -> Run:
    """Lay the layers of a recording side by side, down to the flash of a drive if one is given.

    Raises InputError if it is no recording with the calls of a database, nothing was written while
    it was recorded, or the drive is too small.
    """
    about = Run.read_result(recording).result
    if "path" not in about:
        raise InputError(
            f"{recording}: no recording with the calls of a database; make one with `flashwright "
            "run ... --record`"
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
    inputs = [devices.describe(str(recording / REQUESTS_FILE))]
    job = Job(COMMAND, identity, inputs, None if plan is None else plan.seed)
    return job.run(result, found.tables)


def _flash(recording: Path, plan: FlashPlan, during_ns: tuple[int, int]) -> dict[str, Any]:
    """Give what a drive of the disk's size programs for what was recorded in this time.

    It is played until the drive is written some times over.
    """
    load = Load(state=plan.state, seed=plan.seed)
    with tempfile.TemporaryDirectory(prefix="flashwright-") as folder:
        part = Path(folder) / REQUESTS_FILE
        written = requests_within(recording / REQUESTS_FILE, *during_ns, part)
        if not written:
            raise InputError(f"{recording}: nothing was written while it was recorded")
        effort = Effort(
            state=plan.state,
            overwrites=2.0 if plan.state == "aged" else None,
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
            lambda progress: program_flash(Path(sized.source), sized.device, load, plays, progress),
            preparing=preparing(load, sized.device.name),
        )
    found["by_part"] = {
        name: round(value * sized.scale) for name, value in found["by_part"].items()
    }
    return found
