"""Bytes written by the processes of a database, by /proc/PID/io: nothing is traced.

The kernel adds what a child wrote to its parent when the parent takes note of its end, so that the
sum over a living tree has also the processes that came and went between two looks.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from flashwright._paths import user_name

from .running import Running

_PROC = Path("/proc")
_TRIES = 5
_PAGE_BYTES = 4096
_IO_URING = "anon_inode:[io_uring]"
_SHARED_INDEX = "-shm"
"""Suffix of the index of SQLite's log: it is mapped, and need not be kept."""


@dataclass(frozen=True)
class Written:
    """Counters of one process, or of several together."""

    call_bytes: int = 0
    """Given to write calls: to files, and to sockets and pipes too."""
    calls: int = 0
    dirtied_bytes: int = 0
    """Bytes of file pages that were made dirty, or written past the page cache. Where the kernel
    keeps files in large folios, one written byte counts as a whole folio, of up to 2 MiB.
    """
    cancelled_bytes: int = 0
    """Dirty, but the file was cut or removed before it came to a disk."""

    def __add__(self, other: Written) -> Written:
        return Written(*(a + b for a, b in zip(self._all(), other._all(), strict=True)))

    def __sub__(self, other: Written) -> Written:
        return Written(*(a - b for a, b in zip(self._all(), other._all(), strict=True)))

    def _all(self) -> tuple[int, ...]:
        return (self.call_bytes, self.calls, self.dirtied_bytes, self.cancelled_bytes)

    def above(self, other: Written) -> Written:
        """Give by how much it is above the other, field by field, and 0 where it is not."""
        pairs = zip(self._all(), other._all(), strict=True)
        return Written(*(max(0, a - b) for a, b in pairs))

    def data_bytes(self, *, is_aligned: bool, is_by_calls: bool) -> int:
        """Give how many bytes of pages these writes can have dirtied, at most.

        `is_aligned`: its writes are of whole pages. `is_by_calls`: none of them goes through a
        memory map or io_uring, which have no calls.
        """
        if not is_by_calls:
            return self.dirtied_bytes
        # A write that begins and ends within a page dirties both of them whole.
        ends = 0 if is_aligned else 2 * (_PAGE_BYTES - 1) * self.calls
        return min(self.dirtied_bytes, self.call_bytes + ends)


def written_by(pid: int) -> Written:
    """Read the counters of a process, with those of its children that have ended.

    Raises:
        PermissionError: it is another user's.
        OSError: it is gone.
    """
    try:
        text = (_PROC / str(pid) / "io").read_text()
    except ProcessLookupError as error:
        raise FileNotFoundError(str(error)) from None
    found = {name: int(value) for name, _, value in (
        line.partition(":") for line in text.splitlines())}  # fmt: skip
    return Written(
        found["wchar"], found["syscw"], found["write_bytes"], found["cancelled_write_bytes"]
    )


def parents() -> dict[int, int]:
    """Give the parent of each process."""
    found = {}
    for entry in os.scandir(_PROC):
        if entry.name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                # The name stands in brackets and may hold anything.
                text = Path(entry.path, "stat").read_text(errors="replace")
                found[int(entry.name)] = int(text.rpartition(")")[2].split()[1])
    return found


def tree_of(roots: Iterable[int]) -> set[int]:
    """Give these processes and all that they, or theirs, have started and that live."""
    children: dict[int, list[int]] = {}
    of_all = parents()
    for pid, parent in of_all.items():
        children.setdefault(parent, []).append(pid)
    found: set[int] = set()
    waiting = [pid for pid in roots if pid in of_all]
    while waiting:
        pid = waiting.pop()
        if pid not in found:
            found.add(pid)
            waiting += children.get(pid, [])
    return found


