"""`flashwright record --database`: databases and programs that somebody else has started."""

from __future__ import annotations

import itertools
import json
import os
import re
import shlex
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from flashwright import _core
from flashwright.recording import file_systems
from flashwright.recording.volume import Volume
from flashwright.workloads.databases.server import Server, server_account
from flashwright.workloads.supervisor import Supervisor
from kill_recording import settings_at_rest
from recordings import require
from servers import find_server
from support import Cli

TRACERS = Path("/sys/kernel/tracing/available_tracers")
MIB = 1 << 20
PAGES = 400
UPDATE = "UPDATE t SET v = v || 'x' WHERE k % 50 = (random() * 49)::int; SELECT pg_sleep(0.15)"
WRITER = """
import os, sys, time
path, count, wait = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
file = os.open(path, os.O_WRONLY | os.O_CREAT)
time.sleep(wait)
for number in range(count):
    os.pwrite(file, os.urandom(4096), number * 4096)
    os.fsync(file)
os.close(file)
"""


@pytest.fixture
def volume() -> Iterator[Path]:
    can = os.geteuid() == 0 and TRACERS.exists() and "blk" in TRACERS.read_text()
    require(can, "recording needs root, and a kernel with the blk tracer")
    with Supervisor() as supervisor:
        made = Volume(supervisor, file_systems.find("ext4"))
        made.on_image(Path("/var/tmp"), 256 * MIB)  # noqa: S108
        assert made.mount_point is not None
        yield made.mount_point


def waterfall(cli: Cli, *arguments: str) -> dict[str, Any]:
    """Give the bytes written at each layer, by purpose too."""
    layers = json.loads(cli("waterfall", "rec", "--json", "-", *arguments).stdout)["waterfall"]
    return dict(layers)


def written(found: dict[str, Any], layer: str) -> dict[str, Any]:
    return dict(found["layers"][layer]["write"])


def test_a_program_that_the_recording_starts(volume: Path, cli: Cli, tmp_path: Path) -> None:
    before = settings_at_rest()
    script = tmp_path / "writer.py"
    script.write_text(WRITER)
    data = volume / "store"
    data.mkdir()
    command = [sys.executable, str(script), str(data / "file"), str(PAGES), "0"]
    done = cli("record", "--database", "files", str(data), "--out", "rec", "--", *command)
    assert settings_at_rest() == before
    assert "advise rec" in done.stdout
    found = waterfall(cli)
    calls = written(found, "calls")
    assert (calls["requests"], calls["bytes"]) == (PAGES, PAGES * 4096)
    assert written(found, "device")["by_purpose"]["other"] >= PAGES * 4096
    owners = pl.read_parquet(tmp_path / "rec" / "owners.parquet")
    files = pl.read_parquet(tmp_path / "rec" / "files.parquet")
    number = files.filter(pl.col("path") == str(data / "file"))["file"][0]
    assert owners.filter(pl.col("file") == number).height >= PAGES
    assert (tmp_path / "rec" / "report.html").is_file()


def test_a_program_that_comes_later_is_found(volume: Path, cli: Cli, tmp_path: Path) -> None:
    script = tmp_path / "writer.py"
    script.write_text(WRITER)
    data = volume / "store"
    data.mkdir()
    # It comes when a recording has begun, also on a busy machine, and has the file open for a
    # second before it writes.
    later = f"sleep 3; {sys.executable} {script} {data / 'file'} {PAGES} 1.5"
    with subprocess.Popen(["sh", "-c", later]) as other:
        cli("record", "--database", "files", str(data), "--out", "rec", "--seconds", "9")
        assert other.wait(20) == 0
    found = waterfall(cli)
    assert written(found, "calls")["bytes"] == PAGES * 4096
    told = json.loads((tmp_path / "rec" / "result.json").read_text())["path"]["not_told"]
    assert any("before they had a file open" in one for one in told)


