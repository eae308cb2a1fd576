"""Owners of the bytes that the device received: the database, the file system for it, or others.

They are tested against plain maps of streams of events made at random, and with known writers on
real file systems.
"""

from __future__ import annotations

import itertools
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from flashwright.recording.attribution import attribution
from flashwright.recording.extents import ExtentHistory, Extents
from flashwright.recording.files import FileTable, Named, sqlite_namer
from flashwright.recording.own_areas import Chunk
from flashwright.recording.owners import SHARES, owners_of
from flashwright.recording.places import (
    FIRST,
    GIVEN_OTHERS,
    NOBODY,
    OTHERS,
    OWN_DATABASE,
    OWN_SHARED,
    Change,
    Timeline,
)
from flashwright.recording.placing import EVENTS, OWN_WRITES, Event, Placing, _is_own
from flashwright.recording.tracefs import Tracefs
from flashwright.reports.recording import remarks as recording_remarks
from flashwright.reports.waterfall import headline
from flashwright.workloads.supervisor import Supervisor
from neighbours import pair
from recordings import require
from support import Cli

MIB = 1 << 20
BLOCK = 4096
TRACERS = Path("/sys/kernel/tracing/available_tracers")


@pytest.mark.parametrize("seed", range(60))
def test_whose_a_place_was_is_as_by_a_plain_map(seed: int) -> None:
    random = np.random.default_rng(seed)
    owners = [0, 1, 2, NOBODY, OTHERS, OWN_SHARED, OWN_DATABASE, GIVEN_OTHERS]
    changes = []
    for _ in range(int(random.integers(0, 40))):
        place, length = (int(one) for one in random.integers(0, 12, 2))
        owner = int(random.choice(owners))
        keeps = owner < OTHERS and bool(random.integers(0, 2))
        at = int(random.integers(0, 5)) if owner >= 0 else 0
        time_ns = int(random.choice([FIRST, *range(0, 40, 3)]))
        changes.append(Change(time_ns, place, place + length, owner, at, keeps))
    asked = random.integers(0, [45, 24, 10], (50, 3))
    times, begin, end = asked[:, 0] - 2, asked[:, 1], asked[:, 1] + asked[:, 2]
    found = Timeline(changes).pieces(times, begin, end)
    said: dict[tuple[int, int], tuple[int, int]] = {}
    for row, low, length, owner, at in zip(
        found.row, found.begin, found.length, found.owner, found.file_offset, strict=True
    ):
        for byte in range(length):
            assert (row, low + byte) not in said
            said[row, low + byte] = (owner, at + byte if owner >= 0 else 0)
    expected = {}
    for row, time_ns in enumerate(times):
        plain: dict[int, tuple[int, int]] = {}
        for one in sorted(changes, key=lambda one: one.time_ns):
            if one.time_ns > time_ns:
                break
            for byte in range(one.begin, one.end):
                old = plain.get(byte, (NOBODY, 0))[0]
                if one.keeps_given and (old >= 0 or old in (OTHERS, -7, -8)):
                    continue
                at = one.file_offset + byte - one.begin if one.owner >= 0 else 0
                plain[byte] = (one.owner, at)
        for byte in range(begin[row], end[row]):
            expected[row, byte] = plain.get(byte, (NOBODY, 0))
    assert said == expected


