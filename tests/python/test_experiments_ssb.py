"""The Star Schema Benchmark: its rows, its queries in parts on a real server, and what is drawn."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments.ssb import generator, plans, schema
from experiments.ssb import specification as ssb
from experiments.ssb.queries import (
    BY_HASH,
    BY_INDEX,
    COMPARED,
    MOST_KEY,
    QUERIES,
    Among,
    Filter,
    Join,
    Plan,
    Query,
    added_up,
    key_parts,
    page_parts,
)
from experiments.ssb.server import Warehouse
from flashwright._core import RunError
from flashwright.workloads.supervisor import Supervisor
from servers import find_server

SEED = 1
SMALL = 0.02
MIDDLE = 0.1
DEVIATIONS = 4.5
"""Standard deviations that a share may be off: one in a hundred thousand is by chance."""


@cache
def rows(scale: float) -> generator.Rows:
    chunks = list(generator.all_lineorders(scale, SEED))
    return {name: np.concatenate([chunk[name] for chunk in chunks]) for name in chunks[0]}


@cache
def dimensions(scale: float) -> dict[str, generator.Rows]:
    return schema.dimensions(scale, SEED)


def let_by(join: Join, scale: float) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Which rows of LINEORDER a join lets by."""
    table = dimensions(scale)[join.table]
    places = np.searchsorted(table[join.key], rows(scale)[join.fact_key])
    return join.mask(table)[places]


def expected(join: Join, scale: float) -> float:
    """The share of LINEORDER that a join lets by, as keys are drawn."""
    table = dimensions(scale)[join.table]
    mask = join.mask(table)
    if join.table == "dates":
        return float(mask[: ssb.ORDER_DAYS].mean())
    if join.table == "customer":
        keys = generator._ordering(np.random.default_rng(2), 2_000_000, ssb.sizes(scale).customers)
        return float(mask[keys - 1].mean())
    return float(mask.mean())


def of_range(one: Filter) -> float:
    """The share of all values of a column of LINEORDER that a filter lets by."""
    values = {"lo_discount": np.arange(11), "lo_quantity": np.arange(1, 51)}
    return float(one.mask(values).mean())


def near(found: float, share: float, count: int) -> bool:
    return abs(found - share) <= DEVIATIONS * sqrt(share * (1 - share) / count) + 1e-12


def test_sizes_are_those_of_the_specification() -> None:
    assert ssb.sizes(1) == ssb.Sizes(1_500_000, 30_000, 2_000, 200_000)
    assert ssb.sizes(5) == ssb.Sizes(7_500_000, 150_000, 10_000, 600_000)
    assert ssb.sizes(0.5).parts == 100_000
    assert len(ssb.brands()) == 1000
    assert len(ssb.cities()) == 250
    assert "UNITED KI1" in ssb.cities()
    assert "PERU     0" in ssb.cities()
    count = len(rows(MIDDLE)["lo_tax"])
    # Four lines an order, in the mean of 1 to 7.
    orders = ssb.sizes(MIDDLE).orders
    assert abs(count / orders - 4) < DEVIATIONS * 2 / sqrt(orders)


def test_dates_are_seven_years() -> None:
    dates = generator.dates()
    assert len(dates["d_datekey"]) == ssb.DAYS
    assert dates["d_datekey"][[0, -1]].tolist() == [19920101, 19981231]
    assert dates["d_datekey"][ssb.ORDER_DAYS - 1] == 19980802
    at = dates["d_datekey"].tolist().index(19971226)
    assert {name: column[at] for name, column in dates.items() if name != "d_date"} == {
        "d_datekey": 19971226,
        "d_dayofweek": b"Friday   ",
        "d_month": b"December ",
        "d_year": 1997,
        "d_yearmonthnum": 199712,
        "d_yearmonth": b"Dec1997",
        "d_daynuminweek": 6,
        "d_daynuminmonth": 26,
        "d_daynuminyear": 360,
        "d_monthnuminyear": 12,
        "d_weeknuminyear": 52,
        "d_sellingseason": b"Christmas   ",
        "d_lastdayinweekfl": b"0",
        "d_lastdayinmonthfl": b"0",
        "d_holidayfl": b"0",
        "d_weekdayfl": b"1",
    }


