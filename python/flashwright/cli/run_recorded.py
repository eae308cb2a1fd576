"""What `flashwright run` has to do with recording.

A volume of its own for the database, and the recording of it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flashwright._core import InputError, open_device
from flashwright.cli.options import Size, apply_options

if TYPE_CHECKING:
    from flashwright.recording.of_run import RunRecorder
    from flashwright.recording.volume import VolumePlan
    from flashwright.workloads.base import Workload

_ROOM = 2.0
"""A volume has room for so many times the database's data, beside its logs."""
_FILE_SYSTEM = "ext4"

volume_options = apply_options(
    click.option(
        "--volume",
        "volume_bytes",
        type=Size(),
        metavar="BYTES",
        help="Put the database on a file system of our own, on a loop device over an image of this "
        "size in DIR of --on.  [default with --record: by the size of the database]",
    ),
    click.option(
        "--mount-options", metavar="LIST", help="Of that volume.  [default: discard,noatime]"
    ),
    click.option(
        "--destroy-data",
        metavar="DEVICE",
        help="Make that file system on the device of --on: what is on it is lost. Repeat it.",
    ),
    click.option(
        "--trace-buffer",
        "trace_buffer_bytes",
        type=Size(),
        default="64M",
        show_default=True,
        metavar="BYTES",
        help="The kernel's buffer for events, for each processor.",
    ),
)
"""Of a file system of our own, and of recording what it is on."""

record_options = apply_options(
    click.option(
        "--record",
        "record_to",
        type=click.Path(path_type=Path, file_okay=False),
        metavar="DIR",
        help="Record what the device below the database gets while it is measured, as `flashwright "
        "record` does. Without --on, the database gets a volume of its own. Needs root.",
    ),
    click.option(
        "--file-system",
        metavar="NAME",
        help="Of that volume: ext2, ext4, xfs, btrfs, f2fs, nilfs2.  [default: ext4]",
    ),
    volume_options,
    click.option(
        "--keep-raw",
        is_flag=True,
        help="Keep the kernel's own stream, which blkparse reads, in the recording.",
    ),
    click.option(
        "--no-calls",
        is_flag=True,
        help="Record the device alone, not the database's calls and where its files lie.",
    ),
    click.option(
        "--check",
        is_flag=True,
        help="Compare the recording with what blkparse reads in the same stream.",
    ),
)


def volume_of(options: dict[str, Any], workload: Workload, units: int) -> VolumePlan | None:
    """Give the volume that the options ask for.

    None if the database goes into a folder that is there.

    Raises:
        InputError: the options contradict each other, or the device may not be overwritten.
    """
    on: Path | None = options["on"]
    is_device = on is not None and on.is_block_device()
    wanted = options["volume_bytes"] is not None or options["file_system"] is not None
    wanted = (
        wanted
        or options["mount_options"] is not None
        or is_device
        or (on is None and options["record_to"] is not None)
    )
    if options["destroy_data"] is not None and not (
        is_device and Path(options["destroy_data"]) == on
    ):
        raise InputError(
            f"--destroy-data {options['destroy_data']}: it must repeat the device of --on"
        )
    if not wanted:
        return None
    if options["keep"]:
        raise InputError(
            "--keep is for a folder that is there: a volume of our own is gone at the end"
        )
    from flashwright.recording import file_systems
    from flashwright.recording.volume import LOG_ROOM_BYTES, VolumePlan

    name = options["file_system"] or _FILE_SYSTEM
    file_systems.find(name)
    if is_device:
        if options["volume_bytes"] is not None:
            raise InputError(
                "--volume is for an image in a folder; the file system takes the whole device"
            )
        if options["destroy_data"] is None:
            raise InputError(
                f"{on}: a file system is made there, and what is on it is lost: say so with "
                f"--destroy-data {on}"
            )
        # Refuses what is mounted or otherwise in use.
        open_device(str(on), access="destroy_data")
        return VolumePlan(name, 0, on, options["mount_options"])
    size = (
        options["volume_bytes"]
        or round(units * workload.bytes_per_unit * _ROOM) + LOG_ROOM_BYTES[options["database"]]
    )
    return VolumePlan(name, size, None, options["mount_options"])


def recorder_of(
    options: dict[str, Any], command: list[str], out: Path | None
) -> RunRecorder | None:
    """Give what records the run, if it was asked for.

    `out`: the run's own folder, if one was given.
    """
    if options["record_to"] is None:
        return None
    from flashwright.recording.of_run import RunRecorder
    from flashwright.recording.recorder import check_folder
    from flashwright.recording.tools import need_root

    need_root("--record")
    check_folder(options["record_to"], run=out)
    return RunRecorder(
        options["record_to"],
        command,
        max(1, options["trace_buffer_bytes"] // 1024),
        with_path=not options["no_calls"],
    )
