"""`flashwright waterfall`: who amplified what, from the database's calls to the flash."""

from __future__ import annotations

from pathlib import Path

import click

from flashwright._core import InputError
from flashwright.cli.lists import Listed, Named
from flashwright.cli.options import DriveSize, Overrides, takes
from flashwright.cli.output import Output, print_table, say


@click.command(short_help="Who amplified what, from the database's calls to the flash.")
@click.argument("recording", type=click.Path(path_type=Path, file_okay=False, exists=True))
@click.option(
    "--device",
    "profiles",
    cls=Listed,
    type=Named("profile", or_file=True),
    metavar="PROFILE",
    help="What the flash of this drive programs for it: a profile of `flashwright list profile`, "
    "or the path of a TOML file.",
)
@takes(Overrides, "changes")
@takes(DriveSize, "size")
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
    size: DriveSize,
    state: str,
    seed: int,
    output: Output,
) -> None:
    """Lay the layers of RECORDING side by side.

    What the database wrote by its calls, the same in whole pages, what the file system queued, what
    the device got, and with --device what flash programs for that: bytes by purpose, rates, sizes,
    over time. The drive has the size of the disk that was recorded.

    RECORDING is the folder of `flashwright run ... --record DIR`.

    \b
    Examples:
      flashwright waterfall runs/tpcc
      flashwright waterfall runs/tpcc --device samsung-mcbqe32g
      flashwright waterfall runs/tpcc --device nvme-tlc --slices 4 --state aged
    """
    from flashwright import devices, slice_words
    from flashwright.recording.side_by_side import FlashPlan, side_by_side
    from flashwright.reports.waterfall import HEADINGS, headline, remarks, rows

    if len(profiles) > 1:
        raise InputError(f"--device {profiles[1]}: one drive at a time; run it again for the other")
    asked = size.asked()
    if not profiles and (changes.overrides or asked != type(asked)()):
        raise InputError("--set, --capacity, --fill and --slices are for --device")
    plan = None
    if profiles:
        drive = devices.Device.load(profiles[0], changes.overrides)
        plan = FlashPlan(drive, asked, state, seed)
    run = side_by_side(recording, plan)
    if not output.is_only_json:
        found = run.result["waterfall"]
        print_table(
            [(name, "left" if number < 2 else "right") for number, name in enumerate(HEADINGS)],
            rows(found),
        )
        say(headline(found))
        for remark in remarks(run.result["path"]):
            say(remark)
        for line in slice_words.lines((found["device"] or {}).get("slice")):
            say(line)
    output.finish(run)
