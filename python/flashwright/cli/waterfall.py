"""`flashwright waterfall`: who amplified what, from the database's calls to the flash."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flashwright._core import InputError
from flashwright.cli.options import Overrides, takes
from flashwright.cli.output import Output, print_table, say

if TYPE_CHECKING:
    from flashwright.path.drive import DrivePlan

_CAPACITIES_WRITTEN = 3.0
_MOST_PLAYS = 40


@click.command(short_help="Who amplified what, from the database's calls to the flash.")
@click.argument("recording", type=click.Path(path_type=Path, file_okay=False, exists=True))
@click.option(
    "--device",
    "profiles",
    multiple=True,
    metavar="PROFILE",
    help="What the flash of this drive programs for it: a profile of `flashwright list profile`, "
    "or the path of a TOML file.",
)
@takes(Overrides, "changes")
@click.option(
    "--whole-drive",
    is_flag=True,
    help="The profile at its own size. Without, it has so many erase blocks as hold the device "
    "that was recorded.",
)
@click.option(
    "--state",
    type=click.Choice(["fresh", "loaded", "filled", "aged"]),
    default="filled",
    show_default=True,
    help="The drive before the first request: erased; only what was recorded written; every page "
    "written once, in order; then overwritten at random.",
)
@click.option(
    "--seed",
    type=click.IntRange(0),
    default=1,
    show_default=True,
    metavar="N",
    help="Of the drive.",
)
@takes(Output, "output")
def waterfall(
    recording: Path,
    profiles: tuple[str, ...],
    changes: Overrides,
    state: str,
    seed: int,
    output: Output,
    *,
    whole_drive: bool,
) -> None:
    """Lay the layers of RECORDING side by side.

    What the database wrote by its calls, the same in whole pages, what the file system queued, what
    the device got, and with --device what flash programs for that: bytes by purpose, rates, sizes,
    over time.

    RECORDING is the folder of `flashwright run ... --record DIR`.

    \b
    Examples:
      flashwright waterfall runs/tpcc
      flashwright waterfall runs/tpcc --device samsung-mcbqe32g
      flashwright waterfall runs/tpcc --device nvme-tlc --whole-drive --state aged
    """
    from flashwright import devices
    from flashwright.path.drive import DrivePlan
    from flashwright.recording import waterfall as layers
    from flashwright.reports.waterfall import HEADINGS, headline, remarks, rows
    from flashwright.runs import Job, Run

    if len(profiles) > 1:
        raise InputError(f"--device {profiles[1]}: one drive at a time; run it again for the other")
    profile = profiles[0] if profiles else None
    about = Run.read_result(recording).result
    if "path" not in about:
        raise InputError(
            f"{recording}: no recording with the calls of a database; make one with `flashwright "
            "run ... --record`"
        )
    said = about["recording"]
    tables = layers.read_tables(recording)
    flash = None
    if profile is not None:
        plan = DrivePlan(devices.Device.load(profile, changes.overrides), whole_drive, state, seed)
        flash = _flash(
            recording, plan, said["device"]["size_bytes"], layers.window(tables, about["path"])
        )
    elif changes.overrides or whole_drive:
        raise InputError("--set and --whole-drive are for --device")
    found = layers.waterfall(tables, about["path"], flash=flash)
    inputs = [devices.describe(str(recording / "requests.parquet"))]
    result = {
        "waterfall": found.result,
        "path": about["path"],
        "recorded": about["provenance"]["command"],
    }
    if not output.is_only_json:
        print_table(
            [(name, "left" if number < 2 else "right") for number, name in enumerate(HEADINGS)],
            rows(found.result),
        )
        say(headline(found.result))
        for remark in remarks(about["path"]):
            say(remark)
    identity = [
        about["requests"],
        said["start_monotonic_ns"],
        profile,
        changes.overrides,
        state,
        seed,
        whole_drive,
    ]
    job = Job("waterfall", identity, inputs, seed if flash is not None else None)
    output.finish(job.run(result, found.tables))


def _flash(
    recording: Path, plan: DrivePlan, recorded_bytes: int, during_ns: tuple[int, int]
) -> dict[str, Any]:
    """Give what a drive programs for what was recorded in this time.

    It is played until the drive is written some times over.
    """
    from flashwright.cli.progress import work
    from flashwright.devices import Load
    from flashwright.recording.waterfall import program_flash, requests_within

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
