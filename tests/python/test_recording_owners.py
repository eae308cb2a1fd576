"""Whose a place on the device is.

Against a plain search, against what lies there, and as files come and go.
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
from flashwright.recording.extent_watcher import _MOST_LOOKS, _TIMES_APART_NS, Watcher
from flashwright.recording.extents import ExtentHistory, Extents, ExtentWatcher, read_extents
from flashwright.recording.files import PURPOSES, FileTable, Named, sqlite_namer
from flashwright.recording.own_areas import own_areas
from flashwright.recording.owners import owners_of, sqlite_pages
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


def test_a_place_is_of_who_has_it_at_the_next_look() -> None:
    def at(*rows: tuple[int, int, int, int]) -> Extents:
        return Extents.of(np.array(rows, np.uint64))

    files = FileTable([Path("/d")], lambda path: Named("wal" if path.name == "w" else "heap"))
    assert [files.number(1, inode, f"/d/{name}") for inode, name in enumerate("awb")] == [0, 1, 2]
    maps = [at((0, PAGE, 0, 0)), at((0, PAGE, 1, 8192)), at((PAGE, PAGE, 2, 0))]
    history = ExtentHistory(np.array([10, 20, 30]), maps, at(), pa.table({}), "ext4")
    said = owners_of(
        requests([0, 0, 0, 0, PAGE, 3 * PAGE], time_ns=[5, 15, 25, 35, 0, 0]), history, files
    )
    # After the second look, the place is nobody's: the one before knows whose it was.
    assert said.table["file"].to_pylist() == [0, 1, 1, 1, 2, None]
    assert said.table["file_offset"].to_pylist() == [0, 8192, 8192, 8192, 0, None]
    assert said.table["purpose"].to_pylist() == ["heap", "wal", "wal", "wal", "heap", "metadata"]
    assert said.counts == {
        "owned": 5,
        "by_sync": 0,
        "own": 0,
        "unowned": 1,
        "mixed": 0,
        "flushes": 0,
    }
    # Two files in one request, and a flush.
    said = owners_of(requests([0], length=2 * PAGE, time_ns=[35]), history, files)
    assert (said.table["file"].to_pylist(), said.counts["mixed"]) == ([1], 1)
    assert owners_of(requests([0], length=0), history, files).counts["flushes"] == 1


def test_where_data_move_a_write_is_of_the_file_that_is_synced_meanwhile() -> None:
    files = FileTable([Path("/d")], lambda path: Named("wal" if path.name == "w" else "heap"))
    for inode, name in enumerate("wh"):
        files.number(1, inode, f"/d/{name}")
    calls = pa.table(
        {
            # The last one writes, and syncs nothing.
            "time_ns": [10, 15, 30, 32, 50],
            "duration_ns": [10, 3, 10, 2, 10],
            "op": ["sync", "sync", "sync", "sync", "write"],
            "file": pa.array([0, 0, 1, 0, 1], pa.uint32()),
        }
    )
    nothing = Extents.of(np.array([], np.uint64))
    trees = Extents.of(np.array([(0, PAGE, files.own(Named("metadata", "trees")), 0)], np.uint64))
    history = ExtentHistory(np.array([0]), [nothing], trees, pa.table({}), "btrfs")
    times = [9, 10, 17, 19, 21, 30, 33, 35, 55, 17, 17]
    table = requests([PAGE] * 9 + [PAGE, 0], time_ns=times)
    table = table.append_column(
        "op", pa.array(["write"] * 9 + ["read", "write"]).dictionary_encode()
    )
    said = owners_of(table, history, files, calls=calls)
    assert said.table["file"].to_pylist() == [None, 0, 0, 0, None, 1, None, 1, None, None, 2]
    assert said.table["file_offset"].to_pylist() == [None] * 10 + [0]
    assert said.table["purpose"].to_pylist()[1:6] == ["wal", "wal", "wal", "other", "heap"]
    assert said.counts == {
        "owned": 0,
        "by_sync": 5,
        "own": 1,
        "unowned": 5,
        "mixed": 0,
        "flushes": 0,
    }
    # In place, what is in no file is the file system's own, whoever syncs.
    history = ExtentHistory(np.array([0]), [nothing], trees, pa.table({}), "ext4")
    assert owners_of(table, history, files, calls=calls).counts["by_sync"] == 0


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

    files = FileTable([data])
    history = read_extents(tmp_path, files, time.monotonic_ns())
    image = image_of(volume).read_bytes()
    expected = {}
    for place in range(0, len(image), PAGE):
        words = image[place : place + 64].split(b" ")
        if words[0] == b"page" and image[place : place + PAGE] == tagged(
            int(words[4]), int(words[1])
        ):
            expected[place] = (int(words[4]), int(words[1]) * PAGE)
    assert len(expected) >= 4 * 300
    said = owners_of(requests(list(expected)), history, files)
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
    # btrfs writes what is synced early again elsewhere: the old copies are of no file any more.
    assert sum(right) >= 4 * 300
    if kind != "btrfs":
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
    said = owners_of(
        requests([rows[0]["device_offset"]], time_ns=time.monotonic_ns()), history, files
    )
    assert said.table["file"].to_pylist() == [number]
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
    whole = Extents.of(np.array([(MIB, len(data), 0, 0)], np.uint64))
    history = ExtentHistory(
        np.array([0]), [whole], Extents.of(np.array([], np.uint64)), pa.table({}), "ext4"
    )
    places = [MIB + page * pages.page_bytes for page in range(len(said))]
    found = (
        owners_of(requests(places), history, files, pages={0: pages}).table["purpose"].to_pylist()
    )
    assert found == said


def test_a_million_requests_are_told() -> None:
    random = np.random.default_rng(1)
    rows = [(n * 64 * PAGE, 60 * PAGE, n % 50, n * 64 * PAGE) for n in range(20_000)]
    maps = [Extents.of(np.array(rows[n * 100 :], np.uint64)) for n in range(20)]
    files = FileTable([Path("/d")])
    for inode in range(50):
        files.number(1, inode, f"/d/{inode}")
    history = ExtentHistory(
        np.arange(20), maps, Extents.of(np.array([], np.uint64)), pa.table({}), "ext4"
    )
    places = random.integers(0, 20_000 * 64, 1_000_000) * PAGE
    said = owners_of(
        requests(places.tolist(), time_ns=random.integers(0, 20, 1_000_000).tolist()),
        history,
        files,
    )
    assert said.counts["owned"] == int((places // PAGE % 64 < 60).sum())


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
    # What comes and goes is seen at the next look, however quiet it was.
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