class Processes:
    """Adds up what the processes of a database write: `look` often, `written` at any time."""

    def __init__(self, running: Running, keeper: int | None = None) -> None:
        """`keeper`: the process of ours below which the database's program runs."""
        self._running = running
        self._keeper = keeper
        self._trees = {*running.pids, *(() if keeper is None else (keeper,))}
        self._seen: set[int] = set()
        self._is_by_name = running.kind != "postgres"
        self._singles: dict[int, tuple[Written, Written]] = {}
        """Counters at the first look and at the last, of processes that have a file open."""
        self._tree_base: Written | None = None
        self._tree_last = Written()
        self._left = Written()
        self.refused: set[int] = set()
        """Processes that we may not look at."""
        self.came_later = 0
        """Processes that were found only when the recording went on."""
        self.writes_otherwise: str | None = None
        """Way in which one of them can write without a system call; None if none can."""

    def begin(self) -> None:
        """Take what was written until now as the beginning."""
        self._seen.clear()
        self.look()
        self.came_later = 0
        self._singles = {pid: (last, last) for pid, (_, last) in self._singles.items()}
        self._tree_base, self._left = self._tree_last, Written()

    def look(self) -> None:
        """Look at them now."""
        members = self._look_at_trees()
        if not self._is_by_name:
            return
        for pid in set(self._running.processes()) - members:
            with contextlib.suppress(FileNotFoundError):
                now = self._read(pid)
                if now is None:
                    continue
                if pid not in self._singles:
                    self.came_later += 1
                first, _ = self._singles.get(pid, (now, now))
                self._singles[pid] = (first, now)
                self._seen.add(pid)
        if self.writes_otherwise is None:
            self.writes_otherwise = _other_way(members | set(self._singles), self._running)

    def _look_at_trees(self) -> set[int]:
        """Read all of the trees at one moment, as far as that can be had."""
        members: set[int] = set()
        total = Written()
        for _ in range(_TRIES):
            members, total, is_whole = tree_of(self._trees), Written(), True
            for pid in members:
                try:
                    now = self._read(pid)
                except FileNotFoundError:
                    is_whole = False
                    continue
                total += now or Written()
            if is_whole and tree_of(self._trees) == members:
                break
        self._seen |= members
        # It only grows. What is less has left the tree, and stays written.
        self._left += self._tree_last.above(total)
        self._tree_last = total
        return members

    def _read(self, pid: int) -> Written | None:
        try:
            return written_by(pid)
        except PermissionError:
            self.refused.add(pid)
            return None

    def written(self) -> Written:
        """Give what they wrote from the beginning to the last look."""
        total = self._tree_last + self._left - (self._tree_base or Written())
        for first, last in self._singles.values():
            total += last - first
        return total

    @property
    def number(self) -> int:
        """Number of processes seen: of those that live for a moment, most are not."""
        return len(self._seen - {self._keeper})

    def gaps(self) -> list[str]:
        """Say what of them is not counted."""
        found = []
        if self.refused:
            owners = sorted({_owner(pid) for pid in self.refused} - {""})
            whose = f" of {', '.join(owners)}" if owners else ""
            found.append(
                f"what {len(self.refused)} processes{whose} wrote: /proc/PID/io is open to their "
                "own user and root alone (sudo)"
            )
        if self.came_later:
            found.append(
                "what processes wrote before they were seen with a file open: "
                f"{self.came_later} came during the recording"
            )
        if self._is_by_name and _others_may_write(self._running.path):
            found.append(
                f"what other users' processes wrote: they may write to {self._running.path}, and "
                "only root sees what they have open (sudo)"
            )
        if not (self._trees or self._seen or self.refused):
            found.append("what processes wrote that had it open for a moment: none was seen")
        return found


def _owner(pid: int) -> str:
    try:
        return user_name((_PROC / str(pid)).stat().st_uid)
    except OSError:
        return ""


def _others_may_write(path: Path) -> bool:
    """Tell whether processes that we do not see, as we are not root, may write to a file."""
    if os.geteuid() == 0:
        return False
    try:
        about = path.stat()
    except OSError:
        return False
    is_open = about.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return about.st_uid != os.geteuid() or bool(is_open)


def _other_way(pids: Iterable[int], running: Running) -> str | None:
    """Say how one of these processes writes, or may write, without a call."""
    roots = [str(root) for root in running.roots if not str(root).endswith(_SHARED_INDEX)]
    for pid in pids:
        process = _PROC / str(pid)
        try:
            maps = (process / "maps").read_text(errors="replace")
            links = [os.readlink(fd) for fd in os.scandir(process / "fd")]  # noqa: PTH115
        except OSError:
            continue
        for line in maps.splitlines():
            words = line.split(maxsplit=5)
            if len(words) == 6 and "w" in words[1] and words[1].endswith("s"):
                name = words[5].removesuffix(" (deleted)")
                if any(name == root or name.startswith(f"{root}/") for root in roots):
                    return f"process {pid} writes to {name} through a memory map"
        if _IO_URING in links:
            return f"process {pid} has io_uring"
    return None
