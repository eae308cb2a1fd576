"""Runs the transactions from several client processes, and reports what they did."""

from __future__ import annotations

import math
import multiprocessing
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from .backends import BackendConfig, TransactionConflictError
from .inputs import InputGenerator, NuRandConstants, terminals_of_client
from .mix import KINDS, Kind, Mix
from .scale import Scale
from .transactions import Outcome, execute

MAX_ATTEMPTS = 100
"""How often one transaction is tried before its conflicts count as a failure of the run."""


@dataclass(frozen=True)
class RunConfig:
    """A run: it ends after `seconds`, or after `transactions` from each client, whichever is set (or first).

    `think_seconds` is the mean think time after each transaction (clause 5.2.5.4); 0 sends as fast as it can.
    `seed` is the seed of the load: NURand's constants depend on it. `stream` tells runs on one database apart.
    """

    scale: Scale
    mix: Mix
    clients: int = 1
    seconds: float | None = None
    transactions: int | None = None
    think_seconds: float = 0.0
    seed: int = 1
    stream: int = 0

    def __post_init__(self) -> None:
        """Refuse a run without an end or without clients.

        Raises:
            ValueError: neither `seconds` nor `transactions` is set, or `clients` is out of range.
        """
        if self.seconds is None and self.transactions is None:
            raise ValueError("a run needs an end: set seconds or transactions")
        most = 10 * self.scale.warehouses
        if not 1 <= self.clients <= most:
            raise ValueError(f"clients is {self.clients}: it must be 1 to {most}, ten for each warehouse")


@dataclass
class KindResult:
    """What happened to the transactions of one kind. Latencies include conflicts and the tries after them."""

    committed: int = 0
    rolled_back: int = 0
    conflicts: int = 0
    skipped_districts: int = 0
    latencies_ns: list[int] = field(default_factory=list)

    def add(self, other: KindResult) -> None:
        """Add another client's numbers."""
        self.committed += other.committed
        self.rolled_back += other.rolled_back
        self.conflicts += other.conflicts
        self.skipped_districts += other.skipped_districts
        self.latencies_ns += other.latencies_ns

    def latency_ns(self, quantile: float) -> int:
        """Latency that the share `quantile` (0 ... 1) of the transactions does not exceed; 0 if there were none."""
        if not self.latencies_ns:
            return 0
        ordered = sorted(self.latencies_ns)
        return ordered[max(0, math.ceil(quantile * len(ordered)) - 1)]


@dataclass
class RunResult:
    """What a run did, over all clients."""

    seconds: float
    kinds: dict[Kind, KindResult]

    @property
    def transactions(self) -> int:
        """Transactions that ended, the rolled-back ones included."""
        return sum(kind.committed + kind.rolled_back for kind in self.kinds.values())

    @property
    def transactions_per_second(self) -> float:
        """All kinds together."""
        return self.transactions / self.seconds

    @property
    def tpm_c(self) -> float:
        """New-Orders a minute, rolled-back ones included (clause 5.4.2). No official tpmC without think times."""
        new_order = self.kinds[Kind.NEW_ORDER]
        return (new_order.committed + new_order.rolled_back) * 60 / self.seconds

    def as_dict(self) -> dict[str, object]:
        """Plain numbers for JSON."""
        return {
            "seconds": self.seconds,
            "transactions": self.transactions,
            "transactions_per_second": self.transactions_per_second,
            "tpm_c": self.tpm_c,
            "kinds": {
                kind.value: {
                    "committed": result.committed,
                    "rolled_back": result.rolled_back,
                    "conflicts": result.conflicts,
                    "skipped_districts": result.skipped_districts,
                    "latency_ns_p50": result.latency_ns(0.50),
                    "latency_ns_p90": result.latency_ns(0.90),
                    "latency_ns_p99": result.latency_ns(0.99),
                }
                for kind, result in self.kinds.items()
            },
        }


def wall_clock() -> str:
    """Give the time of day as the transactions write it."""
    return datetime.now().isoformat(" ", "seconds")


def run(backend: BackendConfig, config: RunConfig) -> RunResult:
    """Run all clients, each in a process of its own, to their ends.

    With one client, and `transactions` as the end, the same seed does the same to the database each time.

    Raises:
        whatever a client raised.
    """
    start = time.monotonic()
    if config.clients == 1:
        parts = [run_client(backend, config, 0)]
    else:
        with multiprocessing.get_context("spawn").Pool(config.clients) as pool:
            tasks = [(backend, config, client) for client in range(config.clients)]
            parts = pool.starmap(run_client, tasks, chunksize=1)
    seconds = max((part.seconds for part in parts), default=time.monotonic() - start)
    total = RunResult(seconds, {kind: KindResult() for kind in KINDS})
    for part in parts:
        for kind, result in part.kinds.items():
            total.kinds[kind].add(result)
    return total


def run_client(
    backend_config: BackendConfig, config: RunConfig, client: int, clock: Callable[[], str] = wall_clock
) -> RunResult:
    """Run one client, in this process. `clock` gives the time of day that is written."""
    rng = random.Random(f"{config.seed} stream {config.stream} client {client} of {config.clients}")
    inputs = InputGenerator(
        config.scale,
        config.mix,
        NuRandConstants.for_run(config.seed),
        rng,
        terminals_of_client(config.scale, client, config.clients),
    )
    result = RunResult(0.0, {kind: KindResult() for kind in KINDS})
    limit = config.transactions if config.transactions is not None else math.inf
    backend = backend_config.connect()
    try:
        start = time.monotonic()
        end = start + config.seconds if config.seconds is not None else math.inf
        done = 0
        while done < limit and time.monotonic() < end:
            kind, request = inputs.draw()
            at = result.kinds[kind]
            begun = time.monotonic_ns()
            for attempt in range(1, MAX_ATTEMPTS + 1):
                try:
                    outcome: Outcome = execute(backend, request, clock())
                    break
                except TransactionConflictError:
                    at.conflicts += 1
                    if attempt == MAX_ATTEMPTS:
                        raise
            at.latencies_ns.append(time.monotonic_ns() - begun)
            at.committed += outcome.committed
            at.rolled_back += not outcome.committed
            at.skipped_districts += outcome.skipped_districts
            done += 1
            if config.think_seconds > 0:
                time.sleep(inputs.think_seconds(config.think_seconds))
        result.seconds = max(time.monotonic() - start, 1e-9)
    finally:
        backend.close()
    return result
