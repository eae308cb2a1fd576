"""Every workload on SQLite: loads repeat by seed, mixes come out, planted damage is found."""

from __future__ import annotations

import hashlib
import random
import sqlite3
import threading
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flashwright import InputError
from flashwright.workloads import tatp, ycsb
from flashwright.workloads.base import DatabaseLoad, Workload
from flashwright.workloads.databases.sqlite import SqliteConfig
from flashwright.workloads.driver import RunConfig, run
from flashwright.workloads.measure import Histogram, bounds
from flashwright.workloads.presets import PRESETS
from flashwright.workloads.registry import WORKLOADS, find

SMALL = {
    "tpcc": {"items": 300, "customers": 30},
    "tpcb": {"scale": 1},
    "tatp": {"scale": 1000},
    "ycsb": {"scale": 1000},
}
ALL = [(name, mix) for name, workload in WORKLOADS.items() for mix in workload.mixes]


def load_of(name: str, **settings: Any) -> DatabaseLoad:
    workload = WORKLOADS[name]
    return workload.load(workload.settings(**settings))


def small(name: str, mix: str | None = None) -> DatabaseLoad:
    return load_of(name, mix=mix, **SMALL[name])


def fill(load: DatabaseLoad, path: Path, seed: int = 1) -> SqliteConfig:
    config = SqliteConfig(str(path), synchronous="off")
    load.fill(config, seed, 1, lambda _done, _total: None)
    return config


def digest(config: SqliteConfig) -> str:
    connection = sqlite3.connect(config.path)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    hashed = hashlib.sha256("\n".join(connection.iterdump()).encode()).hexdigest()
    connection.close()
    return hashed


@pytest.mark.parametrize("name", WORKLOADS)
def test_same_seed_same_database_and_same_requests(name: str, tmp_path: Path) -> None:
    load = small(name)
    digests = [digest(fill(load, tmp_path / f"{n}.db", seed)) for n, seed in enumerate((4, 4, 5))]
    assert digests[0] == digests[1]
    # pgbench's population has nothing random in it, and ours follows it.
    assert (digests[0] == digests[2]) is (name == "tpcb")
    drawn = [
        list(islice(iter(load.client(seed=seed, stream=0, client=0, clients=2).draw, None), 200))
        for seed in (4, 4, 5)
    ]
    assert drawn[0] == drawn[1] != drawn[2]
    other = [load.client(seed=4, stream=0, client=1, clients=2).draw() for _ in range(1)]
    assert other != drawn[0][:1]


@pytest.mark.parametrize(("name", "mix"), ALL)
def test_mixes_come_out_and_leave_a_consistent_database(
    name: str, mix: str, tmp_path: Path
) -> None:
    load = small(name, mix)
    config = fill(load, tmp_path / "a.db")
    result = run(config, load, RunConfig(transactions=600, keep_transactions=True))
    assert result.transactions == 600 == len(result.transactions_log["end_ns"])
    for kind, found in result.kinds.items():
        share = load.mix.share(kind)
        # Five standard deviations; the seed is fixed.
        assert abs(found.count / 600 - share) <= 5 * (share * (1 - share) / 600) ** 0.5, kind
    backend = config.connect()
    assert load.violations(backend) == []
    backend.close()


@pytest.mark.parametrize(
    ("name", "damage", "says"),
    [
        ("tpcb", "UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = 77", "accounts"),
        ("tpcb", "UPDATE pgbench_tellers SET tbalance = tbalance + 1 WHERE tid = 3", "teller"),
        ("tpcb", "DELETE FROM pgbench_history WHERE rowid = 5", "branches"),
        ("tatp", "DELETE FROM subscriber WHERE s_id = 17", "1000 subscribers"),
        ("tatp", "DELETE FROM access_info WHERE s_id = 17", "ACCESS_INFO"),
        (
            "tatp",
            "INSERT INTO call_forwarding VALUES (17, 9, 8, 12, '000000000000017')",
            "its facility",
        ),
        ("tatp", "UPDATE subscriber SET vlr_location = NULL WHERE s_id = 17", "VLR_LOCATION"),
        (
            "ycsb",
            "UPDATE usertable SET field3 = 'x' || SUBSTR(field3, 2) WHERE rowid = 9",
            "checksum",
        ),
        ("ycsb", "DELETE FROM usertable WHERE rowid = 9", "records of the load"),
    ],
)
def test_planted_damage_is_found(name: str, damage: str, says: str, tmp_path: Path) -> None:
    load = small(name)
    config = fill(load, tmp_path / "a.db")
    run(config, load, RunConfig(transactions=50))
    backend = config.connect()
    assert load.violations(backend) == []
    backend.script([damage])
    found = [str(violation) for violation in load.violations(backend)]
    backend.close()
    assert any(says in line for line in found), found


def test_clients_in_processes_leave_a_consistent_database(tmp_path: Path) -> None:
    for name in ("tpcb", "ycsb"):
        load = small(name, "d" if name == "ycsb" else None)
        config = fill(load, tmp_path / f"{name}.db")
        result = run(config, load, RunConfig(clients=3, transactions=100, warm_up_seconds=0.2))
        assert result.transactions == 300
        assert sum(result.windows["count"]) == 300
        backend = config.connect()
        assert load.violations(backend) == []
        backend.close()


