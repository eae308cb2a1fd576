"""Random input data of the transactions, the same for a seed whatever the database.

Clauses 2.1.6, 2.4.1 ... 2.8.1.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from .. import base
from ..base import Mix
from .mix import Kind
from .scale import DISTRICTS_PER_WAREHOUSE, Scale

SYLLABLES = ("BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING")
"""Clause 4.3.2.3."""

_A_LAST_NAME, _A_CUSTOMER, _A_ITEM = 255, 1023, 8191


def last_name(number: int) -> str:
    """Give the last name of a number 0 ... 999 (clause 4.3.2.3)."""
    return SYLLABLES[number // 100] + SYLLABLES[number // 10 % 10] + SYLLABLES[number % 10]


@dataclass(frozen=True)
class NuRandConstants:
    """The run-time constants C of NURand (clause 2.1.6).

    One for each A, the same in all clients of a run.
    """

    last_name: int
    customer: int
    item: int

    @classmethod
    def for_load(cls, seed: int) -> NuRandConstants:
        """Give the constants with which the database of this seed is filled."""
        rng = random.Random(f"{seed} NURand load")
        return cls(
            rng.randint(0, _A_LAST_NAME), rng.randint(0, _A_CUSTOMER), rng.randint(0, _A_ITEM)
        )

    @classmethod
    def for_run(cls, seed: int) -> NuRandConstants:
        """Constants for a run on that database.

        C_LAST differs from the load's as clause 2.1.6.1 asks for.
        """
        loaded = cls.for_load(seed)
        allowed = [
            c for c in range(_A_LAST_NAME + 1) if last_name_delta_is_valid(loaded.last_name, c)
        ]
        return cls(
            random.Random(f"{seed} NURand run").choice(allowed), loaded.customer, loaded.item
        )


def last_name_delta_is_valid(load: int, run: int) -> bool:
    """Tell whether C_LAST of the load and of the run are as far apart as clause 2.1.6.1 says.

    65 ... 119 but not 96, 112.
    """
    delta = abs(run - load)
    return 65 <= delta <= 119 and delta not in (96, 112)


def nurand(rng: random.Random, a: int, c: int, low: int, high: int) -> int:
    """Draw a non-uniform number low ... high (clause 2.1.6)."""
    spread = high - low + 1
    return ((int(rng.random() * (a + 1)) | (low + int(rng.random() * spread))) + c) % spread + low


def random_last_name_number(rng: random.Random, c: int, scale: Scale) -> int:
    """Draw the number of a last name, non-uniform, among those that the districts have."""
    return nurand(rng, _A_LAST_NAME, c, 0, scale.last_names - 1)


@dataclass(frozen=True)
class CustomerChoice:
    """A customer, by number (`last_name` is None) or by last name (`c_id` is 0)."""

    w_id: int
    d_id: int
    c_id: int
    last_name: str | None


@dataclass(frozen=True)
class OrderLine:
    """One line of an order. `item` is above the scale's items if the order is to be rolled back."""

    item: int
    supply_w_id: int
    quantity: int


@dataclass(frozen=True)
class NewOrderInput:
    """Clause 2.4.1."""

    w_id: int
    d_id: int
    c_id: int
    lines: tuple[OrderLine, ...]


@dataclass(frozen=True)
class PaymentInput:
    """Clause 2.5.1."""

    w_id: int
    d_id: int
    customer: CustomerChoice
    amount_cents: int


@dataclass(frozen=True)
class OrderStatusInput:
    """Clause 2.6.1."""

    customer: CustomerChoice


@dataclass(frozen=True)
class DeliveryInput:
    """Clause 2.7.1."""

    w_id: int
    carrier_id: int


@dataclass(frozen=True)
class StockLevelInput:
    """Clause 2.8.1."""

    w_id: int
    d_id: int
    threshold: int


TransactionInput = NewOrderInput | PaymentInput | OrderStatusInput | DeliveryInput | StockLevelInput


