"""`flashwright bench` of one run: results, reports, errors; Ctrl-C and kill -9 leave nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from flashwright.workloads.databases.server import find_binaries, server_account
from flashwright.workloads.supervisor import Supervisor
from processes import command_of, descendants, is_alive, processes_of, until
from recordings import require
from servers import find_server
from support import Cli, drawn_on, on_terminal

TINY = {
    "tpcc": "tpcc(items=300,customers=30)",
    "tpcb": "tpcb",
    "tatp": "tatp(scale=1000)",
    "ycsb": "ycsb(scale=1000)",
}


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that an unprivileged server can enter; it has to be empty again at the end."""
    with Supervisor() as supervisor:
        folder = supervisor.folder(Path("/var/tmp"), "flashwright-test-", mode=0o711)  # noqa: S108
        yield folder
        assert list(folder.iterdir()) == []


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_the_memory_of_a_database_is_limited(database: str, cli: Cli, tmp_path: Path) -> None:
    require(os.geteuid() == 0, "control groups need root")
    if database == "postgres":
        find_server()
    cli(
        "bench", TINY["tpcb"], "--db", f"{database}(buffer=4M,memory=80M)",
        "--transactions", "10", "--out", "out",
    )  # fmt: skip
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    assert result["settings"]["database"]["memory"] == 80 << 20
    assert "limited by a control group" in result["database"]["page_cache"]


@pytest.mark.parametrize("name", TINY)
def test_every_workload_runs_on_sqlite(name: str, cli: Cli, tmp_path: Path, place: Path) -> None:
    done = cli(
        "bench",
        TINY[name],
        "--for",
        "0.7",
        "--warm-up",
        "0.2",
        "--on",
        place,
        "--out",
        "out",
        "--clients",
        "2",
    )
    assert "The database is consistent." in done.stdout
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    assert result["complete"]
    assert result["consistency"]["holds"]
    assert result["transactions"] == sum(kind["count"] for kind in result["kinds"].values()) > 0
    assert result["tpm"] == pytest.approx(60 * result["transactions"] / result["seconds"])
    windows = pl.read_parquet(tmp_path / "out" / "windows.parquet")
    responses = pl.read_parquet(tmp_path / "out" / "responses.parquet")
    assert windows["count"].sum() == responses["count"].sum() == result["transactions"]
    cells = pl.read_parquet(tmp_path / "out" / "latency_over_time.parquet")
    assert cells["count"].sum() == result["transactions"]
    for kind in result["kinds"].values():
        if kind["count"]:
            assert (
                kind["p50_ns"]
                <= kind["p95_ns"]
                <= kind["p99_ns"]
                <= kind["p999_ns"]
                <= kind["max_ns"]
            )
    report = tmp_path / "out" / "report.html"
    first = report.read_bytes()
    cli("report", "out")
    assert report.read_bytes() == first


@pytest.mark.parametrize("name", TINY)
def test_every_workload_runs_on_postgres(name: str, cli: Cli, place: Path) -> None:
    find_server()
    options = (
        "--for",
        "2",
        "--on",
        place,
        "--clients",
        "2",
        "--db",
        "postgres(buffer=4M,checkpoint=0.7,full_page_writes=no)",
    )
    done = cli("bench", TINY[name], *options, "--json", "-")
    result = json.loads(done.stdout)
    assert result["consistency"]["holds"], result["consistency"]
    assert result["clients_processor_seconds"] > 0
    assert result["database"]["settings"]["shared_buffers"].split(" ")[0] == "512"
    assert result["database"]["settings"]["full_page_writes"] == "off"
    assert sum(one.get("cause", "").startswith("immediate") for one in result["checkpoints"]) >= 1
    if name == "tatp":
        assert result["database"]["driver"] == "pgbench"
        for kind, share in result["expected_shares"].items():
            bound = 5 * (share * (1 - share) / result["transactions"]) ** 0.5
            assert abs(result["kinds"][kind]["count"] / result["transactions"] - share) < bound, (
                kind
            )


def test_transactions_and_log(cli: Cli, tmp_path: Path, place: Path) -> None:
    options = ("--transactions", "120", "--log-transactions", "--on", place, "--out", "out")
    cli("bench", "tpcc(items=300,customers=30,mix=read-intensive)", *options)
    log = pl.read_parquet(tmp_path / "out" / "transactions.parquet")
    assert log.columns == ["client", "kind", "start_ns", "end_ns", "committed", "tries"]
    assert log.height == 120
    assert (log["start_ns"] < log["end_ns"]).all()
    assert log["end_ns"].is_sorted()


def test_settings_of_sqlite_are_in_force(cli_json: Callable[..., Any], place: Path) -> None:
    database = "sqlite(buffer=1M,page_size=8k,journal_mode=delete,synchronous=normal)"
    options = ("--db", database, "--on", place)
    result = cli_json("bench", TINY["tatp"], "--transactions", "20", "--clients", "2", *options)
    settings = result["database"]["settings"]
    assert (settings["page_size"], settings["journal_mode"], settings["synchronous"]) == (
        8192,
        "delete",
        1,
    )
    assert settings["cache_size"] == -512
    database = "sqlite(checkpoint=0.3)"
    result = cli_json("bench", TINY["tatp"], "--for", "1", "--db", database, "--on", place)
    assert len(result["checkpoints"]) >= 1
    assert result["database"]["settings"]["wal_autocheckpoint"] == 0


