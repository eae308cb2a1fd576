"""Whose each place on a device was, at any time."""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

I64 = npt.NDArray[np.int64]

NOBODY = -1
"""No file had the place, as far as was seen."""
OTHERS = -2
"""A file had it that is none of the database's."""
UNKNOWN = -3
"""A file had it of which is not known whose it is."""
OWN_DATABASE, OWN_SHARED, OWN_OTHERS = -4, -5, -6
"""The file system's own data: changed for the database alone, for whom is not known, for others."""
GIVEN_DATABASE, GIVEN_OTHERS = -7, -8
"""The same, of places that were given to one inode, as blocks of a directory are."""
IS_OWN = (OWN_DATABASE, OWN_SHARED, OWN_OTHERS, GIVEN_DATABASE, GIVEN_OTHERS)
FIRST = -(2**62)
"""The time of what was so from the beginning."""


class Change(NamedTuple):
    """A range of the device, in bytes, that has an owner from a time on.

    `owner`: the number of a file, or one of the above; `file_offset`: of its first byte.
    `keeps_given`: places that are known to be of one inode stay so.
    """

    time_ns: int
    begin: int
    end: int
    owner: int
    file_offset: int = 0
    keeps_given: bool = False


class _Map:
    """Who has what now: ranges without overlap, sorted by their beginnings."""

    def __init__(self) -> None:
        self._begin: list[int] = []
        # End, owner, and how much further in the file than on the device a byte is.
        self._rest: list[tuple[int, int, int]] = []

    def put(self, change: Change) -> Iterator[tuple[int, int]]:
        """Give a range its owner; gives the parts of which that is new."""
        begin, end, owner = change.begin, change.end, change.owner
        # Only of files is it of interest.
        shift = change.file_offset - begin if owner >= 0 else 0
        first = bisect.bisect_right(self._begin, begin) - 1
        if first < 0 or self._rest[first][0] <= begin:
            first += 1
        last = bisect.bisect_left(self._begin, end, lo=max(first, 0))
        kept: list[tuple[int, int, int, int]] = []
        at = begin
        for number in range(first, last):
            there, (until, old, old_shift) = self._begin[number], self._rest[number]
            if there < begin:
                kept.append((there, begin, old, old_shift))
            stays = (old, old_shift) == (owner, shift) or (
                change.keeps_given and (old >= 0 or old in (OTHERS, GIVEN_DATABASE, GIVEN_OTHERS))
            )
            if stays:
                low, high = max(there, begin), min(until, end)
                if at < low:
                    kept.append((at, low, owner, shift))
                    yield at, low
                kept.append((low, high, old, old_shift))
                at = high
            if until > end:
                if at < end:
                    kept.append((at, end, owner, shift))
                    yield at, end
                    at = end
                kept.append((end, until, old, old_shift))
        if at < end:
            kept.append((at, end, owner, shift))
            yield at, end
        joined = _joined(kept)
        self._begin[first:last] = [one[0] for one in joined]
        self._rest[first:last] = [one[1:] for one in joined]


def _joined(ranges: list[tuple[int, int, int, int]]) -> list[tuple[int, int, int, int]]:
    ranges.sort()
    found = ranges[:1]
    for begin, end, owner, shift in ranges[1:]:
        last = found[-1]
        if last[1] == begin and last[2:] == (owner, shift):
            found[-1] = (last[0], end, owner, shift)
        else:
            found.append((begin, end, owner, shift))
    return found


@dataclass(frozen=True)
class Pieces:
    """Parts of ranges that were asked for, each with its owner: `row` is the range's number.

    `length` in bytes; `file_offset` of the first byte, where the owner is a file.
    """

    row: I64
    begin: I64
    length: I64
    owner: I64
    file_offset: I64


class Timeline:
    """Whose each place was, at any time."""

    def __init__(self, changes: list[Change]) -> None:
        """Take all changes, in any order; of those of one time the later in the list counts."""
        now, rows = _Map(), list[tuple[int, int, int, int, int]]()
        for change in sorted(changes, key=lambda one: one.time_ns):
            if change.begin < change.end:
                rows += [
                    (change.time_ns, begin, end, change.owner, change.file_offset - change.begin)
                    for begin, end in now.put(change)
                ]
        time_ns, begin, end, owner, shift = np.array(rows, np.int64).reshape(-1, 5).T
        self._cuts = np.unique(np.concatenate([begin, end]))
        first = np.searchsorted(self._cuts, begin)
        row, self._part = _spread(first, np.searchsorted(self._cuts, end))
        self._time_ns, self._owner, self._shift = time_ns[row], owner[row], shift[row]

    def pieces(self, time_ns: I64, begin: I64, end: I64) -> Pieces:
        """Cut ranges where owners change, and say whose each piece was at the range's time."""
        cuts = np.concatenate([[FIRST], self._cuts, [-FIRST]])
        # Numbers are those of `_cuts`: -1 is all before the first.
        first = np.searchsorted(self._cuts, begin, side="right") - 1
        last = np.maximum(np.searchsorted(self._cuts, end, side="left"), first + 1)
        row, part = _spread(first, np.where(end > begin, last, first))
        low = np.maximum(begin[row], cuts[part + 1])
        length = np.minimum(end[row], cuts[part + 2]) - low
        found = self._latest(part, time_ns[row])
        is_known = found >= 0
        at = np.where(is_known, found, 0)
        if not len(self._owner):
            nothing = np.zeros(len(row), np.int64)
            return Pieces(row, low, length, nothing + NOBODY, nothing)
        owner = np.where(is_known, self._owner[at], NOBODY)
        return Pieces(row, low, length, owner, np.where(owner >= 0, low + self._shift[at], 0))

    def _latest(self, part: I64, time_ns: I64) -> I64:
        """Give the number of the last change of each part at its time; -1 for none."""
        changes, asked = len(self._part), len(part)
        parts = np.concatenate([self._part, part])
        times = np.concatenate([self._time_ns, time_ns])
        is_asked = np.arange(changes + asked) >= changes
        order = np.lexsort((is_asked, times, parts))
        numbers = np.where(is_asked[order], -1, order)
        # The place in `order` of the last change before each.
        places = np.maximum.accumulate(np.where(numbers >= 0, np.arange(len(order)), -1))
        found = np.where(places >= 0, order[np.maximum(places, 0)], -1)
        is_same = (found >= 0) & (parts[np.maximum(found, 0)] == parts[order])
        latest = np.empty(len(order), np.int64)
        latest[order] = np.where(is_same, found, -1)
        return latest[changes:]


def _spread(first: I64, last: I64) -> tuple[I64, I64]:
    """Give row and number of all numbers from `first` up to `last` of each row."""
    count = last - first
    row = np.repeat(np.arange(len(first)), count)
    return row, np.arange(len(row)) - np.repeat(np.cumsum(count) - count - first, count)
