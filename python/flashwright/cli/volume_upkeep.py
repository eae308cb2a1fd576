"""Commands of `flashwright volume` that look after one: checked, scrubbed, resized, restaged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from flashwright._text import size as shown
from flashwright.cli.options import Size, takes
from flashwright.cli.output import Json, say
from flashwright.cli.volume_options import naming_destroy_data, staging_option

if TYPE_CHECKING:
    from flashwright.volumes import scrubbing


@click.command()
@click.argument("device")
@staging_option
@takes(Json, "to")
def check(device: str, *, staging: str | None, to: Json) -> None:
    """Read all of the volume on DEVICE and verify what has checksums; nothing is changed.

    A volume that was not closed is recovered in memory. One that is in use is refused: let its
    server look at it, by `scrub`. Exit code 1 if something cannot be read.
    """
    from flashwright import _core
    from flashwright._core import InputError, RunError
    from flashwright.progress import whole
    from flashwright.volumes import places

    served = places.find_served(device)
    if served is not None:
        raise InputError(
            f"{device}: process {served.pid} serves it; close it first, or let that process look "
            f"at it: `flashwright volume scrub {device}`"
        )
    found = whole(
        f"Reading {device}",
        "bytes",
        lambda progress: _core.check_volume(device, staging=staging, progress=progress),
    )
    to.write(found)
    about = found["about"]
    for note in about["notes"]:
        to.say(f"Note: {note}")
    recovery = found["recovery_sectors"] * about["sector_bytes"]
    to.say(
        f"{device}: {shown(found['read_bytes'])} were read"
        + (f"; opening it will write {shown(recovery)} to recover it" if recovery else "")
    )
    for name, held in found["files"] or ():
        to.say(f"It holds SQLite's `{name}`, {shown(held)}")
    for offset, length, why in found["bad"]:
        to.say(f"byte {offset}, {length} bytes: {why}")
    if found["bad_bytes"]:
        raise RunError(f"{device}: {shown(found['bad_bytes'])} cannot be read")


@click.command()
@click.argument("target")
@staging_option
@click.option(
    "--no-wait",
    is_flag=True,
    help="Do not wait for its end. Only for a volume that is in use: its server goes on with it.",
)
@takes(Json, "to")
def scrub(target: str, *, staging: str | None, no_wait: bool, to: Json) -> None:
    """Read all that has checksums in a volume, which may be in use, and tell what is bad.

    TARGET is the directory, device, socket or UUID of a volume that is served, or a device with a
    volume that is not: that is opened for it, and closed.

    A log volume has checksums of all that it holds, a StableBuffer of pages that are not written
    back yet. They are read in time that nobody else wants, or else at 1.3 MB/s. What is bad is an
    error of whoever reads it, until it is written again. A server does so by itself, too, each 7
    days (--scrub-every of `mount` and `serve`).

    Exit code 1 if something is bad.

    \b
    Examples:
      sudo flashwright volume scrub /mnt/db
      flashwright volume scrub volume.img --json -
    """
    from flashwright import _core
    from flashwright._core import InputError
    from flashwright.volumes import control, places, scrubbing

    served = places.find_served(target)
    if served is not None:
        there = served
        one = scrubbing.Pass(
            target,
            lambda begins: control.ask(
                there.place.control, "scrub" if begins else "scrub?", lambda: there.is_served
            ),
        )
        _follow_scrub(one, to, waits=not no_wait)
        return
    if no_wait:
        raise InputError(f"{target}: nobody serves it, and --no-wait is for a volume in use")
    opened = _core.Volume(target, staging=staging)
    try:
        _follow_scrub(
            scrubbing.Pass(target, lambda begins: opened.scrub(begin=begins)), to, waits=True
        )
    finally:
        opened.close()


def _follow_scrub(one: scrubbing.Pass, to: Json, *, waits: bool) -> None:
    """Wait for the end of a pass, and tell what it found.

    Raises RunError if something is bad.
    """
    from flashwright._core import RunError
    from flashwright.progress import follow

    if waits:
        follow(f"Reading {one.name}", "bytes", one, one.run)
    found = one.document()
    to.write(found)
    if not found["is_over"]:
        to.say(f"{one.name}: it goes on; {shown(one.now.left_bytes)} are left to be looked at")
        return
    read = ", ".join(f"{shown(held)} of {name}" for name, held in found["read_bytes"].items())
    to.say(f"{one.name}: read {read}")
    for layer in one.now.layers:
        for first, length in layer.bad:
            to.say(
                f"{layer.name}: byte {first}, {length} bytes: not what was written there, or it "
                "cannot be read"
            )
    wrong = []
    if found["bad_bytes"]:
        wrong.append(
            f"{shown(found['bad_bytes'])} are bad: reads of them fail until they are written again"
        )
    if found["unread_bytes"]:
        wrong.append(f"{shown(found['unread_bytes'])} could not be read: look at the device")
    if wrong:
        raise RunError(f"{one.name}: {'; '.join(wrong)}")


@click.command()
@click.argument("device")
@click.option(
    "--size",
    type=Size(),
    help="Bytes of DEVICE that the volume takes, its headers included. A file is made larger or "
    "smaller.  [default: all that DEVICE has]",
)
@click.option(
    "--destroy-data",
    metavar="DEVICE",
    help="Confirm that what lies beyond the new end is lost, by repeating its path.",
)
@takes(Json, "to")
def resize(device: str, *, size: int | None, destroy_data: str | None, to: Json) -> None:
    """Make the volume on DEVICE larger or smaller. It must not be in use.

    A volume that was not closed is recovered first. Data beyond the new end is not lost: the
    command is refused with the smallest possible size. A power cut on the way leaves the volume in
    its old or its new size, with all its data.

    \b
    Examples:
      flashwright volume resize volume.img --size 16G
      flashwright volume resize /dev/vg/db
    """
    from flashwright import _core
    from flashwright.progress import whole

    if destroy_data not in {None, device}:
        raise click.UsageError(
            f"--destroy-data {destroy_data}: repeat the path of DEVICE, {device}"
        )
    all_of_it = None if size is None else -(-size // 4096) * 4096
    resized = whole(
        f"Resizing {device}",
        "bytes",
        lambda progress: _core.resize_volume(
            device, all_of_it, destroy=destroy_data is not None, progress=progress
        ),
    )
    to.write(resized)
    to.say(
        f"{device}: {shown(resized['capacity_bytes'])} for its users instead of "
        f"{shown(resized['before_bytes'])}"
    )


@click.command()
@click.argument("device")
@click.option(
    "--staging",
    metavar="DEVICE2",
    help="The device that is to be its staging device; with --none, where the one is that is "
    "taken away.  [default with --none: where it was last]",
)
@click.option(
    "--none",
    "takes_away",
    is_flag=True,
    help="Take the staging device away: all of the volume lies on DEVICE then.",
)
@click.option(
    "--staging-size",
    type=Size(),
    help="First make DEVICE2 a file of this size, with room for all of it.",
)
@click.option(
    "--lose-staged",
    metavar="DEVICE",
    help="Confirm that pages are lost that only the old staging device has, by repeating the path "
    "of DEVICE. Needed if the volume was not closed, or, with --none, that device is missing.",
)
@click.option(
    "--destroy-data",
    metavar="DEVICE2",
    help="Confirm that what DEVICE2 holds is lost, by repeating its path.",
)
def restage(
    device: str,
    *,
    staging: str | None,
    takes_away: bool,
    staging_size: int | None,
    lose_staged: str | None,
    destroy_data: str | None,
) -> None:
    """Give the volume on DEVICE a staging device, another one, or none.

    All that it holds stays, and its size. Of a stable_buffer that was closed nothing is staged, so
    that it goes on with another device if its own is gone. The tables of a log_volume are copied,
    and without them nothing is left of it. A power cut on the way leaves the volume as it was or as
    it is going to be.

    \b
    Examples:
      flashwright volume restage /dev/sdb --staging /dev/nvme0n1p3
      flashwright volume restage /dev/sdb --none
    """
    from flashwright import _core
    from flashwright._core import Progress
    from flashwright.progress import whole
    from flashwright.volumes.making import made_files

    if lose_staged not in {None, device}:
        raise click.UsageError(f"--lose-staged {lose_staged}: repeat the path of DEVICE, {device}")
    if takes_away:
        if staging_size is not None or destroy_data is not None:
            raise click.UsageError("--staging-size and --destroy-data are for a new staging device")
        _unstage(device, staging, lose=lose_staged is not None)
        return
    if staging is None:
        raise click.UsageError("give --staging DEVICE2, or --none")
    if destroy_data not in {None, staging}:
        raise click.UsageError(
            f"--destroy-data {destroy_data}: repeat the path of DEVICE2, {staging}"
        )

    def give(_: Progress) -> dict[str, Any]:
        with made_files([(staging, staging_size)]), naming_destroy_data(staging):
            return _core.restage_volume(
                device, staging, lose=lose_staged is not None, destroy=destroy_data is not None
            )

    changed = whole(f"Laying out {staging}", "", give)
    say(f"{device}: the staging device of volume {changed['uuid']} is {staging} now")


def _unstage(device: str, staging: str | None, *, lose: bool) -> None:
    from flashwright import _core
    from flashwright.progress import whole

    changed = whole(
        f"Laying out {device}",
        "",
        lambda _: _core.unstage_volume(device, staging=staging, lose=lose),
    )
    say(f"{device}: volume {changed['uuid']} has no staging device any more")
    gone = changed["staging"]
    if gone["problem"] is None:
        say(f"{gone['device']}: it belongs to no volume any more")
    else:
        say(f"{gone['device']}: its headers are still there: {gone['problem']}")
