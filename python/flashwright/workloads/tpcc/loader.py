"""Fills an empty database (clause 4.3.3.1).

The same for a seed whatever the database and however many loaders.
"""

from __future__ import annotations

import random
import string
from collections.abc import Iterator

from ..base import Report
from ..databases import BackendConfig, Value
from ..processes import pool
from .inputs import NuRandConstants, last_name, random_last_name_number
from .scale import DISTRICTS_PER_WAREHOUSE, Scale
from .schema import INDEXES, create_tables

LOAD_TIME = "2026-01-01 00:00:00"
"""Date of everything that the load makes: fixed, so that a seed gives the same database on every
day.
"""

_ALPHANUMERIC = string.ascii_letters + string.digits
_POOL_CHARACTERS = 1 << 16

Rows = Iterator[tuple[Value, ...]]


class _Random:
    """Random fields of clause 4.3.2.

    Strings are cut from a random place of a random pool: drawing each letter would take minutes.
    """

    def __init__(self, seed: int, part: str) -> None:
        self.rng = random.Random(f"{seed} {part}")
        self._pool = "".join(self.rng.choices(_ALPHANUMERIC, k=_POOL_CHARACTERS + 1000))

    def integer(self, low: int, high: int) -> int:
        return low + int(self.rng.random() * (high - low + 1))

    def text(self, low: int, high: int) -> str:
        start = int(self.rng.random() * _POOL_CHARACTERS)
        return self._pool[start : start + self.integer(low, high)]

    def digits(self, count: int) -> str:
        return f"{int(self.rng.random() * 10**count):0{count}}"

    def data(self) -> str:
        """I_DATA and S_DATA (clause 4.3.3.1).

        26 to 50 characters, a tenth of them with ORIGINAL at a random place.
        """
        text = self.text(26, 50)
        if self.rng.random() >= 0.10:
            return text
        at = self.integer(0, len(text) - 8)
        return text[:at] + "ORIGINAL" + text[at + 8 :]

    def address(self) -> tuple[str, str, str, str, str]:
        state = self.text(2, 2)
        return (
            self.text(10, 20),
            self.text(10, 20),
            self.text(10, 20),
            state,
            self.digits(4) + "11111",
        )


def load(
    config: BackendConfig,
    scale: Scale,
    seed: int,
    processes: int = 1,
    report: Report = lambda _done, _total: None,
) -> None:
    """Create the tables, fill them, and create the indexes.

    `processes` is how many warehouses are loaded at once, if the database can do that. `report` is
    told of each warehouse.

    Raises:
        whatever the database says, for instance that a table exists already.
    """
    backend = config.connect()
    try:
        backend.script(create_tables())
        backend.bulk_load("item", _items(_Random(seed, "items"), scale))
        warehouses = range(1, scale.warehouses + 1)
        if processes > 1 and config.parallel_load:
            with pool(processes) as loaders:
                tasks = [(config, scale, seed, w_id) for w_id in warehouses]
                for done, _ in enumerate(loaders.imap_unordered(_load_warehouse, tasks), 1):
                    report(done, scale.warehouses)
        else:
            for w_id in warehouses:
                _load_warehouse((config, scale, seed, w_id))
                report(w_id, scale.warehouses)
        for index in INDEXES:
            backend.script([index])
        backend.analyze()
    finally:
        backend.close()


def _load_warehouse(task: tuple[BackendConfig, Scale, int, int]) -> None:
    config, scale, seed, w_id = task
    fields = _Random(seed, f"warehouse {w_id}")
    c_last = NuRandConstants.for_load(seed).last_name
    customers = scale.customers_per_district
    backend = config.connect()
    try:
        w_ytd = DISTRICTS_PER_WAREHOUSE * customers * 10_00
        backend.bulk_load(
            "warehouse",
            iter([(w_id, fields.text(6, 10), *fields.address(), fields.integer(0, 2000), w_ytd)]),
        )
        backend.bulk_load("district", _districts(fields, scale, w_id))
        backend.bulk_load("stock", _stock(fields, scale, w_id))
        backend.bulk_load("customer", _customers(fields, scale, w_id, c_last))
        backend.bulk_load("history", _history(fields, scale, w_id))
        orders = _Orders(fields, scale, w_id)
        backend.bulk_load("orders", orders.orders())
        backend.bulk_load("order_line", orders.lines())
        backend.bulk_load("new_order", orders.undelivered())
    finally:
        backend.close()


