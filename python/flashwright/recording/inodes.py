"""Owners of inodes over time: a number is given again when its file is gone."""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from .places import I64, NOBODY, OTHERS, UNKNOWN


@dataclass
class Life:
    """One file that had a number: from when and to when, and what was seen of it.

    `seen`: times and numbers of files, `OTHERS` for one outside of the database's folders.
    `parents`: inodes of directories in which it was made, with the time.
    """

    begin_ns: int
    end_ns: int
    seen: list[tuple[int, int]] = field(default_factory=list)
    parents: list[tuple[int, int]] = field(default_factory=list)


class Inodes:
    """The inodes of a file system, by a number that no two that live at once have."""

    def __init__(
        self,
        deaths: Iterable[tuple[int, int]],
        births: Iterable[tuple[int, int, int | None]],
        seen: Iterable[tuple[int, int, int]],
        looks: Sequence[tuple[int, int]],
        shared_folders: Iterable[int] = (),
        unnamed: Callable[[], int] = lambda: UNKNOWN,
        last_known: Iterable[tuple[int, int]] = (),
    ) -> None:
        """Take all that was seen, with times in nanoseconds, in any order.

        `deaths`: time and inode of each that was freed. `births`: time, inode, and the inode of the
        folder, None if that is not known. `seen`: time, inode, and number of a file, or `OTHERS`.
        `looks`: begin and end of each look at all the database's folders. `shared_folders`: inodes
        of folders in which only some files are the database's. `unnamed`: gives the number of a
        file of the database's of which only the folder is known. `last_known`: time and inode of
        each that may be gone from then on, whose number is never given again.
        """
        self._unnamed = unnamed
        self._ends: dict[int, list[int]] = defaultdict(list)
        for time_ns, inode in sorted(deaths):
            self._ends[inode].append(time_ns)
        self._lives: dict[tuple[int, int], Life] = {}
        self._last_known: dict[int, int] = {}
        for time_ns, inode in sorted(last_known):
            self._last_known.setdefault(inode, time_ns)
        self._looks = sorted(looks)
        self._shared = set(shared_folders)
        for time_ns, inode, file in sorted(seen):
            self._life(inode, time_ns).seen.append((time_ns, file))
        for time_ns, inode, folder in births:
            life = self._life(inode, time_ns)
            life.begin_ns = max(life.begin_ns, time_ns)
            if folder is not None:
                life.parents.append((time_ns, folder))

    def _life(self, inode: int, time_ns: int) -> Life:
        ends = self._ends.get(inode, [])
        number = bisect.bisect_left(ends, time_ns)
        life = self._lives.get((inode, number))
        if life is None:
            begin = ends[number - 1] if number else -(2**62)
            end = ends[number] if number < len(ends) else self._last_known.get(inode, 2**62)
            life = self._lives[inode, number] = Life(begin, end)
        return life

    def owner(self, inode: int, time_ns: int) -> int:
        """Give the number of the database's file that had an inode, or `OTHERS`, or `UNKNOWN`.

        `NOBODY` for a folder in which some files are the database's: it changes for whoever makes
        or removes one in it.
        """
        if inode in self._shared:
            return NOBODY
        life = self._life(inode, time_ns)
        if life.seen:
            number = bisect.bisect_right(life.seen, (time_ns, 2**62))
            return life.seen[max(number - 1, 0)][1]
        if self._was_looked_for(life):
            return OTHERS
        for born_ns, folder in life.parents:
            if folder not in self._shared:
                above = self.owner(folder, born_ns)
                return self._unnamed() if above >= 0 else above
        return UNKNOWN

    def owners(self, inode: I64, time_ns: I64) -> I64:
        """Give the same of many."""
        pairs = zip(inode.tolist(), time_ns.tolist(), strict=True)
        return np.fromiter((self.owner(*pair) for pair in pairs), np.int64, len(inode))

    def _was_looked_for(self, life: Life) -> bool:
        """Tell whether there was a whole look during its life, which did not find it."""
        number = bisect.bisect_left(self._looks, (life.begin_ns, -(2**62)))
        return number < len(self._looks) and self._looks[number][1] <= life.end_ns