class Disk:
    """A file system that notes what the kernel's events would say, and whose each block is.

    Inodes and blocks are used again as soon as they are free. Inode 2 is its root, 3 the folder of
    the database.
    """

    def __init__(self, kind: str, seed: int) -> None:
        self.kind, self.random = kind, np.random.default_rng(seed)
        self.rows: dict[str, list[tuple[int, ...]]] = {
            name: [] for name in (*EVENTS[kind], OWN_WRITES)
        }
        self.now, self._free, self._numbers = 0, list(range(4000)), itertools.count(300)
        self.files: dict[int, tuple[int, list[int]]] = {2: (2, []), 3: (2, [])}
        self.requests: list[tuple[int, int, int, bool]] = []
        self.looks: list[tuple[int, int]] = []
        self.seen: list[tuple[int, int, int]] = []
        self.table = FileTable([Path("/d")], lambda _path: Named("heap"))
        self._folder = self.table.number(1, 3, "/d", Named("metadata", "directory"))
        self.look()

    def tick(self) -> int:
        self.now += int(self.random.integers(1, 50))
        return self.now

    def note(self, name: str, *fields: int, thread: int = 7) -> None:
        self.rows[name].append((self.tick(), thread, *fields))

    def look(self) -> None:
        begin = self.tick()
        for inode, (folder, _) in [*self.files.items()]:
            if inode == 3 or folder == 3:
                number = self._folder if inode == 3 else self.table.number(1, inode, f"/d/{inode}")
                assert number is not None
                self.seen.append((self.tick(), self._key(inode), number))
        self.looks.append((begin, self.tick()))

    def _key(self, inode: int) -> int:
        return (5 << 44 | inode) if self.kind == "btrfs" else inode

    def make(self, folder: int) -> int:
        inode = next(self._numbers)
        if self.kind != "btrfs":
            inode = next(number for number in itertools.count(10) if number not in self.files)
        if self.kind == "ext4":
            self.note("ext4/ext4_allocate_inode", inode, folder)
        elif self.kind == "xfs":
            self.note("xfs/xfs_create", folder)
            self.note("xfs/xfs_iget_miss", inode)
        else:
            self.note("btrfs/btrfs_inode_new", 77, 5, inode)
        self.files[inode] = (folder, [])
        return inode

    def remove(self, inode: int) -> None:
        if self.kind == "ext4":
            self.note("ext4/ext4_free_inode", inode)
        elif self.kind == "xfs":
            self.note("xfs/xfs_iunlink_remove", 0, inode)
        else:
            self.note("btrfs/btrfs_inode_evict", 77, 5, inode)
        self._free = sorted(self._free + self.files.pop(inode)[1])

    def write(self, inode: int, blocks: int) -> None:
        """Add blocks to a file, and write them; on btrfs each in two copies."""
        folder, there = self.files[inode]
        given, self._free = self._free[:blocks], self._free[blocks:]
        for at, block in enumerate(given, start=len(there)):
            if self.kind == "ext4":
                self.note("ext4/ext4_allocate_blocks", inode, block, 1, at, 0x20)
            elif self.kind == "xfs":
                self.note("xfs/xfs_iext_insert", inode, block, 1, at)
            else:
                place = MIB + block * BLOCK
                self.note("btrfs/btrfs_ordered_extent_add", 77, 5, inode, place, BLOCK, at * BLOCK)
        there += given
        self.send(given, is_database=folder == 3)

    def send(self, blocks: list[int], *, is_database: bool) -> None:
        time_ns = self.tick()
        for block in blocks:
            copies = (0, 32 * MIB) if self.kind == "btrfs" else (0,)
            self.requests += [
                (time_ns, copy + block * BLOCK, BLOCK, is_database) for copy in copies
            ]

    def placing(self) -> Placing:
        events = {}
        names = {**EVENTS[self.kind], OWN_WRITES: ("sector", "nr_sector", "rwbs")}
        for name, rows in self.rows.items():
            columns = np.array(rows, np.int64).reshape(-1, 2 + len(names[name])).T
            fields = dict(zip(names[name], columns[2:], strict=True))
            events[name] = Event(columns[0], columns[1], fields)
        return Placing(self.kind, 0, events)

    def history(self) -> ExtentHistory:
        chunks = [Chunk(MIB, copy, 16 * MIB) for copy in (0, 32 * MIB)]
        geometry = {"block_bytes": BLOCK, "group_blocks": 1 << 20, "group_shift": 20}
        nothing = Extents.of(np.array([], np.uint64))
        return ExtentHistory(
            [], [], self.seen, self.looks, nothing, pa.table({}), self.kind,
            chunks if self.kind == "btrfs" else None,
            geometry | {"inode_shift": 26, "fsid": 77},
        )  # fmt: skip


