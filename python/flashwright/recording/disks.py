"""The disks below a file, and what the kernel counts of each: no root is needed."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from flashwright._core import InputError

from . import device as devices
from .device import BlockDevice

_SECTOR_BYTES = 512
_STATISTICS = Path("/proc/diskstats")
_BTRFS = Path("/sys/fs/btrfs")
_MOST_LAYERS = 20
"""A loop device may lie in a file on a loop device; more than this is a circle."""


@dataclass(frozen=True)
class Traffic:
    """Requests that the kernel has sent to a block device since the device appeared."""

    read_bytes: int = 0
    writes: int = 0
    written_bytes: int = 0
    trimmed_bytes: int = 0
    flushes: int = 0

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(*(a + b for a, b in zip(self._all(), other._all(), strict=True)))

    def __sub__(self, other: Traffic) -> Traffic:
        return Traffic(*(a - b for a, b in zip(self._all(), other._all(), strict=True)))

    def _all(self) -> tuple[int, ...]:
        return (
            self.read_bytes,
            self.writes,
            self.written_bytes,
            self.trimmed_bytes,
            self.flushes,
        )


def traffic(text: str | None = None) -> dict[str, Traffic]:
    """Read /proc/diskstats: by number, such as `254:0`. Partitions have lines of their own.

    Kernels before 4.18 count no trims, those before 5.5 no flushes: 0 then.
    """
    found = {}
    for line in (_STATISTICS.read_text() if text is None else text).splitlines():
        major, minor, _, *words = line.split()
        counts = [int(word) for word in words] + [0] * 17
        found[f"{major}:{minor}"] = Traffic(
            read_bytes=counts[2] * _SECTOR_BYTES,
            writes=counts[4],
            written_bytes=counts[6] * _SECTOR_BYTES,
            trimmed_bytes=counts[13] * _SECTOR_BYTES,
            flushes=counts[15],
        )
    return found


def total(devices_of: Sequence[BlockDevice], of_all: dict[str, Traffic]) -> Traffic:
    """Add up what several devices got."""
    return sum((of_all.get(one.number, Traffic()) for one in devices_of), Traffic())


def below(path: Path) -> list[BlockDevice]:
    """Give the block devices that the file system of a path is on: one, but for btrfs over more.

    Partitions, device mapper and loop devices are given as they are.

    Raises:
        InputError: it is on none, as tmpfs and network file systems are.
    """
    several = _of_btrfs(path)
    if several:
        return several
    try:
        return [devices.find(path)]
    except InputError:
        upper = _upper_of_overlay(path)
        if upper is None:
            raise
        return below(upper)


def _upper_of_overlay(path: Path) -> Path | None:
    """Give the folder in which an overlay keeps what is written, if it can be seen from here."""
    _, _, kind, options = devices.mount_of(path)
    if kind != "overlay":
        return None
    for option in options.split(","):
        name, _, value = option.partition("=")
        if name == "upperdir" and Path(value).is_dir():
            return Path(value)
    raise InputError(
        f"{path}: it is on an overlay whose upper folder cannot be seen from here, as in a "
        "container; right would be to record outside of it, or a volume of its own"
    )


def _of_btrfs(path: Path) -> list[BlockDevice]:
    _, source, kind, _ = devices.mount_of(path)
    if kind != "btrfs":
        return []
    try:
        one = devices.of_number(Path(source).stat().st_rdev)
    except OSError:
        return []
    for file_system in _BTRFS.glob("*-*"):
        names = [entry.name for entry in (file_system / "devices").iterdir()]
        if one is not None and one.name.replace("/", "!") in names:
            found = [_of_name(name) for name in sorted(names)]
            return [device for device in found if device is not None]
    return []


def whole(device: BlockDevice) -> list[BlockDevice]:
    """Give the disks that a device is made of: of a partition its disk, of a RAID its members.

    Of a loop device the disks below its file. A device that nothing is known below is given itself.
    """
    found: dict[str, BlockDevice] = {}
    for disk in _whole(device, _MOST_LAYERS):
        found.setdefault(disk.number, disk)
    return list(found.values())


def _whole(device: BlockDevice, layers: int) -> Iterator[BlockDevice]:
    disk = disk_of(device)
    parts = [] if layers == 0 else _made_of(disk)
    if not parts:
        yield disk
    for part in parts:
        yield from _whole(part, layers - 1)


def disk_of(device: BlockDevice) -> BlockDevice:
    """Give the disk of a partition, and anything else itself."""
    if not (device.sys / "partition").exists():
        return device
    return _of_name(device.sys.resolve().parent.name) or device


def _made_of(disk: BlockDevice) -> list[BlockDevice]:
    slaves = disk.sys / "slaves"
    names = [entry.name for entry in slaves.iterdir()] if slaves.is_dir() else []
    found = [one for one in map(_of_name, sorted(names)) if one is not None]
    file = disk.sys / "loop" / "backing_file"
    if not found and file.exists():
        # It may be deleted, of another namespace, or in memory: then nobody knows.
        with contextlib.suppress(InputError, OSError):
            found = below(Path(file.read_text().rstrip("\n")))
    return found


def _of_name(name: str) -> BlockDevice | None:
    """Give the device of a name in /sys, such as `sda1`."""
    try:
        number = (Path("/sys/class/block") / name / "dev").read_text().strip()
    except OSError:
        return None
    major, _, minor = number.partition(":")
    return devices.of_number(os.makedev(int(major), int(minor)))
