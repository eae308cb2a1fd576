"""`sqlite_what_if` beside SQLite itself, whose calls strace counts."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import flashwright as fw
from experiments.validations.sqlite_what_if.counted import NAME, count
from experiments.validations.sqlite_what_if.load import fill
from experiments.validations.sqlite_what_if.study import (
    CACHE_SIZE,
    MODES,
    PAGE_SIZE,
    Mode,
    compare,
    predict,
    record,
)
from flashwright import _core
from flashwright._core import InputError
from support import find_program

TRANSACTIONS = 200
FRAME = 24 + PAGE_SIZE


@pytest.fixture(scope="module", autouse=True)
def _strace() -> None:
    find_program("strace")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lite").resolve()


@pytest.fixture(scope="module")
def log(folder: Path) -> Path:
    """A log of orders that was never restarted, beside its database."""
    return record(folder, "orders", TRANSACTIONS, 3)


def what_if(transactions: Path, *modes: Mode, **settings: object) -> dict[str, Any]:
    return predict(transactions, modes, **settings)


@pytest.mark.parametrize("kind", ["tpcb", "orders", "mixed"])
def test_each_mode_writes_and_syncs_what_was_said(kind: str, tmp_path: Path) -> None:
    for one in compare(tmp_path.resolve(), kind, MODES, TRANSACTIONS, 1):
        said = one.mode.title()
        assert [ours for ours, _ in one.bytes()] == [theirs for _, theirs in one.bytes()], said
        assert [ours for ours, _ in one.syncs()] == [theirs for _, theirs in one.syncs()], said


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("page_size", [1024, 8192])
def test_any_transactions_on_any_pages(seed: int, page_size: int, tmp_path: Path) -> None:
    base, keep, place = tmp_path / "base.db", tmp_path / "keep", tmp_path.resolve()
    fill(base, page_size, {"auto_vacuum": ("none", "incremental")[seed % 2]})
    keep.mkdir()
    pragmas = {"journal_mode": "wal", "wal_autocheckpoint": 0, "cache_size": CACHE_SIZE}
    count(place, base, "mixed", pragmas, 120, seed=seed, keep=keep)
    modes = (
        Mode(wal_autocheckpoint=30 + 100 * seed, transactions_in_one=1 + 3 * seed),
        Mode(("delete", "truncate", "persist", "delete")[seed], transactions_in_one=4 - seed),
    )
    for mode, said in zip(modes, predict(keep / f"{NAME}-wal", modes)["modes"], strict=True):
        own = {**mode.pragmas(), "cache_size": CACHE_SIZE}
        found = count(
            place, base, "mixed", own, 120, transactions_in_one=mode.transactions_in_one, seed=seed
        )
        ours = [said[f"{name}_bytes"] for name in ("log", "journal", "database")]
        assert ours == [found.bytes[name] for name in ("log", "journal", "database")]


def test_pages_that_are_freed_and_not_wiped_make_a_bound(tmp_path: Path) -> None:
    """Without `secure_delete` a rollback mode leaves them out, and a log does not."""
    base, keep, place = tmp_path / "base.db", tmp_path / "keep", tmp_path.resolve()
    fill(base, PAGE_SIZE, {})
    keep.mkdir()
    own = {"secure_delete": "off", "cache_size": CACHE_SIZE}
    pragmas = {"journal_mode": "wal", "wal_autocheckpoint": 0, **own}
    count(place, base, "mixed", pragmas, 120, keep=keep)
    modes = (Mode("delete"), Mode(wal_autocheckpoint=100))
    rollback, in_log = predict(keep / f"{NAME}-wal", modes)["modes"]
    assert any("secure_delete" in one for one in rollback["bounds"])
    found = count(place, base, "mixed", {**modes[0].pragmas(), **own}, 120)
    assert found.bytes["database"] < rollback["database_bytes"] < 1.05 * found.bytes["database"]
    assert found.bytes["journal"] == rollback["journal_bytes"]
    assert in_log["bounds"] == []
    found = count(place, base, "mixed", {**modes[1].pragmas(), **own}, 120)
    assert (found.bytes["log"], found.bytes["database"]) == (
        in_log["log_bytes"],
        in_log["database_bytes"],
    )


def test_a_database_that_vacuums_itself_makes_a_bound(tmp_path: Path) -> None:
    base, keep, place = tmp_path / "base.db", tmp_path / "keep", tmp_path.resolve()
    fill(base, PAGE_SIZE, {"auto_vacuum": "full"})
    keep.mkdir()
    pragmas = {"journal_mode": "wal", "wal_autocheckpoint": 0, "cache_size": CACHE_SIZE}
    count(place, base, "mixed", pragmas, 120, keep=keep)
    log = keep / f"{NAME}-wal"
    [said] = predict(log, [Mode("delete")])["modes"]
    found = count(place, base, "mixed", {"journal_mode": "delete", "cache_size": CACHE_SIZE}, 120)
    assert found.bytes["database"] == said["database_bytes"]
    assert found.bytes["journal"] <= said["journal_bytes"] < 1.15 * found.bytes["journal"]
    assert any("auto_vacuum" in one for one in said["bounds"])
    with pytest.raises(InputError, match="auto_vacuum is full"):
        predict(log, [Mode(transactions_in_one=2)])


def test_what_is_lost_is_said(log: Path) -> None:
    modes = (Mode(), Mode(synchronous="normal"), Mode(synchronous="off"), Mode("delete"))
    full, normal, off, delete = what_if(log, *modes)["modes"]
    assert full["lost"] == "nothing that was committed"
    assert "the database may be corrupt" in off["lost"]
    assert "EXTRA" in delete["lost"]
    [often] = what_if(log, Mode(synchronous="normal", wal_autocheckpoint=1))["modes"]
    assert "up to 1 of these commits" in often["lost"]
    assert f"up to {TRANSACTIONS} of" in normal["lost"] or normal["checkpoints"] > 0


WRONG: list[tuple[dict[str, Any], str, str]] = [
    ({"journal_mode": "memory"}, "modes[0].journal_mode", "corrupt"),
    ({"journal_mode": "off"}, "modes[0].journal_mode", "corrupt"),
    ({"journal_mode": "wall"}, "modes[0].journal_mode", "wal"),
    ({"page_size": 8192}, "modes[0].page_size", "which rows share a page"),
    ({"transactions_in_one": 0}, "modes[0].transactions_in_one", "1 or more"),
    ({"name": "../x"}, "modes[0].name", "letters"),
]


@pytest.mark.parametrize(("mode", "option", "said"), WRONG)
def test_a_mode_that_cannot_be_told_is_refused(
    mode: dict[str, Any], option: str, said: str, log: Path
) -> None:
    asked = {"transactions": str(log), "modes": [mode]}
    with pytest.raises(InputError, match=said) as refused:
        _core.run_job("sqlite_what_if", json.dumps(asked).encode())
    assert refused.value.option == option  # type: ignore[attr-defined]


def test_a_transaction_that_the_cache_does_not_hold_is_refused(log: Path, folder: Path) -> None:
    """SQLite would write some of its pages before the commit, and again."""
    with pytest.raises(InputError, match=r"transaction 0 would write \d+ pages at once"):
        what_if(log, Mode(transactions_in_one=100), cache_size=20)
    own = {"journal_mode": "wal", "wal_autocheckpoint": 0, "cache_size": 20}
    found = count(
        folder, folder / "base.db", "orders", own, TRANSACTIONS, transactions_in_one=100, seed=3
    )
    [said] = what_if(log, Mode(wal_autocheckpoint=0, transactions_in_one=100))["modes"]
    assert found.bytes["log"] > said["log_bytes"], "nothing was spilled"
    # As many as it holds for sure are no reason.
    what_if(log, Mode(), cache_size=60)


def test_a_damaged_frame_is_said_with_its_place(log: Path, tmp_path: Path) -> None:
    shutil.copy(log.with_name(NAME), tmp_path / NAME)
    damaged = tmp_path / f"{NAME}-wal"
    content = bytearray(log.read_bytes())
    content[32 + 7 * FRAME + 100] ^= 1
    damaged.write_bytes(content)
    with pytest.raises(InputError, match=rf"{NAME}-wal: byte {32 + 7 * FRAME}: frame 7"):
        what_if(damaged, Mode())
    damaged.write_bytes(log.read_bytes()[:-100])
    with pytest.raises(InputError, match=rf"byte \d+: frame \d+ has {FRAME - 100} bytes"):
        what_if(damaged, Mode())
    damaged.write_bytes(b"no log at all, but bytes of a text, 32 and more")
    with pytest.raises(InputError, match="byte 0: it begins with"):
        what_if(damaged, Mode())
    damaged.write_bytes(log.read_bytes())
    (tmp_path / NAME).unlink()
    with pytest.raises(InputError, match="it is needed beside its log"):
        what_if(damaged, Mode())


def test_a_log_that_goes_on_behind_its_last_commit_is_refused(log: Path, tmp_path: Path) -> None:
    shutil.copy(log.with_name(NAME), tmp_path / NAME)
    cut = tmp_path / f"{NAME}-wal"
    cut.write_bytes(log.read_bytes()[:-FRAME])
    with pytest.raises(InputError, match="frames belong to no commit"):
        what_if(cut, Mode())


def test_transactions_before_those_that_count_are_left_out(log: Path) -> None:
    whole, rest = (what_if(log, Mode("delete"), before=before) for before in (0, 150))
    assert rest["transactions"] == whole["transactions"] - 150 == TRANSACTIONS - 150
    assert rest["modes"][0]["commits"] == TRANSACTIONS - 150
    with pytest.raises(InputError, match="all are left out"):
        what_if(log, Mode(), before=TRANSACTIONS)


@pytest.mark.parametrize("mode", MODES[:6], ids=lambda mode: mode.title())
def test_the_trace_of_a_mode_has_its_writes(mode: Mode, log: Path, tmp_path: Path) -> None:
    [found] = what_if(log, mode, traces=str(tmp_path))["modes"]
    table = pl.read_parquet(found["trace"]["path"])
    assert table.height == found["trace"]["requests"]
    writes = table.filter(pl.col("op").cast(str) == "write")
    assert writes["length"].sum() == found["trace"]["written_bytes"]
    flushes = table.filter(pl.col("op").cast(str) == "flush")
    assert flushes.height == sum(found["syncs"].values())
    assert (writes["offset"] % 4096).sum() == (writes["length"] % 4096).sum() == 0
    by_stream = dict(writes.group_by("stream").agg(pl.col("length").sum()).iter_rows())
    # Pages are blocks: what is written to the database goes out once a sync.
    assert by_stream.get(1, 0) <= found["database_bytes"]
    if mode.journal_mode == "wal":
        # Each commit writes the block again in which the one before ended.
        assert by_stream[2] >= found["log_bytes"]
        assert by_stream[2] <= found["log_bytes"] + 2 * 4096 * (found["commits"] + 20)
        assert set(by_stream) <= {1, 2}
    else:
        assert by_stream[1] == found["database_bytes"]
        assert set(by_stream) == {1, 3}
    log_begin = writes.filter(pl.col("stream") > 1)["offset"].min()
    end = writes.filter(pl.col("stream") == 1).select(pl.col("offset") + pl.col("length")).max()
    assert end.height == 0 or end.item() is None or end.item() <= log_begin
    assert fw.trace_stats(found["trace"]["path"])["requests"] == table.height


def test_a_layout_puts_files_elsewhere_and_trims_what_is_deleted(log: Path, tmp_path: Path) -> None:
    layout = {"database": 0, "journal": 1 << 30, "discard": True}
    [found] = what_if(log, Mode("delete"), traces=str(tmp_path), layout=layout)["modes"]
    table = pl.read_parquet(found["trace"]["path"])
    trims = table.filter(pl.col("op").cast(str) == "trim")
    assert trims.height == found["commits"]
    assert trims["offset"].unique().to_list() == [1 << 30]
    with pytest.raises(InputError, match="within the database"):
        what_if(log, Mode("delete"), traces=str(tmp_path), layout={"journal": 4096})


def _table(folder: Path, **facts: object) -> Path:
    """Write a recording's transactions: two that write pages 1, 3 and 2, 3."""
    columns: dict[str, list[int | None]] = {
        "transaction": [0, 0, 1, 1],
        "time_ns": [-5, -5, 70, 70],
        "connection": [None] * 4,
        "page": [1, 3, 2, 3],
        "pages_before": [3, 3, 3, 3],
        "pages_after": [3, 3, 3, 3],
        "free_for": [None] * 4,
    }
    pq.write_table(pa.table(columns), folder / "transactions.parquet")
    known = {
        "page_size": 4096,
        "journal_mode": "delete",
        "first_page_told": False,
        "skips_freed": False,
        "auto_vacuum_full": False,
        "gaps": [],
        **facts,
    }
    (folder / "sqlite.json").write_text(json.dumps(known))
    return folder


