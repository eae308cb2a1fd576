"""The TPC-C driver on SQLite, at a size that loads in a second."""

from __future__ import annotations

import hashlib
import random
import sqlite3
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import pytest

from flashwright.workloads.databases import (
    Backend,
    BackendConfig,
    Row,
    Statement,
    TransactionConflictError,
    backend_config,
)
from flashwright.workloads.databases.sqlite import SqliteBackend, SqliteConfig
from flashwright.workloads.driver import RunConfig, run
from flashwright.workloads.tpcc import (
    MIXES,
    Kind,
    Scale,
    TpccLoad,
    load,
    mix,
    violations,
    weighted,
)
from flashwright.workloads.tpcc.inputs import (
    CustomerChoice,
    DeliveryInput,
    InputGenerator,
    NewOrderInput,
    NuRandConstants,
    OrderLine,
    OrderStatusInput,
    PaymentInput,
    last_name,
    last_name_delta_is_valid,
    nurand,
    terminals_of_client,
)
from flashwright.workloads.tpcc.schema import TABLES
from flashwright.workloads.tpcc.transactions import execute

SMALL = Scale(warehouses=1, items=500, customers_per_district=60)
NOW = "2026-02-03 04:05:06"


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tpcc") / "loaded.db"
    load(SqliteConfig(str(path)), SMALL, seed=1)
    return path


@pytest.fixture
def database(loaded: Path, tmp_path: Path) -> SqliteConfig:
    """A fresh copy of the loaded database.

    Nothing is synced, which these tests do not depend on.
    """
    copy = tmp_path / "copy.db"
    source, target = sqlite3.connect(loaded), sqlite3.connect(copy)
    source.backup(target)
    source.close()
    target.close()
    return SqliteConfig(str(copy), synchronous="off")


def rows(config: BackendConfig, sql: str, *parameters: int | str) -> list[Row]:
    backend = config.connect()
    try:
        return backend.batch([(sql, parameters)], commit=True)[0]
    finally:
        backend.close()


def digest(config: BackendConfig) -> str:
    hashed = hashlib.sha256()
    for table in TABLES:
        hashed.update(repr(sorted(rows(config, f"SELECT * FROM {table}"), key=repr)).encode())
    return hashed.hexdigest()


def test_load_has_the_cardinalities_of_the_specification(loaded: Path) -> None:
    counts = {
        table: rows(SqliteConfig(str(loaded)), f"SELECT COUNT(*) FROM {table}")[0][0]
        for table in TABLES
    }
    lines = counts.pop("order_line")
    assert counts == {
        "warehouse": 1,
        "district": 10,
        "customer": 600,
        "history": 600,
        "new_order": 180,
        "orders": 600,
        "item": 500,
        "stock": 500,
    }
    assert 9.3 < lines / 600 < 10.7
    full = Scale()
    assert (
        full.items,
        full.customers_per_district,
        full.first_undelivered_order,
        full.last_names,
    ) == (
        100_000,
        3000,
        2101,
        1000,
    )


def test_load_is_consistent_and_the_same_for_a_seed(loaded: Path, tmp_path: Path) -> None:
    first = SqliteConfig(str(loaded))
    backend = first.connect()
    assert violations(backend) == []
    backend.close()
    digests = []
    for seed in (1, 2):
        again = SqliteConfig(str(tmp_path / f"{seed}.db"), synchronous="off")
        load(again, SMALL, seed)
        digests.append(digest(again))
    assert digests[0] == digest(first)
    assert digests[1] != digest(first)


@pytest.mark.parametrize("name", MIXES)
def test_every_mix_leaves_a_consistent_database(name: str, database: SqliteConfig) -> None:
    result = run(database, TpccLoad(SMALL, mix(name)), RunConfig(transactions=400))
    assert result.transactions == 400
    assert all(
        kind.responses.count == kind.committed + kind.rolled_back for kind in result.kinds.values()
    )
    backend = database.connect()
    assert violations(backend) == []
    backend.close()


def test_several_processes_leave_a_consistent_database(tmp_path: Path) -> None:
    scale = Scale(warehouses=2, items=200, customers_per_district=30)
    config = SqliteConfig(str(tmp_path / "shared.db"), synchronous="off", busy_timeout_s=60)
    load(config, scale, seed=5)
    result = run(
        config, TpccLoad(scale, mix("standard")), RunConfig(clients=2, transactions=150, seed=5)
    )
    assert result.transactions == 300
    backend = config.connect()
    assert violations(backend) == []
    backend.close()


