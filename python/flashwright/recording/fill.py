"""Bytes of a block device that hold data, as far as file systems know."""

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

    def used(part: Path) -> int | None:
        points = mounted.get((part / "dev").read_text().strip(), [])
        return next((one for one in map(_used, points) if one is not None), None)

    whole = used(device.sys)
    if whole is not None:
        # Remains of earlier partitions mean nothing then.
        return whole
    found, is_known = 0, False
    for part in (path.parent for path in device.sys.glob("*/partition")):
        of_part = used(part)
        is_known |= of_part is not None
        size = int((part / "size").read_text()) * _SECTOR_BYTES
        found += size if of_part is None else of_part
    return found if is_known else None


def _used(point: str) -> int | None:
    try:
        about = os.statvfs(point)
    except OSError:
        return None
    return (about.f_blocks - about.f_bfree) * about.f_frsize


def _mounted() -> dict[str, list[str]]:
    """Give the mount points of each device, by its number: those that are surely its own first."""
    own: dict[str, list[str]] = {}
    by_name: dict[str, list[str]] = {}
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        fields, _, more = line.partition(" - ")
        words, source = fields.split(), more.split()[1]
        point = words[_POINT].encode().decode("unicode_escape")
        own.setdefault(words[_NUMBER], []).append(point)
        if source.startswith("/dev/"):
            # btrfs gives each subvolume a number of its own. A name may be another device's by now.
            try:
                number = Path(source).stat().st_rdev
            except OSError:
                continue
            by_name.setdefault(f"{os.major(number)}:{os.minor(number)}", []).append(point)
    return {number: own.get(number, []) + by_name.get(number, []) for number in {*own, *by_name}}
