"""Rows of the Star Schema Benchmark, drawn in numpy: seeded, and the same on any machine.

Distributions and dependencies are dbgen's; its random numbers are not, so that rows differ from
those of dbgen. Columns that no query reads, and whose text dbgen makes of a grammar, are shorter in
variety: names of parts are two colours, addresses are letters and digits of one length. The flags
of DATE are as the specification words them; dbgen has the last day of a month the wrong way round,
and its days of the week begin a day late.

Strings are arrays of bytes, padded as `char(n)` is.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from experiments.ssb import specification as ssb

Column = npt.NDArray[Any]
Rows = Mapping[str, Column]
"""Columns by name, of one length."""

CHUNK_ORDERS = 1 << 16
"""Orders that are drawn together, each chunk from a seed of its own."""
_ADDRESS_CHARS = 15
_LETTERS = np.frombuffer(
    b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ ,", np.uint8
)


def _random(seed: int, table: int, chunk: int = 0) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64([seed, table, chunk]))


def _text(values: list[str] | tuple[str, ...], chars: int) -> Column:
    return np.array([value.ljust(chars).encode() for value in values], f"S{chars}")


def _numbered(name: str, keys: Column) -> Column:
    return np.array([f"{name}#{key:09d}".encode() for key in keys])


@cache
def dates() -> Rows:
    """Give DATE, one row a day."""
    days = [ssb.FIRST_DAY + datetime.timedelta(day) for day in range(ssb.DAYS)]
    in_year = np.array([day.timetuple().tm_yday for day in days])
    # Sunday is the first day of a week.
    in_week = np.array([day.isoweekday() % 7 + 1 for day in days])

    def flag(values: list[bool]) -> Column:
        return np.where(values, b"1", b"0").astype("S1")

    def number(values: list[int]) -> Column:
        return np.array(values, np.int32)

    return {
        "d_datekey": number([day.year * 10000 + day.month * 100 + day.day for day in days]),
        "d_date": _text([f"{ssb.MONTHS[day.month - 1]} {day.day}, {day.year}" for day in days], 18),
        "d_dayofweek": _text([ssb.WEEKDAYS[day.weekday()] for day in days], 9),
        "d_month": _text([ssb.MONTHS[day.month - 1] for day in days], 9),
        "d_year": number([day.year for day in days]),
        "d_yearmonthnum": number([day.year * 100 + day.month for day in days]),
        "d_yearmonth": _text([f"{ssb.MONTHS[day.month - 1][:3]}{day.year}" for day in days], 7),
        "d_daynuminweek": in_week.astype(np.int32),
        "d_daynuminmonth": number([day.day for day in days]),
        "d_daynuminyear": in_year.astype(np.int32),
        "d_monthnuminyear": number([day.month for day in days]),
        # As dbgen counts: the first week of a year has six days.
        "d_weeknuminyear": (in_year // 7 + 1).astype(np.int32),
        "d_sellingseason": _text([_season(day) for day in days], 12),
        "d_lastdayinweekfl": flag([day.isoweekday() == 6 for day in days]),
        "d_lastdayinmonthfl": flag([(day + datetime.timedelta(1)).day == 1 for day in days]),
        "d_holidayfl": flag([(day.month, day.day) in ssb.HOLIDAYS for day in days]),
        "d_weekdayfl": flag([day.isoweekday() < 6 for day in days]),
    }


def _season(day: datetime.date) -> str:
    return next(name for name, first, last in ssb.SEASONS if first <= (day.month, day.day) <= last)


def _places(random: np.random.Generator, count: int, prefix: str) -> dict[str, Column]:
    """Draw address, city, nation, region and phone of customers or suppliers."""
    nation = random.integers(0, len(ssb.NATIONS), count)
    digit = random.integers(0, ssb.CITIES_PER_NATION, count)
    names = _text([name for name, _ in ssb.NATIONS], 15)
    regions = _text(ssb.REGIONS, 12)[[region for _, region in ssb.NATIONS]]
    letters = _LETTERS[random.integers(0, len(_LETTERS), (count, _ADDRESS_CHARS))]
    numbers = random.integers((100, 100, 1000), (1000, 1000, 10000), (count, 3))
    return {
        f"{prefix}_address": letters.view(f"S{_ADDRESS_CHARS}").ravel(),
        f"{prefix}_city": _text(ssb.cities(), 10)[nation * ssb.CITIES_PER_NATION + digit],
        f"{prefix}_nation": names[nation],
        f"{prefix}_region": regions[nation],
        f"{prefix}_phone": np.array(
            [
                f"{10 + place}-{a}-{b}-{c}".encode()
                for place, (a, b, c) in zip(nation.tolist(), numbers.tolist(), strict=True)
            ]
        ),
    }


def customers(scale: float, seed: int) -> Rows:
    """Draw CUSTOMER."""
    keys = np.arange(1, ssb.sizes(scale).customers + 1, dtype=np.int32)
    random = _random(seed, 1)
    segments = _text(ssb.SEGMENTS, 10)
    return {
        "c_custkey": keys,
        "c_name": _numbered("Customer", keys),
        **_places(random, len(keys), "c"),
        "c_mktsegment": segments[random.integers(0, len(segments), len(keys))],
    }


def suppliers(scale: float, seed: int) -> Rows:
    """Draw SUPPLIER."""
    keys = np.arange(1, ssb.sizes(scale).suppliers + 1, dtype=np.int32)
    return {
        "s_suppkey": keys,
        "s_name": _numbered("Supplier", keys),
        **_places(_random(seed, 2), len(keys), "s"),
    }


def parts(scale: float, seed: int) -> Rows:
    """Draw PART."""
    keys = np.arange(1, ssb.sizes(scale).parts + 1, dtype=np.int32)
    random = _random(seed, 3)
    count = len(keys)
    colour = random.integers(0, len(ssb.COLOURS), (count, 2))
    colours = np.array([word.encode() for word in ssb.COLOURS])
    brand = random.integers(0, len(ssb.brands()), count)
    category = brand // ssb.BRANDS_PER_CATEGORY
    categories = _text([text[:7] for text in ssb.brands()[:: ssb.BRANDS_PER_CATEGORY]], 7)
    types, containers = _text(ssb.TYPES, 25), _text(ssb.CONTAINERS, 10)
    name = np.char.add(np.char.add(colours[colour[:, 0]], b" "), colours[colour[:, 1]])
    return {
        "p_partkey": keys,
        "p_name": name.astype("S22"),
        "p_mfgr": categories[category].astype("S6"),
        "p_category": categories[category],
        "p_brand1": _text(ssb.brands(), 9)[brand],
        "p_color": _text(ssb.COLOURS, 11)[colour[:, 0]],
        "p_type": types[random.integers(0, len(types), count)],
        "p_size": random.integers(1, 51, count).astype(np.int32),
        "p_container": containers[random.integers(0, len(containers), count)],
    }


def price_cents(part: Column) -> Column:
    """Give the price of parts by their key, in cents (TPC-H 4.2.3)."""
    cents: Column = 90000 + part // 10 % 20001 + 100 * (part % 1000)
    return cents


def sparse_keys(numbers: Column) -> Column:
    """Give the keys of orders counted from 1: eight of each 32 are used (dbgen's mk_sparse)."""
    keys: Column = (numbers >> 3 << 5) | (numbers & 7)
    return keys


def _ordering(random: np.random.Generator, count: int, customers_in_all: int) -> Column:
    """Draw customers that place orders; every third has none, and the one beside it orders."""
    drawn = random.integers(1, customers_in_all + 1, count)
    silent = drawn % ssb.CUSTOMER_MORTALITY == 0
    # dbgen takes the next one, and the last of all has none.
    beside = np.where(drawn == customers_in_all, drawn - 1, drawn + 1)
    return np.where(silent, beside, drawn)


def lineorders(scale: float, seed: int, chunk: int) -> Rows:
    """Draw the rows of LINEORDER of a chunk of orders, counted from 0.

    All lines of an order share its date, customer, priority and total.
    """
    rows = ssb.sizes(scale)
    first = chunk * CHUNK_ORDERS
    count = min(CHUNK_ORDERS, rows.orders - first)
    random = _random(seed, 4, chunk)
    datekeys = dates()["d_datekey"]
    day = random.integers(0, ssb.ORDER_DAYS, count)
    lines = random.integers(1, ssb.MOST_LINES + 1, count)
    of = np.repeat(np.arange(count), lines)
    total = len(of)
    starts = np.repeat(np.cumsum(lines) - lines, lines)
    part = random.integers(1, rows.parts + 1, total)
    quantity = random.integers(1, 51, total)
    discount, tax = random.integers(0, 11, total), random.integers(0, 9, total)
    unit = price_cents(part)
    extended = unit * quantity
    revenue = extended * (100 - discount) // 100
    whole = np.add.reduceat(revenue * (100 + tax) // 100, np.cumsum(lines) - lines)
    priority = random.integers(0, len(ssb.PRIORITIES), count)
    mode = random.integers(0, len(ssb.SHIP_MODES), total)
    found = {
        "lo_orderkey": sparse_keys(first + 1 + np.arange(count))[of],
        "lo_linenumber": np.arange(total) - starts + 1,
        "lo_custkey": _ordering(random, count, rows.customers)[of],
        "lo_partkey": part,
        "lo_suppkey": random.integers(1, rows.suppliers + 1, total),
        "lo_orderdate": datekeys[day][of],
        "lo_orderpriority": _text(ssb.PRIORITIES, 15)[priority][of],
        "lo_shippriority": np.full(total, b"0", "S1"),
        "lo_quantity": quantity,
        "lo_extendedprice": extended,
        "lo_ordtotalprice": whole[of],
        "lo_discount": discount,
        "lo_revenue": revenue,
        "lo_supplycost": 6 * unit // 10,
        "lo_tax": tax,
        "lo_commitdate": datekeys[day[of] + random.integers(30, 91, total)],
        "lo_shipmode": _text(ssb.SHIP_MODES, 10)[mode],
    }
    return {
        name: column if column.dtype.kind == "S" else column.astype(np.int32)
        for name, column in found.items()
    }


def chunks(scale: float) -> int:
    """Give the number of chunks of LINEORDER."""
    return -(-ssb.sizes(scale).orders // CHUNK_ORDERS)


def all_lineorders(scale: float, seed: int) -> Iterator[Rows]:
    """Draw LINEORDER, chunk by chunk: one is in memory at a time."""
    for chunk in range(chunks(scale)):
        yield lineorders(scale, seed, chunk)