def test_same_seed_same_database(loaded: Path, tmp_path: Path) -> None:
    digests = []
    for number, seed in enumerate((7, 7, 8)):
        copy = tmp_path / f"{number}.db"
        copy.write_bytes(loaded.read_bytes())
        config = SqliteConfig(str(copy), synchronous="off")
        run(
            config,
            TpccLoad(SMALL, mix("standard"), lambda: NOW),
            RunConfig(transactions=300, seed=seed),
        )
        digests.append(digest(config))
    assert digests[0] == digests[1]
    assert digests[0] != digests[2]


@pytest.mark.parametrize(
    ("condition", "damage"),
    [
        ({1, 8}, "UPDATE warehouse SET w_ytd = w_ytd + 1"),
        ({1, 9}, "UPDATE district SET d_ytd = d_ytd + 1 WHERE d_id = 3"),
        ({2}, "UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_id = 3"),
        ({3, 5}, "DELETE FROM new_order WHERE no_d_id = 4 AND no_o_id = 50"),
        ({4, 6}, "DELETE FROM order_line WHERE ol_d_id = 4 AND ol_o_id = 50 AND ol_number = 2"),
        ({5, 7}, "UPDATE orders SET o_carrier_id = NULL WHERE o_d_id = 4 AND o_id = 7"),
        ({4, 6}, "UPDATE orders SET o_ol_cnt = o_ol_cnt + 1 WHERE o_d_id = 4 AND o_id = 7"),
        (
            {7},
            "UPDATE order_line SET ol_delivery_d = NULL WHERE ol_d_id = 4 AND ol_o_id = 7 AND "
            "ol_number = 1",
        ),
        ({8, 9, 10}, "UPDATE history SET h_amount = h_amount + 1 WHERE h_d_id = 4 AND h_c_id = 7"),
        ({10, 12}, "UPDATE customer SET c_balance = c_balance + 1 WHERE c_d_id = 4 AND c_id = 7"),
        ({12}, "UPDATE customer SET c_ytd_payment = 0 WHERE c_d_id = 4 AND c_id = 7"),
    ],
)
def test_conditions_see_damage(condition: set[int], damage: str, database: SqliteConfig) -> None:
    backend = database.connect()
    backend.script([damage])
    found = violations(backend)
    backend.close()
    assert {int(violation.rule.rpartition(".")[2]) for violation in found} == condition
    assert all(f"{violation.rule} (" in str(violation) for violation in found)


def test_new_order_takes_stock_and_repeats_an_item(database: SqliteConfig) -> None:
    before = rows(database, "SELECT s_quantity FROM stock WHERE s_i_id = 9")[0][0]
    request = NewOrderInput(1, 2, 3, (OrderLine(9, 1, 4), OrderLine(11, 1, 1), OrderLine(9, 1, 5)))
    backend = database.connect()
    outcome = execute(backend, request, NOW)
    backend.close()
    assert outcome.committed
    assert outcome.output[0] == 61
    quantity, ytd, orders = rows(
        database, "SELECT s_quantity, s_ytd, s_order_cnt FROM stock WHERE s_i_id = 9"
    )[0]
    expected = before
    for taken in (4, 5):
        expected = expected - taken if expected >= taken + 10 else expected - taken + 91
    assert (quantity, ytd, orders) == (expected, 9, 2)
    lines = rows(
        database,
        "SELECT ol_i_id, ol_quantity FROM order_line WHERE ol_d_id = 2 AND ol_o_id = 61 ORDER BY "
        "ol_number",
    )
    assert lines == [(9, 4), (11, 1), (9, 5)]


def test_new_order_with_an_unused_item_changes_nothing(database: SqliteConfig) -> None:
    before = digest(database)
    backend = database.connect()
    outcome = execute(
        backend, NewOrderInput(1, 2, 3, (OrderLine(9, 1, 4), OrderLine(501, 1, 1))), NOW
    )
    backend.close()
    assert not outcome.committed
    assert digest(database) == before


