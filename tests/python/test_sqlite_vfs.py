"""SQLite on files of a volume, without a mount: for real, by more than one SQLite."""

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flashwright import _core, sqlite
from sqlite_lives import JOURNALS, live
from support import Cli, find_program
from volume_lives import STACKS

MEBIBYTE = 1 << 20
HEADER = Path("/usr/include/sqlite3ext.h")


@pytest.fixture(autouse=True)
def built() -> None:
    """The extension is there after `make build`."""
    assert sqlite.EXTENSION.is_file(), "right would be `make build`"


def made(folder: Path, stack: str = "direct", mebibytes: int = 64) -> Path:
    """Make a volume on a file."""
    device = folder / "device"
    _core.allocate_file(device, mebibytes * MEBIBYTE)
    _core.create_volume(str(device), stack)
    return device


@contextlib.contextmanager
def opened(
    volume: Path, name: str = "app.db", parameters: dict[str, str | int] | None = None
) -> Iterator[sqlite3.Connection]:
    with contextlib.closing(
        sqlite.connect(volume, name, parameters, isolation_level=None, timeout=60)
    ) as base:
        yield base


def fill(base: sqlite3.Connection, rows: int, first: int = 0) -> None:
    with base:
        base.execute("begin")
        base.executemany(
            "insert into t values (?, ?)",
            ((n, bytes([n % 251]) * (n % 3000)) for n in range(first, first + rows)),
        )
        base.execute("commit")


def fill_up(base: sqlite3.Connection, rows: int) -> None:
    for turn in range(1, 1000):
        fill(base, rows, turn * rows)


def whole(base: sqlite3.Connection, rows: int) -> None:
    assert base.execute("pragma integrity_check").fetchone() == ("ok",)
    assert base.execute("select count(*) from t").fetchone() == (rows,)
    for number, body in base.execute("select n, body from t"):
        assert body == bytes([number % 251]) * (number % 3000)


def files(base: sqlite3.Connection) -> dict[str, int]:
    lines = base.execute("pragma flashwright_volume").fetchone()[0].splitlines()
    return {name: int(size) for name, size in (line.rsplit(" ", 1) for line in lines)}


@pytest.mark.parametrize("journal", [*JOURNALS, "memory"])
@pytest.mark.parametrize("stack", STACKS)
def test_a_database_lives_on_a_volume(tmp_path: Path, stack: str, journal: str) -> None:
    volume = made(tmp_path, stack)
    with opened(volume) as base:
        assert base.execute(f"pragma journal_mode={journal}").fetchone() == (journal,)
        base.execute("pragma cache_size=50")
        base.execute("create table t (n integer primary key, body blob)")
        fill(base, 500)
        fill(base, 500, 500)
        base.execute("begin")
        base.execute("update t set body = zeroblob(100)")
        base.execute("rollback")
        whole(base, 1000)
        base.execute("delete from t where n >= 400")
        base.execute("vacuum")
        whole(base, 400)
        there = files(base)
        assert there["app.db"] < 1_000_000, "vacuum has given room back"
        assert ("app.db-journal" in there) == (journal in {"truncate", "persist"})
    assert _core.volume_about(str(volume))["is_clean"]
    assert _core.check_volume(str(volume))["bad_bytes"] == 0
    with opened(volume) as base:
        whole(base, 400)


def test_a_backup_goes_both_ways(tmp_path: Path) -> None:
    volume = made(tmp_path, "log_volume(segment=256Ki)")
    with (
        opened(volume) as base,
        contextlib.closing(sqlite3.connect(tmp_path / "plain.db")) as plain,
    ):
        base.execute("create table t (n integer primary key, body blob)")
        fill(base, 1000)
        base.backup(plain)
        whole(plain, 1000)
        with opened(volume, "copy.db") as copy:
            plain.backup(copy, pages=20)
            whole(copy, 1000)
            assert copy.execute("vacuum into ?", (sqlite.uri(volume, "other.db"),)) is not None
        with opened(volume, "other.db") as other:
            whole(other, 1000)


@pytest.mark.parametrize("journal", ["delete", "wal"])
def test_many_connections_write_and_read_together(tmp_path: Path, journal: str) -> None:
    volume = made(tmp_path, "scheduler(coalesce)")
    with opened(volume) as base:
        base.execute(f"pragma journal_mode={journal}")
        base.execute("create table t (n integer primary key, body blob)")
        base.execute("create table accounts (n integer primary key, held int)")
        base.executemany("insert into accounts values (?, 100)", [(n,) for n in range(10)])
        failures: list[BaseException] = []

        def work(number: int) -> None:
            try:
                with opened(volume) as own:
                    for turn in range(40):
                        own.execute("begin immediate")
                        own.execute("update accounts set held = held - 1 where n = ?", (turn % 10,))
                        own.execute(
                            "update accounts set held = held + 1 where n = ?", ((turn + 1) % 10,)
                        )
                        own.execute(
                            "insert into t values (?, ?)", (n := number * 40 + turn, bytes([n]) * n)
                        )
                        own.execute("commit")
                        held = own.execute("select sum(held), count(*) from accounts").fetchone()
                        assert held == (1000, 10)
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        whole(base, 200)
        if journal == "wal":
            assert base.execute("pragma wal_checkpoint(truncate)").fetchone()[0] == 0
            assert files(base)["app.db-wal"] == 0


