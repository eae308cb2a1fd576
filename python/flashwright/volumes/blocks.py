"""Block devices: loop devices, who builds on one, and the proof that nobody has it."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_SYS = Path("/sys")
_LOOP_CLR_FD = 0x4C01
_LOOP_GET_STATUS64 = 0x4C05
_STATUS_BYTES = 232
"""Of `struct loop_info64` (linux/loop.h), which begins with the numbers of the file's device, of
the file, and of the device that the file is."""
_LOOK_SECONDS = 0.02


@dataclass(frozen=True)
class Loop:
    """A loop device."""

    path: str
    backing: str
    """The file under it, as the kernel writes its path."""

    @property
    def number(self) -> int:
        """The number of the loop device."""
        return os.stat(self.path).st_rdev  # noqa: PTH116

    def file(self) -> tuple[int, int]:
        """Give the number of the device on which its file lies, and that which the file is.

        The latter is 0 for a file that is no block device.

        Raises OSError if it is detached by now, or the server of the file is gone.
        """
        descriptor = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            status = fcntl.ioctl(descriptor, _LOOP_GET_STATUS64, bytes(_STATUS_BYTES))
        finally:
            os.close(descriptor)
        device, _inode, file_is = struct.unpack_from("QQQ", status)
        return device, file_is


def loops() -> Iterator[Loop]:
    """Give all that have a file."""
    for path in sorted((_SYS / "block").glob("loop*/loop/backing_file")):
        # It may be detached meanwhile.
        with contextlib.suppress(OSError):
            backing = os.fsdecode(path.read_bytes()).removesuffix("\n")
            yield Loop(f"/dev/{path.parent.parent.name}", backing.removesuffix(" (deleted)"))


def numbers(block: str) -> set[int]:
    """Give the numbers of a block device and of its partitions."""
    return with_partitions(os.stat(block).st_rdev)  # noqa: PTH116


def with_partitions(number: int) -> set[int]:
    """Give the number of a block device, and those of its partitions."""
    found = {number}
    for path in _about(number).glob("*/partition"):
        with contextlib.suppress(OSError):
            major, minor = path.with_name("dev").read_text().split(":")
            found.add(os.makedev(int(major), int(minor)))
    return found


def holders(number: int) -> list[str]:
    """Give the names of devices that are built on one: of LVM, RAID and the like."""
    return sorted(path.name for path in (_about(number) / "holders").glob("*"))


def _about(number: int) -> Path:
    return _SYS / "dev" / "block" / f"{os.major(number)}:{os.minor(number)}"


@contextlib.contextmanager
def exclusive(block: str, seconds: float) -> Iterator[int]:
    """Have a block device alone: while we do, nobody mounts it or builds on it.

    The kernel refuses that as long as any file system on it lives, in whichever namespace, also
    without a mount. It lets go a moment after the last unmount, so it is tried for a while.

    Raises OSError, EBUSY if it is held after this time.
    """
    end = time.monotonic() + seconds
    while (descriptor := _open_alone(block)) is None:
        if time.monotonic() > end:
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), block)
        time.sleep(_LOOK_SECONDS)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _open_alone(block: str) -> int | None:
    try:
        return os.open(block, os.O_RDONLY | os.O_EXCL)
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        return None


def detach(descriptor: int) -> None:
    """Take a loop device's file away; if somebody else has it open, as soon as nobody has."""
    try:
        fcntl.ioctl(descriptor, _LOOP_CLR_FD)
    except OSError as error:
        # Another was first.
        if error.errno != errno.ENXIO:
            raise


def wait_until_detached(block: str, seconds: float) -> bool:
    """Wait until a loop device has let go of its file; False if it has not in this time."""
    backing = _SYS / "block" / Path(block).name / "loop" / "backing_file"
    end = time.monotonic() + seconds
    while backing.exists():
        if time.monotonic() > end:
            return False
        time.sleep(_LOOK_SECONDS)
    return True
