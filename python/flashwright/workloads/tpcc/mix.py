"""Which share of the transactions is of which kind."""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """The five transactions (clause 2)."""

    NEW_ORDER = "new_order"
    PAYMENT = "payment"
    ORDER_STATUS = "order_status"
    DELIVERY = "delivery"
    STOCK_LEVEL = "stock_level"


KINDS: tuple[Kind, ...] = tuple(Kind)


@dataclass(frozen=True)
class Mix:
    """Weights of the transactions in the order of `KINDS`; they need not add up to 100."""

    name: str
    weights: tuple[float, float, float, float, float]
    source: str

    def __post_init__(self) -> None:
        """Refuse weights that are no distribution.

        Raises:
            ValueError: a weight is negative, or all are 0.
        """
        if min(self.weights) < 0 or sum(self.weights) <= 0:
            raise ValueError(f"mix {self.name}: weights are {self.weights}: they must be 0 or more, and not all 0")

    def share(self, kind: Kind) -> float:
        """Share of `kind` among all transactions, 0 ... 1."""
        return self.weights[KINDS.index(kind)] / sum(self.weights)

    def draw(self, rng: random.Random) -> Kind:
        """Draw a kind with the mix's weights (clause 5.2.4.2 allows a draw for each transaction)."""
        return rng.choices(KINDS, self.weights)[0]


_SCHEDULER = "SCHEDULER, table 5.1"

MIXES: dict[str, Mix] = {
    mix.name: mix
    for mix in (
        Mix("standard", (45, 43, 4, 4, 4), "TPC-C clause 5.2.3, at the least shares of the other four"),
        Mix("normal", (43.48, 43.48, 4.35, 4.35, 4.35), _SCHEDULER),
        Mix("read_intensive", (4.35, 4.35, 43.48, 4.35, 43.48), _SCHEDULER),
        Mix("write_intensive", (96, 1, 1, 1, 1), _SCHEDULER),
    )
}


def mix(name: str) -> Mix:
    """Find the mix of this name.

    Raises:
        ValueError: there is none; the message lists the known ones.
    """
    try:
        return MIXES[name]
    except KeyError:
        raise ValueError(f"mix {name!r} is not known: choose one of {', '.join(MIXES)}") from None