def test_clients_that_open_a_database_together_wait_for_each_others_journal_mode(
    tmp_path: Path,
) -> None:
    path = str(tmp_path / "database.sqlite")
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("CREATE TABLE t (a INTEGER)")
    other.execute("BEGIN IMMEDIATE")
    release = threading.Timer(0.1, other.execute, ("COMMIT",))
    release.start()
    SqliteConfig(path, "wal").connect().close()
    release.join()
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        SqliteConfig(path, "delete", busy_timeout_s=0.05).connect()
    other.close()


def test_tatp_finds_what_the_description_expects(tmp_path: Path) -> None:
    load = load_of("tatp", scale=2000)
    config = fill(load, tmp_path / "a.db")
    result = run(config, load, RunConfig(transactions=20_000))
    for kind, expected in tatp.SUCCESS.items():
        found = result.kinds[kind]
        share = 1 - found.misses / found.count
        # Beyond chance, the population itself deviates, and insertions and deletions change it.
        assert (
            abs(share - expected) < 5 * (expected * (1 - expected) / found.count) ** 0.5 + 0.03
        ), (kind, share)


def test_tatp_subscribers_are_not_uniform_and_in_range() -> None:
    load = load_of("tatp", scale=100_000)
    client = load.client(seed=1, stream=0, client=0, clients=1)
    ids = [client.draw()[1].s_id for _ in range(20_000)]
    assert min(ids) >= 1
    assert max(ids) <= 100_000
    hottest = sum(sorted(Counter(id_ // 1000 for id_ in ids).values())[-20:])
    assert hottest / len(ids) > 0.3
    assert [tatp.skew_constant(n) for n in (10**6, 10**6 + 1, 10**7 + 1)] == [
        65_535,
        1_048_575,
        2_097_151,
    ]


def test_zipfian_has_its_shares() -> None:
    n, draws = 1000, 100_000
    zipfian, rng = ycsb.Zipfian(n), random.Random(1)
    counts = Counter(zipfian.draw(rng) for _ in range(draws))
    zeta = sum(1 / k**0.99 for k in range(1, n + 1))
    for rank in (0, 1):
        share = 1 / (rank + 1) ** 0.99 / zeta
        assert abs(counts[rank] / draws - share) < 5 * (share / draws) ** 0.5
    assert set(counts) <= set(range(n))
    # Beyond the first two ranks the method is an approximation of the distribution.
    for upto in (10, 100, 500):
        share = sum(1 / k**0.99 for k in range(1, upto + 1)) / zeta
        assert abs(sum(counts[k] for k in range(upto)) / draws - share) < 0.03
    for records in (1, 2, 3):
        assert {ycsb.Zipfian(records).draw(rng) for _ in range(200)} <= set(range(records))


def test_histogram_is_within_its_precision_and_merges() -> None:
    rng = np.random.default_rng(1)
    times = (10 ** rng.uniform(0, 11, 20_000)).astype(np.uint64)
    whole, halves = Histogram(), (Histogram(), Histogram())
    whole.add(times)
    halves[0].add(times[:10_000])
    halves[1].add(times[10_000:])
    halves[0].merge(halves[1])
    assert (whole.counts == halves[0].counts).all()
    assert (whole.count, whole.total_ns, whole.min_ns, whole.max_ns) == (
        20_000,
        int(times.sum()),
        int(times.min()),
        int(times.max()),
    )
    assert (halves[0].min_ns, halves[0].max_ns) == (whole.min_ns, whole.max_ns)
    ordered = np.sort(times)
    for share in (0.001, 0.5, 0.99, 0.999, 1.0):
        exact = int(ordered[int(np.ceil(share * 20_000)) - 1])
        found = whole.quantile_ns(share)
        assert found is not None
        assert exact <= found <= exact * (1 + 1 / 128)
    edges = [bounds(at) for at in range(3000)]
    assert all(low == edges[n][1] + 1 for n, (low, _) in enumerate(edges[1:]))
    assert Histogram().quantile_ns(0.5) is None


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("oracle", "known are: tpcc, tpcb, tatp, ycsb"),
        ("tpcc(scale=many)", "`many` is not a count from 1"),
        ("tpcc(warehouses=2)", "there is no parameter `warehouses`; known are: scale, mix"),
        ("tpcc(", "write name or name"),
    ],
)
def test_wrong_workloads_are_told(spec: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        find(spec)


def test_parameters_are_read_and_checked() -> None:
    workload, given, load = find("tpcc(2, items=1k)")
    assert (workload.name, given.scale, given.items) == ("tpcc", 2, 1000)  # type: ignore[attr-defined]
    assert (load.scale.warehouses, load.scale.items) == (2, 1000)  # type: ignore[attr-defined]
    with pytest.raises(InputError, match="known are: scale, mix, think_time, items, customers"):
        find("tpcc(wheels=4)")
    with pytest.raises(InputError, match="`3` is not a count from 15"):
        find("tpcc(items=3)")
    # Settings that stand nowhere else are taken from beneath.
    assert find("tpcc(items=20)", {"scale": 4, "items": 30})[1].scale == 4


def test_presets_scale_time_and_size_together() -> None:
    for preset in PRESETS.values():
        small_one = preset.scaled_down(10)
        for name in preset.workloads:
            workload: Workload = WORKLOADS[name]
            assert small_one.units_for(workload) == pytest.approx(
                preset.units_for(workload) / 10, abs=0.5
            )
        assert small_one.seconds == preset.seconds / 10
        assert small_one.clients == preset.clients
        if preset.buffer_bytes:
            assert small_one.buffer_bytes == pytest.approx(preset.buffer_bytes / 10, rel=0.01)
    with pytest.raises(InputError, match="not for ycsb"):
        PRESETS["stablebuffer"].units_for(WORKLOADS["ycsb"])
