"""Owners of places on the device.

They are tested against a plain search, against what lies there, and as files come and go.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from flashwright import InputError
from flashwright.recording import file_systems
from flashwright.recording.attribution import Attribution, attribution
from flashwright.recording.extent_watcher import _MOST_LOOKS, _TIMES_APART_NS, Watcher
from flashwright.recording.extents import ExtentHistory, Extents, ExtentWatcher, read_extents
from flashwright.recording.files import PURPOSES, FileTable, Named, sqlite_namer
from flashwright.recording.own_areas import own_areas
from flashwright.recording.owners import SHARES, owners_of, sqlite_pages
from flashwright.recording.places import (
    FIRST,
    NOBODY,
    OWN_DATABASE,
    OWN_SHARED,
    UNKNOWN,
    Change,
    Timeline,
)
from flashwright.recording.placing import PlaceTracer, Placing, read_placing
from flashwright.recording.volume import Volume
from flashwright.workloads.supervisor import Supervisor
from processes import until
from recordings import require

MIB = 1 << 20
PAGE = 4096


def requests(places: list[int], *, time_ns: int | list[int] = 0, length: int = PAGE) -> pa.Table:
    times = np.broadcast_to(np.array(time_ns, np.uint64), len(places))
    return pa.table(
        {
            "time_ns": times,
            "op": pa.array(["write"] * len(places), pa.string()).dictionary_encode(),
            "offset": np.array(places, np.uint64),
            "length": np.full(len(places), length, np.uint32),
        }
    )


@pytest.mark.parametrize("seed", range(40))
def test_ranges_are_found_as_by_a_plain_search(seed: int) -> None:
    random = np.random.default_rng(seed)
    rows = [
        (
            int(random.integers(0, 60)),
            int(random.integers(1, 15)),
            file,
            int(random.integers(0, 1000)),
        )
        for file in range(int(random.integers(0, 12)))
    ]
    extents = Extents.of(np.array(rows, np.uint64))
    assert (extents.begin[1:] >= extents.end[:-1]).all()
    places = np.arange(90, dtype=np.uint64)
    found = extents.find(places)
    for place, number in zip(range(90), found, strict=True):
        # Of ranges that overlap, the one that begins first has the place; of equal ones the
        # shortest.
        owners = sorted(row for row in rows if row[0] <= place < row[0] + row[1])
        if not owners:
            assert number == -1, place
            continue
        offset = int(extents.file_offset[number]) + place - int(extents.begin[number])
        assert (int(extents.file[number]), offset) in [
            (row[2], row[3] + place - row[0]) for row in owners
        ]
        if len(owners) == 1:
            assert int(extents.file[number]) == owners[0][2]


def at(*rows: tuple[int, int, int, int, int]) -> Attribution:
    """Tell that ranges (device offset, length, file, offset in it) were a file's from a time on."""
    changes = [
        Change(time_ns, begin, begin + length, file, offset)
        for time_ns, begin, length, file, offset in rows
    ]
    return Attribution(Timeline(changes), is_whole=True, not_told=[])


NOTHING = Extents.of(np.array([], np.uint64))