def test_sqlite_with_its_log_and_its_pages(volume: Path, cli: Cli, tmp_path: Path) -> None:
    database = volume / "app.db"
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("CREATE TABLE t (k INTEGER PRIMARY KEY, v TEXT)")
        connection.execute("CREATE INDEX i ON t (v)")
        connection.commit()
        child = (
            "import sqlite3, sys, time; c = sqlite3.connect(sys.argv[1]); "
            "c.execute('SELECT 1 FROM t').fetchall(); time.sleep(3)\n"
            "for n in range(200):\n"
            "    c.execute('INSERT INTO t VALUES (?, ?)', (n, hex(n * 7919) * 20)); c.commit()\n"
        )
        # Somebody else's, which has it open already.
        with subprocess.Popen([sys.executable, "-c", child, str(database)]) as other:
            time.sleep(0.5)
            cli("record", "--database", "sqlite", str(database), "--out", "rec", "--seconds", "5")
            assert other.wait(10) == 0
    found = waterfall(cli, "--on", "usb-stick")
    purposes = written(found, "calls")["by_purpose"]
    assert purposes["wal"] > 200 * 4096
    assert found["layers"]["flash"]["write"]["bytes"] > 0
    result = json.loads((tmp_path / "rec" / "result.json").read_text())
    assert result["path"]["database"] == "sqlite"
    assert result["recording"]["database"] == {"kind": "sqlite", "path": str(database)}


MAKES = """
import sqlite3, sys
c = sqlite3.connect(sys.argv[1])
c.execute("PRAGMA journal_mode=WAL")
c.execute("CREATE TABLE t (k INTEGER PRIMARY KEY, v TEXT)")
for n in range(100):
    c.execute("INSERT INTO t VALUES (?, ?)", (n, "x" * 3000))
    c.commit()
"""


def test_a_database_that_the_program_makes_itself(volume: Path, cli: Cli, tmp_path: Path) -> None:
    new = volume / "new.db"
    command = [sys.executable, "-c", MAKES, str(new)]
    cli("record", "--database", "sqlite", str(new), "--out", "rec", "--", *command)
    assert new.is_file()
    found = waterfall(cli)
    assert written(found, "calls")["by_purpose"]["wal"] > 100 * 4096
    assert written(found, "device")["by_purpose"]["wal"] > 100 * 4096
    result = json.loads((tmp_path / "rec" / "result.json").read_text())
    assert result["recording"]["database"] == {"kind": "sqlite", "path": str(new)}


def test_the_next_command_of_a_light_recording_works(
    volume: Path, cli: Cli, tmp_path: Path
) -> None:
    new = volume / "new.db"
    command = [sys.executable, "-c", MAKES.replace("100", "50"), str(new)]
    done = cli("record", "--database", "sqlite", new, "--light", "--out", "light", "--", *command)
    found = re.search(r"^Next:   flashwright (.*)", done.stdout, re.MULTILINE | re.DOTALL)
    assert found is not None
    new.unlink()
    name, *words = shlex.split(found[1])
    cli(name, "--out", "rec", *words)
    assert written(waterfall(cli), "calls")["by_purpose"]["wal"] > 50 * 4096


def test_a_database_that_nobody_makes_is_recorded_as_nothing(volume: Path, cli: Cli) -> None:
    command = ["dd", "if=/dev/zero", f"of={volume / 'other'}", "bs=4k", "count=9", "oflag=direct"]
    done = cli("record", "--database", "sqlite", volume / "no.db", "--out", "rec", "--", *command)
    assert "no.db" in done.stderr
    assert not (volume / "no.db").exists()


@pytest.fixture
def server(volume: Path) -> Iterator[Server]:
    """Give a server that this program did not start for itself, with a table of its own."""
    binaries = find_server()
    with Supervisor() as supervisor:
        # The socket's path must be short.
        folder = supervisor.folder(Path("/tmp"), "own-")  # noqa: S108
        (volume / "pg").mkdir()
        volume.chmod(0o755)
        made = Server(
            binaries, volume / "pg" / "data", folder / "run", supervisor, server_account()
        )
        made.initialise()
        made.start({"shared_buffers": "1MB", "checkpoint_timeout": "30s"})
        made.query("CREATE TABLE t (k int PRIMARY KEY, v text)")
        made.query(
            "INSERT INTO t SELECT n, repeat(md5(n::text), 20) FROM generate_series(1, 5000) n"
        )
        yield made
        made.stop()


