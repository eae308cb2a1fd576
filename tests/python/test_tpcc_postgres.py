"""The TPC-C driver on a real PostgreSQL server, which the test starts.

Skipped where there is none.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from flashwright.workloads.databases import (
    Backend,
    BackendConfig,
    TransactionConflictError,
    backend_config,
)
from flashwright.workloads.databases.server import Server, server_account
from flashwright.workloads.driver import RunConfig, run
from flashwright.workloads.supervisor import Supervisor
from flashwright.workloads.tpcc import Kind, Scale, TpccLoad, load, mix, violations, weighted
from servers import find_server

SCALE = Scale(warehouses=2, items=500, customers_per_district=60)


@pytest.fixture(scope="module")
def database() -> Iterator[BackendConfig]:
    binaries = find_server()
    with Supervisor() as supervisor:
        # Not pytest's tmp_path: an unprivileged server cannot enter it, and a socket's path must be
        # short.
        folder = supervisor.folder(Path("/tmp"), "tpcc-")  # noqa: S108
        server = Server(binaries, folder / "data", folder / "run", supervisor, server_account())
        server.initialise()
        server.start({"fsync": "off", "deadlock_timeout": "100ms"})
        config = backend_config("postgres", server.conninfo)
        load(config, SCALE, seed=1, processes=2)
        yield config
        server.stop()


def check(config: BackendConfig) -> None:
    backend = config.connect()
    try:
        assert violations(backend) == []
    finally:
        backend.close()


def test_load_in_parallel_is_consistent(database: BackendConfig) -> None:
    check(database)


def test_four_clients_leave_a_consistent_database(database: BackendConfig) -> None:
    result = run(
        database, TpccLoad(SCALE, mix("standard")), RunConfig(clients=4, transactions=250, stream=1)
    )
    assert result.transactions == 1000
    assert result.kinds[Kind.NEW_ORDER].committed > 300
    check(database)


def test_deliveries_in_each_others_way_lose_no_order(database: BackendConfig) -> None:
    # More clients than warehouses, so that several deliver the same warehouse; new orders keep the
    # queue filled.
    contended = weighted("contended", (60, 10, 0, 30, 0), "test")
    result = run(
        database, TpccLoad(SCALE, contended), RunConfig(clients=6, transactions=150, stream=2)
    )
    assert result.transactions == 900
    check(database)


def test_a_rolled_back_batch_leaves_nothing(database: BackendConfig) -> None:
    backend = database.connect()
    try:
        before = backend.batch([("SELECT w_ytd FROM warehouse WHERE w_id = ?", (1,))], commit=True)
        backend.batch([("UPDATE warehouse SET w_ytd = w_ytd + ? WHERE w_id = ?", (5, 1))])
        backend.rollback()
        assert (
            backend.batch([("SELECT w_ytd FROM warehouse WHERE w_id = ?", (1,))], commit=True)
            == before
        )
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