def test_payment_by_last_name_takes_the_middle_customer(database: SqliteConfig) -> None:
    name = last_name(5)
    # Four of that name: the second by first name is n/2, rounded up.
    backend = database.connect()
    backend.script(
        [
            f"UPDATE customer SET c_last = '{name}', c_credit = 'BC' WHERE c_d_id = 2 AND c_id IN "
            "(6, 7, 8, 9)"
        ]
    )
    ordered = rows(
        database, "SELECT c_id FROM customer WHERE c_d_id = 2 AND c_last = ? ORDER BY c_first", name
    )
    assert len(ordered) == 4
    outcome = execute(backend, PaymentInput(1, 1, CustomerChoice(1, 2, 0, name), 12_34), NOW)
    backend.close()
    c_id = ordered[1][0]
    assert outcome.output == (c_id, -10_00 - 12_34)
    data, count = rows(
        database, "SELECT c_data, c_payment_cnt FROM customer WHERE c_d_id = 2 AND c_id = ?", c_id
    )[0]
    assert data.startswith(f"{c_id} 2 1 1 1 1234 ")
    assert len(data) <= 500
    assert count == 2


def test_order_status_shows_the_last_order(database: SqliteConfig) -> None:
    backend = database.connect()
    execute(backend, NewOrderInput(1, 2, 3, (OrderLine(9, 1, 4), OrderLine(10, 1, 4))), NOW)
    outcome = execute(backend, OrderStatusInput(CustomerChoice(1, 2, 3, None)), NOW)
    backend.close()
    assert outcome.output == (3, -10_00, 61, 2)


def test_delivery_takes_the_oldest_order_of_each_district_until_none_is_left(
    database: SqliteConfig,
) -> None:
    backend = database.connect()
    outcome = execute(backend, DeliveryInput(1, 7), NOW)
    assert outcome.output == tuple((d_id, 43) for d_id in range(1, 11))
    for _ in range(17):
        assert execute(backend, DeliveryInput(1, 7), NOW).misses == 0
    assert violations(backend) == []
    assert execute(backend, DeliveryInput(1, 7), NOW).misses == 10
    backend.close()


class Quarrelsome(SqliteBackend):
    """Every third batch loses to another transaction."""

    def batch(
        self, statements: Sequence[Statement], *, commit: bool = False, read_only: bool = False
    ) -> list[list[Row]]:
        self.batches = getattr(self, "batches", 0) + 1
        if self.batches % 3 == 0:
            self.rollback()
            raise TransactionConflictError("made up")
        return super().batch(statements, commit=commit, read_only=read_only)


class QuarrelsomeConfig(SqliteConfig):
    def connect(self) -> Quarrelsome:
        return Quarrelsome(self)


def test_conflicts_are_tried_again_and_counted(database: SqliteConfig) -> None:
    quarrel = QuarrelsomeConfig(database.path, synchronous="off")
    without_delivery = weighted("no delivery", (50, 50, 0, 0, 0), "test")
    result = run(quarrel, TpccLoad(SMALL, without_delivery), RunConfig(transactions=100))
    assert result.transactions == 100
    assert sum(kind.conflicts for kind in result.kinds.values()) > 20
    backend = database.connect()
    assert violations(backend) == []
    assert (
        rows(database, "SELECT COUNT(*) FROM orders")[0][0]
        == 600 + result.kinds[Kind.NEW_ORDER].committed
    )
    backend.close()


def generator(scale: Scale, name: str = "standard", seed: int = 3) -> InputGenerator:
    return InputGenerator(
        scale,
        mix(name),
        NuRandConstants.for_run(seed),
        random.Random(seed),
        terminals_of_client(scale, 0, 1),
    )


@pytest.mark.parametrize("name", MIXES)
def test_kinds_come_in_the_shares_of_the_mix(name: str) -> None:
    inputs, draws = generator(Scale(warehouses=3), name), 20_000
    counts = Counter(inputs.draw()[0] for _ in range(draws))
    for kind in Kind:
        share = mix(name).share(kind)
        # Five standard deviations: passes for practically every seed, and this one is fixed.
        assert abs(counts[kind] / draws - share) < 5 * (share * (1 - share) / draws) ** 0.5


