"""For whom a file system wrote its own data: its journal, its tables, its trees.

A write of them carries the changes of all who changed something since the one before. What those
were is known from the kernel's events: of ext4 the inodes that each transaction changes, of XFS
those that wait for its log, of btrfs those that are synced. Where all were the database's, the
write is for it; where none was, it is for others; where both were, nobody knows how much of it is
for whom.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .extents import Extents, inode_number
from .inodes import Inodes
from .places import FIRST, I64, NOBODY, OTHERS, OWN_DATABASE, OWN_OTHERS, OWN_SHARED
from .placing import OWN_WRITES, Event, Placing

_DATABASE, _OTHERS, _UNKNOWN = 1, 2, 4
_WHOSE = np.full(8, OWN_SHARED, np.int64)
_WHOSE[_DATABASE], _WHOSE[_OTHERS] = OWN_DATABASE, OWN_OTHERS
"""Share that a write belongs to, by the bits above of all who had a part in it."""

_SYNC = "btrfs/btrfs_sync_file"
_CHANGES_OF_BTRFS = ("btrfs/btrfs_ordered_extent_add", "btrfs/btrfs_inode_new", _SYNC)
_SUPERBLOCK = 64 << 10
"""Offset of btrfs's first superblock, which is written last of all that belongs together."""


def places_of(writes: Event, start_bytes: int) -> tuple[I64, I64]:
    """Give begin and end, in bytes of the device, of the writes of `OWN_WRITES`."""
    begin = writes["sector"] * 512 - start_bytes
    return begin, begin + writes["nr_sector"] * 512


def for_whom(placing: Placing, inodes: Inodes, journal: Extents) -> I64:
    """Give `OWN_DATABASE`, `OWN_SHARED` or `OWN_OTHERS` for each of `OWN_WRITES`.

    `journal`: where the file system's journal lies.
    """
    writes = placing.events[OWN_WRITES]
    begin, _ = places_of(writes, placing.start_bytes)
    in_journal = journal.find(begin.astype(np.uint64)) >= 0
    bits = {"ext4": _of_ext4, "xfs": _of_xfs, "btrfs": _of_btrfs}[placing.kind]
    whose: I64 = _WHOSE[bits(placing, inodes, writes, in_journal)]
    return whose


def _bits(owner: I64) -> I64:
    known = [owner >= 0, owner == OTHERS, owner == NOBODY]
    return np.select(known, [_DATABASE, _OTHERS, 0], _UNKNOWN)


def _so_far(time_ns: I64, bits: I64, at_ns: I64) -> I64:
    """Give the bits of all that was up to each time."""
    order = np.argsort(time_ns, kind="stable")
    all_bits = np.concatenate([[0], np.bitwise_or.accumulate(bits[order])])
    return all_bits[np.searchsorted(time_ns[order], at_ns, side="right")]


def _between(time_ns: I64, bits: I64, since_ns: I64, until_ns: I64) -> I64:
    """Give the bits of all that was from a time on up to another."""
    order = np.argsort(time_ns, kind="stable")
    low = np.searchsorted(time_ns[order], since_ns, side="left")
    high = np.searchsorted(time_ns[order], until_ns, side="right")
    found = np.zeros(len(until_ns), np.int64)
    for bit in (_DATABASE, _OTHERS, _UNKNOWN):
        counts = np.concatenate([[0], np.cumsum(bits[order] & bit > 0)])
        found |= np.where(counts[high] > counts[low], bit, 0)
    return found


def _of_ext4(
    placing: Placing, inodes: Inodes, writes: Event, in_journal: npt.NDArray[np.bool_]
) -> I64:
    transactions = ext4_transactions(placing, inodes)
    begins = placing.events["jbd2/jbd2_start_commit"]
    ends = placing.events["jbd2/jbd2_end_commit"]
    end_of = dict(zip(ends["transaction"].tolist(), ends.time_ns.tolist(), strict=True))
    numbers = begins["transaction"].tolist()
    commit_bits = np.array([transactions.get(one, _UNKNOWN) for one in numbers], np.int64)
    commit_ends = np.array([end_of.get(one, 2**62) for one in numbers], np.int64)
    bits = _so_far(begins.time_ns, commit_bits, writes.time_ns)
    if not len(numbers):
        return bits
    latest = np.searchsorted(begins.time_ns, writes.time_ns, side="right") - 1
    latest_bits = commit_bits[np.maximum(latest, 0)]
    # Only the journal's own thread commits: it is known where nobody may ask where the journal is.
    is_its = in_journal | np.isin(writes.thread, begins.thread)
    is_commit = is_its & (latest >= 0) & (writes.time_ns <= commit_ends[latest])
    return np.where(is_commit, latest_bits, bits)