def test_keep_leaves_the_database(cli: Cli, tmp_path: Path) -> None:
    cli("bench", TINY["ycsb"], "--transactions", "20", "--keep", "--on", "kept")
    assert (tmp_path / "kept" / "database.sqlite").stat().st_size > 1_000_000


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["tpcx"], "unknown workload"),
        (["tpcc", "--clients", "20"], "it must be 1 to 10"),
        (["tpcc(mix=odd)"], "choose one of standard"),
        (["tpcc(scale_down=2)"], "there is no parameter `scale_down`; known are: scale, mix"),
        (["ycsb", "--preset", "stablebuffer"], "not for ycsb"),
        (["tpcc", "--preset", "nonsense"], "unknown preset"),
        (["tpcb", "--db", "sqlite(buffer=1M,buffer=10%)"], "`buffer` is given twice"),
        (["tpcb", "--db", "sqlite(64M,memory=64M)"], "memory=67108864: it must be more than"),
        (["tpcb", "--db", "sqlite(full_page_writes=yes)"], "no parameter `full_page_writes`"),
        (["tpcb", "--db", "sqlite(synchronous=sometimes)"], "one of off, normal, full, extra"),
        (["tpcb", "--db", "sqlite(page_size=1000)"], "power of two"),
        (["tpcb", "--db", "sqlite(set.)"], "is not a size in bytes"),
        (["tpcb", "--db", "sqlite(set.cache_spill=)"], "is not a text"),
        (["tpcb", "--db", "oracle"], "unknown database `oracle`; known are: sqlite, postgres"),
        (["tpcb", "--db", "sqlite(journal_mode=delete,checkpoint=1)"], "needs journal_mode=wal"),
        (["tpcb", "--on", "/nowhere/at/all"], "no folder can be made there"),
        (["tpcb", "--db", "postgres(programs=/nowhere)"], "no PostgreSQL server"),
        (["tpcb", "--db", "postgres(version=7)"], "no PostgreSQL server of version 7"),
    ],
)
def test_wrong_use_is_one_line(arguments: list[str], said: str, cli: Cli) -> None:
    done = cli("bench", *arguments, code=2)
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_inconsistent_database_ends_with_1(tmp_path: Path, place: Path) -> None:
    planted = (
        "import flashwright.workloads.tpcb as t; t._OTHERS = None\n"
        "execute = t.TpcbClient.execute\n"
        "def wrong(self, backend, request):\n"
        "    backend.batch([('UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = 1', "
        "())], commit=True)\n"
        "    return execute(self, backend, request)\n"
        "t.TpcbClient.execute = wrong\n"
        "from flashwright.cli import main; main()\n"
    )
    command = [
        sys.executable,
        "-c",
        planted,
        "bench",
        "tpcb",
        "--transactions",
        "5",
        "--on",
        str(place),
    ]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 1, done.stderr
    assert "not consistent" in done.stderr


def test_listing_has_workloads_and_presets(cli: Cli) -> None:
    said = cli("list", "benchmark").stdout + cli("list", "preset").stdout
    for name in (*TINY, "scheduler_7_2", "replication_5_1", "read_intensive"):
        assert name in said


def _command(database: str, place: Path, workload: str) -> list[str]:
    command = [
        sys.executable,
        "-m",
        "flashwright",
        "bench",
        workload,
        "--db",
        database,
        "--clients",
        "2",
    ]
    return [*command, "--for", "300", "--on", str(place), "--out", "out"]


def _needs(database: str) -> None:
    if database == "postgres":
        find_server()


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
@pytest.mark.parametrize("workload", ["tpcc", "tatp"])
def test_ctrl_c_keeps_what_was_measured_and_leaves_nothing(
    database: str, workload: str, tmp_path: Path, place: Path
) -> None:
    _needs(database)
    with on_terminal(_command(database, place, TINY[workload]), tmp_path) as (process, main):
        assert "transactions/s" in drawn_on(main, "transactions/s")
        children = descendants(process.pid)
        process.send_signal(signal.SIGINT)
        said = drawn_on(main)
    stdout, _ = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert "Traceback" not in said
    assert until(lambda: not any(map(is_alive, children)))
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    assert result["complete"] is False
    assert result["transactions"] > 0
    assert result["consistency"]["checked"] is False
    assert "was stopped before its end" in stdout.decode()


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
@pytest.mark.parametrize("delay_s", [0.0, 0.4, 3.0])
@pytest.mark.parametrize("victim", ["us", "supervisor"])
def test_kill_9_leaves_nothing(
    database: str, delay_s: float, victim: str, tmp_path: Path, place: Path
) -> None:
    _needs(database)
    command = _command(database, place, TINY["tatp" if delay_s else "tpcc"])
    process = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    # The folder is there: so is the supervisor.
    assert until(lambda: any(place.iterdir()))
    time.sleep(delay_s)
    everything = {process.pid} | descendants(process.pid)
    if victim == "us":
        os.kill(process.pid, signal.SIGKILL)
    else:
        supervisor = [pid for pid in everything if "supervisor/__main__" in command_of(pid)]
        os.kill(supervisor[0], signal.SIGKILL)
        if database == "sqlite":
            # Nothing is asked of it until the end.
            process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode != 0
    assert until(lambda: not any(map(is_alive, everything))), [
        command_of(pid) for pid in everything if is_alive(pid)
    ]
    assert until(lambda: processes_of(str(place)) == [])
    assert until(lambda: list(place.iterdir()) == [])


def test_binaries_are_found_where_they_are_said_to_be() -> None:
    found = find_server()
    account = server_account()
    assert find_binaries(found, account) == found
    assert find_binaries(found.parent, account) == found