def test_inputs_are_as_the_specification_says() -> None:
    scale = Scale(warehouses=4)
    inputs = generator(scale)
    drawn = [inputs.draw()[1] for _ in range(40_000)]
    orders = [request for request in drawn if isinstance(request, NewOrderInput)]
    payments = [request for request in drawn if isinstance(request, PaymentInput)]
    lines = [line for order in orders for line in order.lines]
    assert {len(order.lines) for order in orders} == set(range(5, 16))
    assert {line.quantity for line in lines} == set(range(1, 11))
    assert min(line.item for line in lines) >= 1
    unused = sum(line.item == scale.items + 1 for line in lines)
    assert 0.005 < unused / len(orders) < 0.015
    remote = sum(line.supply_w_id != order.w_id for order in orders for line in order.lines)
    assert 0.007 < remote / len(lines) < 0.013
    assert (
        0.58
        < sum(payment.customer.last_name is not None for payment in payments) / len(payments)
        < 0.62
    )
    assert (
        0.13
        < sum(payment.customer.w_id != payment.w_id for payment in payments) / len(payments)
        < 0.17
    )
    assert {order.w_id for order in orders} == {1, 2, 3, 4}


def test_nurand_matches_its_definition_and_is_skewed() -> None:
    rng = random.Random(1)
    exact = [0] * 64
    for a in range(16):
        for y in range(1, 65):
            exact[(((a | y) + 5) % 64 + 1) - 1] += 1
    draws = Counter(nurand(rng, 15, 5, 1, 64) for _ in range(200_000))
    assert set(draws) <= set(range(1, 65))
    for value, weight in enumerate(exact, 1):
        share = weight / (16 * 64)
        assert abs(draws[value] / 200_000 - share) < 5 * (share / 200_000) ** 0.5 + 1e-9
    assert max(exact) > 3 * 16


def test_last_names_and_constants() -> None:
    assert [last_name(number) for number in (0, 371, 999)] == [
        "BARBARBAR",
        "PRICALLYOUGHT",
        "EINGEINGEING",
    ]
    assert len({last_name(number) for number in range(1000)}) == 1000
    for seed in range(200):
        at_load, at_run = NuRandConstants.for_load(seed), NuRandConstants.for_run(seed)
        assert last_name_delta_is_valid(at_load.last_name, at_run.last_name)
        assert (at_load.customer, at_load.item) == (at_run.customer, at_run.item)
    deltas = [delta for delta in range(256) if last_name_delta_is_valid(0, delta)]
    assert deltas == [delta for delta in range(65, 120) if delta not in (96, 112)]


@pytest.mark.parametrize("clients", [1, 2, 3, 7, 30])
def test_terminals_are_dealt_out_once(clients: int) -> None:
    scale = Scale(warehouses=3)
    dealt = [
        terminal
        for client in range(clients)
        for terminal in terminals_of_client(scale, client, clients)
    ]
    assert sorted(dealt) == [(w, d) for w in range(1, 4) for d in range(1, 11)]
    assert all(terminals_of_client(scale, client, clients) for client in range(clients))


def test_think_times_have_their_mean() -> None:
    inputs = generator(SMALL)
    times = list(islice(iter(lambda: inputs.think_seconds(2.0), None), 20_000))
    assert abs(sum(times) / len(times) - 2.0) < 0.1
    assert max(times) <= 20.0
    assert inputs.think_seconds(0.0) == 0.0


def test_wrong_use_is_told() -> None:
    for make, words in (
        (lambda: mix("reads"), "standard, normal, read_intensive, write_intensive"),
        (lambda: backend_config("oracle", ""), "sqlite, postgres"),
        (lambda: Scale(warehouses=0), "warehouses is 0: it must be at least 1"),
        (RunConfig, "set seconds or transactions"),
        (
            lambda: RunConfig(clients=11, seconds=1).check(TpccLoad(SMALL, mix("standard"))),
            "it must be 1 to 10",
        ),
        (lambda: weighted("none", (0, 0, 0, 0, 0), ""), "not all 0"),
    ):
        with pytest.raises(ValueError, match=words):
            make()


def test_backends_keep_the_interface(database: SqliteConfig) -> None:
    backend: Backend = database.connect()
    backend.batch([("UPDATE warehouse SET w_ytd = 0", ())])
    backend.rollback()
    assert rows(database, "SELECT w_ytd FROM warehouse")[0][0] == 60 * 10 * 10_00
    backend.close()
