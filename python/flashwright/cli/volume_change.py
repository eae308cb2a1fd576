"""`flashwright volume change`: another size, staging device or UUID, or the end of a volume."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from flashwright import _core
from flashwright._core import Progress
from flashwright._text import size as shown
from flashwright.cli.grouped import GroupedCommand
from flashwright.cli.options import SIZE, Taken, all_of, argument, option, options, size
from flashwright.cli.output import Json
from flashwright.cli.volume_options import naming_destroy_data, only_with, repeated
from flashwright.progress import whole

_ALL = "all"
_STEP_BYTES = 4096


_ROOM = Taken("room", lambda text: _ALL if text == _ALL else size(text))
"""Bytes of a device, or all that it has."""


@click.command(
    cls=GroupedCommand,
    groups={
        "One of these": ("size", "new_staging", "no_staging", "new_uuid", "destroy"),
        "With them": ("destroy_data", "lose_staged", "staging_size", "staging"),
    },
)
@options
def change(
    *,
    device: str = argument(),
    size: int | str | None = option(
        "Bytes of DEVICE that the volume takes, its headers included; a file is made larger or "
        "smaller. `all` is what DEVICE has.",
        type=_ROOM,
        metavar=f"BYTES|{_ALL}",
    ),
    new_staging: str | None = option(
        "Give it this staging device, in place of the one that it has, if any.", metavar="DEVICE2"
    ),
    no_staging: bool = option(
        "Take the staging device away: all of the volume lies on DEVICE then."
    ),
    new_uuid: bool = option("Give it another UUID, as a copy of a volume needs."),
    destroy: bool = option(
        "Make it unreadable, and free its staging device. That cannot be destroyed by itself "
        "unless the device with the pages is gone, or has another."
    ),
    destroy_data: str | None = option(
        "Confirm that data is lost, by repeating a path: of DEVICE, with --destroy all that the "
        "volume holds, with --size what lies beyond the new end; of DEVICE2, with --new-staging, "
        "what that device holds.",
        metavar="DEVICE",
    ),
    lose_staged: str | None = option(
        "Confirm that pages are lost that only the old staging device has, by repeating the path "
        "of DEVICE. Needed if the volume was not closed, or if that device is missing, with "
        "--no-staging.",
        metavar="DEVICE",
    ),
    staging_size: int | None = option(
        "With --new-staging: first make DEVICE2 a file of this size, with room for all of it.",
        type=SIZE,
    ),
    staging: str | None = option(
        "With --no-staging and --new-uuid: where the volume's staging device is now.  [default: "
        "where it was last]",
        metavar="DEVICE2",
    ),
    to: Json = all_of(Json),
) -> None:
    """Change one thing of the volume on DEVICE, which must not be in use.

    A power cut on the way leaves the volume as it was or as it is going to be, with all its data.

    \b
    Examples:
      flashwright volume change volume.img --size 16G
      flashwright volume change /dev/vg/db --size all
      flashwright volume change /dev/sdb --new-staging /dev/nvme0n1p3
      flashwright volume change /dev/sdb --no-staging
      flashwright volume change copy.img --new-uuid
      flashwright volume change volume.img --destroy --destroy-data volume.img

    --size: a volume that was not closed is recovered first. Data beyond the new end is not lost:
    the command is refused with the smallest possible size.

    --new-staging and --no-staging: all that it holds stays, and its size. Of a stable_buffer that
    was closed nothing is staged, so that it goes on with another device if its own is gone. The
    tables of a log_volume are copied, and without them nothing is left of it.

    --new-uuid: a volume and its copy cannot be mounted at the same time as long as both have one
    UUID. It must have been closed. Of a volume with a staging device both devices are copied; name
    the copy of the second by --staging.
    """
    verbs: dict[str, object] = {
        "--size": size,
        "--new-staging": new_staging,
        "--no-staging": no_staging,
        "--new-uuid": new_uuid,
        "--destroy": destroy,
    }
    named = [(name, value) for name, value in verbs.items() if value]
    if len(named) != 1:
        raise click.UsageError(f"give one of {', '.join(verbs)}; each is a command of its own")
    of = {name: (name, value) for name, value in verbs.items()}
    only_with("--destroy-data", destroy_data, of["--size"], of["--new-staging"], of["--destroy"])
    only_with("--lose-staged", lose_staged, of["--new-staging"], of["--no-staging"])
    only_with("--staging-size", staging_size, of["--new-staging"])
    only_with("--staging", staging, of["--no-staging"], of["--new-uuid"])
    what, whose = ("DEVICE2", new_staging) if new_staging else ("DEVICE", device)
    destroys = repeated("--destroy-data", destroy_data, what, whose)
    loses = repeated("--lose-staged", lose_staged, "DEVICE", device)
    if size is not None:
        _resize(device, None if isinstance(size, str) else size, to, destroys=destroys)
    elif new_staging is not None:
        sized = (new_staging, staging_size)
        _restage(device, sized, to, loses=loses, destroys=destroys)
    elif no_staging:
        _unstage(device, staging, to, loses=loses)
    elif new_uuid:
        changed = _done(
            f"Giving {device} a UUID", lambda _: _core.renew_volume(device, staging=staging), to
        )
        to.say(f"{device}: its UUID is {changed['uuid']} now; it was {changed['before']}")
    elif destroys:
        _destroy(device, to)
    else:
        raise click.UsageError(
            f"--destroy loses all that the volume holds: confirm it by --destroy-data {device}"
        )


def _done(
    what: str, work: Callable[[Progress], dict[str, Any]], to: Json, unit: str = ""
) -> dict[str, Any]:
    """Do it to its end, with the progress shown; give its result, which is also written."""
    found = whole(what, unit, work)
    to.write(found)
    return found


def _resize(device: str, size: int | None, to: Json, *, destroys: bool) -> None:
    all_of_it = None if size is None else -(-size // _STEP_BYTES) * _STEP_BYTES

    def resize(progress: Progress) -> dict[str, Any]:
        return _core.resize_volume(device, all_of_it, destroy=destroys, progress=progress)

    resized = _done(f"Resizing {device}", resize, to, "bytes")
    to.say(
        f"{device}: {shown(resized['capacity_bytes'])} for its users instead of "
        f"{shown(resized['before_bytes'])}"
    )


def _restage(
    device: str, sized: tuple[str, int | None], to: Json, *, loses: bool, destroys: bool
) -> None:
    from flashwright.volumes.making import made_files

    staging, _ = sized

    def give(_: Progress) -> dict[str, Any]:
        with made_files([sized]), naming_destroy_data(staging):
            return _core.restage_volume(device, staging, lose=loses, destroy=destroys)

    changed = _done(f"Laying out {staging}", give, to)
    to.say(f"{device}: the staging device of volume {changed['uuid']} is {staging} now")


def _unstage(device: str, staging: str | None, to: Json, *, loses: bool) -> None:
    changed = _done(
        f"Laying out {device}",
        lambda _: _core.unstage_volume(device, staging=staging, lose=loses),
        to,
    )
    to.say(f"{device}: volume {changed['uuid']} has no staging device any more")
    gone = changed["staging"]
    is_left = gone["problem"] is not None
    left = f"its headers are still there: {gone['problem']}"
    to.say(f"{gone['device']}: {left if is_left else 'it belongs to no volume any more'}")


def _destroy(device: str, to: Json) -> None:
    gone = _done(f"Destroying {device}", lambda _: _core.destroy_volume(device), to)
    if gone["role"] == "staging":
        to.say(f"{device}: the staging device of volume {gone['uuid']} is free")
        return
    to.say(f"{device}: volume {gone['uuid']} is gone")
    second = gone["staging"]
    if second is not None and second["problem"] is None:
        to.say(f"{second['device']}: its staging device is free, too")
    elif second is not None:
        to.say(f"{second['device']}: its staging device was left alone: {second['problem']}")
