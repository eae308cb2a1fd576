"""Which share of the transactions is of which kind."""

from __future__ import annotations

from enum import StrEnum

from ..base import Mix, choose_mix


class Kind(StrEnum):
    """The five transactions (clause 2)."""

    NEW_ORDER = "new_order"
    PAYMENT = "payment"
    ORDER_STATUS = "order_status"
    DELIVERY = "delivery"
    STOCK_LEVEL = "stock_level"


KINDS: tuple[Kind, ...] = tuple(Kind)


def weighted(name: str, weights: tuple[float, float, float, float, float], source: str) -> Mix:
    """Make a mix of weights in the order of `KINDS`.

    Raises:
        ValueError: a weight is negative, or all are 0.
    """
    return Mix(name, dict(zip(KINDS, weights, strict=True)), source)


_SCHEDULER = "SCHEDULER, table 5.1"

MIXES: dict[str, Mix] = {
    mix.name: mix
    for mix in (
        weighted(
            "standard",
            (45, 43, 4, 4, 4),
            "TPC-C clause 5.2.3, at the least shares of the other four",
        ),
        weighted("normal", (43.48, 43.48, 4.35, 4.35, 4.35), _SCHEDULER),
        weighted("read_intensive", (4.35, 4.35, 43.48, 4.35, 43.48), _SCHEDULER),
        weighted("write_intensive", (96, 1, 1, 1, 1), _SCHEDULER),
    )
}


def mix(name: str) -> Mix:
    """Find the mix of this name.

    Raises:
        ValueError: there is none; the message lists the known ones.
    """
    return choose_mix(MIXES, name)