def test_each_byte_of_a_request_is_of_its_owner() -> None:
    files = FileTable([Path("/d")], lambda path: Named("wal" if path.name == "w" else "heap"))
    assert [files.number(1, inode, f"/d/{name}") for inode, name in enumerate("awb")] == [0, 1, 2]
    tables = files.own(Named("metadata", "tables"))
    whose = at(
        (FIRST, 0, PAGE, 0, 0),
        (10, 0, PAGE, 1, 8192),
        (FIRST, PAGE, PAGE, 2, 0),
        (FIRST, 2 * PAGE, PAGE, UNKNOWN, 0),
        (FIRST, 3 * PAGE, PAGE, OWN_SHARED, 0),
        (FIRST, 8 * PAGE, PAGE, OWN_DATABASE, 0),
    )
    own = Extents.of(np.array([(3 * PAGE, PAGE, tables, 0)], np.uint64))
    table = requests([0, 0, PAGE, 2 * PAGE, 3 * PAGE, 4 * PAGE, 8 * PAGE], time_ns=[5] + [15] * 6)
    said = owners_of(table, whose, own, files)
    assert said.table["file"].to_pylist() == [0, 1, 2, None, tables, None, None]
    assert said.table["file_offset"].to_pylist() == [0, 8192, 0, None, None, None, None]
    purposes = ["heap", "wal", "heap", "unknown", "metadata", "others", "metadata"]
    assert said.table["purpose"].to_pylist() == purposes
    amounts = [said.table[f"{name}_bytes"].to_pylist() for name in SHARES]
    data, for_it, shared, others = (np.array(one) // PAGE for one in amounts)
    assert data.tolist() == [1, 1, 1, 0, 0, 0, 0]
    assert for_it.tolist() == [0, 0, 0, 0, 0, 0, 1]
    assert shared.tolist() == [0, 0, 0, 1, 1, 0, 0]
    assert others.tolist() == [0, 0, 0, 0, 0, 1, 0]
    counts = {"owned": 3, "own": 2, "others": 1, "unknown": 1, "mixed": 0, "flushes": 0}
    assert said.counts == counts
    # All of it at once: the first of the database's gives its name, each byte counts for its own.
    said = owners_of(requests([2 * PAGE], length=3 * PAGE, time_ns=15), whose, own, files)
    assert said.table["file"].to_pylist() == [None]
    said = owners_of(requests([0], length=5 * PAGE, time_ns=15), whose, own, files)
    assert said.table["file"].to_pylist() == [1]
    assert [said.table[f"{name}_bytes"][0].as_py() // PAGE for name in SHARES] == [2, 0, 2, 1]
    assert said.counts["mixed"] == 1
    assert owners_of(requests([0], length=0), whose, own, files).counts["flushes"] == 1
    # Where events were lost, or there are none, nobody's place may be anybody's.
    part = Attribution(whose.places, is_whole=False, not_told=[])
    table = requests([4 * PAGE])
    assert owners_of(table, part, own, files).table["purpose"].to_pylist() == ["unknown"]


def test_without_events_a_place_is_of_who_has_it_at_the_next_look(tmp_path: Path) -> None:
    files = FileTable([Path("/d")])
    numbers = [files.number(1, inode, f"/d/{inode}") for inode in range(2)]
    assert numbers == [0, 1]
    history = ExtentHistory(
        [Change(12, 0, PAGE, 0), Change(31, 0, PAGE, 1)],
        [Change(31, 0, PAGE, NOBODY)],
        [],
        [(10, 15), (20, 25), (30, 35)],
        NOTHING,
        pa.table({}),
        "f2fs",
    )
    whose = attribution(tmp_path, history, Placing("f2fs", not_told="it has none"), files, 0)
    assert not whose.is_whole
    assert "it has none" in whose.not_told[0]
    table = requests([0] * 3, time_ns=[5, 15, 22])
    assert owners_of(table, whose, NOTHING, files).table["file"].to_pylist() == [0, 0, 1]


@pytest.fixture
def supervisor() -> Iterator[Supervisor]:
    with Supervisor() as made:
        yield made


def volume_of(supervisor: Supervisor, kind: str) -> Volume:
    require(os.geteuid() == 0, "a file system of our own needs root")
    require(shutil.which(f"mkfs.{kind}") is not None, f"mkfs.{kind} is not installed")
    try:
        file_system = file_systems.find(kind)
    except InputError as error:
        require(is_there=False, what=str(error))
    made = Volume(supervisor, file_system)
    made.on_image(Path("/var/tmp"), 320 * MIB if kind == "xfs" else 128 * MIB)  # noqa: S108
    return made


def tagged(file: int, page: int) -> bytes:
    """A page that says whose it is."""
    return f"page {page} of file {file} ".encode().ljust(64, b".") * (PAGE // 64)


def image_of(volume: Volume) -> Path:
    return Path(str(volume.device.about()["backing_file"]))


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs"])
def test_each_page_on_the_device_is_of_the_file_that_is_named_in_it(
    kind: str, supervisor: Supervisor, tmp_path: Path
) -> None:
    volume = volume_of(supervisor, kind)
    data = volume.mount_point / "data"
    data.mkdir()
    watcher = ExtentWatcher(supervisor, tmp_path, [data], interval_s=0.2)
    watcher.prepare(kind, volume.device.path, volume.mount_point)
    tracer = PlaceTracer(supervisor, tmp_path)
    tracer.start(kind, volume.device)
    watcher.start()
    paths = [data / f"file{number}" for number in range(4)]
    handles = [os.open(path, os.O_RDWR | os.O_CREAT) for path in paths]
    # In turn and with gaps, so that there are many extents; large enough not to lie in an inode.
    for page in range(0, 600, 2):
        for number, handle in enumerate(handles):
            os.pwrite(handle, tagged(number, page), page * PAGE)
            if page % 50 == 0:
                os.fsync(handle)
    paths[2].rename(data / "renamed")
    for handle in handles:
        os.fsync(handle)
        os.close(handle)
    os.sync()
    watcher.stop()
    tracer.stop()
    tracer.close()

    files = FileTable([data])
    history = read_extents(tmp_path, files, 0)
    placing = read_placing(tmp_path)
    assert (placing.not_told, placing.lost) == (None, 0)
    whose = attribution(tmp_path, history, placing, files, 0)
    image = image_of(volume).read_bytes()
    expected = {}
    for place in range(0, len(image), PAGE):
        words = image[place : place + 64].split(b" ")
        if words[0] == b"page" and image[place : place + PAGE] == tagged(
            int(words[4]), int(words[1])
        ):
            expected[place] = (int(words[4]), int(words[1]) * PAGE)
    assert len(expected) >= 4 * 300
    table = requests(list(expected), time_ns=time.monotonic_ns())
    said = owners_of(table, whose, history.own, files)
    names = [Path(path).name for path in files.paths()]
    wanted = ["file0", "file1", "renamed", "file3"]
    found = [
        (None if file is None else names[file], offset)
        for file, offset in zip(
            said.table["file"].to_pylist(), said.table["file_offset"].to_pylist(), strict=True
        )
    ]
    right = [
        (wanted[file], offset) == one
        for (file, offset), one in zip(expected.values(), found, strict=True)
    ]
    # Also of copies that btrfs has written again elsewhere: nobody else had their places since.
    assert all(right)
    # Some of what is no file of ours is known to be the file system's.
    own = {one["purpose"] for one in files.table().to_pylist() if one["path"].startswith("<")}
    assert own == (
        {"metadata"}
        if kind == "btrfs"
        else {"journal"}
        if kind == "xfs"
        else {"journal", "metadata"}
    )


def test_the_journal_of_ext4_is_where_its_superblock_stands(supervisor: Supervisor) -> None:
    volume = volume_of(supervisor, "ext4")
    os.sync()
    own = own_areas("ext4", volume.device.path, volume.mount_point)
    assert own.not_told == []
    journal = [area for area in own.areas if area.purpose == "journal"]
    with image_of(volume).open("rb") as image:
        image.seek(journal[0].device_offset)
        # The magic number of jbd2, and the type of a superblock of version 2.
        assert image.read(8) == bytes.fromhex("c03b3998 00000004")
        tables = {area.device_offset for area in own.areas if area.purpose == "metadata"}
        assert 0 in tables
    assert sum(area.length for area in journal) >= 4 * MIB
    # The log of XFS likewise, in which the number of a block is not its place.
    volume = volume_of(supervisor, "xfs")
    own = own_areas("xfs", volume.device.path, volume.mount_point)
    with image_of(volume).open("rb") as image:
        image.seek(own.areas[0].device_offset)
        assert image.read(4) == bytes.fromhex("feedbabe")
    assert (
        own_areas("ext4", volume.device.path, volume.mount_point)
        .not_told[0]
        .startswith("where ext4 has its own data")
    )
    assert own_areas("f2fs", volume.device.path, volume.mount_point).not_told == [
        "where f2fs has its own data"
    ]


def test_files_that_come_and_go_are_seen_and_a_killed_watcher_can_be_read(
    supervisor: Supervisor, tmp_path: Path
) -> None:
    volume = volume_of(supervisor, "ext4")
    watcher = ExtentWatcher(supervisor, tmp_path, [volume.mount_point], interval_s=0.05)
    watcher.prepare("ext4", volume.device.path, volume.mount_point)
    watcher.start()
    maps = tmp_path / "extents.jsonl"
    gone = volume.mount_point / "gone"
    gone.write_bytes(tagged(0, 0))
    os.sync()
    assert until(lambda: '/gone","is_directory":false,"extents":[[' in maps.read_text(), 30)
    gone.unlink()
    assert until(lambda: '"gone":true' in maps.read_text(), 30)
    watcher.close()
    with maps.open("a") as lines:
        lines.write('{"device":1,"in')
    files = FileTable([volume.mount_point])
    history = read_extents(tmp_path, files, 0)
    number = [Path(path).name for path in files.paths()].index("gone")
    rows = [row for row in history.table.to_pylist() if row["file"] == number]
    assert len(rows) == 1
    whose = attribution(tmp_path, history, Placing("f2fs"), files, 0)
    gone_ns = history.ends[-1].time_ns
    said = owners_of(
        requests([rows[0]["device_offset"]] * 2, time_ns=[gone_ns - 1, gone_ns]),
        whose,
        history.own,
        files,
    )
    assert said.table["file"].to_pylist() == [number, None]
    directories = [one for one in files.table().to_pylist() if one["name"] == "directory"]
    assert [one["purpose"] for one in directories] == ["metadata"] * len(directories)
    # A line that is damaged elsewhere is told.
    maps.write_text("{}{\n" + maps.read_text())
    with pytest.raises(InputError, match=r"extents.jsonl, line 1: damaged"):
        read_extents(tmp_path, files, 0)
    with pytest.raises(InputError, match="no recording of where files lie"):
        read_extents(tmp_path / "nowhere", files, 0)


def test_pages_of_sqlite_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "database.sqlite"
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        has_dbstat = ("ENABLE_DBSTAT_VTAB",) in database.execute(
            "PRAGMA compile_options"
        ).fetchall()
        database.execute("BEGIN")
        database.execute("CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT)")
        database.execute("CREATE INDEX i ON t (b)")
        database.executemany(
            "INSERT INTO t VALUES (?, ?)", ((n, f"key-{n:06}" * 4) for n in range(2000))
        )
        database.execute("CREATE TABLE dropped (a TEXT)")
        database.executemany("INSERT INTO dropped VALUES (?)", (("x" * 1000,) for _ in range(100)))
        database.execute("DROP TABLE dropped")
        database.execute("COMMIT")
    pages = sqlite_pages(path)
    if not has_dbstat:
        assert pages is None
        return
    assert pages is not None
    data = path.read_bytes()
    # The first byte of a page tells a b-tree's sort: 2, 10 index; 5, 13 table. The first page
    # begins with the file's head.
    sorts = [data[page * pages.page_bytes] for page in range(len(pages.purpose))]
    said = [PURPOSES[number] for number in pages.purpose]
    assert said[0] == "catalog"
    assert "other" in said
    for page in range(1, len(said)):
        if said[page] != "other":
            assert sorts[page] in ((2, 10) if said[page] == "index" else (5, 13)), page
    assert {name for name in pages.names if name} == {"t", "i", "sqlite_schema"}
    files = FileTable([tmp_path], sqlite_namer(path))
    number = files.number(1, 1, str(path))
    assert number == 0
    whose = at((FIRST, MIB, len(data), 0, 0))
    places = [MIB + page * pages.page_bytes for page in range(len(said))]
    found = owners_of(requests(places), whose, NOTHING, files, pages={0: pages}).table["purpose"]
    assert found.to_pylist() == said


def test_a_million_requests_are_told() -> None:
    random = np.random.default_rng(1)
    rows = [(n % 20, n * 64 * PAGE, 60 * PAGE, n % 50, n * 64 * PAGE) for n in range(20_000)]
    files = FileTable([Path("/d")])
    for inode in range(50):
        files.number(1, inode, f"/d/{inode}")
    places = random.integers(0, 20_000 * 64, 1_000_000) * PAGE
    times = random.integers(0, 20, 1_000_000)
    table = requests(places.tolist(), time_ns=times.tolist())
    said = owners_of(table, at(*rows), NOTHING, files)
    has_come = places // PAGE // 64 % 20 <= times
    assert said.counts["owned"] == int((has_come & (places // PAGE % 64 < 60)).sum())


class Looks:
    """A watcher on a folder, and the lines that its last looks wrote."""

    def __init__(self, data: Path, output: Path) -> None:
        self._watcher, self._output, self._read = Watcher([data], None, output), output, 0

    def look(self, times: int = 1, *, everything: bool = False) -> list[dict[str, Any]]:
        for _ in range(times):
            self._watcher.look(everything=everything)
        lines = self._output.read_text().splitlines()
        new, self._read = lines[self._read :], len(lines)
        return [json.loads(line) for line in new]


def append(path: Path) -> None:
    with path.open("ab", buffering=0) as out:
        out.write(bytes(PAGE))
        os.fsync(out.fileno())


def last_size(path: Path, said: list[dict[str, Any]]) -> int | None:
    """Give the bytes that the last line about a file places; None if there is none."""
    maps = [line["extents"] for line in said if line.get("path") == str(path)]
    return sum(extent[2] for extent in maps[-1]) if maps else None


def test_a_file_that_is_quiet_is_passed_over_and_its_change_is_seen_in_the_end(
    supervisor: Supervisor, tmp_path: Path
) -> None:
    data = volume_of(supervisor, "ext4").mount_point / "data"
    base = data / "base"
    base.mkdir(parents=True)
    quiet, gone, new = base / "quiet", base / "gone", base / "new"
    append(quiet)
    append(gone)
    # So fresh that another change might have the same time, they would be looked at each time.
    time.sleep(2 * _TIMES_APART_NS / 1e9)
    looks = Looks(data, tmp_path / "maps")
    assert last_size(quiet, looks.look()) == PAGE
    assert last_size(quiet, looks.look(3 * _MOST_LOOKS)) is None
    append(quiet)
    seen = [last_size(quiet, looks.look()) for _ in range(_MOST_LOOKS + 1)]
    assert [size for size in seen if size is not None] == [2 * PAGE]
    # Files that come and go are seen at the next look, however quiet they were.
    looks.look(3 * _MOST_LOOKS)
    gone.unlink()
    assert [line for line in looks.look() if line.get("gone")]
    append(new)
    assert last_size(new, looks.look()) == PAGE
    time.sleep(2 * _TIMES_APART_NS / 1e9)
    looks.look(3 * _MOST_LOOKS)
    # In the end, everything is looked at.
    append(quiet)
    assert last_size(quiet, looks.look(everything=True)) == 3 * PAGE
