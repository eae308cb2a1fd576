"""Whose each place on a device was: of what was seen of files, and of the kernel's events."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .extents import ExtentHistory, Extents, inode_number, on_device
from .files import FileTable, Named
from .inodes import Inodes
from .own_writes import for_whom, inode_numbers, places_of
from .places import (
    FIRST,
    GIVEN_DATABASE,
    GIVEN_OTHERS,
    I64,
    OTHERS,
    OWN_SHARED,
    Change,
    Timeline,
)
from .placing import OWN_WRITES, Event, Placing

_SIGHTINGS = "calls.sightings.jsonl"
_SLACK_NS = 100_000
"""Two listeners of one event note it one after the other: what becomes the file system's own is
taken to be so a little earlier, so that its first write is, too.
"""
_IS_DATA = 0x20
"""In the flags of an allocation of ext4: EXT4_MB_HINT_DATA."""
_UNNAMED = Named("other", "a file that was gone before it was seen")


@dataclass(frozen=True)
class Attribution:
    """Whose places were, and what that rests on.

    `is_whole`: every change of places was seen, so that what no file of the database's had was
    others'. `not_told`: what is not known, in words.
    """

    places: Timeline
    is_whole: bool
    not_told: list[str]


def attribution(
    folder: Path,
    history: ExtentHistory,
    placing: Placing,
    files: FileTable,
    start_monotonic_ns: int,
) -> Attribution:
    """Put together what was seen; `folder` has the looks at what processes opened."""
    if not placing.events or not history.geometry:
        why = placing.not_told or f"the layout of {history.file_system} is not known"
        return Attribution(Timeline(_of_looks(history)), is_whole=False, not_told=[_without(why)])
    _shift(placing, history, start_monotonic_ns)
    inodes = _inodes(folder, history, placing, files, start_monotonic_ns)
    changes = [*history.changes, *_given(placing, history, inodes)]
    writes = placing.events[OWN_WRITES]
    begin, end = places_of(writes, placing.start_bytes)
    whose = for_whom(placing, inodes, _journal(history.own, files))
    changes += [
        one._replace(time_ns=one.time_ns - _SLACK_NS, keeps_given=placing.kind == "ext4")
        for one in _changes(writes.time_ns, begin, end - begin, whose, np.zeros_like(begin))
    ]
    not_told = []
    if placing.lost != 0:
        lost = "an unknown number of" if placing.lost is None else f"{placing.lost:,}"
        not_told.append(
            f"whose what is in no file is: {lost} events of the file system were lost; what no "
            "file of the database's had counts as not known"
        )
    return Attribution(Timeline(changes), placing.is_whole, not_told)


def _journal(own: Extents, files: FileTable) -> Extents:
    purposes = np.array(files.purposes())
    kept = purposes[own.file] == "journal" if len(own.file) else np.zeros(0, bool)
    return Extents(own.begin[kept], own.end[kept], own.file[kept], own.file_offset[kept])


def _without(why: str) -> str:
    return (
        f"whose what is in no file is: {why}; places of files are known from looks four times a "
        "second alone"
    )


def _of_looks(history: ExtentHistory) -> list[Change]:
    """Give changes as far as looks at files tell of them.

    Files get their places just before they are written: so what is there at a look was since the
    look before.
    """
    begins = [begin for begin, _ in history.looks]

    def before(time_ns: int) -> int:
        number = int(np.searchsorted(begins, time_ns, side="right"))
        return begins[number - 2] if number >= 2 else FIRST

    return [
        *history.ends,
        *(one._replace(time_ns=before(one.time_ns)) for one in history.changes),
    ]


def _shift(placing: Placing, history: ExtentHistory, start_monotonic_ns: int) -> None:
    """Give all events the recording's clock, and leave out those of other file systems."""
    for name, event in placing.events.items():
        kept = event
        if "fsid" in event.fields:
            kept = event.only(event["fsid"] == history.geometry["fsid"])
        kept.time_ns = kept.time_ns - start_monotonic_ns
        placing.events[name] = kept