def test_what_a_rollback_mode_does_not_tell_makes_bounds(tmp_path: Path) -> None:
    log, journal = what_if(_table(tmp_path), Mode(), Mode("delete"))["modes"]
    # Page 1 may have changed in the first, or only its count of changes.
    assert log["log_bytes"] == 32 + 3 * FRAME
    assert log["total_bytes_at_most"] == 32 + 4 * FRAME
    assert "page 1" in log["bounds"][0]
    assert "free before" in journal["bounds"][0]
    assert journal["database_bytes"] == (2 + 3) * 4096
    [one] = what_if(_table(tmp_path), Mode("delete", transactions_in_one=2))["modes"]
    assert one["database_bytes"] == 3 * 4096
    assert one["journal_bytes"] == 512 + 12 + 3 * (4096 + 8)


def test_a_gap_is_the_end(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"transactions are missing.*: a restart was missed"):
        what_if(_table(tmp_path, gaps=["a restart was missed"]), Mode())


def test_it_is_a_function_of_python_and_no_command() -> None:
    assert "sqlite_what_if" in _core.job_names()
    assert "sqlite_what_if" not in _core.job_names(commands=True)
    assert callable(fw.sqlite_what_if)


def _commit(connection: sqlite3.Connection, number: int) -> None:
    connection.execute("INSERT INTO t VALUES (?, ?)", (number, "x" * 3000))
    connection.commit()


