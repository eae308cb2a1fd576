"""A file system of our own, on a loop device over an image file or on a device that is given.

What a recording runs on.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from flashwright._core import InputError, RunError
from flashwright.workloads.supervisor import Supervisor

from . import device as devices
from .device import BlockDevice
from .file_systems import FileSystem
from .tools import need_root, tool

_UNMOUNT_ATTEMPTS = 40
_CHUNK_BYTES = 4 << 20


class Volume:
    """A mounted file system.

    The supervisor unmounts it, detaches the loop device and removes the image, at the latest.
    """

    def __init__(
        self, supervisor: Supervisor, file_system: FileSystem, mount_options: str | None = None
    ) -> None:
        """Do nothing yet."""
        self._supervisor = supervisor
        self.file_system = file_system
        self._options = mount_options if mount_options is not None else file_system.options
        self.mount_point = Path()
        self._node = Path()

    @property
    def device(self) -> BlockDevice:
        """The block device that it is on."""
        return devices.find(self._node)

    def on_image(self, parent: Path, size_bytes: int) -> None:
        """Make it on a loop device with direct I/O, over an image in a folder of ours in `parent`.

        Raises:
            InputError: no root, no room, too small, or the file system of `parent` has no direct
            I/O. RunError: a program failed.
        """
        need_root("making a file system of our own")
        if size_bytes < self.file_system.least_bytes:
            raise InputError(
                f"a volume of {size_bytes:,} bytes: {self.file_system.name} needs "
                f"{self.file_system.least_bytes:,} at least"
            )
        folder = self._supervisor.folder(parent, "flashwright-volume-")
        image = folder / "image"
        _write(image, size_bytes)
        # By the image's name: the loop device has no name before it is made.
        detach = (
            'for loop in $(losetup --noheadings --output NAME --associated "$1"); do losetup '
            '--detach "$loop"; done'
        )
        self._supervisor.undo("sh", "-c", detach, "sh", image)
        self._node = Path(tool("losetup", "--find", "--show", "--direct-io=on", image))
        if (self.device.sys / "loop" / "dio").read_text().strip() != "1":
            raise InputError(
                f"{parent}: no direct I/O there, so a device over a file would have a cache: "
                "choose another"
            )
        self._make(folder / "mount")

    def on_device(self, node: Path) -> None:
        """Make it on a block device, whose contents are lost.

        Whether that may be is for the caller to ask.

        Raises:
            InputError: no root.
            RunError: a program failed.
        """
        need_root("making a file system of our own")
        # With a random name of its own.
        folder = self._supervisor.folder(Path("/tmp"), "flashwright-mount-")  # noqa: S108
        self._node = node
        self._make(folder / "mount")

    def _make(self, mount_point: Path) -> None:
        tool(*self.file_system.make, self._node)
        mount_point.mkdir()
        self.mount_point = mount_point
        # Lazily, if it must be: whoever still holds a file there is about to be stopped.
        unmount = (
            'for i in $(seq 40); do umount "$1" 2> /dev/null && exit; mountpoint -q "$1" || exit '
            '0; sleep 0.1; done; umount -l "$1"'
        )
        self._supervisor.undo("sh", "-c", unmount, "sh", mount_point)
        self.mount()

    def mount(self) -> None:
        """Mount it.

        Raises:
            RunError: mount failed.
        """
        tool(
            "mount", "-t", self.file_system.name, "-o", self._options, self._node, self.mount_point
        )
        self.mount_point.chmod(0o755)

    def unmount(self) -> None:
        """Unmount it: all is written, and the page cache has nothing of it.

        Raises:
            RunError: somebody holds a file in it.
        """
        for attempt in range(_UNMOUNT_ATTEMPTS):
            if not self.mount_point.is_mount():
                return
            try:
                tool("umount", self.mount_point)
            except RunError:
                # A process that was just ended by force may hold a file for a moment longer.
                if attempt == _UNMOUNT_ATTEMPTS - 1:
                    raise
                time.sleep(0.1)


def _write(image: Path, size_bytes: int) -> None:
    """Write the image in full.

    Blocks that were never written would make first writes slower, and reads far too fast.
    """
    free = os.statvfs(image.parent)
    if free.f_bavail * free.f_frsize < size_bytes * 1.05:
        raise InputError(
            f"{image.parent.parent}: {free.f_bavail * free.f_frsize:,} bytes are free, and the "
            f"volume takes {size_bytes:,}"
        )
    chunk = os.urandom(_CHUNK_BYTES)
    # For us alone: whoever reads it reads the database's files past their rights.
    handle = os.open(image, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "wb") as out:
        for _ in range(0, size_bytes, _CHUNK_BYTES):
            out.write(chunk)
        out.truncate(size_bytes)
        os.fsync(out.fileno())