def test_a_reader_keeps_what_it_sees_while_others_write(tmp_path: Path) -> None:
    volume = made(tmp_path)
    with opened(volume) as writer, opened(volume) as reader:
        writer.execute("pragma journal_mode=wal")
        writer.execute("create table t (n integer primary key, body blob)")
        fill(writer, 100)
        reader.execute("begin")
        assert reader.execute("select count(*) from t").fetchone() == (100,)
        fill(writer, 100, 100)
        writer.execute("pragma wal_checkpoint")
        assert reader.execute("select count(*) from t").fetchone() == (100,)
        reader.execute("commit")
        assert reader.execute("select count(*) from t").fetchone() == (200,)
        writer.execute("begin immediate")
        reader.execute("pragma busy_timeout=10")
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            reader.execute("begin immediate")


@pytest.mark.parametrize("page", [512, 1024, 65536])
def test_pages_of_any_size(tmp_path: Path, page: int) -> None:
    volume = made(tmp_path, "log_volume(segment=256Ki)")
    with opened(volume) as base:
        base.execute(f"pragma page_size={page}")
        base.execute("pragma auto_vacuum=incremental")
        base.execute("create table t (n integer primary key, body blob)")
        fill(base, 800)
        before = files(base)["app.db"]
        base.execute("delete from t where n >= 100")
        base.executescript("pragma incremental_vacuum")
        assert files(base)["app.db"] < before / 2
        whole(base, 100)


def test_another_process_is_told_in_one_line(tmp_path: Path) -> None:
    volume = made(tmp_path)
    script = (
        "import sys, sqlite3\n"
        "from flashwright import sqlite\n"
        "try:\n"
        "    sqlite.connect(sys.argv[1])\n"
        "except sqlite3.OperationalError as error:\n"
        "    print(error)\n"
    )
    with opened(volume) as base:
        base.execute("create table t (n)")
        done = subprocess.run(
            [sys.executable, "-c", script, volume], capture_output=True, text=True, check=True
        )
    assert re.fullmatch(
        r"database is locked: device `.*` is not written to: .*in use\n", done.stdout
    )
    done = subprocess.run(
        [sys.executable, "-c", script, volume], capture_output=True, text=True, check=True
    )
    assert done.stdout == ""


