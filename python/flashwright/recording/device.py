"""Which block device something is on, and what it is."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from flashwright._core import InputError
from flashwright._text import one_line
from flashwright.recording.fill import used_bytes

_SECTOR_BYTES = 512
_QUEUE_FACTS = (
    "scheduler",
    "nomerges",
    "logical_block_size",
    "physical_block_size",
    "max_sectors_kb",
    "rotational",
    "write_cache",
    "read_ahead_kb",
    "nr_requests",
    "discard_granularity",
    "discard_max_bytes",
    "atomic_write_unit_max_bytes",
)
"""Files of the folder `queue` that a recording notes."""


@dataclass(frozen=True)
class BlockDevice:
    """A block device of this machine, as the kernel names it, such as `loop0` or `sda1`."""

    name: str
    number: str
    """Major and minor number, such as `7:0`."""

    @property
    def sys(self) -> Path:
        """Its folder in /sys."""
        return Path("/sys/dev/block") / self.number

    @property
    def path(self) -> Path:
        """Its node in /dev."""
        return Path("/dev") / self.name

    @property
    def size_bytes(self) -> int:
        """Its size."""
        return int((self.sys / "size").read_text()) * _SECTOR_BYTES

    @property
    def start_bytes(self) -> int:
        """Where a partition begins on its disk; 0 for a disk.

        The kernel traces offsets on the disk.
        """
        start = self.sys / "start"
        return int(start.read_text()) * _SECTOR_BYTES if start.exists() else 0

    @property
    def trace(self) -> Path:
        """The folder of its tracing settings."""
        return self.sys / "trace"

    @property
    def queue(self) -> Path:
        """The folder of the settings of its queue: of a partition those of its disk."""
        return self.sys / "queue" if (self.sys / "queue").exists() else self.sys / ".." / "queue"

    def received(self) -> dict[str, int]:
        """Give the bytes that the kernel counts as read and written, since the device is there."""
        counters = (self.sys / "stat").read_text().split()
        return {
            "read_bytes": int(counters[2]) * _SECTOR_BYTES,
            "written_bytes": int(counters[6]) * _SECTOR_BYTES,
        }

    def about(self) -> dict[str, object]:
        """Tell what of it a recording depends on."""
        queue = self.queue
        said: dict[str, object] = {
            "name": self.name,
            "size_bytes": self.size_bytes,
            "start_bytes": self.start_bytes,
            "used_bytes": used_bytes(self),
        }
        model = self._model()
        if model:
            said["model"] = model
        for name in _QUEUE_FACTS:
            path = queue / name
            if path.exists():
                text = path.read_text().strip()
                said[name] = (
                    int(text)
                    if text.isdigit()
                    else text.partition("[")[2].partition("]")[0] or text
                )
        backing = self.sys / "loop" / "backing_file"
        if backing.exists():
            said["backing_file"] = backing.read_text().strip()
        return said

    def _model(self) -> str | None:
        """Give the model as the drive says it, or of a card its name; of a partition its disk's."""
        disk = self.sys if (self.sys / "device").exists() else self.sys / ".."
        for name in ("model", "name"):
            path = disk / "device" / name
            if path.is_file():
                return one_line(path.read_bytes().decode(errors="replace")) or None
        return None


def find(target: Path) -> BlockDevice:
    """Give the block device that `target` is, or that the file system of this file or folder is on.

    Raises:
        InputError: there is no such path, or its file system is on no single block device (tmpfs,
        overlay, network).
    """
    try:
        status = target.stat()
    except OSError as error:
        raise InputError(f"{target}: {error.strerror}") from error
    is_device = stat.S_ISBLK(status.st_mode)
    number = status.st_rdev if is_device else status.st_dev
    found = of_number(number)
    if found is None and not is_device:
        # btrfs gives each subvolume a number of its own.
        source = _mounted_source(target)
        if source is not None and source.is_block_device():
            found = of_number(source.stat().st_rdev)
    if found is None:
        raise InputError(f"{target}: its file system is on no block device that can be traced")
    return found


def of_number(number: int) -> BlockDevice | None:
    """Give the block device of a number; None if there is none."""
    text = f"{os.major(number)}:{os.minor(number)}"
    entry = Path("/sys/dev/block") / text
    return BlockDevice(entry.resolve().name.replace("!", "/"), text) if entry.exists() else None


def mount_of(path: Path) -> tuple[Path, str, str, str]:
    """Give mount point, source, type and options of the file system that a path is in."""
    found: tuple[Path, str, str, str] | None = None
    resolved = path.resolve()
    for line in Path("/proc/self/mounts").read_text().splitlines():
        source, point, kind, options, *_ = (
            word.encode().decode("unicode_escape") for word in line.split()
        )
        if resolved.is_relative_to(point) and (
            found is None or len(Path(point).parts) >= len(found[0].parts)
        ):
            found = (Path(point), source, kind, options)
    if found is None:
        raise InputError(f"{path}: on no mounted file system")
    return found


def _mounted_source(target: Path) -> Path | None:
    source = mount_of(target)[1]
    return Path(source) if source.startswith("/") else None