def _inodes(
    folder: Path,
    history: ExtentHistory,
    placing: Placing,
    files: FileTable,
    start_monotonic_ns: int,
) -> Inodes:
    events, deaths = placing.events, list[tuple[int, int]]()
    births: list[tuple[int, int, int | None]]
    last_known = list[tuple[int, int]]()
    if placing.kind == "ext4":
        gone, made = events["ext4/ext4_free_inode"], events["ext4/ext4_allocate_inode"]
        deaths = [*zip(gone.time_ns.tolist(), gone["ino"].tolist(), strict=True)]
        births = [
            *zip(made.time_ns.tolist(), made["ino"].tolist(), made["dir"].tolist(), strict=True)
        ]
    elif placing.kind == "xfs":
        gone = events["xfs/xfs_iunlink_remove"]
        inode = (gone["agno"] << history.geometry["inode_shift"]) | gone["agino"]
        deaths = [*zip(gone.time_ns.tolist(), inode.tolist(), strict=True)]
        births = list(_made_by_xfs(events))
    else:
        made = events["btrfs/btrfs_inode_new"]
        pairs = zip(made.time_ns.tolist(), inode_numbers(made).tolist(), strict=True)
        births = [(time_ns, inode, None) for time_ns, inode in pairs]
        # Out of memory, it may be gone, or only not needed.
        gone = events["btrfs/btrfs_inode_evict"]
        last_known = [*zip(gone.time_ns.tolist(), inode_numbers(gone).tolist(), strict=True)]
    seen = [*history.seen, *_opened(folder, history, files, start_monotonic_ns)]
    return Inodes(
        deaths,
        births,
        seen,
        history.looks,
        history.shared_folders,
        lambda: files.own(_UNNAMED),
        last_known,
    )


def _made_by_xfs(events: dict[str, Event]) -> Iterator[tuple[int, int, int | None]]:
    """Give time, inode and folder of files that were made.

    The thread that makes one in a folder gets the inode next.
    """
    made = events["xfs/xfs_create"]
    steps = [
        *zip(made.time_ns.tolist(), made.thread.tolist(), made["dp_ino"].tolist(), strict=True)
    ]
    parts = [(time_ns, thread, -1, folder) for time_ns, thread, folder in steps]
    for name in ("miss", "hit", "recycle"):
        got = events[f"xfs/xfs_iget_{name}"]
        parts += [
            (time_ns, thread, inode, -1)
            for time_ns, thread, inode in zip(
                got.time_ns.tolist(), got.thread.tolist(), got["ino"].tolist(), strict=True
            )
        ]
    folders: dict[int, int] = {}
    for time_ns, thread, inode, folder in sorted(parts):
        if folder >= 0:
            folders[thread] = folder
        elif thread in folders:
            yield time_ns, inode, folders.pop(thread)


def _opened(
    folder: Path, history: ExtentHistory, files: FileTable, start_monotonic_ns: int
) -> Iterator[tuple[int, int, int]]:
    """Give time, inode and file of what the database's processes had open."""
    path = folder / _SIGHTINGS
    if not path.exists():
        return
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            try:
                said = json.loads(line)
            except ValueError:
                # The last one of a copier that was killed.
                continue
            tree = history.trees.get(said.get("device", -1))
            if tree is None:
                continue
            number = files.number(said["device"], said["inode"], said["path"])
            inode = inode_number(tree, said["inode"])
            yield said["ns"][0] - start_monotonic_ns, inode, OTHERS if number is None else number


def _given(placing: Placing, history: ExtentHistory, inodes: Inodes) -> Iterator[Change]:
    """Give the places that inodes got."""
    events, size = placing.events, history.geometry.get("block_bytes", 0)
    if placing.kind == "ext4":
        one = events["ext4/ext4_allocate_blocks"]
        owner = inodes.owners(one["ino"], one.time_ns)
        own = np.select([owner >= 0, owner == OTHERS], [GIVEN_DATABASE, GIVEN_OTHERS], OWN_SHARED)
        owner = np.where(one["flags"] & _IS_DATA, owner, own)
        yield from _changes(
            one.time_ns, one["block"] * size, one["len"] * size, owner, one["logical"] * size
        )
    elif placing.kind == "xfs":
        for name in ("xfs/xfs_iext_insert", "xfs/xfs_bmap_post_update"):
            one = events[name]
            shift, number = history.geometry["group_shift"], one["startblock"]
            block = (number >> shift) * history.geometry["group_blocks"]
            block += number & ((1 << shift) - 1)
            owner = inodes.owners(one["ino"], one.time_ns)
            yield from _changes(
                one.time_ns, block * size, one["blockcount"] * size, owner, one["startoff"] * size
            )
    else:
        one = events["btrfs/btrfs_ordered_extent_add"]
        owner = inodes.owners(inode_numbers(one), one.time_ns)
        for change in _changes(
            one.time_ns, one["start"], one["disk_len"], owner, one["file_offset"]
        ):
            extent = (change.file_offset, change.begin, change.end - change.begin)
            for at, device, length in on_device(extent, history.chunks):
                yield change._replace(begin=device, end=device + length, file_offset=at)


def _changes(
    time_ns: I64, begin: I64, length: I64, owner: I64, file_offset: I64
) -> Iterator[Change]:
    columns = (time_ns, begin, begin + length, owner, file_offset)
    for row in zip(*(column.tolist() for column in columns), strict=True):
        yield Change(*row)
