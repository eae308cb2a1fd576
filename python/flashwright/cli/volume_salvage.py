"""`flashwright volume salvage`: what is left of a volume, also where it cannot be opened."""

from __future__ import annotations

from pathlib import Path

import click

from flashwright._text import size as shown
from flashwright.cli.options import takes
from flashwright.cli.output import Json
from flashwright.cli.outputs import OutPlace
from flashwright.cli.volume_options import staging_option


@click.command()
@click.argument("device")
@click.option(
    "--out",
    type=OutPlace("an image"),
    required=True,
    metavar="IMAGE",
    help="The file that gets the volume's contents. It must not exist.",
)
@staging_option
@click.option(
    "--rebuild",
    is_flag=True,
    help="Rebuild the map of a log from its segments, even if its tables can be read.",
)
@takes(Json, "to")
def salvage(device: str, *, out: Path, staging: str | None, rebuild: bool, to: Json) -> None:
    """Copy what is left of the volume on DEVICE to a new file. DEVICE is only read.

    Use it when a volume cannot be opened: IMAGE gets the bytes that its users had, as a file
    system or a database sees them. A log volume whose tables, roots or superblocks are gone is
    rebuilt: each segment says at its end which pages lie in it. Its staging device may be missing.

    What cannot be read is zeros in IMAGE and is listed. What was rebuilt is not certain: what was
    written last may be missing or old, above all if the volume was not closed, and pages that were
    trimmed may come back. Check it before you use it.

    Exit code 1 if something could not be read, or was rebuilt.

    \b
    Examples:
      flashwright volume salvage /dev/sdb --out contents.img
      cp contents.img copy.img; sudo e2fsck -f copy.img; sudo mount copy.img /mnt/rescued
    """
    from flashwright import _core
    from flashwright._core import RunError
    from flashwright.progress import work

    found = work(
        f"Copying {device}",
        "bytes",
        lambda progress: _core.salvage_volume(
            device, out, staging=staging, rebuild=rebuild, progress=progress
        ),
    )
    to.write(found)
    for note in [*found["about"]["notes"], *found["notes"]]:
        to.say(f"Note: {note}")
    for offset, length, why in found["bad"]:
        to.say(f"byte {offset}, {length} bytes: {why}")
    to.say(f"{out}: {shown(found['image_bytes'])}, the contents of volume {found['about']['uuid']}")
    wrong = []
    if found["bad_bytes"]:
        wrong.append(f"{shown(found['bad_bytes'])} could not be read and are zeros in {out}")
    if found["is_rebuilt"]:
        wrong.append(
            "it was rebuilt, so that what was written last may be missing or old: let the file "
            "system's check, and the database's, look at a copy of it"
        )
    if wrong:
        raise RunError(f"{device}: {'; '.join(wrong)}")
