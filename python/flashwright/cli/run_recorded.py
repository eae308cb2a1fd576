"""What `flashwright run` has to do with recording.

A volume of its own for the database, and the recording of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from flashwright._core import InputError, open_device
from flashwright.cli.options import Size, option
from flashwright.cli.outputs import OutFolder

if TYPE_CHECKING:
    from flashwright.cli.run_plan import RunOptions
    from flashwright.recording.of_run import RunRecorder
    from flashwright.recording.volume import VolumePlan
    from flashwright.workloads.base import Workload

_ROOM = 2.0
"""A volume has room for so many times the database's data, beside its logs."""
_FILE_SYSTEM = "ext4"


@dataclass(frozen=True)
class VolumeOptions:
    """A file system of our own, and the recording of what it is on."""

    volume_bytes: int | None = option(
        "Put the database on a file system of our own, on a loop device over an image of this size "
        "in DIR of --on.  [default with --record: by the size of the database]",
        "--volume",
        type=Size(),
    )
    mount_options: str | None = option(
        "Of that volume.  [default: discard,noatime]", metavar="LIST"
    )
    destroy_data: str | None = option(
        "Make that file system on the device of --on: what is on it is lost. Repeat it.",
        metavar="DEVICE",
    )
    trace_buffer_bytes: int = option(
        "The kernel's buffer for events, for each processor.",
        "--trace-buffer",
        type=Size(),
        default="64M",
    )

    @property
    def buffer_kib(self) -> int:
        """The kernel's buffer in KiB."""
        return max(1, self.trace_buffer_bytes // 1024)


@dataclass(frozen=True)
class RecordOptions(VolumeOptions):
    """Whether and how a run is recorded."""

    record_to: Path | None = option(
        "Record what the device below the database gets while it is measured, as `flashwright "
        "record` does. Without --on, the database gets a volume of its own. Needs root.",
        "--record",
        type=OutFolder(is_recording=True),
        metavar="DIR",
    )
    file_system: str | None = option(
        "Of that volume: ext2, ext4, xfs, btrfs, f2fs, nilfs2.  [default: ext4]", metavar="NAME"
    )
    keep_raw: bool = option("Keep the kernel's own stream, which blkparse reads, in the recording.")
    no_calls: bool = option(
        "Record the device alone, not the database's calls and where its files lie."
    )
    check: bool = option("Compare the recording with what blkparse reads in the same stream.")


def volume_of(
    bench: RunOptions, options: RecordOptions, workload: Workload, units: int
) -> VolumePlan | None:
    """Give the volume that the options ask for.

    None if the database goes into a folder that is there.

    Raises:
        InputError: the options contradict each other, or the device may not be overwritten.
    """
    on = bench.on
    is_device = on is not None and on.is_block_device()
    wanted = options.volume_bytes is not None or options.file_system is not None
    wanted = (
        wanted
        or options.mount_options is not None
        or is_device
        or (on is None and options.record_to is not None)
    )
    if options.destroy_data is not None and not (is_device and Path(options.destroy_data) == on):
        raise InputError(
            f"--destroy-data {options.destroy_data}: it must repeat the device of --on"
        )
    if not wanted:
        return None
    if bench.keep:
        raise InputError(
            "--keep is for a folder that is there: a volume of our own is gone at the end"
        )
    from flashwright.recording import file_systems
    from flashwright.recording.volume import LOG_ROOM_BYTES, VolumePlan

    name = options.file_system or _FILE_SYSTEM
    file_systems.find(name)
    if is_device:
        if options.volume_bytes is not None:
            raise InputError(
                "--volume is for an image in a folder; the file system takes the whole device"
            )
        if options.destroy_data is None:
            raise InputError(
                f"{on}: a file system is made there, and what is on it is lost: say so with "
                f"--destroy-data {on}"
            )
        # Refuses what is mounted or otherwise in use.
        open_device(str(on), access="destroy_data")
        return VolumePlan(name, 0, on, options.mount_options)
    size = (
        options.volume_bytes
        or round(units * workload.bytes_per_unit * _ROOM) + LOG_ROOM_BYTES[bench.database]
    )
    return VolumePlan(name, size, None, options.mount_options)


def recorder_of(options: RecordOptions, command: list[str], out: Path | None) -> RunRecorder | None:
    """Give what records the run, if it was asked for.

    `out`: the run's own folder, if one was given.
    """
    if options.record_to is None:
        return None
    from flashwright.recording.of_run import RunRecorder
    from flashwright.recording.recorder import check_folder
    from flashwright.recording.tools import need_root

    need_root("--record")
    check_folder(options.record_to, run=out)
    return RunRecorder(
        options.record_to, command, options.buffer_kib, with_path=not options.no_calls
    )
