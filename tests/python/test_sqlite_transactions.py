"""Transactions of a recorded SQLite database: those that it had, in every journal mode."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from experiments.validations.sqlite_what_if import load
from experiments.validations.sqlite_what_if.counted import NAME, count
from experiments.validations.sqlite_what_if.load import fill
from experiments.validations.sqlite_what_if.study import CACHE_SIZE, PAGE_SIZE, Mode, predict
from flashwright import _core
from flashwright.recording import file_systems
from flashwright.recording.calls import CallsFound
from flashwright.recording.files import FileTable
from flashwright.recording.sqlite_log import ABOUT, LogWatcher
from flashwright.recording.sqlite_transactions import sqlite_transactions
from flashwright.recording.volume import Volume
from flashwright.workloads.supervisor import Supervisor
from recordings import require
from support import Cli, find_program

TRACERS = Path("/sys/kernel/tracing/available_tracers")
TRANSACTIONS, SEED = 150, 5
RECORDINGS = 5
"""Most recordings until one has seen all journals."""


@pytest.fixture
def volume() -> Iterator[Path]:
    can = os.geteuid() == 0 and TRACERS.exists() and "blk" in TRACERS.read_text()
    require(can, "recording needs root, and a kernel with the blk tracer")
    with Supervisor() as supervisor:
        made = Volume(supervisor, file_systems.find("ext4"))
        made.on_image(Path("/var/tmp"), 256 << 20)  # noqa: S108
        assert made.mount_point is not None
        yield made.mount_point


def recorded(volume: Path, cli: Cli, tmp_path: Path, **pragmas: object) -> Path:
    """Record a load in a mode; give the recording's folder."""
    database = volume / NAME
    database.unlink(missing_ok=True)
    fill(database, PAGE_SIZE, {})
    asked = {
        "database": str(database),
        "pragmas": {"cache_size": CACHE_SIZE, **pragmas},
        "load": "mixed",
        "transactions": TRANSACTIONS,
        "transactions_in_one": 1,
        "seed": SEED,
        # A log then lives for a second, and is looked at on any machine.
        "pause": 0.02,
    }
    command = [sys.executable, load.__file__, json.dumps(asked)]
    # A recording is never written over, and some are made again.
    shutil.rmtree(tmp_path / "rec", ignore_errors=True)
    cli("record", "--database", "sqlite", str(database), "--out", "rec", "--", *command)
    return tmp_path / "rec"


def truth(tmp_path: Path) -> Path:
    """Give the same transactions in one log that was never restarted."""
    find_program("strace")
    base, keep = tmp_path / "base.db", tmp_path / "keep"
    keep.mkdir()
    fill(base, PAGE_SIZE, {})
    pragmas = {"journal_mode": "wal", "wal_autocheckpoint": 0, "cache_size": CACHE_SIZE}
    count(tmp_path, base, "mixed", pragmas, TRANSACTIONS, seed=SEED, keep=keep)
    return keep / f"{NAME}-wal"


MODES = (Mode(), Mode(wal_autocheckpoint=100, transactions_in_one=7), Mode("delete"))


def figures(found: dict[str, Any]) -> list[tuple[int, ...]]:
    names = ("log_bytes", "journal_bytes", "database_bytes", "commits")
    return [tuple(mode[name] for name in names) for mode in found["modes"]]


def test_a_log_that_is_restarted_is_recorded_whole(volume: Path, cli: Cli, tmp_path: Path) -> None:
    folder = recorded(volume, cli, tmp_path, journal_mode="wal", wal_autocheckpoint=300)
    facts = json.loads((folder / "sqlite.json").read_text())
    assert facts["gaps"] == []
    calls = pl.read_parquet(folder / "calls.parquet").filter(pl.col("call").cast(str) == "pwrite")
    headers = calls.filter((pl.col("offset") == 0) & (pl.col("length") == 32)).height
    assert headers >= 3, "the log was never restarted"
    assert (facts["journal_mode"], facts["synchronous"]) == ("wal", "full")
    assert (facts["page_size"], facts["encoding"]) == (PAGE_SIZE, "UTF-8")
    table = pl.read_parquet(folder / "transactions.parquet")
    assert table["transaction"].n_unique() == TRANSACTIONS
    assert table["connection"].null_count() == 0
    assert table["time_ns"].is_sorted()
    # Commits take time: each has one of its own.
    assert table["time_ns"].n_unique() == TRANSACTIONS
    log = truth(tmp_path.resolve())
    assert figures(predict(folder, MODES)) == figures(predict(log, MODES))