@pytest.mark.parametrize("may_ask", [True, False])
def test_a_server_of_ones_own(
    server: Server, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, may_ask: bool
) -> None:
    monkeypatch.setenv("PGUSER", "flashwright" if may_ask else "nobody_of_that_name")
    before = settings_at_rest()
    ended = threading.Event()

    def use() -> None:
        for number in itertools.count():
            if ended.wait(0.05):
                return
            # A new connection each time: processes come and go. Each stays for a moment: of one
            # that is gone before a busy machine has looked, nobody can say what it had open.
            server.query(UPDATE)
            if number % 10 == 0:
                # Pages are put into the log as a whole at their first change after one.
                server.query("CHECKPOINT")

    client = threading.Thread(target=use)
    client.start()
    try:
        cli("record", "--database", "postgres", str(server.data), "--out", "rec", "--seconds", "6")
    finally:
        ended.set()
        client.join()
    assert settings_at_rest() == before
    found = waterfall(cli)
    purposes = written(found, "calls")["by_purpose"]
    assert purposes["wal"] > 100 * 4096
    assert written(found, "device")["by_purpose"]["wal"] > 100 * 4096
    result = json.loads((tmp_path / "rec" / "result.json").read_text())
    about = result["path"]
    assert [one["drive"] for one in result["drive_counters"]["drives"]]
    assert result["processors"]["server_seconds"] > 0
    assert result["processors"]["clients_seconds"] is None
    if may_ask:
        assert result["own_counts"]["wal_bytes"] > 0
        assert 0 < result["own_counts"]["seconds"] < 60
        assert result["own_log"]["gap"] is None
        what_if = json.dumps({"log": str(tmp_path / "rec" / "wal")}).encode()
        check = json.loads(_core.run_job("postgres_what_if", what_if)[0])["self_check"]
        assert check["right"] == check["images"] > 0
    else:
        assert "own_counts" not in result
        assert "nobody_of_that_name" in result["own_log"]["gap"]
        assert any("what the server itself counts" in one for one in about["not_told"])
    refused = [one for one in about["not_told"] if "which files are of tables" in one]
    files = pl.read_parquet(tmp_path / "rec" / "files.parquet")
    if may_ask:
        assert not refused
        assert {"t", "t_pkey"} <= set(files["name"].drop_nulls())
    else:
        assert len(refused) == 1
        assert "nobody_of_that_name" in refused[0]
    # A process that begins reads some small files whole, each open for microseconds: who looks
    # afterwards cannot say which. Those that move pages are of files that stay open.
    calls = pl.read_parquet(tmp_path / "rec" / "calls.parquet")
    assert calls["file"].null_count() == about["calls"]["unresolved_calls"]
    pages = calls.filter(pl.col("call").cast(str) != "read")
    assert pages.height > 1000
    assert pages["file"].null_count() < 0.02 * pages.height


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["postgres", "."], "no data directory of PostgreSQL, which has a PG_VERSION"),
        (["sqlite", "text"], "no database of SQLite, which begins with `SQLite format 3`"),
        (["sqlite", "none.db"], "give the command that makes it, after --"),
        (["sqlite", "none/none.db", "--", "true"], "no such folder"),
        (["files", "none"], "no such file or folder"),
        (["files", ".", "--pid", "4194304"], "--pid 4194304: there is no such process"),
        (["redis", "."], "is not one of"),
    ],
)
def test_what_is_no_database_is_refused(
    cli: Cli, tmp_path: Path, arguments: list[str], said: str
) -> None:
    require(os.geteuid() == 0, "recording needs root")
    (tmp_path / "text").write_text("a text that is not a database")
    done = cli("record", "--database", *arguments, "--out", "rec", code=2)
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "rec").exists()


def test_a_server_that_is_gone_is_said(cli: Cli, tmp_path: Path) -> None:
    require(os.geteuid() == 0, "recording needs root")
    (tmp_path / "PG_VERSION").write_text("15\n")
    assert (
        "no server runs on it: start it first"
        in cli("record", "--database", "postgres", ".", "--out", "rec", code=2).stderr
    )
    (tmp_path / "postmaster.pid").write_text(f"{os.getpid()}\n{tmp_path}\n0\n5432\n")
    done = cli("record", "--database", "postgres", ".", "--out", "rec", code=2)
    assert f"process {os.getpid()} of its postmaster.pid is gone" in done.stderr
    assert "--pid: it is of --database" in cli("record", ".", "--pid", "1", code=2).stderr
