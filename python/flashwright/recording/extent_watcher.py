"""Notes where on the device the files of a database lie, again and again while it runs.

A program of its own, started by the supervisor with the standard library alone. A file whose map has been read is read again only
after it was changed. Told to end (SIGTERM), it looks once more. Maps are asked of the kernel (FIEMAP) without writing anything out.
"""

from __future__ import annotations

import array
import contextlib
import fcntl
import json
import os
import signal
import stat
import struct
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Extent = tuple[int, int, int]
"""Offset in the file, offset on the device (on btrfs: its logical address), length; all in bytes."""

FIEMAP = 0xC020660B
_HEAD = struct.Struct("=QQLLLL")
_ONE = struct.Struct("=QQQQQLLLL")
_AT_ONCE = 512
_LAST = 0x1
_NO_PLACE = 0x2 | 0x200
"""Unknown, or within the inode."""
_DELAYED = 0x4
_WORK_SHARE = 0.02
"""Looking takes no more of a processor than this."""


def extents_of(handle: int) -> tuple[list[Extent], bool]:
    """Give the extents of an open file, and whether some of it has no place yet.

    Raises:
        OSError: the file system does not tell.
    """
    found: list[Extent] = []
    at, is_delayed = 0, False
    while True:
        buffer = array.array("B", bytes(_HEAD.size + _AT_ONCE * _ONE.size))
        _HEAD.pack_into(buffer, 0, at, 2**64 - 1 - at, 0, 0, _AT_ONCE, 0)
        fcntl.ioctl(handle, FIEMAP, buffer)
        count = _HEAD.unpack_from(buffer)[3]
        flags = 0
        for number in range(count):
            logical, physical, length, _, _, flags, *_ = _ONE.unpack_from(buffer, _HEAD.size + number * _ONE.size)
            at = logical + length
            if flags & _DELAYED:
                is_delayed = True
            elif not flags & _NO_PLACE:
                found.append((logical, physical, length))
        if count < _AT_ONCE or flags & _LAST:
            return found, is_delayed


class Watcher:
    """Writes a line of JSON for each file whose map is new, and one for each look."""

    def __init__(self, roots: list[Path], device: int | None, output: Path) -> None:
        """`device`: files of other file systems are left out; None if the file system has several numbers, as btrfs does."""
        self._roots, self._device = roots, device
        self._out = output.open("a", encoding="utf-8", buffering=1 << 16)
        self._failed: set[str] = set()
        self._known: dict[tuple[int, int], tuple[int, str, list[Extent], bool]] = {}

    def look(self) -> None:
        """Look at all files."""
        begin_ns, seen = time.monotonic_ns(), set()
        for path, status in self._files():
            key = (status.st_dev, status.st_ino)
            seen.add(key)
            known = self._known.get(key)
            if known is not None and known[:2] == (status.st_ctime_ns, path) and not known[3]:
                continue
            try:
                # Neither waiting for a lease nor changing when the file was read.
                handle = os.open(path, os.O_RDONLY | os.O_NOATIME | os.O_NONBLOCK)
            except OSError:
                continue
            try:
                extents, is_delayed = extents_of(handle)
            except OSError as error:
                # Some file systems tell of files alone.
                if not stat.S_ISDIR(status.st_mode) and path not in self._failed:
                    self._failed.add(path)
                    self._write(path=path, error=error.strerror)
                continue
            finally:
                os.close(handle)
            self._known[key] = (status.st_ctime_ns, path, extents, is_delayed)
            if known is None or known[1:3] != (path, extents):
                is_directory = stat.S_ISDIR(status.st_mode)
                self._write(device=key[0], inode=key[1], path=path, is_directory=is_directory, extents=extents)
        for gone in set(self._known) - seen:
            del self._known[gone]
            self._write(device=gone[0], inode=gone[1], gone=True)
        self._write(ns=[begin_ns, time.monotonic_ns()], files=len(seen))
        self._out.flush()

    def _files(self) -> Iterator[tuple[str, os.stat_result]]:
        waiting = [str(root) for root in self._roots]
        while waiting:
            path = waiting.pop()
            with contextlib.suppress(OSError):
                status = os.lstat(path)
                if self._device is not None and status.st_dev != self._device:
                    continue
                if stat.S_ISDIR(status.st_mode):
                    waiting += [entry.path for entry in os.scandir(path)]
                elif not stat.S_ISREG(status.st_mode):
                    continue
                yield path, status

    def _write(self, **line: Any) -> None:
        self._out.write(json.dumps(line, separators=(",", ":")) + "\n")


def main() -> None:
    """Watch until told to end. Argument: JSON with roots, device, output, interval_s, ready."""
    plan = json.loads(sys.argv[1])
    told = []
    # The end may come while a look is under way: it is finished first.
    signal.signal(signal.SIGTERM, lambda *_: told.append(True))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    watcher = Watcher([Path(root) for root in plan["roots"]], plan["device"], Path(plan["output"]))
    watcher.look()
    Path(plan["ready"]).touch()
    while not told:
        begun = time.thread_time()
        watcher.look()
        pause = max(plan["interval_s"], (time.thread_time() - begun) / _WORK_SHARE)
        until = time.monotonic() + pause
        while not told and time.monotonic() < until:
            time.sleep(0.05)
    watcher.look()


if __name__ == "__main__":
    main()
