"""`flashwright volume`: layers on a device as a volume that databases use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from flashwright import _core
from flashwright._core import Progress
from flashwright._text import size as shown
from flashwright.cli.grouped import GroupedCommand
from flashwright.cli.lists import Listed
from flashwright.cli.options import SIZE, all_of, argument, option, options
from flashwright.cli.output import Json
from flashwright.cli.volume_change import change
from flashwright.cli.volume_info import info
from flashwright.cli.volume_options import (
    SERVER,
    SERVER_OPTIONS,
    Server,
    naming_destroy_data,
    only_with,
    repeated,
)
from flashwright.progress import whole
from flashwright.terminal import say


@click.group(short_help="Run layers on a device as a volume for a real database.")
def volume() -> None:
    """Make a volume of a device and layers, for use as a file system, over NBD, as a block device.

    \b
    Examples:
      flashwright volume create /dev/sdb --stack 'scheduler(coalesce)|log_volume'
      flashwright volume create volume.img --size 8G --stack log_volume
      flashwright volume create /dev/sdb --stack stable_buffer --staging /dev/nvme0n1p3
      sudo flashwright volume mount volume.img /mnt/db --mkfs ext4
      sudo flashwright volume umount /mnt/db
      flashwright serve volume.img --nbd /tmp/db.sock
      flashwright volume info                      what is in use
      flashwright volume info volume.img --check
      sudo flashwright volume info /mnt/db --live
      flashwright volume change volume.img --size 16G

    A volume knows what it is made of: nothing but the device has to be named again. What it
    promises is in docs/volumes.md.

    \b
    To uninstall, and leave nothing on the machine:
      flashwright volume info                      what is still in use
      sudo flashwright volume umount DIRECTORY     each of them; Ctrl-C ends `serve`
      sudo systemctl disable --now NAME            units that you made with `--unit`,
      sudo rm /etc/systemd/system/NAME.service     and their files
      flashwright volume change DEVICE --destroy   or copy its files away first: without
                                                   flashwright nothing can read them
      sudo rm -r /run/flashwright                  notes of volumes that are gone
      pip uninstall flashwright

    docs/volumes.md has all places, under "Uninstalling".
    """


volume.add_command(info)
volume.add_command(change)


@volume.command(
    cls=GroupedCommand,
    groups={
        "Layers": ("stack", "facts", "seed"),
        "Devices": ("size", "staging", "staging_size", "destroy_data"),
    },
)
@options
def create(
    *,
    device: str = argument(),
    stack: str | None = option(
        "Layers from the top to the bottom with | between them; see `flashwright list layer`. "
        "`direct` is none.  [default: the one that is right by what is known of DEVICE, or direct]"
    ),
    facts: Path | None = option(
        "What is known of the device: the run folder of `flashwright probe`.  [default: nothing]",
        type=click.Path(path_type=Path, exists=True, file_okay=False),
        metavar="DIR",
    ),
    seed: int = option(
        "Seed of whatever the layers draw.", type=click.IntRange(0, 2**64 - 1), default=1
    ),
    size: int | None = option(
        "First make DEVICE a file of this size, with room for all of it.", type=SIZE
    ),
    staging: str | None = option(
        "A second, faster device: for the slots of stable_buffer, or the checkpoints and commit "
        "records of log_volume. The volume needs both from then on, and a log is lost with either. "
        " [default: all of it lies on DEVICE]",
        metavar="DEVICE2",
    ),
    staging_size: int | None = option(
        "First make DEVICE2 a file of this size, with room for all of it.", type=SIZE
    ),
    destroy_data: tuple[str, ...] = option(
        "Confirm that what the device holds is lost, by repeating its path. Again for DEVICE2.",
        cls=Listed,
        metavar="DEVICE",
    ),
    to: Json = all_of(Json),
) -> None:
    """Make a volume on DEVICE, a block device, an NVMe namespace (/dev/ng0n1) or a file.

    What the device holds is looked at first; a device in use is refused in any case. Without
    --stack it is said which stack is right by what was measured of the device, and what it costs
    and risks; where nothing is known, what it takes to know.
    """
    from flashwright.layering.candidates import RING_OF_UNKNOWN, by_facts, is_log_in_a_ring
    from flashwright.layering.known import facts_for_volume
    from flashwright.volumes.making import made_files

    for path in destroy_data:
        repeated("--destroy-data", path, "DEVICE", device, staging)
    only_with("--staging-size", staging_size, ("--staging", staging))
    if stack is not None:
        _core.check_stack(stack)
    known = facts_for_volume(device, facts, is_chosen=stack is None)
    advice = by_facts(known) if stack is None else None
    named = stack or (advice.stack if advice is not None else "direct")

    def make(_: Progress) -> dict[str, Any]:
        with (
            made_files([(device, size), (staging, staging_size)]),
            naming_destroy_data(device, staging),
        ):
            return _core.create_volume(
                device,
                named,
                facts=known.values,
                seed=seed,
                destroy=device in destroy_data,
                staging=staging,
                destroy_staging=staging in destroy_data,
            )

    made = whole(f"Making a volume on {device}", "", make)
    to.write(made)
    aside = "" if staging is None else f", staging device {staging}"
    to.say(
        f"{device}: volume {made['uuid']}, {shown(made['capacity_bytes'])} for its users, "
        f"stack {made['stack']}{aside}"
    )
    if advice is not None:
        to.say(advice.line)
    elif "times" not in known.values and staging is None and is_log_in_a_ring(made["stack"]):
        to.say(RING_OF_UNKNOWN)


@volume.command(
    cls=GroupedCommand,
    groups={
        "The file system": ("mkfs", "destroy_data", "options"),
        "The volume": ("ublk", "staging"),
        SERVER: SERVER_OPTIONS,
    },
)
@options
def mount(
    *,
    device: str = argument(),
    directory: Path = argument(type=click.Path(path_type=Path)),
    mkfs: str | None = option(
        "Make this file system if the volume holds none, nor anything else: ext4, ext2, xfs, "
        "btrfs.",
        metavar="NAME",
    ),
    destroy_data: str | None = option(
        "With --mkfs: confirm that what the volume holds is lost, by repeating the path.",
        metavar="DEVICE",
    ),
    options: str = option("Options of mount.", default="noatime"),
    ublk: bool = option(
        "Let the file system lie on a block device of ublk, and not on a loop device over a file "
        "in FUSE (see `flashwright serve --ublk`; not run on the machine that it was developed on)."
    ),
    server: Server = all_of(Server),
) -> None:
    """Mount the file system on the volume of DEVICE at DIRECTORY. Needs root.

    A server of its own goes on in the background, with the volume as a file in FUSE and a loop
    device over it, or as a block device of ublk; `umount` takes all of that away. What a crash
    left is taken away first.
    """
    from flashwright.volumes import mounting, units

    if mkfs is not None and mkfs not in mounting.FILE_SYSTEMS:
        known = ", ".join(mounting.FILE_SYSTEMS)
        raise click.UsageError(f"--mkfs {mkfs}: it must be one of {known}")
    plan = mounting.MountPlan(
        device,
        directory,
        mkfs,
        options,
        is_ublk=ublk,
        destroys=repeated("--destroy-data", destroy_data, "DEVICE", device),
        **server.settings(),
    )
    if server.unit:
        if mkfs is not None or destroy_data is not None:
            raise click.UsageError("--unit makes no file system: mount it once with --mkfs before")
        click.echo(units.of_mount(plan).rstrip())
        return
    mounted = mounting.mount(plan)
    say(f"{device}: mounted at {mounted.directory}, over {mounted.loop}")


@volume.command()
@options
def umount(
    *,
    target: str = argument(),
    timeout: float = option(
        "How long the server may take to write back what it holds.",
        type=click.FloatRange(min=0),
        default=120.0,
        metavar="S",
    ),
) -> None:
    """Unmount a volume, named by its directory, device or UUID, and close it. Needs root.

    Also after a crash: what is left is taken away.
    """
    from flashwright.recording.tools import need_root
    from flashwright.volumes import mounting, places

    need_root("unmounting a volume")
    mounted = places.find(target)
    mounting.unmount(mounted, timeout)
    say(f"{mounted.device}: unmounted")