def shares_of(disk: Disk, folder: Path) -> list[str]:
    """Give the share of each request of a disk, all of one owner."""
    time_ns, offset, length, _ = (np.array(column) for column in zip(*disk.requests, strict=True))
    requests = pa.table(
        {
            "time_ns": time_ns.astype(np.uint64),
            "op": pa.array(["write"] * len(time_ns)).dictionary_encode(),
            "offset": offset.astype(np.uint64),
            "length": length.astype(np.uint32),
        }
    )
    history = disk.history()
    whose = attribution(folder, history, disk.placing(), disk.table, 0)
    table = owners_of(requests, whose, history.own, disk.table).table
    amounts = np.stack([table[f"{name}_bytes"].to_numpy() for name in SHARES])
    assert (amounts.sum(0) == length).all()
    assert (amounts.max(0) == length).all()
    return [SHARES[number] for number in amounts.argmax(0)]


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs"])
def test_bytes_are_of_whose_file_they_are(kind: str, seed: int, tmp_path: Path) -> None:
    disk = Disk(kind, seed)
    for _ in range(200):
        chosen = disk.random.random()
        files = [one for one in disk.files if one > 3]
        if chosen < 0.3 or not files:
            disk.make(int(disk.random.choice([2, 3])))
        elif chosen < 0.7:
            disk.write(int(disk.random.choice(files)), int(disk.random.integers(1, 5)))
        elif chosen < 0.8:
            # Blocks that are there are written again, which no event says.
            folder, blocks = disk.files[int(disk.random.choice(files))]
            disk.send(blocks, is_database=folder == 3)
        elif chosen < 0.95:
            disk.remove(int(disk.random.choice(files)))
        else:
            disk.look()
    disk.look()
    found = shares_of(disk, tmp_path)
    wrong = {("data", False), ("others", True), ("own", True), ("own", False)}
    pairs = [
        (share, is_database) for share, (*_, is_database) in zip(found, disk.requests, strict=True)
    ]
    assert not wrong.intersection(pairs)
    # Where events say in which folder a file is made, nothing is unknown; else what came and went
    # between two looks is.
    if kind != "btrfs":
        assert "shared" not in found


def test_a_number_that_is_given_again_is_another_file(tmp_path: Path) -> None:
    disk = Disk("xfs", 1)
    journal = disk.make(3)
    disk.write(journal, 3)
    disk.look()
    disk.remove(journal)
    assert disk.make(2) == journal
    disk.write(journal, 3)
    assert shares_of(disk, tmp_path) == ["data"] * 3 + ["others"] * 3


def test_what_was_lost_is_never_the_databases(tmp_path: Path) -> None:
    disk = Disk("ext4", 1)
    disk.write(disk.make(2), 2)
    disk.rows["ext4/ext4_allocate_blocks"].clear()
    assert shares_of(disk, tmp_path) == ["others"] * 2
    placing = disk.placing()
    placing.lost = 3
    whose = attribution(tmp_path, disk.history(), placing, disk.table, 0)
    assert not whose.is_whole
    assert "3 events of the file system were lost" in whose.not_told[0]


def own(disk: Disk, block: int, *, thread: int = 7) -> None:
    """Write a block of the file system's own, a while after the last."""
    disk.now += 1_000_000
    disk.note(OWN_WRITES, block * 8, 8, int.from_bytes(b"WSM", "little"), thread=thread)
    disk.requests.append((disk.tick(), block * BLOCK, BLOCK, False))


def own_shares(disk: Disk, folder: Path, journal: tuple[int, int] = (3000, 500)) -> list[str]:
    begin, count = journal
    history = disk.history()
    number = disk.table.own(Named("journal", "journal"))
    history.own = Extents.of(np.array([(begin * BLOCK, count * BLOCK, number, 0)], np.uint64))
    original = disk.history
    disk.history = lambda: history  # type: ignore[method-assign]
    try:
        return shares_of(disk, folder)
    finally:
        disk.history = original  # type: ignore[method-assign]


def test_a_transaction_of_ext4_is_for_those_whose_inodes_it_changes(tmp_path: Path) -> None:
    disk = Disk("ext4", 1)
    mine, theirs = disk.make(3), disk.make(2)
    disk.look()

    def change(transaction: int, inode: int, thread: int) -> None:
        disk.note("jbd2/jbd2_handle_start", transaction, thread=thread)
        disk.note("ext4/ext4_mark_inode_dirty", inode, thread=thread)
        disk.note("jbd2/jbd2_handle_stats", transaction, 1, thread=thread)

    def commit(transaction: int) -> None:
        disk.note("jbd2/jbd2_start_commit", transaction)
        own(disk, 3000 + transaction)
        disk.note("jbd2/jbd2_end_commit", transaction)

    change(1, mine, 1)
    commit(1)
    for transaction, inodes in enumerate([[mine], [theirs], [mine, theirs], [mine, mine]], start=2):
        for thread, inode in enumerate(inodes):
            change(transaction, inode, thread)
        commit(transaction)
    # At home: by then, both have changed something.
    own(disk, 100)
    # Nobody has seen what ran before the first transaction began.
    assert own_shares(disk, tmp_path) == ["shared", "own", "others", "shared", "own", "shared"]


