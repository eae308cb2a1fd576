"""Queries of the benchmark as values: their SQL, split into parts, and what their filters let by.

O'Neil, O'Neil & Chen, "Star Schema Benchmark", section 3.1, has the queries and their filter
factors; PARALLELISM sections 6.2 and 6.3 have Q0 and Q1.2n, and how a query is split.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import reduce
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from experiments.ssb.generator import Rows

FACT = "lineorder"
MOST_KEY = (1 << 31) - 1
Row = tuple[Any, ...]


class Plan(Enum):
    """How LINEORDER is joined with its dimensions."""

    INDEX = "index"
    """For each row of the first dimension its rows of LINEORDER by a B+-tree; the other dimensions
    by their primary keys."""
    HASH = "hash"
    """LINEORDER is read in order and probes a table of each dimension in memory."""


@dataclass(frozen=True)
class Within:
    """A column that lies between two values; None is open."""

    column: str
    low: int | str | None
    high: int | str | None

    def sql(self) -> str:
        """Give it as a condition."""
        sides = ((">=", self.low), ("<=", self.high))
        return " AND ".join(
            f"{self.column} {sign} {_literal(value)}" for sign, value in sides if value is not None
        )

    def mask(self, rows: Rows) -> npt.NDArray[np.bool_]:
        """Tell which rows it lets by."""
        column = rows[self.column]
        mask = np.ones(len(column), bool)
        if self.low is not None:
            mask &= column >= _value(self.low)
        if self.high is not None:
            mask &= column <= _value(self.high)
        return mask


@dataclass(frozen=True)
class Among:
    """A column that has one of some values."""

    column: str
    values: tuple[int | str, ...]

    def sql(self) -> str:
        """Give it as a condition."""
        if len(self.values) == 1:
            return f"{self.column} = {_literal(self.values[0])}"
        return f"{self.column} IN ({', '.join(map(_literal, self.values))})"

    def mask(self, rows: Rows) -> npt.NDArray[np.bool_]:
        """Tell which rows it lets by."""
        column = np.char.rstrip(rows[self.column]) if self._is_text else rows[self.column]
        return np.isin(column, [_value(value) for value in self.values])

    @property
    def _is_text(self) -> bool:
        return isinstance(self.values[0], str)


Filter = Within | Among


def _literal(value: int | str) -> str:
    return f"'{value}'" if isinstance(value, str) else str(value)


def _value(value: int | str) -> int | bytes:
    return value.encode() if isinstance(value, str) else value


@dataclass(frozen=True)
class Join:
    """A dimension that LINEORDER is joined with."""

    table: str
    fact_key: str
    """Column of LINEORDER."""
    key: str
    """Primary key of the dimension."""
    filters: tuple[Filter, ...] = ()

    def mask(self, rows: Rows) -> npt.NDArray[np.bool_]:
        """Tell which rows of the dimension its filters let by."""
        every = np.ones(len(rows[self.key]), bool)
        return reduce(np.logical_and, (one.mask(rows) for one in self.filters), every)


@dataclass(frozen=True)
class Query:
    """A query: an aggregate over LINEORDER and dimensions, by groups."""

    name: str
    total: str
    """What is summed up."""
    joins: tuple[Join, ...]
    """The dimensions in the order in which they are joined."""
    groups: tuple[str, ...] = ()
    filters: tuple[Filter, ...] = ()
    """Those on LINEORDER."""
    factor: float = 1.0
    """Filter factor as published: the share of LINEORDER that is summed up."""

    def sql(self, plan: Plan, part: tuple[int, int] | None) -> str:
        """Give the statement of a part, or of the whole query if the part is None.

        A part is a range without its end: of keys of the first dimension (index), or of pages of
        LINEORDER (hash).
        """
        conditions = [one.sql() for join in self.joins for one in join.filters]
        conditions += [one.sql() for one in self.filters]
        if plan is Plan.INDEX:
            low, high = part or (0, MOST_KEY)
            key = self.joins[0].key
            conditions += [f"{key} >= {low}", f"{key} < {high}"]
        elif part is not None:
            conditions += [f"{FACT}.ctid >= '({part[0]},0)'", f"{FACT}.ctid < '({part[1]},0)'"]
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        groups = ", ".join(self.groups)
        columns = f"{groups}, " if groups else ""
        grouped = f" GROUP BY {groups}" if groups else ""
        tables = self._tables(plan)
        # Of constants and numbers of our own.
        return f"SELECT {columns}sum({self.total}) FROM {tables}{where}{grouped}"  # noqa: S608

    def _tables(self, plan: Plan) -> str:
        """Give the tables in the order in which they are joined."""
        ons = [f"{join.fact_key} = {join.key}" for join in self.joins]
        names = [join.table for join in self.joins]
        if plan is Plan.INDEX:
            rest = [f" JOIN {name} ON {on}" for name, on in zip(names[1:], ons[1:], strict=True)]
            return f"{names[0]} JOIN {FACT} ON {ons[0]}{''.join(rest)}"
        joined = [f" JOIN {name} ON {on}" for name, on in zip(names, ons, strict=True)]
        return FACT + "".join(joined)

    def led_by(self, table: str) -> Query:
        """Give the same query with another dimension joined first."""
        first = [join for join in self.joins if join.table == table]
        rest = [join for join in self.joins if join.table != table]
        return replace(self, joins=(*first, *rest))


def key_parts(keys: Sequence[int], count: int) -> list[tuple[int, int]]:
    """Split the keys of the rows of a dimension, in ascending order, into ranges.

    Each has as many rows as any other, or one more, of those that the query's filters let by:
    ranges of equal width would put a query of one month into one part. There are fewer ranges than
    asked if there are fewer keys, and one for no key.
    """
    count = max(1, min(count, len(keys)))
    places = [len(keys) * place // count for place in range(1, count)]
    bounds = [0, *(keys[place] for place in places), MOST_KEY]
    return list(pairwise(bounds))


def page_parts(pages: int, count: int) -> list[tuple[int, int]]:
    """Split the pages of LINEORDER into ranges of as many each, or one more."""
    count = max(1, min(count, pages))
    bounds = [pages * place // count for place in range(count + 1)]
    return list(pairwise(bounds))


def added_up(rows: Sequence[Sequence[Row]]) -> dict[Row, int]:
    """Add up what the parts give: the final aggregation (section 6.2).

    A sum without any row is NULL, and is left out.
    """
    totals: dict[Row, int] = {}
    for part in rows:
        for *group, total in part:
            if total is not None:
                key = tuple(group)
                totals[key] = totals.get(key, 0) + int(total)
    return totals


def _date(*filters: Filter) -> Join:
    return Join("dates", "lo_orderdate", "d_datekey", filters)


def _customer(*filters: Filter) -> Join:
    return Join("customer", "lo_custkey", "c_custkey", filters)


def _supplier(*filters: Filter) -> Join:
    return Join("supplier", "lo_suppkey", "s_suppkey", filters)


def _part(*filters: Filter) -> Join:
    return Join("part", "lo_partkey", "p_partkey", filters)


def _flight_1(name: str, date: tuple[Filter, ...], *rest: Any) -> Query:
    (low, high), (least, most), factor = rest
    return Query(
        name,
        "lo_extendedprice * lo_discount",
        (_date(*date),),
        filters=(Within("lo_discount", low, high), Within("lo_quantity", least, most)),
        factor=factor,
    )


def _flight_2(name: str, part: Filter, region: str, factor: float) -> Query:
    joins = (_part(part), _supplier(Among("s_region", (region,))), _date())
    return Query(name, "lo_revenue", joins, ("d_year", "p_brand1"), factor=factor)


def _flight_3(name: str, unit: str, places: tuple[str, ...], date: Filter, *rest: Any) -> Query:
    group, factor = rest
    joins = (
        _customer(Among(f"c_{unit}", places)),
        _supplier(Among(f"s_{unit}", places)),
        _date(date),
    )
    groups = (f"c_{group}", f"s_{group}", "d_year")
    return Query(name, "lo_revenue", joins, groups, factor=factor)


_US = ("UNITED STATES",)
_UK = ("UNITED KI1", "UNITED KI5")
_AMERICA = ("AMERICA",)
_LATE = Among("d_year", (1997, 1998))
_SIX_YEARS = Within("d_year", 1992, 1997)
_TWO_MAKERS = Among("p_mfgr", ("MFGR#1", "MFGR#2"))
_PROFIT = "lo_revenue - lo_supplycost"

QUERIES: Mapping[str, Query] = {
    query.name: query
    for query in (
        Query("Q0", "lo_revenue", ()),
        _flight_1("Q1.1", (Among("d_year", (1993,)),), (1, 3), (None, 24), 0.019),
        _flight_1("Q1.2", (Among("d_yearmonthnum", (199401,)),), (4, 6), (26, 35), 0.00065),
        _flight_1(
            "Q1.3",
            (Among("d_weeknuminyear", (6,)), Among("d_year", (1994,))),
            (5, 7),
            (36, 40),
            0.000075,
        ),
        _flight_1("Q1.2n", (Among("d_weeknuminyear", (1,)),), (4, 6), (26, 35), 0.0),
        _flight_2("Q2.1", Among("p_category", ("MFGR#12",)), "AMERICA", 0.008),
        _flight_2("Q2.2", Within("p_brand1", "MFGR#2221", "MFGR#2228"), "ASIA", 0.0016),
        _flight_2("Q2.3", Among("p_brand1", ("MFGR#2221",)), "EUROPE", 0.0002),
        _flight_3("Q3.1", "region", ("ASIA",), _SIX_YEARS, "nation", 0.034),
        _flight_3("Q3.2", "nation", _US, _SIX_YEARS, "city", 0.0014),
        _flight_3("Q3.3", "city", _UK, _SIX_YEARS, "city", 0.000055),
        _flight_3("Q3.4", "city", _UK, Among("d_yearmonth", ("Dec1997",)), "city", 0.00000076),
        Query(
            "Q4.1",
            _PROFIT,
            (
                _customer(Among("c_region", _AMERICA)),
                _supplier(Among("s_region", _AMERICA)),
                _part(_TWO_MAKERS),
                _date(),
            ),
            ("d_year", "c_nation"),
            factor=0.016,
        ),
        Query(
            "Q4.2",
            _PROFIT,
            (
                _customer(Among("c_region", _AMERICA)),
                _supplier(Among("s_region", _AMERICA)),
                _part(_TWO_MAKERS),
                _date(_LATE),
            ),
            ("d_year", "s_nation", "p_category"),
            factor=0.0046,
        ),
        Query(
            "Q4.3",
            _PROFIT,
            (
                _part(Among("p_category", ("MFGR#14",))),
                _supplier(Among("s_nation", _US)),
                _customer(Among("c_region", _AMERICA)),
                _date(_LATE),
            ),
            ("d_year", "s_city", "p_brand1"),
            factor=0.000091,
        ),
    )
}
"""All queries by name. The factor of Q1.2n is not published, as the query is PARALLELISM's own."""

BY_INDEX = ("Q1.1", "Q1.2", "Q2.2", "Q3.2", "Q4.3")
"""Queries that PARALLELISM's figure 8 joins by index."""
BY_HASH = ("Q0", "Q1.1", "Q1.2", "Q2.2", "Q4.1", "Q4.2")
"""Queries that it joins by hash; Q0 joins nothing."""
COMPARED = ("Q2.2", "Q1.2n")
"""Queries of figure 9."""
STREAMS = (1, 2, 4, 8, 16)
"""Sub-queries at once in figures 8 and 9."""
