"""Commands that change nothing of a volume but its headers."""

from __future__ import annotations

import click

from flashwright.cli.output import say
from flashwright.cli.volume_options import staging_option


@click.command()
@click.argument("device")
@click.option(
    "--destroy-data",
    metavar="DEVICE",
    required=True,
    help="Confirm that what the volume holds is lost, by repeating its path.",
)
def destroy(device: str, *, destroy_data: str) -> None:
    """Make the volume on DEVICE unreadable.

    Its staging device, if it has one, is freed, too. That cannot be destroyed by itself unless the
    device with the pages is gone, or has another.
    """
    from flashwright import _core
    from flashwright.progress import whole

    if destroy_data != device:
        raise click.UsageError(
            f"--destroy-data {destroy_data}: repeat the path of DEVICE, {device}"
        )
    gone = whole(f"Destroying {device}", "", lambda _: _core.destroy_volume(device))
    if gone["role"] == "staging":
        say(f"{device}: the staging device of volume {gone['uuid']} is free")
        return
    say(f"{device}: volume {gone['uuid']} is gone")
    second = gone["staging"]
    if second is not None and second["problem"] is None:
        say(f"{second['device']}: its staging device is free, too")
    elif second is not None:
        say(f"{second['device']}: its staging device was left alone: {second['problem']}")


@click.command(name="new-uuid")
@click.argument("device")
@staging_option
def new_uuid(device: str, *, staging: str | None) -> None:
    """Give the volume on DEVICE a new UUID, as a copy of a volume needs it.

    A volume and its copy cannot be mounted at the same time as long as both have one UUID. It must
    have been closed, and must not be in use. Of a volume with a staging device both devices are
    copied; name the copy of the second by --staging. A power cut on the way leaves it with the old
    UUID or the new one.

    \b
    Example:
      cp volume.img copy.img
      flashwright volume new-uuid copy.img
    """
    from flashwright import _core
    from flashwright.progress import whole

    changed = whole(
        f"Giving {device} a UUID", "", lambda _: _core.renew_volume(device, staging=staging)
    )
    say(f"{device}: its UUID is {changed['uuid']} now; it was {changed['before']}")
