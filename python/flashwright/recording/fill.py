"""How much of a block device holds data, as far as file systems know."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flashwright.recording.device import BlockDevice

_SECTOR_BYTES = 512
_NUMBER, _POINT = 2, 4


def used_bytes(device: BlockDevice) -> int | None:
    """Give the bytes that hold data by the file systems that are mounted from a device.

    A partition from which none is mounted counts as full. None if none is mounted at all.
    """
    mounted = _mounted()
    partitions = [path.parent for path in device.sys.glob("*/partition")]
    found, is_known = 0, False
    for part in partitions or [device.sys]:
        point = mounted.get((part / "dev").read_text().strip())
        used = None if point is None else _used(point)
        is_known |= used is not None
        found += int((part / "size").read_text()) * _SECTOR_BYTES if used is None else used
    return found if is_known else None


def _used(point: str) -> int | None:
    try:
        about = os.statvfs(point)
    except OSError:
        return None
    return (about.f_blocks - about.f_bfree) * about.f_frsize


def _mounted() -> dict[str, str]:
    """Give a mount point of each device, by its number."""
    found: dict[str, str] = {}
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        fields, _, more = line.partition(" - ")
        words, source = fields.split(), more.split()[1]
        point = words[_POINT].encode().decode("unicode_escape")
        found.setdefault(words[_NUMBER], point)
        if source.startswith("/dev/"):
            # btrfs gives each subvolume a number of its own.
            try:
                number = Path(source).stat().st_rdev
            except OSError:
                continue
            found.setdefault(f"{os.major(number)}:{os.minor(number)}", point)
    return found
