"""`flashwright volume`: layers on a device as a volume that databases use."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from flashwright.cli.lists import Listed
from flashwright.cli.options import Size, takes
from flashwright.cli.output import Json, print_table, say
from flashwright.cli.volume_headers import destroy, new_uuid
from flashwright.cli.volume_options import (
    Metrics,
    Ways,
    depth_option,
    memory_option,
    naming_destroy_data,
    scrub_option,
    serve_by,
    staging_option,
)
from flashwright.cli.volume_salvage import salvage
from flashwright.cli.volume_upkeep import check, resize, restage, scrub


@click.group(short_help="Run layers on a device as a volume for a real database.")
def volume() -> None:
    """Make a volume of a device and layers, for use as a file system, over NBD, as a block device.

    \b
    Examples:
      flashwright volume create /dev/sdb --stack 'scheduler(coalesce)|log_volume'
      flashwright volume create volume.img --size 8G --stack log_volume
      flashwright volume create /dev/sdb --stack stable_buffer --staging /dev/nvme0n1p3
      flashwright volume create /dev/sdc --stack log_volume --staging /dev/nvme0n1p4
      sudo flashwright volume mount volume.img /mnt/db --mkfs ext4
      sudo flashwright volume umount /mnt/db
      flashwright volume serve volume.img --nbd /tmp/db.sock
      sudo flashwright volume serve volume.img --ublk --link /run/db
      flashwright volume check volume.img
      sudo flashwright volume scrub /mnt/db
      flashwright volume salvage volume.img --out contents.img
      flashwright volume resize volume.img --size 16G
      flashwright volume new-uuid copy-of-volume.img

    A volume knows what it is made of: nothing but the device has to be named again. What it
    promises is in docs/volumes.md.

    \b
    To uninstall, and leave nothing on the machine:
      flashwright volume list                      what is still in use
      sudo flashwright volume umount DIRECTORY     each of them; Ctrl-C ends `serve`
      sudo systemctl disable --now NAME            units that you made with `volume unit`,
      sudo rm /etc/systemd/system/NAME.service     and their files
      flashwright volume destroy DEVICE            or copy its files away first: without
                                                   flashwright nothing can read them
      sudo rm -r /run/flashwright                  notes of volumes that are gone
      pip uninstall flashwright

    docs/volumes.md has all places, under "Uninstalling".
    """


for upkeep in (check, destroy, new_uuid, resize, restage, salvage, scrub):
    volume.add_command(upkeep)


@volume.command()
@click.argument("device")
@click.option(
    "--stack",
    help="Layers from the top to the bottom with | between them; see `flashwright list layer`. "
    "`direct` is none.  [default: the one that is right by what is known of DEVICE, or direct]",
)
@click.option(
    "--size",
    type=Size(),
    help="First make DEVICE a file of this size, with room for all of it.",
)
@click.option(
    "--facts",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="DIR",
    help="What is known of the device: the run folder of `flashwright probe`.  [default: nothing]",
)
@click.option(
    "--seed",
    type=click.IntRange(0, 2**64 - 1),
    default=1,
    show_default=True,
    metavar="N",
    help="Seed of whatever the layers draw.",
)
@click.option(
    "--staging",
    metavar="DEVICE2",
    help="A second, faster device: for the slots of stable_buffer, or the checkpoints and commit "
    "records of log_volume. The volume needs both from then on, and a log is lost with either.  "
    "[default: all of it lies on DEVICE]",
)
@click.option(
    "--staging-size",
    type=Size(),
    help="First make DEVICE2 a file of this size, with room for all of it.",
)
@click.option(
    "--destroy-data",
    cls=Listed,
    metavar="DEVICE",
    help="Confirm that what the device holds is lost, by repeating its path. Again for DEVICE2.",
)
@takes(Json, "to")
def create(
    device: str,
    *,
    stack: str | None,
    size: int | None,
    facts: Path | None,
    seed: int,
    staging: str | None,
    staging_size: int | None,
    destroy_data: tuple[str, ...],
    to: Json,
) -> None:
    """Make a volume on DEVICE, a block device, an NVMe namespace (/dev/ng0n1) or a file.

    What the device holds is looked at first; a device in use is refused in any case. Without
    --stack it is said which stack is right by what was measured of the device, and what it costs
    and risks; where nothing is known, what it takes to know.
    """
    from flashwright import _core
    from flashwright._core import Progress
    from flashwright.layering.candidates import RING_OF_UNKNOWN, by_facts, is_log_in_a_ring
    from flashwright.layering.known import facts_for_volume
    from flashwright.progress import whole
    from flashwright.volumes.making import made_files

    for path in destroy_data:
        if path not in {device, staging}:
            raise click.UsageError(f"--destroy-data {path}: repeat the path of DEVICE, {device}")
    if staging_size is not None and staging is None:
        raise click.UsageError("--staging-size is for --staging")
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
        f"{device}: volume {made['uuid']}, {_size(made['capacity_bytes'])} for its users, "
        f"stack {made['stack']}{aside}"
    )
    if advice is not None:
        to.say(advice.line)
    elif "times" not in known.values and staging is None and is_log_in_a_ring(made["stack"]):
        to.say(RING_OF_UNKNOWN)


@volume.command()
@click.argument("device")
@staging_option
@takes(Json, "to")
def info(device: str, *, staging: str | None, to: Json) -> None:
    """Tell what volume is on DEVICE, which is only read."""
    from flashwright import _core

    about = _core.volume_about(device, staging=staging)
    to.write(about)
    if to.is_only_json:
        return
    rows = [
        ["UUID", about["uuid"]],
        ["stack", about["stack"]],
        ["what the layers know of the device", about["facts"]],
        ["closed", "yes" if about["is_clean"] else _not_closed(device, about["user"])],
        ["opened", f"{about['openings']} times"],
        ["made", _when(about["created_unix_s"])],
        ["last scrub", _when(about["scrubbed_unix_s"])],
        ["device", f"{_size(about['device_bytes'])}, sectors of {about['sector_bytes']} bytes"],
        ["the stack's part", f"{_size(about['data_bytes'])} from byte {about['data_offset']}"],
    ]
    second = about["staging"]
    if about["role"] == "staging":
        rows.append(
            ["this device", f"the staging device; the pages lie on {about['other_device']}"]
        )
    elif second is not None:
        size = f", {_size(second['device_bytes'])}" if second["problem"] is None else ""
        rows.append(["staging device", f"{second['device']}{size}"])
    rows.append(["most memory", _memory(about["memory"])])
    print_table([("", "left"), ("", "left")], rows, f"{device}: volume")
    for note in about["notes"]:
        say(f"Note: {note}")
    if second is not None and second["problem"] is not None:
        say(f"It cannot be opened: {second['problem']}")


@volume.command()
@click.argument("device")
@click.argument("directory", type=click.Path(path_type=Path))
@click.option(
    "--mkfs",
    help="Make this file system if the volume holds none, nor anything else: ext4, ext2, xfs, "
    "btrfs.",
)
@click.option("--options", default="noatime", show_default=True, help="Options of mount.")
@click.option(
    "--destroy-data",
    metavar="DEVICE",
    help="With --mkfs: confirm that what the volume holds is lost, by repeating the path.",
)
@click.option(
    "--by",
    type=click.Choice(["loop", "ublk"]),
    default="loop",
    show_default=True,
    help="Block device that the file system lies on: a loop device over a file in FUSE, or one of "
    "ublk (see `serve --ublk`; not run on the machine that it was developed on).",
)
@staging_option
@depth_option
@memory_option
@scrub_option
@takes(Metrics, "metrics")
def mount(
    device: str,
    directory: Path,
    *,
    mkfs: str | None,
    options: str,
    destroy_data: str | None,
    by: str,
    staging: str | None,
    depth: int,
    memory: int | None,
    scrub_days: float,
    metrics: Metrics,
) -> None:
    """Mount the file system on the volume of DEVICE at DIRECTORY. Needs root.

    A server of its own goes on in the background, with the volume as a file in FUSE and a loop
    device over it, or as a block device of ublk; `umount` takes all of that away. What a crash
    left is taken away first.
    """
    from flashwright.volumes import mounting

    if mkfs is not None and mkfs not in mounting.FILE_SYSTEMS:
        known = ", ".join(mounting.FILE_SYSTEMS)
        raise click.UsageError(f"--mkfs {mkfs}: it must be one of {known}")
    if destroy_data not in {None, device}:
        raise click.UsageError(
            f"--destroy-data {destroy_data}: repeat the path of DEVICE, {device}"
        )
    plan = mounting.MountPlan(
        device,
        directory,
        mkfs,
        options,
        depth,
        metrics.metrics,
        metrics.metrics_every,
        staging,
        by,
        memory,
        scrub_days,
        destroys=destroy_data is not None,
    )
    mounted = mounting.mount(plan)
    say(f"{device}: mounted at {mounted.directory}, over {mounted.loop}")


@volume.command()
@click.argument("target")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    default=120.0,
    show_default=True,
    metavar="S",
    help="How long the server may take to write back what it holds.",
)
def umount(target: str, *, timeout: float) -> None:
    """Unmount a volume, named by its directory, device or UUID, and close it. Needs root.

    Also after a crash: what is left is taken away.
    """
    from flashwright.recording.tools import need_root
    from flashwright.volumes import mounting, places

    need_root("unmounting a volume")
    mounted = places.find(target)
    mounting.unmount(mounted, timeout)
    say(f"{mounted.device}: unmounted")


@volume.command(name="list")
@takes(Json, "to")
def list_mounted(*, to: Json) -> None:
    """Tell which volumes are mounted, or served otherwise."""
    from flashwright.volumes import places

    every = places.listed()
    to.write(every)
    if to.is_only_json:
        return
    rows = [
        [
            one["device"],
            one["directory"] or one["where"],
            one["loop"] or one["way"],
            str(one["pid"]),
            "yes" if one["is_served"] else "no: `umount` takes away what is left",
        ]
        for one in every
    ]
    columns = ["device", "at", "over", "server", "lives"]
    print_table([(name, "left") for name in columns], rows, "Volumes in use")


@volume.command()
@click.argument("device")
@takes(Ways, "ways")
@staging_option
@depth_option
@memory_option
@scrub_option
@takes(Metrics, "metrics")
def serve(
    device: str,
    *,
    ways: Ways,
    staging: str | None,
    depth: int,
    memory: int | None,
    scrub_days: float,
    metrics: Metrics,
) -> None:
    """Serve the volume on DEVICE until Ctrl-C or SIGTERM, then close it.

    No root is needed if the device may be opened. Nothing listens on the network. The log, a line
    of JSON for each event, goes to standard error.
    """
    serve_by(
        ways,
        device,
        depth,
        metrics,
        bare=False,
        staging=staging,
        memory=memory,
        scrub_days=scrub_days,
    )


@volume.command()
@click.argument("device")
@click.option(
    "--mount",
    "directory",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Mount it there at each start.",
)
@click.option(
    "--nbd",
    type=click.Path(path_type=Path),
    metavar="SOCKET",
    help="Serve it over NBD, in a sandbox.",
)
@click.option("--staging", metavar="DEVICE2", help="The volume's staging device, if it has one.")
@memory_option
def unit(
    device: str,
    *,
    directory: Path | None,
    nbd: Path | None,
    staging: str | None,
    memory: int | None,
) -> None:
    """Print a unit of systemd for the volume on DEVICE."""
    from flashwright.volumes import units

    if directory is not None and nbd is None:
        click.echo(units.of_mount(device, directory, staging, memory).rstrip())
    elif nbd is not None and directory is None:
        click.echo(units.of_nbd(device, nbd, staging, memory).rstrip())
    else:
        raise click.UsageError("give either --mount or --nbd")


def _when(unix_s: int) -> str:
    if not unix_s:
        return "never"
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(unix_s))


def _not_closed(device: str, user: str | None) -> str:
    """Tell why a volume is not closed."""
    from flashwright.volumes import places

    served = places.find_served(device)
    if served is not None:
        return f"no: process {served.pid} serves it ({served.way} {served.where})"
    if user is not None:
        return f"no: {user.partition(';')[0]}"
    return "no: it was left open, and will be recovered when it is opened"


def _memory(memory: Mapping[str, Any]) -> str:
    """Tell what a volume takes in memory at most."""
    if memory["layers"] is None:
        return f"unknown: {memory['problem']}"
    parts = [
        f"{name} {_size(tables)} of tables, {_size(held)} held"
        for name, tables, held, _ in memory["layers"]
    ]
    parts += [
        f"commands below {_size(memory['device_bytes'])}",
        f"requests {_size(memory['request_bytes'])}",
    ]
    return f"{_size(memory['most_bytes'])}: {'; '.join(parts)}"


def _size(value: int) -> str:
    from flashwright._text import size

    return size(value)