def _items(fields: _Random, scale: Scale) -> Rows:
    for i_id in range(1, scale.items + 1):
        yield (
            i_id,
            fields.integer(1, 10_000),
            fields.text(14, 24),
            fields.integer(100, 10_000),
            fields.data(),
        )


def _districts(fields: _Random, scale: Scale, w_id: int) -> Rows:
    customers = scale.customers_per_district
    for d_id in range(1, DISTRICTS_PER_WAREHOUSE + 1):
        tax, d_ytd = fields.integer(0, 2000), customers * 10_00
        yield d_id, w_id, fields.text(6, 10), *fields.address(), tax, d_ytd, customers + 1


def _stock(fields: _Random, scale: Scale, w_id: int) -> Rows:
    for i_id in range(1, scale.items + 1):
        districts = tuple(fields.text(24, 24) for _ in range(10))
        yield i_id, w_id, fields.integer(10, 100), *districts, 0, 0, 0, fields.data()


def _customers(fields: _Random, scale: Scale, w_id: int, c_last: int) -> Rows:
    for d_id in range(1, DISTRICTS_PER_WAREHOUSE + 1):
        for c_id in range(1, scale.customers_per_district + 1):
            # Each last name has a customer; beyond those, names are drawn (clause 4.3.3.1).
            number = (
                c_id - 1
                if c_id <= scale.last_names
                else random_last_name_number(fields.rng, c_last, scale)
            )
            credit = "BC" if fields.rng.random() < 0.10 else "GC"
            yield (
                *(c_id, d_id, w_id, fields.text(8, 16), "OE", last_name(number), *fields.address()),
                *(fields.digits(16), LOAD_TIME, credit, 50_000_00, fields.integer(0, 5000)),
                *(-10_00, 10_00, 1, 0, fields.text(300, 500)),
            )


def _history(fields: _Random, scale: Scale, w_id: int) -> Rows:
    for d_id in range(1, DISTRICTS_PER_WAREHOUSE + 1):
        for c_id in range(1, scale.customers_per_district + 1):
            yield c_id, d_id, w_id, d_id, w_id, LOAD_TIME, 10_00, fields.text(12, 24)


class _Orders:
    """The initial orders of a warehouse.

    Who ordered, and how many lines, must be the same in three tables.
    """

    def __init__(self, fields: _Random, scale: Scale, w_id: int) -> None:
        self._fields = fields
        self._scale = scale
        self._w_id = w_id
        districts = range(1, DISTRICTS_PER_WAREHOUSE + 1)
        numbers = range(1, scale.customers_per_district + 1)
        # Every customer has one order, in an order of its own in each district (a permutation:
        # clause 4.3.3.1).
        self._customer = {d: fields.rng.sample(numbers, len(numbers)) for d in districts}
        self._line_count = {d: [fields.integer(5, 15) for _ in numbers] for d in districts}

    def _each(self) -> Iterator[tuple[int, int, int, int]]:
        for d_id, customers in self._customer.items():
            for o_id, (c_id, lines) in enumerate(
                zip(customers, self._line_count[d_id], strict=True), 1
            ):
                yield o_id, d_id, c_id, lines

    def orders(self) -> Rows:
        for o_id, d_id, c_id, lines in self._each():
            carrier = (
                self._fields.integer(1, 10) if o_id < self._scale.first_undelivered_order else None
            )
            yield o_id, d_id, self._w_id, c_id, LOAD_TIME, carrier, lines, 1

    def lines(self) -> Rows:
        fields, w_id = self._fields, self._w_id
        for o_id, d_id, _, lines in self._each():
            delivered = o_id < self._scale.first_undelivered_order
            for number in range(1, lines + 1):
                item = fields.integer(1, self._scale.items)
                amount = 0 if delivered else fields.integer(1, 999_999)
                date = LOAD_TIME if delivered else None
                yield o_id, d_id, w_id, number, item, w_id, date, 5, amount, fields.text(24, 24)

    def undelivered(self) -> Rows:
        for o_id, d_id, _, _ in self._each():
            if o_id >= self._scale.first_undelivered_order:
                yield o_id, d_id, self._w_id