def test_lines_of_an_order_share_what_is_the_orders() -> None:
    found = rows(SMALL)
    keys, first, counts = np.unique(found["lo_orderkey"], return_index=True, return_counts=True)
    assert len(keys) == ssb.sizes(SMALL).orders
    assert set(counts.tolist()) == set(range(1, 8))
    # Eight keys of each 32 are used.
    assert keys[:10].tolist() == [1, 2, 3, 4, 5, 6, 7, 32, 33, 34]
    of = np.repeat(np.arange(len(keys)), counts)
    for name in ("lo_orderdate", "lo_ordtotalprice", "lo_orderpriority", "lo_custkey"):
        assert np.array_equal(found[name], found[name][first][of]), name
    paid = found["lo_revenue"].astype(np.int64) * (100 + found["lo_tax"]) // 100
    assert np.array_equal(np.bincount(of, paid).astype(int), found["lo_ordtotalprice"][first])
    assert np.array_equal(
        found["lo_revenue"],
        found["lo_extendedprice"].astype(np.int64) * (100 - found["lo_discount"]) // 100,
    )
    assert (found["lo_commitdate"] > found["lo_orderdate"]).all()
    # An order of dbgen's own: part 155190, 17 pieces, 4 % off.
    assert int(generator.price_cents(np.array(155190))) * 17 == 2116823
    assert (found["lo_custkey"] % ssb.CUSTOMER_MORTALITY != 0).all()


def test_rows_depend_on_the_seed_alone() -> None:
    again = generator.lineorders(SMALL, SEED, 0)
    assert all(np.array_equal(again[name], rows(SMALL)[name]) for name in again)
    other = generator.lineorders(SMALL, SEED + 1, 0)
    assert not np.array_equal(other["lo_partkey"][:100], again["lo_partkey"][:100])


@pytest.mark.parametrize("name", [name for name in QUERIES if name != "Q0"])
def test_filters_let_by_what_the_specification_says(name: str) -> None:
    """Each filter by itself, and all together, within the error of sampling."""
    query = QUERIES[name]
    count = len(rows(MIDDLE)["lo_tax"])
    # Rows of one order have one date and one customer: as many draws as there are orders.
    orders = ssb.sizes(MIDDLE).orders
    share, mask = 1.0, np.ones(count, bool)
    for join in query.joins:
        of_join = expected(join, MIDDLE)
        own = let_by(join, MIDDLE)
        draws = orders / 1.6 if join.table in ("dates", "customer") else count
        assert near(float(own.mean()), of_join, int(draws)), join
        share, mask = share * of_join, mask & own
    for one in query.filters:
        share *= of_range(one)
        mask = mask & one.mask(rows(MIDDLE))
    assert near(float(mask.mean()), share, int(orders / 1.6))


@pytest.mark.parametrize("name", [name for name, one in QUERIES.items() if one.factor < 1])
def test_published_filter_factors_are_those_of_whole_dimensions(name: str) -> None:
    """Published factors take each year for a seventh; orders end in August of the seventh."""
    query = QUERIES[name]
    if not query.factor:
        return
    factor = 1.0
    for join in query.joins:
        for one in join.filters:
            factor *= _nominal(one.column, one)
    for one in query.filters:
        factor *= of_range(one)
    assert factor == pytest.approx(query.factor, rel=0.06)
    # What orders by day change: a year is 365 of 2,406 days, 1998 has 214.
    drawn = np.prod([expected(join, MIDDLE) for join in query.joins if join.table == "dates"])
    assert (
        0.8
        < drawn
        / np.prod(
            [_nominal(o.column, o) for j in query.joins if j.table == "dates" for o in j.filters]
        )
        < 1.15
    )


def _nominal(column: str, one: Filter) -> float:
    counted = {
        "d_year": 7,
        "d_yearmonthnum": 84,
        "d_yearmonth": 84,
        "d_weeknuminyear": 52,
        "region": 5,
        "nation": 25,
        "city": 250,
        "p_mfgr": 5,
        "p_category": 25,
        "p_brand1": 1000,
    }
    of = counted.get(column) or counted[column[2:]]
    if isinstance(one, Among):
        return len(one.values) / of
    width = {"d_year": 6, "p_brand1": 8}[column]
    return width / of


