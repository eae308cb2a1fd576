"""What a workload is.

A size and a mix to be filled into a database, and clients that run transactions on it.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

from .databases.base import Backend, BackendConfig


@dataclass(frozen=True)
class Mix:
    """Weights of the kinds of transactions; they need not add up to 100."""

    name: str
    weights: Mapping[str, float]
    source: str

    def __post_init__(self) -> None:
        """Refuse weights that are no distribution.

        Raises:
            ValueError: a weight is negative, or all are 0.
        """
        if min(self.weights.values()) < 0 or sum(self.weights.values()) <= 0:
            raise ValueError(
                f"mix {self.name}: weights are {dict(self.weights)}: they must be 0 or more, and "
                "not all 0"
            )

    def share(self, kind: str) -> float:
        """Share of `kind` among all transactions, 0 ... 1."""
        return self.weights.get(kind, 0.0) / sum(self.weights.values())

    @cached_property
    def _cumulated(self) -> tuple[list[str], list[float]]:
        return list(self.weights), list(itertools.accumulate(self.weights.values()))

    def draw(self, rng: random.Random) -> str:
        """Draw a kind with the mix's weights, each time anew (TPC-C clause 5.2.4.2 allows it)."""
        kinds, cumulated = self._cumulated
        return rng.choices(kinds, cum_weights=cumulated)[0]


def choose_mix(mixes: Mapping[str, Mix], name: str) -> Mix:
    """Find the mix of this name; `read-intensive` is `read_intensive`.

    Raises:
        ValueError: there is none; the message lists the known ones.
    """
    try:
        return mixes[name.replace("-", "_")]
    except KeyError:
        raise ValueError(f"mix {name!r} is not known: choose one of {', '.join(mixes)}") from None


@dataclass(frozen=True)
class TransactionOutcome:
    """What a transaction did.

    `committed` is False if it took itself back, as the one New-Order in a hundred that names an
    unused item. `misses` is how often it found nothing to work on, as it may: TPC-C's districts
    without an order to deliver, TATP's unsuccessful transactions. `output` is what a user would be
    shown, in short.
    """

    committed: bool = True
    misses: int = 0
    output: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Violation:
    """A rule of consistency that does not hold.

    How many rows break it, and the key of the first.
    """

    rule: str
    says: str
    rows: int
    first_key: tuple[Any, ...]

    def __str__(self) -> str:
        """One line for a person."""
        return (
            f"{self.rule} ({self.says}) is broken by {self.rows} rows, the first with key "
            f"{self.first_key}"
        )


class Client(Protocol):
    """One user of the database: draws transactions, and runs them one after the other.

    Depends on its seed alone.
    """

    def draw(self) -> tuple[str, Any]:
        """Draw the next transaction: its kind and its input."""

    def execute(self, backend: Backend, request: Any) -> TransactionOutcome:
        """Run a transaction to its end.

        Raises:
            TransactionConflictError: another transaction was in the way; it may be run again with
            the same input.
        """

    def think_seconds(self, mean: float) -> float:
        """Draw the time to wait before the next transaction."""


Report = Callable[[int, int], None]
"""Is called with how many units of a load are done, and of how many."""


class Load(Protocol):
    """A workload with its size and mix; can be sent to another process."""

    @property
    def mix(self) -> Mix:
        """What its clients draw from."""

    def most_clients(self) -> int | None:
        """How many clients may run at once; None is any number."""

    def fill(self, database: BackendConfig, seed: int, processes: int, report: Report) -> None:
        """Make and fill the tables of an empty database.

        The same for a seed, whatever the database.
        """

    def client(self, *, seed: int, stream: int, client: int, clients: int) -> Client:
        """Give one of the clients, from 0. `stream` distinguishes runs on one database."""

    def violations(self, backend: Backend) -> list[Violation]:
        """Give the rules of consistency that do not hold; empty is good. May read whole tables."""


@dataclass(frozen=True)
class Param:
    """A parameter of a workload: an integer."""

    name: str
    default: int
    help: str
    least: int = 1
    most: int = 2**31 - 1

    @property
    def accepts(self) -> str:
        """Tell the range, for a person."""
        return (
            f"{self.least:,} or more"
            if self.most == 2**31 - 1
            else f"{self.least:,} to {self.most:,}"
        )


@dataclass(frozen=True)
class Workload:
    """A workload as it is listed. `make` gives a Load from all parameters by name, and a mix.

    The first parameter is its size, which `--scale` sets; `bytes_per_unit` is about what one unit
    takes in PostgreSQL after the load, with its indexes. `by_pgbench` gives the scripts with which
    pgbench runs it on PostgreSQL, if it does.
    """

    name: str
    summary: str
    source: str
    params: tuple[Param, ...]
    mixes: Mapping[str, Mix]
    make: Callable[[Mapping[str, int], Mix], Load]
    bytes_per_unit: int
    by_pgbench: Callable[[Load], Scripts] | None = None

    @property
    def default_mix(self) -> str:
        """Name of the mix that is run if none is named: the first."""
        return next(iter(self.mixes))

    def load(self, given: Mapping[str, int], mix_name: str | None = None) -> Load:
        """Make the load of these parameters, the others at their defaults.

        Raises:
            ValueError: there is no such parameter or mix, or a value is out of its range.
        """
        known = {param.name: param for param in self.params}
        for name, value in given.items():
            if name not in known:
                raise ValueError(
                    f"{self.name} has no parameter {name!r}: it has {', '.join(known)}"
                )
            if not known[name].least <= value <= known[name].most:
                raise ValueError(
                    f"{self.name}: {name} is {value}: it must be {known[name].accepts}"
                )
        values = {name: given.get(name, param.default) for name, param in known.items()}
        return self.make(values, choose_mix(self.mixes, mix_name or self.default_mix))


@dataclass(frozen=True)
class Scripts:
    """A workload as pgbench runs it: how it is filled, and kind -> script, with variables for `-D`.

    `initialise` are pgbench's own words for the load, or None if `Load.fill` does it.
    """

    scripts: Mapping[str, str]
    variables: Mapping[str, int] = field(default_factory=dict)
    initialise: Sequence[str] | None = None


def think_seconds(rng: random.Random, mean: float) -> float:
    """Draw a think time: negative exponential, cut at ten times its mean (TPC-C clause 5.2.5.4)."""
    return min(rng.expovariate(1 / mean), 10 * mean) if mean > 0 else 0.0
