"""A file system on a loop device over an image file: the block device whose requests are recorded."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

_UNMOUNT_ATTEMPTS = 40
_CHUNK = b"\0" * (4 << 20)


def tool(*command: str | Path) -> str:
    """Run a command to its end and return what it printed.

    Raises:
        RuntimeError: it failed; the message has its own words.
    """
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(
            f"{' '.join(map(str, command))}: exit {done.returncode}: {done.stderr.strip() or done.stdout.strip()}"
        )
    return done.stdout.strip()


class Volume:
    """An ext4 file system on a loop device. `close` undoes what was done of `open`, at any time."""

    def __init__(self, image: Path, mount_point: Path, size_bytes: int) -> None:
        """Do nothing yet."""
        self._image = image
        self.mount_point = mount_point
        self._size_bytes = size_bytes
        self._loop: str | None = None

    @property
    def device(self) -> str:
        """Kernel name of the loop device, such as `loop0`.

        Raises:
            RuntimeError: the volume is not open.
        """
        if self._loop is None:
            raise RuntimeError("the volume is not open")
        return Path(self._loop).name

    def open(self) -> None:
        """Write the image in full, attach it with direct I/O, make the file system, and mount it.

        Raises:
            RuntimeError: one of the tools failed.
        """
        with self._image.open("wb") as image:
            # Blocks that were never written would make the first write of each slower, and reads far too fast.
            for _ in range(0, self._size_bytes, len(_CHUNK)):
                image.write(_CHUNK)
            image.truncate(self._size_bytes)
        self._loop = tool("losetup", "--find", "--show", "--direct-io=on", self._image)
        if Path(f"/sys/block/{self.device}/loop/dio").read_text().strip() != "1":
            raise RuntimeError(f"{self._loop}: no direct I/O: put --work-dir on a file system that has it")
        # Lazy initialisation would write inode tables during the recording; discarding would punch out the image.
        tool("mkfs.ext4", "-q", "-b", "4096", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0", self._loop)
        self.mount()

    def mount(self) -> None:
        """Mount with `discard`, so that the trace has a trim for what is deleted."""
        if self._loop is None:
            raise RuntimeError("the volume is not open")
        self.mount_point.mkdir(exist_ok=True)
        tool("mount", "-o", "discard,noatime", self._loop, self.mount_point)

    def unmount(self) -> None:
        """Unmount; the page cache of the file system is gone afterwards."""
        for attempt in range(_UNMOUNT_ATTEMPTS):
            if not self.mount_point.is_mount():
                return
            try:
                tool("umount", self.mount_point)
            except RuntimeError:
                # A process that was just ended by force may hold a file for a moment longer.
                if attempt == _UNMOUNT_ATTEMPTS - 1:
                    raise
                time.sleep(0.25)

    def close(self) -> None:
        """Unmount, detach, and delete the image.

        Asks the kernel what there is: a signal may have come between a step of `open` and our note of it.
        """
        try:
            self.unmount()
        finally:
            if self._image.exists():
                for loop in tool("losetup", "--noheadings", "--output", "NAME", "--associated", self._image).split():
                    tool("losetup", "--detach", loop)
            self._loop = None
            self._image.unlink(missing_ok=True)