def test_dimensions_are_even() -> None:
    for table, column, values in (
        ("customer", "c_nation", 25),
        ("customer", "c_city", 250),
        ("supplier", "s_region", 5),
        ("part", "p_category", 25),
        ("part", "p_brand1", 1000),
    ):
        found = dimensions(1.0)[table][column]
        _, counts = np.unique(found, return_counts=True)
        assert len(counts) == values
        # Chi squared, within its deviations.
        expectation = len(found) / values
        chi = float(((counts - expectation) ** 2 / expectation).sum())
        assert abs(chi - values) < DEVIATIONS * sqrt(2 * values), column


def test_parts_cover_everything_once() -> None:
    keys = [3, 5, 8, 9, 20]
    for count in range(1, 9):
        parts = key_parts(keys, count)
        assert len(parts) == min(count, len(keys))
        assert parts[0][0] == 0
        assert parts[-1][1] == MOST_KEY
        assert all(one[1] == two[0] for one, two in pairwise(parts))
        held = [sum(low <= key < high for key in keys) for low, high in parts]
        assert max(held) - min(held) <= 1
        pages = page_parts(10, count)
        assert [page for low, high in pages for page in range(low, high)] == list(range(10))
    assert key_parts([], 4) == [(0, MOST_KEY)]


def test_sums_without_rows_add_nothing() -> None:
    assert added_up([[(None,)], [(5,)], [(7,)]]) == {(): 12}
    assert added_up([[("a", 1), ("b", 2)], [("b", 3)], []]) == {("a",): 1, ("b",): 5}


@pytest.fixture(scope="module")
def warehouse() -> Iterator[Warehouse]:
    find_server()
    with Supervisor() as supervisor:
        # Not pytest's tmp_path: an unprivileged server cannot enter it.
        folder = supervisor.folder(Path("/var/tmp"), "ssb-test-")  # noqa: S108
        made = Warehouse(folder, folder / "run", supervisor)
        made.make(SMALL, SEED, lambda _: None)
        yield made
        made.close()


def summed(query: Query) -> int:
    """What all groups of a query sum up to, by the rows themselves."""
    mask = np.ones(len(rows(SMALL)["lo_tax"]), bool)
    for join in query.joins:
        mask &= let_by(join, SMALL)
    for one in query.filters:
        mask &= one.mask(rows(SMALL))
    columns = {name: rows(SMALL)[name].astype(np.int64) for name in query.total.split()[::2]}
    total = eval(query.total, {}, columns)  # noqa: S307  (an expression of our own)
    return int(total[mask].sum())


@pytest.mark.parametrize("plan", Plan)
@pytest.mark.parametrize("name", QUERIES)
def test_parts_add_up_to_the_whole(warehouse: Warehouse, name: str, plan: Plan) -> None:
    query = QUERIES[name]
    if plan is Plan.INDEX and not query.joins:
        return
    whole = warehouse.run_in_parts(query, plan, 1)
    assert whole.parts == 1
    assert sum(whole.totals.values()) == summed(query)
    for count in (2, 3, 8):
        ran = warehouse.run_in_parts(query, plan, count)
        assert ran.totals == whole.totals, count
        assert 1 <= ran.parts <= count


def test_both_plans_give_the_same(warehouse: Warehouse) -> None:
    for name in {*BY_INDEX, *BY_HASH, *COMPARED} - {"Q0"}:
        query = QUERIES[name]
        one, two = (warehouse.run_in_parts(query, plan, 2).totals for plan in Plan)
        assert one == two, name


def test_a_plan_that_is_not_asked_for_is_refused(warehouse: Warehouse) -> None:
    query = QUERIES["Q2.2"]
    with warehouse.connect() as connection:
        for plan, other in ((Plan.INDEX, Plan.HASH), (Plan.HASH, Plan.INDEX)):
            plans.use(connection, plan)
            found = plans.explain(connection, query.sql(plan, None))
            plans.check(found, query, plan)
            with pytest.raises(RunError, match=f"does not take the {other.value} join plan"):
                plans.check(found, query, other)
        connection.execute("RESET ALL")
        found = plans.explain(connection, query.led_by("supplier").sql(Plan.INDEX, None))
        with pytest.raises(RunError, match=r"Q2\.2: PostgreSQL does not take"):
            plans.check(found, query, Plan.INDEX)