def test_a_forked_process_cannot_use_what_its_parent_has_open(tmp_path: Path) -> None:
    volume = made(tmp_path)
    script = (
        "import os, sys, sqlite3\n"
        "from flashwright import sqlite\n"
        "base = sqlite.connect(sys.argv[1], isolation_level=None)\n"
        "base.execute('create table t (n)')\n"
        "if os.fork() == 0:\n"
        "    for what in (lambda: base.execute('vacuum'), lambda: sqlite.connect(sys.argv[1])):\n"
        "        try:\n"
        "            what()\n"
        "        except sqlite3.Error as error:\n"
        "            print(error, sqlite.last_error(), flush=True)\n"
        "    base.close()\n"
        "    os._exit(0)\n"
        "assert os.wait()[1] == 0\n"
        "base.execute('insert into t values (1)')\n"
        "base.close()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, volume],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.count("fork first, then open") == 2
    assert _core.volume_about(str(volume))["is_clean"]


def test_a_transaction_over_two_databases_is_refused_but_in_a_wal(tmp_path: Path) -> None:
    volume = made(tmp_path)
    plain = tmp_path / "plain.db"
    for attached in (sqlite.uri(volume, "other.db"), f"file:{plain}?vfs=unix"):
        with opened(volume) as base:
            base.execute("pragma journal_mode=delete")
            base.execute("attach ? as other", (attached,))
            for schema in ("main", "other"):
                base.execute(f"create table if not exists {schema}.t (n)")
            base.execute("begin")
            base.execute("insert into main.t values (1)")
            base.execute("insert into other.t values (1)")
            with pytest.raises(sqlite3.OperationalError):
                base.execute("commit")
            assert "super-journal" in sqlite.last_error()
            if base.in_transaction:
                base.execute("rollback")
            assert base.execute("select count(*) from main.t").fetchone() == (0,)
            assert base.execute("select count(*) from other.t").fetchone() == (0,)
    # The other way round the super-journal is a file of the host, which SQLite makes.
    with contextlib.closing(sqlite3.connect(plain, isolation_level=None, uri=True)) as base:
        base.execute("attach ? as other", (sqlite.uri(volume, "app.db"),))
        base.execute("begin")
        base.execute("insert into main.t values (2)")
        base.execute("insert into other.t values (2)")
        with pytest.raises(sqlite3.OperationalError):
            base.execute("commit")
        assert "super-journal" in sqlite.last_error()
        if base.in_transaction:
            base.execute("rollback")
        assert base.execute("select count(*) from other.t").fetchone() == (0,)
    with opened(volume) as base:
        assert base.execute("select count(*) from t").fetchone() == (0,)
        base.execute("pragma journal_mode=wal")
        base.execute("attach ? as other", (sqlite.uri(volume, "other.db"),))
        base.execute("pragma other.journal_mode=wal")
        base.execute("begin")
        base.execute("insert into main.t values (1)")
        base.execute("insert into other.t values (1)")
        base.execute("commit")


@pytest.mark.parametrize("journal", ["delete", "wal"])
def test_a_full_volume_is_a_full_database(tmp_path: Path, journal: str) -> None:
    volume = made(tmp_path, "direct", 8)
    with opened(volume) as base:
        base.execute(f"pragma journal_mode={journal}")
        base.execute("create table t (n integer primary key, body blob)")
        fill(base, 300)
        with pytest.raises(sqlite3.OperationalError, match="full"):
            fill_up(base, 300)
        if base.in_transaction:
            base.execute("rollback")
        assert "units" in sqlite.last_error()
        rows = base.execute("select count(*) from t").fetchone()[0]
        whole(base, rows)
        # A journal needs room, too: not all goes at once. A log has none left.
        gone = 200 if journal == "delete" else 0
        for last in range(rows, rows - gone, -20):
            base.execute("delete from t where n >= ?", (last - 20,))
    with opened(volume) as base:
        whole(base, rows - gone)


def test_a_bad_page_is_an_error_of_its_read(tmp_path: Path) -> None:
    volume = made(tmp_path, "log_volume(segment=256Ki)")
    with opened(volume) as base:
        base.execute("create table t (n integer primary key, body blob)")
        base.execute("create table other (n integer primary key)")
        base.execute("insert into t values (1, ?)", (b"\xabthe bytes of a page" * 100,))
        base.execute("insert into other values (7)")
    image = volume.read_bytes()
    at = image.rindex(b"\xabthe bytes of a page")
    with volume.open("r+b") as file:
        file.seek(at)
        file.write(b"\xac")
    with opened(volume) as base:
        with pytest.raises(sqlite3.OperationalError, match="disk I/O error"):
            base.execute("select * from t").fetchall()
        assert "read of" in sqlite.last_error()
        assert base.execute("select n from other").fetchall() == [(7,)]


@pytest.mark.parametrize(
    ("name", "volume", "said"),
    [
        ("app.db", "", "the volume is missing"),
        ("app.db", "&volume=/nowhere/at/all", "there is no such file"),
        ("app.db", "&volume={plain}", "no volume is there"),
        ("folder/app.db", "&volume={volume}", "has no `/`"),
        ("a" * 300, "&volume={volume}", "at most 255 bytes"),
        ("none.db", "&volume={volume}&mode=rw", "holds no files"),
    ],
)
def test_wrong_use_says_what_would_be_right(
    tmp_path: Path, name: str, volume: str, said: str
) -> None:
    device, plain = made(tmp_path, mebibytes=8), tmp_path / "plain"
    plain.write_bytes(bytes(8 * MEBIBYTE))
    sqlite.load()
    uri = f"file:{name}?vfs=flashwright{volume.format(volume=device, plain=plain)}"
    with pytest.raises(sqlite3.OperationalError, match="unable to open"):
        sqlite3.connect(uri, uri=True)
    line = sqlite.last_error()
    assert said in line
    assert "\n" not in line


def test_what_a_volume_holds_is_left_alone(tmp_path: Path) -> None:
    device = made(tmp_path)
    volume = _core.Volume(str(device))
    volume.write(1080, b"\x53\xef")
    volume.close()
    with pytest.raises(sqlite3.OperationalError, match="something else"):
        sqlite.connect(device)
    _core.create_volume(str(device), "direct", destroy=True)
    with opened(device) as base:
        base.execute("create table t (n)")
    # Remains of an earlier volume are not taken for the new one's.
    _core.create_volume(str(device), "direct", destroy=True)
    with opened(device) as base:
        assert base.execute("select count(*) from sqlite_master").fetchone() == (0,)


def test_temporary_files_are_the_hosts(tmp_path: Path) -> None:
    volume = made(tmp_path)
    with opened(volume) as base:
        base.execute("pragma temp_store=file")
        base.execute("create table t (n integer primary key, body blob)")
        fill(base, 500)
        base.execute("pragma cache_size=10")
        base.execute("pragma temp.cache_size=10")
        base.execute("create temp table kept as select * from t")
        base.execute("create index temp.i on kept (body)")
        assert base.execute("select count(*) from kept").fetchone() == (500,)
        assert set(files(base)) == {"app.db", "free"}


def test_a_database_that_is_only_read(tmp_path: Path) -> None:
    volume = made(tmp_path)
    with opened(volume) as base:
        base.execute("create table t (n)")
    with opened(volume, parameters={"mode": "ro"}) as base:
        assert base.execute("select count(*) from t").fetchone() == (0,)
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            base.execute("insert into t values (1)")


def test_another_sqlite_of_the_process_has_it_too(tmp_path: Path) -> None:
    """The package apsw brings its own, newer SQLite: each has a VFS, and they share the volume."""
    apsw = pytest.importorskip("apsw")
    volume = made(tmp_path, "log_volume(segment=256Ki)")
    loader = apsw.Connection(":memory:")
    loader.enable_load_extension(True)  # noqa: FBT003
    loader.load_extension(str(sqlite.EXTENSION))
    flags = apsw.SQLITE_OPEN_URI | apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
    base: Any = apsw.Connection(sqlite.uri(volume), flags=flags)
    base.execute("pragma journal_mode=wal").fetchall()
    base.execute("create table t (n integer primary key, body blob)")
    with opened(volume) as other:
        fill(other, 300)
        assert base.execute("select count(*) from t").fetchall() == [(300,)]
        base.execute("begin immediate")
        other.execute("pragma busy_timeout=10")
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            fill(other, 1, 300)
        base.execute("update t set body = zeroblob(0)")
        base.execute("rollback")
        whole(other, 300)
    for statement in ("vacuum", "pragma journal_mode=delete", "reindex"):
        base.execute(statement).fetchall()
    assert base.execute("pragma integrity_check").fetchall() == [("ok",)]
    base.close()
    assert _core.volume_about(str(volume))["is_clean"]


def test_the_commands_tell_of_files(tmp_path: Path, cli: Cli) -> None:
    volume = made(tmp_path)
    with opened(volume) as base:
        base.execute("create table t (n)")
    assert "app.db" in cli("volume", "info", str(volume), "--check").stdout


def test_the_shell_opens_it(tmp_path: Path) -> None:
    volume = made(tmp_path)
    script = f".load {sqlite.EXTENSION.with_suffix('')}\n.open '{sqlite.uri(volume)}'\n"
    script += "create table t (n);\ninsert into t values (42);\nselect * from t;\n.vfsname\n"
    done = subprocess.run(
        [find_program("sqlite3")],
        input=script,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.split() == ["42", "flashwright"]


def test_the_routines_are_where_sqlite_has_them() -> None:
    if not HEADER.is_file():
        message = f"{HEADER} is missing (Debian: apt install libsqlite3-dev)"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    text = HEADER.read_text().split("struct sqlite3_api_routines {")[1].split("\n};")[0]
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    found = [re.search(r"\(\s*\*\s*(\w+)\s*\)\s*\(", part) for part in text.split(";")]
    names = [match[1] for match in found if match]
    source = (Path(__file__).parents[2] / "crates/sqlite/src/sqlite3.rs").read_text()
    asked = re.findall(r"offset_of!\(Api, (\w+)\)\), (\d+)\)", source)
    assert len(asked) == 7
    assert all(names[int(place)] == name for name, place in asked)


@pytest.mark.parametrize("journal", JOURNALS)
@pytest.mark.parametrize("stack", STACKS)
def test_what_was_acknowledged_survives_kills_and_power_cuts(
    tmp_path: Path, stack: str, journal: str
) -> None:
    for by_cut in (False, True):
        folder = tmp_path / str(by_cut)
        folder.mkdir()
        assert live(folder, stack, journal, 1, by_cut=by_cut, seed=7).ends


@pytest.mark.parametrize("stack", ["direct", "log_volume(segment=256Ki)"])
def test_a_commit_outlives_a_kill_without_extra(tmp_path: Path, stack: str) -> None:
    """The deletion of a journal is written at once, though durable only with the next sync."""
    volume = made(tmp_path, stack)
    script = (
        "import os, signal, sys\n"
        "from flashwright import sqlite\n"
        "base = sqlite.connect(sys.argv[1], isolation_level=None)\n"
        "base.execute('pragma synchronous=full')\n"
        "base.execute('create table t (n)')\n"
        "base.execute('insert into t values (1)')\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", script, volume], check=False, timeout=60)
    with opened(volume) as base:
        assert base.execute("select count(*) from t").fetchone() == (1,)
