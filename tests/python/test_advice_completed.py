"""Loads that a database's log tells, on the disk as it was recorded."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flashwright.advice import completed
from flashwright.advice.completed import JOURNAL_BYTES, Extents, FilePart, placed
from flashwright.advice.load import FLUSH, READ, TRIM, WRITE
from flashwright.advice.traces import Requests
from flashwright.advice.what_ifs import OfSqlite
from flashwright.recording.files import PURPOSES

MIB = 1 << 20
HEAP, LOG, JOURNAL = (PURPOSES.index(name) for name in ("heap", "wal", "journal"))


def requests(*rows: tuple[int, int, int, int, int]) -> Requests:
    """Rows of time, operation, offset, length and purpose."""
    columns = np.array(rows, np.int64).reshape(-1, 5).T
    return Requests(*columns)


def rows_of(found: Requests) -> list[tuple[int, ...]]:
    columns = (found.time_ns, found.op, found.offset, found.length, found.stream)
    return [tuple(int(one) for one in row) for row in zip(*columns, strict=True)]


def write(path: Path, names: Sequence[str], rows: Sequence[tuple[object, ...]]) -> None:
    columns = (list(one) for one in zip(*rows, strict=True))
    pq.write_table(pa.table(dict(zip(names, columns, strict=True))), path)


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """A recording of a table in two extents, of which the second grew, and two files of a log."""
    files = [
        (0, "/data/base/5/100", "heap"),
        (1, "/data/pg_wal/0001", "wal"),
        (2, "/data/pg_wal/0002", "wal"),
        (3, "/data/global/100", "catalog"),
    ]
    extents = [
        (0, 0, 10 * MIB, MIB, 1),
        (0, MIB, 40 * MIB, MIB, 1),
        (0, MIB, 40 * MIB, 2 * MIB, 2),
        (1, 0, 20 * MIB, MIB, 1),
        # It was renamed: the same place under another name.
        (2, 0, 20 * MIB, MIB, 3),
        (2, 0, 30 * MIB, MIB, 4),
        (3, 0, 5 * MIB, MIB, 1),
    ]
    write(tmp_path / "files.parquet", ("file", "path", "purpose"), files)
    columns = ("file", "file_offset", "device_offset", "length", "seen_ns")
    write(tmp_path / "extents.parquet", columns, extents)
    return tmp_path


TABLE = FilePart("base/5/100", 0, 4 * MIB)


class TestPlaced:
    def test_a_file_lies_where_it_was_recorded(self, recording: Path) -> None:
        told = requests(
            (1, WRITE, 8192, 8192, HEAP),
            (2, WRITE, MIB + 4096, 4096, HEAP),
            (3, FLUSH, 0, 0, HEAP),
        )
        found = placed(told, [TABLE], Extents(recording), requests(), None)
        assert rows_of(found) == [
            (1, WRITE, 10 * MIB + 8192, 8192, HEAP),
            (2, WRITE, 40 * MIB + 4096, 4096, HEAP),
            (3, FLUSH, 0, 0, HEAP),
        ]

    def test_a_request_over_two_extents_becomes_two(self, recording: Path) -> None:
        told = requests((1, WRITE, MIB - 4096, 12288, HEAP))
        found = placed(told, [TABLE], Extents(recording), requests(), None)
        assert rows_of(found) == [
            (1, WRITE, 11 * MIB - 4096, 4096, HEAP),
            (1, WRITE, 40 * MIB, 8192, HEAP),
        ]

    def test_what_was_not_seen_gets_room_where_nothing_is(self, recording: Path) -> None:
        told = requests((1, WRITE, 3 * MIB, 4096, HEAP))
        behind = requests((0, WRITE, 60 * MIB, MIB, JOURNAL))
        found = placed(told, [TABLE], Extents(recording), behind, None)
        assert found.offset[0] == 61 * MIB
        # The widest gap of this disk is between 42 and 60 MiB.
        found = placed(told, [TABLE], Extents(recording), behind, 61 * MIB)
        assert found.offset[0] == 42 * MIB

    def test_files_of_a_log_take_the_places_that_it_had(self, recording: Path) -> None:
        log = [FilePart(f"pg_wal/place {one}", one * MIB, MIB, is_log=True) for one in range(3)]
        told = requests(*((one, WRITE, one * MIB, 4096, LOG) for one in range(3)))
        extents = Extents(recording)
        for _ in range(2):
            found = placed(told, log, extents, requests(), None)
            assert found.offset.tolist() == [20 * MIB, 30 * MIB, 42 * MIB]

    def test_relations_of_one_number_are_told_apart_by_database(self, recording: Path) -> None:
        shared = FilePart("global/100", 0, MIB)
        found = placed(
            requests((1, WRITE, 0, 4096, HEAP)), [shared], Extents(recording), requests(), None
        )
        assert found.offset[0] == 5 * MIB

    def test_without_extents_a_load_stays_where_it_is(self, tmp_path: Path) -> None:
        told = requests((1, WRITE, 8192, 8192, HEAP))
        assert rows_of(placed(told, [], Extents(tmp_path), requests(), None)) == rows_of(told)


class TestBeside:
    RECORDED = requests(
        (1, READ, 0, 4096, HEAP),
        (2, WRITE, 0, 4096, HEAP),
        (3, WRITE, 4096, 4096, LOG),
        (4, WRITE, 8192, 4096, JOURNAL),
        (5, FLUSH, 0, 0, PURPOSES.index("other")),
        (6, WRITE, 12288, 4096, PURPOSES.index("other")),
        (7, TRIM, 16384, 4096, PURPOSES.index("other")),
    )

    def test_are_reads_and_what_the_log_does_not_tell(self) -> None:
        found = completed.beside(self.RECORDED, [HEAP, LOG])
        assert found.time_ns.tolist() == [1, 4, 6, 7]

    def test_are_not_pages_that_other_settings_do_not_write(self) -> None:
        """They came back where a setting left no write of their kind."""
        found = completed.beside(self.RECORDED, [HEAP, LOG, PURPOSES.index("other")])
        assert found.time_ns.tolist() == [1, 4, 7]

    def test_reads_can_get_fewer(self) -> None:
        many = requests(*((one, READ, 0, 4096, HEAP) for one in range(10_000)))
        assert len(completed.beside(many, [HEAP], 0.3).op) == pytest.approx(3000, rel=0.05)
        assert len(completed.beside(many, [HEAP], 2.0).op) == 10_000
        assert len(completed.beside(many, [HEAP], 0.0).op) == 0


class TestGrownLog:
    """SQLite's log of a recording that had 8 KiB of it at its begin."""

    @pytest.fixture
    def of_log(self, tmp_path: Path) -> OfSqlite:
        write(
            tmp_path / "files.parquet",
            ("file", "path", "purpose"),
            [(0, "/x/app.db", "heap"), (1, "/x/app.db-wal", "wal")],
        )
        columns = ("file", "file_offset", "device_offset", "length", "seen_ns")
        extents = [(0, 0, MIB, MIB, -5), (1, 0, 2 * MIB, 8192, -5), (1, 0, 2 * MIB, MIB, 5)]
        write(tmp_path / "extents.parquet", columns, extents)
        found = object.__new__(OfSqlite)
        found._recording = tmp_path
        return found

    def test_a_sync_after_growth_is_a_commit_of_the_file_system(self, of_log: OfSqlite) -> None:
        begin = 4 * MIB
        told = requests(
            (1, WRITE, begin, 4096, 2),
            (2, FLUSH, 0, 0, 2),
            (3, WRITE, begin + 4096, 4096, 2),
            (4, FLUSH, 0, 0, 2),
            (5, WRITE, begin + 8192, 4096, 2),
            (6, FLUSH, 0, 0, 2),
            (7, WRITE, begin, 4096, 2),
            (8, FLUSH, 0, 0, 2),
            (9, WRITE, 0, 4096, 1),
            (10, FLUSH, 0, 0, 1),
        )
        assert of_log._syncs_of_grown_log(told).tolist() == [6]

    def test_a_load_that_never_syncs_has_none(self, of_log: OfSqlite) -> None:
        assert not len(of_log._syncs_of_grown_log(requests((1, WRITE, 0, 4096, 2))))
        assert not len(of_log._syncs_of_grown_log(requests()))


