"""Notes where on the device the files of a database lie, again and again while it runs.

A program of its own, started by the supervisor with the standard library alone. A file whose map
has been read is read again only after it was changed. Asked to end (SIGTERM), it looks once more.
Maps are asked of the kernel (FIEMAP) without writing anything out.
"""

from __future__ import annotations

import array
import contextlib
import fcntl
import importlib.util
import json
import os
import signal
import stat
import struct
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


def _paths() -> Any:
    """Load the module of that name without the package, which takes long."""
    place = Path(__file__).parent.parent / "_paths.py"
    spec = importlib.util.spec_from_file_location("_paths", place)
    if spec is None or spec.loader is None:
        raise ImportError(f"{place} cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


open_plain = _paths().open_plain

Extent = tuple[int, int, int]
"""Offset in the file, offset on the device (on btrfs: its logical address), length; all in bytes.
"""

FIEMAP = 0xC020660B
_HEAD = struct.Struct("=QQLLLL")
_ONE = struct.Struct("=QQQQQLLLL")
_AT_ONCE = 512
_LAST = 0x1
_NO_PLACE = 0x2 | 0x200
"""Unknown, or within the inode."""
_DELAYED = 0x4
_INODE_LOOKUP, _LOOKUP_BYTES, _FIRST_INODE = 0xD0009412, 4096, 256
_LOOKUP = struct.Struct("=QQ")
"""Fields of the ioctl of btrfs that tells the subvolume of an open file."""
_TIMES_APART_NS = 20_000_000
"""A file system's times may stand still for a tick of the kernel: two changes closer than this may
have the same.
"""
_MOST_LOOKS = 16
"""A file that is not changed is passed over at so many looks at most."""
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
            logical, physical, length, _, _, flags, *_ = _ONE.unpack_from(
                buffer, _HEAD.size + number * _ONE.size
            )
            at = logical + length
            if flags & _DELAYED:
                is_delayed = True
            elif not flags & _NO_PLACE:
                found.append((logical, physical, length))
        if count < _AT_ONCE or flags & _LAST:
            return found, is_delayed


@dataclass
class Directory:
    """Contents of a directory when it was read."""

    ctime_ns: int = -1
    directories: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)


@dataclass
class Known:
    """A file or directory as it was seen last, and when it is looked at again."""

    key: tuple[int, int]
    """Device and inode."""
    ctime_ns: int
    extents: list[Extent]
    is_delayed: bool
    next_look: int = 0
    wait: int = 1