@pytest.mark.parametrize("mode", ["delete", "truncate", "persist"])
def test_a_rollback_mode_is_recorded_by_its_calls(
    mode: str, volume: Path, cli: Cli, tmp_path: Path
) -> None:
    for _ in range(RECORDINGS):
        folder = recorded(volume, cli, tmp_path, journal_mode=mode)
        facts = json.loads((folder / "sqlite.json").read_text())
        if facts["gaps"] == []:
            break
        # A journal lives for a moment: on a busy machine it may be gone before anybody looks.
        assert "before anybody could look" in facts["gaps"][0]
    assert facts["gaps"] == []
    assert (facts["journal_mode"], facts["synchronous"]) == (mode, "full")
    log, journal = predict(truth(tmp_path.resolve()), [Mode(), Mode("delete")])["modes"]
    ours_log, ours = predict(folder, [Mode(), Mode("delete")])["modes"]
    assert ours["commits"] == TRANSACTIONS
    assert ours["database_bytes"] == journal["database_bytes"]
    assert ours["journal_bytes"] >= journal["journal_bytes"]
    least = ours_log["total_bytes"]
    total = log["total_bytes"]
    assert least <= total <= ours_log["total_bytes_at_most"]


def test_a_journal_that_nobody_could_look_at_is_said(tmp_path: Path) -> None:
    """Its transaction was taken for a part of the one before, and nothing was said."""
    database = tmp_path / "t.db"
    files = FileTable([tmp_path])
    numbers = [
        files.number(1, inode, f"{database}{end}") for inode, end in ((2, ""), (3, "-journal"))
    ]
    (tmp_path / ABOUT).write_text(json.dumps({"header": {"page_size": 4096, "pages": 9}}))

    def found(second: int | None) -> dict[str, Any]:
        rows = [
            (at, name, file, offset, length)
            for at, journal in ((0, numbers[1]), (10, second))
            for name, file, offset, length in (
                ("pwrite", journal, 0, 512),
                ("fdatasync", journal, 0, 0),
                ("pwrite", numbers[0], 4096, 4096),
                ("ftruncate", journal, 0, 0),
            )
        ]
        at, name, file, offset, length = map(list, zip(*rows, strict=True))
        table = pa.table(
            {
                "time_ns": pa.array([one * 1000 + n for n, one in enumerate(at)], pa.int64()),
                "call": name,
                "file": pa.array(file, pa.uint32()),
                "offset": pa.array(offset, pa.uint64()),
                "length": pa.array(length, pa.uint64()),
                "result": pa.array([0] * len(at), pa.int64()),
                "pid": pa.array([7] * len(at), pa.uint32()),
            }
        )
        done = sqlite_transactions(tmp_path, CallsFound(table, {}, 0, 1), files, database, 0)
        assert done is not None
        return {**done.facts, "commits": done.table["transaction"].combine_chunks()}

    whole, cut = found(numbers[1]), found(None)
    assert whole["gaps"] == []
    assert len(whole["commits"].unique()) == 2
    assert len(cut["commits"].unique()) == 1
    assert "1 journal of" in cut["gaps"][0]


def test_a_restart_that_was_missed_is_said(tmp_path: Path) -> None:
    """The watcher looks once before, and once after the log was restarted twice."""
    path = tmp_path.resolve() / "a.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("CREATE TABLE t (k INTEGER PRIMARY KEY, v TEXT)")
        connection.commit()
        log = _core.SqliteLog(f"{path}-wal", str(path))
        log.look()
        for number in range(3):
            connection.execute("INSERT INTO t VALUES (?, 'x')", (number,))
            connection.commit()
            connection.execute("PRAGMA wal_checkpoint(RESTART)").fetchall()
        connection.execute("INSERT INTO t VALUES (9, 'x')")
        connection.commit()
        assert "more than once" in log.look()["doubt"]


def test_a_log_that_is_deleted_and_made_again_is_followed(tmp_path: Path) -> None:
    path = tmp_path.resolve() / "a.db"
    watcher = LogWatcher(tmp_path, path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("CREATE TABLE t (k INTEGER PRIMARY KEY, v TEXT)")
        connection.commit()
    watcher.begin()
    for number in range(5):
        # The last one to close it deletes the log.
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA synchronous=OFF")
            for each in range(4):
                connection.execute("INSERT INTO t VALUES (?, 'x')", (number * 10 + each,))
                connection.commit()
            watcher.look()
    watcher.end()
    about = json.loads((tmp_path / "sqlite.about.json").read_text())
    assert (about["failed"], about["doubts"]) == (None, [])
    rows = pl.read_ipc_stream(tmp_path / "sqlite.rows.arrow")
    assert rows["commit"].n_unique() == 20
    assert rows["log"].n_unique() == 5