def test_transactions_of_the_warm_up_do_not_count(tmp_path: Path) -> None:
    """They were in the load: a fifth more than the disk got, and so there was no answer."""
    rows = [(0, -20, 1), (0, -20, 2), (1, -10, 1), (2, 0, 1), (3, 10, 4)]
    write(tmp_path / "transactions.parquet", ("transaction", "time_ns", "page"), rows)
    found = object.__new__(OfSqlite)
    found._recording = tmp_path
    assert found._before == 2


class TestJournal:
    def test_a_mode_with_more_commits_of_the_file_system_writes_them(self) -> None:
        others = requests((0, WRITE, 64 * MIB, 4096, JOURNAL))
        at = np.arange(1, 3001, dtype=np.int64)
        found = completed.with_journal(others, at, 8, 0.0)
        made = found.taken(found.time_ns > 0)
        assert made.written_bytes == 3000 * 8 * 4096
        assert set(made.length.tolist()) == {7 * 4096, 4096}
        assert made.offset.min() == 64 * MIB
        assert (made.offset + made.length).max() <= 64 * MIB + JOURNAL_BYTES

    def test_a_mode_with_fewer_leaves_them_out(self) -> None:
        others = requests(*((one, WRITE, one * 4096, 4096, JOURNAL) for one in range(1000)))
        found = completed.with_journal(others, np.array([], np.int64), 0, 750 * 4096)
        assert len(found.op) == pytest.approx(250, rel=0.1)
        none = completed.with_journal(others, np.array([], np.int64), 0, 2000 * 4096)
        assert len(none.op) == 0