class Watcher:
    """Writes a line of JSON for each file whose map is new, and one for each look.

    A file that has not been changed for long is looked at less often: a database of a thousand
    files changes a few of them.
    """

    def __init__(self, roots: list[Path], device: int | None, output: Path) -> None:
        """`roots`: whole paths without links. `device`: files of other file systems are left out.

        None if the file system has several numbers, as btrfs does.
        """
        self._roots, self._device = roots, device
        self._out = output.open("a", encoding="utf-8", buffering=1 << 16)
        self._failed: set[str] = set()
        self._number, self._begin_ns = 0, 0
        self._directories: dict[str, Directory] = {}
        self._known: dict[str, Known] = {}
        self._maps: dict[tuple[int, int], tuple[str, list[Extent]]] = {}
        self._trees: dict[int, int] = {}

    def look(self, *, everything: bool = False) -> None:
        """Look at all files that may have changed, or at all."""
        begin_ns, self._begin_ns = time.monotonic_ns(), time.time_ns()
        self._number += 1
        seen, paths = set[tuple[int, int]](), set[str]()
        for path in self._paths():
            known = self._known.get(path)
            if known is None or everything or known.next_look <= self._number:
                known = self._look_at(path, known)
            if known is not None:
                seen.add(known.key)
                paths.add(path)
        for path in self._known.keys() - paths:
            del self._known[path]
        for gone in self._maps.keys() - seen:
            del self._maps[gone]
            self._write(device=gone[0], inode=gone[1], gone=True)
        self._write(ns=[begin_ns, time.monotonic_ns()], files=len(seen))
        self._out.flush()

    def _paths(self) -> Iterator[str]:
        """Give all directories and files; those in a directory that has changed are due."""
        waiting, there = [str(root) for root in self._roots], set[str]()
        while waiting:
            path = waiting.pop()
            there.add(path)
            with contextlib.suppress(OSError):
                status = os.lstat(path)
                if stat.S_ISREG(status.st_mode):
                    # A root may be a file.
                    yield path
                    continue
                if not stat.S_ISDIR(status.st_mode) or self._device not in (None, status.st_dev):
                    continue
                directory = self._directories.get(path)
                if directory is None or directory.ctime_ns != status.st_ctime_ns:
                    directory = self._read(path, status)
                yield path
                yield from directory.files
                waiting += directory.directories
        for gone in self._directories.keys() - there:
            del self._directories[gone]

    def _read(self, path: str, status: os.stat_result) -> Directory:
        found = Directory(self._settled(status))
        # A link may be here now, put there since the folder was read.
        handle = open_plain(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            for entry in os.scandir(handle):
                if entry.is_dir(follow_symlinks=False):
                    found.directories.append(f"{path}/{entry.name}")
                elif entry.is_file(follow_symlinks=False):
                    found.files.append(f"{path}/{entry.name}")
        finally:
            os.close(handle)
        for due in (path, *found.files):
            known = self._known.get(due)
            if known is not None:
                known.next_look = 0
        self._directories[path] = found
        return found

    def _settled(self, status: os.stat_result) -> int:
        """Give the time of a change.

        None of one so fresh that another may follow with the same time.
        """
        return status.st_ctime_ns if self._begin_ns - status.st_ctime_ns > _TIMES_APART_NS else -1

    def _look_at(self, path: str, known: Known | None) -> Known | None:
        """Look at one, and write down its map if it is new.

        None if it is of no interest, or gone.
        """
        try:
            status = os.lstat(path)
        except OSError:
            return None
        is_directory = stat.S_ISDIR(status.st_mode)
        if self._device not in (None, status.st_dev) or not (
            is_directory or stat.S_ISREG(status.st_mode)
        ):
            return None
        key, asked_ns = (status.st_dev, status.st_ino), time.monotonic_ns()
        if (
            known is not None
            and (known.key, known.ctime_ns) == (key, status.st_ctime_ns)
            and not known.is_delayed
        ):
            known.wait = min(known.wait * 2, _MOST_LOOKS)
            known.next_look = self._number + known.wait
            return known
        found = self._extents_at(path, status)
        if found is None:
            return known
        extents, is_delayed, tree = found
        self._known[path] = known = Known(key, self._settled(status), extents, is_delayed)
        if self._maps.get(key) != (path, extents):
            self._maps[key] = (path, extents)
            self._write(
                device=key[0],
                inode=key[1],
                tree=tree,
                asked_ns=asked_ns,
                path=path,
                is_directory=is_directory,
                extents=extents,
            )
        return known

    def _extents_at(
        self, path: str, status: os.stat_result
    ) -> tuple[list[Extent], bool, int] | None:
        """Give the extents of a file that was seen, and on btrfs the number of its subvolume.

        None if it is gone, or does not tell.
        """
        try:
            # Neither waiting for a lease nor changing when the file was read.
            handle = open_plain(path, os.O_RDONLY | os.O_NOATIME | os.O_NONBLOCK)
        except OSError:
            return None
        try:
            if os.path.samestat(os.fstat(handle), status):
                return (*extents_of(handle), self._tree_of(handle, status.st_dev))
            # It is another one by now, of which the next look tells.
        except OSError as error:
            # Some file systems tell of files alone.
            if not stat.S_ISDIR(status.st_mode) and path not in self._failed:
                self._failed.add(path)
                self._write(path=path, error=error.strerror)
        finally:
            os.close(handle)
        return None

    def _tree_of(self, handle: int, device: int) -> int:
        if self._device is not None:
            return 0
        if device not in self._trees:
            buffer = array.array("B", bytes(_LOOKUP_BYTES))
            _LOOKUP.pack_into(buffer, 0, 0, _FIRST_INODE)
            # Others have none.
            with contextlib.suppress(OSError):
                fcntl.ioctl(handle, _INODE_LOOKUP, buffer)
            self._trees[device] = _LOOKUP.unpack_from(buffer)[0]
        return self._trees[device]

    def _write(self, **line: Any) -> None:
        self._out.write(json.dumps(line, separators=(",", ":")) + "\n")


def main() -> None:
    """Watch until asked to end. Argument: JSON with roots, device, output, interval_s, ready."""
    plan = json.loads(sys.argv[1])
    said = []
    # The end may come while a look is under way: it is finished first.
    signal.signal(signal.SIGTERM, lambda *_: said.append(True))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    watcher = Watcher([Path(root) for root in plan["roots"]], plan["device"], Path(plan["output"]))
    watcher.look()
    Path(plan["ready"]).touch()
    while not said:
        begun = time.thread_time()
        watcher.look()
        pause = max(plan["interval_s"], (time.thread_time() - begun) / _WORK_SHARE)
        until = time.monotonic() + pause
        while not said and time.monotonic() < until:
            time.sleep(0.05)
    watcher.look(everything=True)


if __name__ == "__main__":
    main()
