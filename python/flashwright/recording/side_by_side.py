"""The layers of a recording side by side, as a run, with what a simulated drive makes of it."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flashwright import devices
from flashwright._core import InputError
from flashwright.devices import Load
from flashwright.progress import work
from flashwright.recording.waterfall import (
    program_flash,
    read_tables,
    requests_within,
    waterfall,
    window,
)
from flashwright.runs import Job, Run
from flashwright.sources import REQUESTS_FILE

if TYPE_CHECKING:
    from flashwright.path.drive import DrivePlan

COMMAND = "waterfall"
_CAPACITIES_WRITTEN = 3.0
_MOST_PLAYS = 40


def side_by_side(recording: Path, plan: DrivePlan | None) -> Run:
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
        during = window(tables, about["path"])
        flash = _flash(recording, plan, said["device"]["size_bytes"], during)
    found = waterfall(tables, about["path"], flash=flash)
    result = {
        "waterfall": found.result,
        "path": about["path"],
        "recorded": about["provenance"]["command"],
    }
    identity = [
        about["requests"],
        said["start_monotonic_ns"],
        *(
            [None, (), "filled", 1, False]
            if plan is None
            else [plan.own.given, plan.own.overrides, plan.state, plan.seed, plan.is_whole]
        ),
    ]
    inputs = [devices.describe(str(recording / REQUESTS_FILE))]
    job = Job(COMMAND, identity, inputs, None if plan is None else plan.seed)
    return job.run(result, found.tables)


def _flash(
    recording: Path, plan: DrivePlan, recorded_bytes: int, during_ns: tuple[int, int]
) -> dict[str, Any]:
    """Give what a drive programs for what was recorded in this time.

    It is played until the drive is written some times over.
    """
    drive = plan.drive_for(recorded_bytes)
    load = Load(state=plan.state, seed=plan.seed)
    with tempfile.TemporaryDirectory(prefix="flashwright-") as folder:
        part = Path(folder) / "requests.parquet"
        written = requests_within(recording / "requests.parquet", *during_ns, part)
        if not written:
            raise InputError(f"{recording}: nothing was written while it was recorded")
        wanted = _CAPACITIES_WRITTEN * drive.capacity_bytes / written
        plays = 2 * max(1, min(_MOST_PLAYS, round(wanted)) // 2)
        return work(
            f"Playing it {plays} times on {drive.name}",
            "requests",
            lambda progress: program_flash(part, drive, load, plays, progress),
        )