class InputGenerator:
    """Generator of the transactions that one client sends.

    It stands for the terminals given to it, and takes one of them at random each time. A terminal
    is a warehouse and a district of it, both fixed for the run (clause 2.4.1.1, 2.8.1.1).
    """

    def __init__(
        self,
        scale: Scale,
        mix: Mix,
        constants: NuRandConstants,
        rng: random.Random,
        terminals: list[tuple[int, int]],
    ) -> None:
        """Draw from `rng` alone.

        Raises:
            ValueError: `terminals` is empty.
        """
        if not terminals:
            raise ValueError("a client has no terminal: use at most 10 clients for each warehouse")
        self._scale = scale
        self._mix = mix
        self._c = constants
        self._rng = rng
        self._terminals = terminals

    def draw(self) -> tuple[Kind, TransactionInput]:
        """Draw the next transaction."""
        kind = Kind(self._mix.draw(self._rng))
        w_id, d_id = self._rng.choice(self._terminals)
        match kind:
            case Kind.NEW_ORDER:
                return kind, self._new_order(w_id)
            case Kind.PAYMENT:
                return kind, self._payment(w_id)
            case Kind.ORDER_STATUS:
                return kind, OrderStatusInput(self._customer(w_id, self._district()))
            case Kind.DELIVERY:
                return kind, DeliveryInput(w_id, self._rng.randint(1, 10))
            case Kind.STOCK_LEVEL:
                return kind, StockLevelInput(w_id, d_id, self._rng.randint(10, 20))

    def think_seconds(self, mean: float) -> float:
        """Draw a think time (clause 5.2.5.4)."""
        return base.think_seconds(self._rng, mean)

    def _district(self) -> int:
        return 1 + int(self._rng.random() * DISTRICTS_PER_WAREHOUSE)

    def _other_warehouse(self, w_id: int) -> int:
        other = 1 + int(self._rng.random() * (self._scale.warehouses - 1))
        return other + 1 if other >= w_id else other

    def _customer_number(self) -> int:
        return nurand(
            self._rng, _A_CUSTOMER, self._c.customer, 1, self._scale.customers_per_district
        )

    def _customer(self, w_id: int, d_id: int) -> CustomerChoice:
        if self._rng.random() < 0.60:
            number = random_last_name_number(self._rng, self._c.last_name, self._scale)
            return CustomerChoice(w_id, d_id, 0, last_name(number))
        return CustomerChoice(w_id, d_id, self._customer_number(), None)

    def _new_order(self, w_id: int) -> NewOrderInput:
        rng, scale = self._rng, self._scale
        d_id, c_id = self._district(), self._customer_number()
        lines = []
        for _ in range(rng.randint(5, 15)):
            item = nurand(rng, _A_ITEM, self._c.item, 1, scale.items)
            remote = scale.warehouses > 1 and rng.random() < 0.01
            lines.append(
                OrderLine(item, self._other_warehouse(w_id) if remote else w_id, rng.randint(1, 10))
            )
        if rng.random() < 0.01:
            lines[-1] = OrderLine(scale.items + 1, lines[-1].supply_w_id, lines[-1].quantity)
        return NewOrderInput(w_id, d_id, c_id, tuple(lines))

    def _payment(self, w_id: int) -> PaymentInput:
        d_id = self._district()
        amount = self._rng.randint(100, 500_000)
        if self._scale.warehouses > 1 and self._rng.random() < 0.15:
            customer = self._customer(self._other_warehouse(w_id), self._district())
        else:
            customer = self._customer(w_id, d_id)
        return PaymentInput(w_id, d_id, customer, amount)


def terminals_of_client(scale: Scale, client: int, clients: int) -> list[tuple[int, int]]:
    """Give the terminals that client 0 ... clients - 1 stands for.

    Warehouses are dealt out first, so that clients share as few as can be.
    """
    by_district = [
        (w, d)
        for d in range(1, DISTRICTS_PER_WAREHOUSE + 1)
        for w in range(1, scale.warehouses + 1)
    ]
    if clients <= scale.warehouses:
        return [(w, d) for w, d in by_district if (w - 1) % clients == client]
    return by_district[client::clients]