def test_a_log_of_nothing_but_zeros_has_not_begun(tmp_path: Path) -> None:
    """It was refused as damaged: SQLite takes it for an empty one, and writes over it."""
    path = tmp_path / "a.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("CREATE TABLE t (k INTEGER PRIMARY KEY, v TEXT)")
    wal = path.with_name("a.db-wal")
    wal.write_bytes(bytes(1 << 20))
    assert _core.SqliteLog(str(wal), str(path)).page_bytes == 0
    with closing(sqlite3.connect(path)) as connection:
        for number in range(10):
            _commit(connection, number)
        log = _core.SqliteLog(str(wal), str(path))
        assert log.page_bytes > 0
        found = log.look()
    assert len(found["frames"]) == 10
    assert found["doubt"] is None


def test_a_log_is_followed_over_restarts(tmp_path: Path) -> None:
    """Frames of the log before are read as long as the new one has not come so far."""
    path = tmp_path / "a.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA wal_autocheckpoint=0")
        connection.execute("CREATE TABLE t (k INTEGER PRIMARY KEY, v TEXT)")
        connection.commit()
        log = _core.SqliteLog(f"{path}-wal", str(path))
        first = log.look()
        assert list(first["frames"])[-1:] != []
        seen: list[dict[str, Any]] = []
        for number in range(60):
            _commit(connection, number)
            if number % 20 == 19:
                connection.execute("PRAGMA wal_checkpoint(RESTART)").fetchall()
            if number % 20 in (3, 18):
                seen.append(log.look())
        seen.append(log.look())
        assert [one["doubt"] for one in seen] == [None] * len(seen)
        assert sum(len(one["frames"]) for one in seen) == 60
        assert sorted({int(each) for one in seen for each in one["log"]}) == [0, 1, 2]
        for number in range(60, 100):
            _commit(connection, number)
            if number in (70, 80):
                connection.execute("PRAGMA wal_checkpoint(RESTART)").fetchall()
        assert "restarted" in log.look()["doubt"]
