"""File systems that a recording can put on a device of ours: how each is made and mounted.

One line each.
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from flashwright._core import InputError

MIB = 1 << 20


@dataclass(frozen=True)
class FileSystem:
    """A file system.

    `out_of_place`: it writes changed pages elsewhere (log-structured or copy on write).
    """

    name: str
    summary: str
    out_of_place: bool
    make: tuple[str, ...]
    """The command that makes it, without the device."""
    least_bytes: int
    options: str = "discard,noatime"
    """Of mount. Trims are on, so that a recording has one for what is deleted."""

    def is_there(self) -> bool:
        """Tell whether this kernel has it."""
        if self.name in _known():
            return True
        if shutil.which("modprobe") is not None:
            subprocess.run(
                ["modprobe", "-q", self.name],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=False,
            )
        return self.name in _known()


# Lazy initialisation would write inode tables during the recording; discarding would punch out the
# image under a loop device.
ALL = (
    FileSystem(
        name="ext2",
        summary="in place, without a journal; SCHEDULER's",
        out_of_place=False,
        make=("mkfs.ext2", "-q", "-F", "-b", "4096", "-E", "nodiscard,lazy_itable_init=0"),
        least_bytes=16 * MIB,
    ),
    FileSystem(
        name="ext4",
        summary="in place, with a journal of metadata",
        out_of_place=False,
        make=(
            "mkfs.ext4",
            "-q",
            "-F",
            "-b",
            "4096",
            "-E",
            "nodiscard,lazy_itable_init=0,lazy_journal_init=0",
        ),
        least_bytes=16 * MIB,
    ),
    FileSystem(
        name="xfs",
        summary="in place, with a log of metadata",
        out_of_place=False,
        make=("mkfs.xfs", "-q", "-f", "-K"),
        least_bytes=300 * MIB,
    ),
    FileSystem(
        name="btrfs",
        summary="out of place: copy on write; metadata once, not twice",
        out_of_place=True,
        make=("mkfs.btrfs", "-q", "-f", "-K", "-m", "single", "-d", "single"),
        least_bytes=114 * MIB,
    ),
    FileSystem(
        name="f2fs",
        summary="out of place: log-structured, made for flash",
        out_of_place=True,
        make=("mkfs.f2fs", "-q", "-f", "-t", "0"),
        least_bytes=64 * MIB,
    ),
    FileSystem(
        name="nilfs2",
        summary="out of place: log-structured, with checkpoints",
        out_of_place=True,
        make=("mkfs.nilfs2", "-q", "-f", "-K"),
        least_bytes=128 * MIB,
    ),
)
NAMES = tuple(one.name for one in ALL)


def find(name: str) -> FileSystem:
    """Give the file system of a name.

    Raises:
        InputError: it is not known, or this kernel does not have it.
    """
    for one in ALL:
        if one.name == name:
            if not one.is_there():
                has = ", ".join(other.name for other in ALL if other.is_there())
                raise InputError(f"this kernel has no {name}; it has {has}")
            return one
    raise InputError(f"unknown file system `{name}`: choose one of {', '.join(NAMES)}")


def _known() -> set[str]:
    return {
        line.split()[-1]
        for line in Path("/proc/filesystems").read_text().splitlines()
        if line.strip()
    }