def test_the_journal_of_ext4_is_known_by_its_thread(tmp_path: Path) -> None:
    """Where its place may not be asked for."""
    disk = Disk("ext4", 1)
    theirs, mine = disk.make(2), disk.make(3)
    disk.look()
    for transaction, inode in enumerate([theirs, theirs, mine]):
        disk.note("jbd2/jbd2_handle_start", transaction)
        disk.note("ext4/ext4_mark_inode_dirty", inode)
        disk.note("jbd2/jbd2_handle_stats", transaction, 1)
        disk.note("jbd2/jbd2_start_commit", transaction, thread=99)
        own(disk, 3000 + transaction, thread=99)
        own(disk, 100, thread=7)
        disk.note("jbd2/jbd2_end_commit", transaction, thread=99)
    found = own_shares(disk, tmp_path, (0, 0))
    assert found == ["shared", "shared", "others", "shared", "own", "shared"]


def test_a_folder_of_whoever_is_in_it_changes_for_them(tmp_path: Path) -> None:
    disk = Disk("ext4", 1)
    mine = disk.make(3)
    disk.look()
    history = disk.history()
    history.shared_folders = [2]
    disk.history = lambda: history  # type: ignore[method-assign]
    for transaction, inodes in ((1, [2]), (2, [2, mine]), (3, [2])):
        disk.note("jbd2/jbd2_handle_start", transaction)
        for inode in inodes:
            disk.note("ext4/ext4_mark_inode_dirty", inode)
        disk.note("jbd2/jbd2_handle_stats", transaction, 1)
        disk.note("jbd2/jbd2_start_commit", transaction)
        own(disk, 3000 + transaction)
        disk.note("jbd2/jbd2_end_commit", transaction)
    assert own_shares(disk, tmp_path) == ["shared", "own", "shared"]


def test_the_log_of_xfs_is_for_those_who_wait_for_it(tmp_path: Path) -> None:
    disk = Disk("xfs", 1)
    mine, theirs = disk.make(3), disk.make(2)
    disk.look()
    for waiting in ([theirs], [mine], [mine, theirs], []):
        for inode in waiting:
            disk.note("xfs/xfs_inode_pin", inode)
        own(disk, 3000)
        for inode in waiting:
            disk.note("xfs/xfs_inode_unpin", inode)
    own(disk, 100)
    assert own_shares(disk, tmp_path) == ["others", "own", "shared", "shared", "shared"]


def test_the_trees_of_btrfs_are_for_those_who_sync_them(tmp_path: Path) -> None:
    disk = Disk("btrfs", 1)
    mine, theirs = disk.make(3), disk.make(2)
    disk.look()

    def sync(inode: int, thread: int) -> None:
        disk.note("btrfs/btrfs_sync_file", 77, 5, inode, thread=thread)
        own(disk, 2000, thread=thread)
        own(disk, 16, thread=thread)

    for inode in (theirs, mine, mine, mine, mine):
        sync(inode, inode)
    # All trees at once, by whoever commits them: what was changed before the last two commits is in
    # none of them.
    for _ in range(3):
        own(disk, 2001, thread=99)
        disk.note("btrfs/btrfs_transaction_commit", 77, thread=99)
        sync(mine, mine)
    found = own_shares(disk, tmp_path)
    # A log may have what another began to sync before the last one was written.
    assert found[:11] == ["others"] * 2 + ["shared"] * 2 + ["own"] * 6 + ["shared"]
    assert [found[number] for number in (10, 13, 16)] == ["shared", "shared", "own"]


def test_a_write_is_the_file_systems_own_by_its_letters_alone() -> None:
    # Bytes behind the end of a text are of the event before.
    words = [b"WSM\0\0\0\0\0", b"WS\0SM\0\0\0", b"FWFSM\0\0\0", b"W\0\0\0\0\0\0M"]
    numbers = np.array([int.from_bytes(word, "little") for word in words], np.int64)
    assert _is_own(numbers).tolist() == [True, False, True, False]


def test_temporary_files_are_the_databases_wherever_they_are(tmp_path: Path) -> None:
    database = tmp_path / "app.db"
    files = FileTable([database], sqlite_namer(database))
    for name in ("/var/tmp/etilqs_a (deleted)", f"{database}-mj12AB"):  # noqa: S108
        number = files.number(1, 5 + len(name), name)
        assert number is not None
        assert files.purposes()[number] == "temp"
    assert files.number(1, 4, str(tmp_path / "app.log")) is None


def layers(
    calls: int, data: int, own: int, shared: int, others: int, **flash: Any
) -> dict[str, Any]:
    whose = {"data": data, "own": own, "shared": shared, "others": others}
    device = {
        "bytes": sum(whose.values()),
        "whose": whose,
        "to_first": (data + own) / calls if calls else None,
        "to_first_most": (data + own + shared) / calls if calls else None,
    }
    found = {"calls": {"write": {"bytes": calls, "by_purpose": {}}}, "queued": {"write": device}}
    return {
        "layers": {**found, "device": {"write": device}, **flash},
        "device": {"name": "nvme-tlc", "steady": {"write_amplification": True}},
    }