def ext4_transactions(placing: Placing, inodes: Inodes) -> dict[int, int]:
    """Give the bits of whose inodes each transaction of jbd2 changes, by its number."""
    starts, stats, marks = (
        placing.events[name]
        for name in (
            "jbd2/jbd2_handle_start",
            "jbd2/jbd2_handle_stats",
            "ext4/ext4_mark_inode_dirty",
        )
    )
    owner = _bits(inodes.owners(marks["ino"], marks.time_ns))
    begun, marked, ended = 0, 1, 2
    steps = [
        *zip(
            starts.time_ns.tolist(),
            [begun] * len(starts),
            starts.thread.tolist(),
            starts["tid"].tolist(),
            strict=True,
        ),
        *zip(
            marks.time_ns.tolist(),
            [marked] * len(marks),
            marks.thread.tolist(),
            owner.tolist(),
            strict=True,
        ),
        *zip(
            stats.time_ns.tolist(),
            [ended] * len(stats),
            stats.thread.tolist(),
            stats["dirtied_blocks"].tolist(),
            strict=True,
        ),
    ]
    found: dict[int, int] = {}
    # Number and bits of what each thread has begun.
    running: dict[int, tuple[int, int]] = {}
    for _, step, thread, value in sorted(steps):
        if step == begun:
            # The transaction that ran when we began may have changes that we have not seen.
            found.setdefault(value, 0 if found else _UNKNOWN)
            running[thread] = (value, 0)
        elif step == marked:
            number, bits = running.get(thread, (None, 0))
            if number is not None:
                running[thread] = (number, bits | value)
        else:
            number, bits = running.pop(thread, (None, 0))
            if number is not None and (bits or value):
                found[number] |= bits or _UNKNOWN
    for number, bits in running.values():
        found[number] |= bits
    return found


def _of_xfs(
    placing: Placing, inodes: Inodes, writes: Event, in_journal: npt.NDArray[np.bool_]
) -> I64:
    pins, unpins = (placing.events[f"xfs/xfs_inode_{name}"] for name in ("pin", "unpin"))
    bits = _bits(inodes.owners(pins["ino"], pins.time_ns))
    waiting = _waiting(pins, bits, unpins)
    so_far = _so_far(pins.time_ns, bits, writes.time_ns)
    times = np.array([one[0] for one in waiting], np.int64)
    there = np.array([0, *(one[1] for one in waiting)], np.int64)
    now = there[np.searchsorted(times, writes.time_ns, side="right")]
    return np.where(in_journal, now, so_far)


def _waiting(pins: Event, bits: I64, unpins: Event) -> list[tuple[int, int]]:
    """Give the bits of all inodes that wait for the log, at each time at which they change."""
    steps: list[tuple[int, int, int | None]] = sorted(
        [
            *zip(pins.time_ns.tolist(), pins["ino"].tolist(), bits.tolist(), strict=True),
            *zip(
                unpins.time_ns.tolist(), unpins["ino"].tolist(), [None] * len(unpins), strict=True
            ),
        ],
        key=lambda step: step[0],
    )
    # Bits that wait, by inode, oldest first: an inode that goes out may be changed again meanwhile.
    of_inode: dict[int, list[int]] = {}
    counts = dict.fromkeys((0, _DATABASE, _OTHERS, _UNKNOWN), 0)
    found: list[tuple[int, int]] = []
    for time_ns, inode, bit in steps:
        if bit is not None:
            of_inode.setdefault(inode, []).append(bit)
            counts[bit] += 1
        elif of_inode.get(inode):
            counts[of_inode[inode].pop(0)] -= 1
        found.append((time_ns, sum(one for one, count in counts.items() if count)))
    return found


def _of_btrfs(
    placing: Placing, inodes: Inodes, writes: Event, _in_journal: npt.NDArray[np.bool_]
) -> I64:
    times, bits = list[I64](), list[I64]()
    for name in _CHANGES_OF_BTRFS:
        event = placing.events[name]
        times.append(event.time_ns)
        bits.append(_bits(inodes.owners(inode_numbers(event), event.time_ns)))
    commits = placing.events["btrfs/btrfs_transaction_commit"]
    # A commit writes what was changed since the one before it began, which its end alone tells of:
    # so all since the end of that before are taken.
    ended = np.searchsorted(commits.time_ns, writes.time_ns, side="left")
    earlier = np.concatenate([[FIRST, FIRST], commits.time_ns])
    found = _between(np.concatenate(times), np.concatenate(bits), earlier[ended], writes.time_ns)
    syncs, sync_bits = placing.events[_SYNC], bits[-1]
    begin, _ = places_of(writes, placing.start_bytes)
    supers = writes.time_ns[begin == _SUPERBLOCK]
    # The last sync of each thread, until it commits a transaction: that writes all trees.
    for thread in np.unique(syncs.thread):
        mine = syncs.time_ns[syncs.thread == thread]
        committed = commits.time_ns[commits.thread == thread]
        for row in np.flatnonzero(writes.thread == thread):
            at_ns = writes.time_ns[row]
            latest = np.searchsorted(mine, at_ns, side="right") - 1
            if latest < 0:
                continue
            sync_ns, following = mine[latest], mine[latest + 1 : latest + 2]
            commit = np.searchsorted(committed, sync_ns, side="left")
            until = following[0] if len(following) else 2**62
            if commit < len(committed) and committed[commit] < until:
                continue
            # A log has what others synced beside it: of them, all are taken that began after the
            # log before the last one was written.
            number = np.searchsorted(supers, sync_ns)
            since = supers[number - 2] if number >= 2 else FIRST
            low, high = np.searchsorted(syncs.time_ns, [since, at_ns])
            found[row] = np.bitwise_or.reduce(sync_bits[low:high], initial=0)
    return found


def inode_numbers(event: Event) -> I64:
    """Give the inodes of events of btrfs, each below its subvolume's number."""
    return np.array(
        [
            inode_number(*pair)
            for pair in zip(event["root_objectid"].tolist(), event["ino"].tolist(), strict=True)
        ],
        np.int64,
    )
