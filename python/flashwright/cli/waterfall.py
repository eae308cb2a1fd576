"""`flashwright waterfall`: who amplified what, from the database's calls to the flash."""

from __future__ import annotations

from pathlib import Path

import click

from flashwright._core import InputError
from flashwright.cli.lists import Listed, Named
from flashwright.cli.options import all_of, argument, option, options
from flashwright.cli.output import Output
from flashwright.terminal import print_table, say


@click.command(short_help="Who amplified what, from the database's calls to the flash.")
@options
def waterfall(
    *,
    recording: Path = argument(type=click.Path(path_type=Path, file_okay=False, exists=True)),
    drives: tuple[str, ...] = option(
        "What the flash of this drive programs for it: a profile of `flashwright list profile`, a "
        "TOML file, or `profile(nvme-tlc, state=aged, fill=40%, slices=4, media.channels=4)`.",
        "--on",
        type=Named("profile", or_file=True),
        cls=Listed,
        metavar="DRIVE",
    ),
    seed: int = option("Of the drive.", type=click.IntRange(0), default=1),
    output: Output = all_of(Output),
) -> None:
    """Lay the layers of RECORDING side by side.

    What the database wrote by its calls, the same in whole pages, what the file system queued, what
    the device got, and with --on what flash programs for that: bytes by purpose, rates, sizes,
    over time. The drive has the size of the disk that was recorded.

    RECORDING is the folder of `flashwright bench ... --record DIR`.

    \b
    Examples:
      flashwright waterfall runs/tpcc
      flashwright waterfall runs/tpcc --on samsung-mcbqe32g
      flashwright waterfall runs/tpcc --on 'profile(nvme-tlc, slices=4, state=aged)'
    """
    from flashwright import slice_words
    from flashwright.recording.side_by_side import FlashPlan, side_by_side
    from flashwright.reports.waterfall import HEADINGS, headline, remarks, rows

    if len(drives) > 1:
        raise InputError(f"--on {drives[1]}: one drive at a time; run it again for the other")
    plan = FlashPlan.of(drives[0], seed) if drives else None
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