def unsteady(of: dict[str, Any]) -> dict[str, Any]:
    of["device"]["steady"]["write_amplification"] = False
    return of


FLASH = {"write": {"to_previous": 1.2, "to_first": None}}


@pytest.mark.parametrize(
    ("of", "said"),
    [
        (
            layers(1000, 1000, 0, 0, 0),
            "For every byte the database wrote, the device received 1.00 for it.",
        ),
        (
            layers(1000, 1000, 500, 0, 0),
            "For every byte the database wrote, the device received 1.50 for it, 0.500 of that "
            "the file system's own data.",
        ),
        (
            layers(1000, 1000, 500, 500, 6000),
            "For every byte the database wrote, the device received 1.50 to 2.00 for it, as not "
            "all can be told apart. 75 to 81 % of what this disk wrote was not your database's.",
        ),
        (
            layers(8, 8, 0, 0, 1968, flash=FLASH),
            "For every byte the database wrote, the device received 1.00 for it. 99.6 % of what "
            "this disk wrote was not your database's; the flash of nvme-tlc programmed 1.20 for "
            "each received.",
        ),
        (
            layers(8, 8, 0, 0, 0, flash={"write": {"to_previous": 1.2, "to_first": 1.3}}),
            "For every byte the database wrote, the device received 1.00 for it. The flash of "
            "nvme-tlc programmed 1.30 for it.",
        ),
        (
            unsteady(layers(8, 8, 0, 0, 0, flash=FLASH)),
            "For every byte the database wrote, the device received 1.00 for it.",
        ),
        (
            layers(8, 8, 0, 0, 80_000),
            "For every byte the database wrote, the device received 1.00 for it. Over 99.9 % of "
            "what this disk wrote was not your database's.",
        ),
        (
            layers(0, 0, 0, 0, 1968),
            "The database wrote nothing by its calls while it was recorded. 100 % of what this "
            "disk wrote was not your database's.",
        ),
        (
            layers(0, 0, 0, 0, 0),
            "The database wrote nothing by its calls while it was recorded.",
        ),
    ],
)
def test_the_headline_counts_the_databases_bytes_alone(of: dict[str, Any], said: str) -> None:
    found = headline(of)
    assert found == said
    sentences = found.rstrip(".").split(". ")
    assert len(sentences) <= 2
    assert all(len(one.split()) <= 30 for one in sentences)


@pytest.mark.parametrize(
    ("recorded", "said"), [(990, "as was recorded."), (900, "and 900 B were recorded.")]
)
def test_what_was_recorded_is_held_against_the_kernels_counter(recorded: int, said: str) -> None:
    about = {
        "tracer": "ftrace",
        "state": "stopped",
        "device": {"name": "x"},
        "received": {"written_bytes": 1000},
    }
    nothing = dict.fromkeys(("reads", "writes", "trims", "flushes"), 0)
    result = {
        "recording": about,
        "requests": {**nothing, "write_bytes": recorded},
        "queued": nothing,
    }
    assert recording_remarks(result)[-1].endswith(said)


@pytest.fixture
def recordable() -> None:
    there = os.geteuid() == 0 and TRACERS.exists() and "blk" in TRACERS.read_text()
    require(there, "recording needs root, and a kernel with the blk tracer")
    with Supervisor() as supervisor:
        # Whoever records beside us may take longer than a recording waits.
        Tracefs(supervisor, 400.0).close()


@pytest.mark.usefixtures("recordable")
@pytest.mark.parametrize(
    ("kind", "mode"), [("ext4", "delete"), ("xfs", "delete"), ("btrfs", "wal")]
)
def test_a_neighbour_is_not_the_database(kind: str, mode: str, cli: Cli, tmp_path: Path) -> None:
    require(shutil.which(f"mkfs.{kind}") is not None, f"mkfs.{kind} is not installed")
    alone, beside = pair(kind, mode, 100, tmp_path, cli)
    assert alone.whose["others"] == 0
    assert beside.whose["data"] == pytest.approx(alone.whose["data"], rel=0.03)
    for one in (alone, beside):
        assert one.total == pytest.approx(one.counted, rel=0.01)
    # Of the neighbour is at least what its files got, three times as much.
    most = sum(alone.whose[name] for name in ("data", "own", "shared"))
    assert beside.whose["others"] >= 2 * most
