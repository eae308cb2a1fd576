"""Workloads, their sizes, mixes and clients.

A workload has a size and a mix to be filled into a database, and clients that run transactions on
it.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

from flashwright.written import TEXT, seconds, setting

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
    """Outcome of a transaction.

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


class DatabaseLoad(Protocol):
    """A workload with its size and mix; can be sent to another process."""

    @property
    def mix(self) -> Mix:
        """Mix that its clients draw from."""

    def most_clients(self) -> int | None:
        """Give the most clients that may run at once; None for any number."""

    def fill(self, database: BackendConfig, seed: int, processes: int, report: Report) -> None:
        """Make and fill the tables of an empty database.

        The same for a seed, whatever the database.
        """

    def client(self, *, seed: int, stream: int, client: int, clients: int) -> Client:
        """Give one of the clients, from 0. `stream` distinguishes runs on one database."""

    def violations(self, backend: Backend) -> list[Violation]:
        """Give the rules of consistency that do not hold; empty is good. May read whole tables."""


@dataclass(frozen=True)
class Sized:
    """Settings of a workload, written with its name: its size, and how it is asked for.

    A workload has a class of these for itself, which says what its `scale` counts.
    """

    scale: int
    mix: str | None = setting(
        "Which share each transaction has.  [default: the first]",
        TEXT,
        None,
        title="mix of transactions",
    )
    think_time: float = setting(
        "Mean time between a client's transactions.", seconds(), 0.0, title="think time"
    )


@dataclass(frozen=True)
class Workload:
    """A workload as it is listed. `make` gives a DatabaseLoad from its settings and a mix.

    `bytes_per_unit` is about what one of its `scale` takes in PostgreSQL after the load, with its
    indexes. `by_pgbench` gives the scripts with which pgbench runs it on PostgreSQL, if it does.
    `readers` are the kinds of its transactions that write nothing.
    """

    name: str
    summary: str
    source: str
    settings: type[Sized]
    mixes: Mapping[str, Mix]
    make: Callable[[Any, Mix], DatabaseLoad]
    bytes_per_unit: int
    by_pgbench: Callable[[DatabaseLoad], Scripts] | None = None
    readers: frozenset[str] = frozenset()

    def load(self, settings: Sized) -> DatabaseLoad:
        """Make the load of these settings.

        Raises:
            ValueError: there is no such mix.
        """
        return self.make(settings, choose_mix(self.mixes, settings.mix or next(iter(self.mixes))))


@dataclass(frozen=True)
class Scripts:
    """A workload as pgbench runs it: how it is filled, and kind -> script, with variables for `-D`.

    `initialise` are pgbench's own words for the load, or None if `DatabaseLoad.fill` does it.
    """

    scripts: Mapping[str, str]
    variables: Mapping[str, int] = field(default_factory=dict)
    initialise: Sequence[str] | None = None


def think_seconds(rng: random.Random, mean: float) -> float:
    """Draw a think time: negative exponential, cut at ten times its mean (TPC-C clause 5.2.5.4)."""
    return min(rng.expovariate(1 / mean), 10 * mean) if mean > 0 else 0.0
