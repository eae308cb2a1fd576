"""The TPC-C driver on a real PostgreSQL server, which the test starts; skipped where there is none."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from flashwright.workloads.tpcc import Kind, Mix, RunConfig, Scale, backend_config, load, mix, run, violations
from flashwright.workloads.tpcc.backends import Backend, BackendConfig, TransactionConflictError

psycopg = pytest.importorskip("psycopg", reason="needs the extra `postgres`")

SCALE = Scale(warehouses=2, items=500, customers_per_district=60)


def find_postgres() -> Path | None:
    on_path = shutil.which("postgres")
    if on_path:
        return Path(on_path).parent
    return next(
        (path.parent for path in sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), reverse=True)), None
    )


@pytest.fixture(scope="module")
def database() -> Iterator[BackendConfig]:
    binaries = find_postgres()
    if binaries is None:
        pytest.skip("no PostgreSQL server on this machine")
    as_user: list[str] = []
    # Not pytest's tmp_path: an unprivileged server cannot enter it, and a socket's path must be short.
    folder = Path(tempfile.mkdtemp(prefix="tpcc-"))
    if os.geteuid() == 0:
        try:
            account = pwd.getpwnam("postgres")
        except KeyError:
            pytest.skip("PostgreSQL refuses to run as root, and there is no user postgres")
        as_user = ["setpriv", f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--clear-groups"]
        os.chown(folder, account.pw_uid, account.pw_gid)
    data = folder / "data"
    options = ["--auth=trust", "--username=tpcc", "--no-locale", "--encoding=UTF8", "--no-sync"]
    subprocess.run([*as_user, binaries / "initdb", "-D", data, *options], check=True, capture_output=True)
    settings = {
        "listen_addresses": "",
        "unix_socket_directories": str(folder),
        "fsync": "off",
        "deadlock_timeout": "100ms",
    }
    flags = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen([*as_user, binaries / "postgres", "-D", data, *flags], stdout=log, stderr=log)
    config = backend_config("postgres", f"host={folder} dbname=postgres user=tpcc")
    try:
        for _ in range(300):
            try:
                config.connect().close()
                break
            except psycopg.OperationalError:
                assert server.poll() is None, (folder / "log").read_text()
                time.sleep(0.1)
        load(config, SCALE, seed=1, processes=2, report=lambda _: None)
        yield config
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(60)
        shutil.rmtree(folder)


def check(config: BackendConfig) -> None:
    backend = config.connect()
    try:
        assert violations(backend) == []
    finally:
        backend.close()


def test_load_in_parallel_is_consistent(database: BackendConfig) -> None:
    check(database)


def test_four_clients_leave_a_consistent_database(database: BackendConfig) -> None:
    result = run(database, RunConfig(SCALE, mix("standard"), clients=4, transactions=250, stream=1))
    assert result.transactions == 1000
    assert result.kinds[Kind.NEW_ORDER].committed > 300
    check(database)


def test_deliveries_in_each_others_way_lose_no_order(database: BackendConfig) -> None:
    # More clients than warehouses, so that several deliver the same warehouse; new orders keep the queue filled.
    contended = Mix("contended", (60, 10, 0, 30, 0), "test")
    result = run(database, RunConfig(SCALE, contended, clients=6, transactions=150, stream=2))
    assert result.transactions == 900
    check(database)


def test_a_rolled_back_batch_leaves_nothing(database: BackendConfig) -> None:
    backend = database.connect()
    try:
        before = backend.batch([("SELECT w_ytd FROM warehouse WHERE w_id = ?", (1,))], commit=True)
        backend.batch([("UPDATE warehouse SET w_ytd = w_ytd + ? WHERE w_id = ?", (5, 1))])
        backend.rollback()
        assert backend.batch([("SELECT w_ytd FROM warehouse WHERE w_id = ?", (1,))], commit=True) == before
    finally:
        backend.close()


def test_a_deadlock_is_a_conflict_and_leaves_the_connection_usable(database: BackendConfig) -> None:
    update = "UPDATE warehouse SET w_ytd = w_ytd + 0 WHERE w_id = ?"
    one, two = database.connect(), database.connect()

    def cross(backend: Backend, w_id: int) -> bool:
        try:
            backend.batch([(update, (w_id,)), ("SELECT COUNT(*) FROM item", ())], commit=True)
        except TransactionConflictError:
            return False
        return True

    try:
        one.batch([(update, (1,))])
        two.batch([(update, (2,))])
        with ThreadPoolExecutor() as pool:
            first, second = pool.submit(cross, one, 2), pool.submit(cross, two, 1)
            assert sorted((first.result(), second.result())) == [False, True]
        assert cross(one, 1)
        assert cross(two, 1)
    finally:
        one.close()
        two.close()
