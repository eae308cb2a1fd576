"""TPC-C (specification revision 5.11).

Schema, load and five transactions, on any database with a backend. It is the load, not the
benchmark: no screens, no think times unless asked for, and no claim to a published result. Clause
numbers in this package are the specification's.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from flashwright.written import count, setting

from ..base import Mix, Report, Sized, TransactionOutcome, Violation, Workload
from ..databases import Backend, BackendConfig
from .consistency import violations
from .inputs import InputGenerator, NuRandConstants, TransactionInput, terminals_of_client
from .loader import load
from .mix import MIXES, Kind, mix, weighted
from .scale import DISTRICTS_PER_WAREHOUSE, Scale
from .transactions import execute


def wall_clock() -> str:
    """Give the time of day as the transactions write it."""
    return datetime.now().isoformat(" ", "seconds")


@dataclass(frozen=True)
class TpccLoad:
    """TPC-C at some scale, with some mix.

    `clock` gives the time of day that the transactions write.
    """

    scale: Scale
    mix: Mix
    clock: Callable[[], str] = wall_clock

    def most_clients(self) -> int:
        """Ten for each warehouse, as it has ten terminals."""
        return DISTRICTS_PER_WAREHOUSE * self.scale.warehouses

    def fill(self, database: BackendConfig, seed: int, processes: int, report: Report) -> None:
        """See `DatabaseLoad.fill`."""
        load(database, self.scale, seed, processes, report)

    def client(self, *, seed: int, stream: int, client: int, clients: int) -> TpccClient:
        """See `DatabaseLoad.client`.

        The seed is that of `fill`, on which NURand's constants of the run depend.
        """
        return TpccClient(
            InputGenerator(
                self.scale,
                self.mix,
                NuRandConstants.for_run(seed),
                random.Random(f"{seed} stream {stream} client {client} of {clients}"),
                terminals_of_client(self.scale, client, clients),
            ),
            self.clock,
        )

    def violations(self, backend: Backend) -> list[Violation]:
        """See `DatabaseLoad.violations`: some seconds for each warehouse."""
        return violations(backend)


class TpccClient:
    """One client, which stands for some terminals."""

    def __init__(self, inputs: InputGenerator, clock: Callable[[], str]) -> None:
        self._inputs = inputs
        self._clock = clock
        self.draw = inputs.draw
        self.think_seconds = inputs.think_seconds

    def execute(self, backend: Backend, request: TransactionInput) -> TransactionOutcome:
        """See `Client.execute`."""
        return execute(backend, request, self._clock())


@dataclass(frozen=True)
class Tpcc(Sized):
    """See `Sized`."""

    scale: int = setting(
        "Warehouses, about 100 MB each.", count(1, 2**31 - 1), 1, title="warehouses", is_log=True
    )
    items: int = setting(
        "Items, and stock rows a warehouse; fewer than the specification's only for trying out.",
        count(15, 2**31 - 1),
        100_000,
    )
    customers: int = setting(
        "Customers a district, and its first orders; likewise.", count(10, 2**31 - 1), 3_000
    )


WORKLOAD = Workload(
    name="tpcc",
    summary="orders of a wholesaler: five transactions, most of them writing",
    source="TPC-C 5.11; mixes of SCHEDULER table 5.1",
    settings=Tpcc,
    mixes=MIXES,
    make=lambda asked, chosen: TpccLoad(Scale(asked.scale, asked.items, asked.customers), chosen),
    bytes_per_unit=105_000_000,
    readers=frozenset((Kind.ORDER_STATUS, Kind.STOCK_LEVEL)),
)

__all__ = [
    "MIXES",
    "WORKLOAD",
    "Kind",
    "Mix",
    "Scale",
    "TpccClient",
    "TpccLoad",
    "load",
    "mix",
    "violations",
    "weighted",
]
