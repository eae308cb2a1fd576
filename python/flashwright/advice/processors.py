"""How much work the machine's processors allow, however fast its drive.

A recording has the processor time of a PostgreSQL server, and of clients of `flashwright bench`,
pgbench among them. More work takes as much more of it, so that all processors are at work at some
rate (the bottleneck law; Denning and Buzen, "The Operational Analysis of Queueing Network Models",
ACM Computing Surveys 10, 1978). Two things keep that from being exact: what other clients of this
machine and the kernel's own threads take comes on top, and a processor that is mostly idle takes
more for a transaction than a busy one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flashwright.advice.closed_network import rate_of

IDLE_TAKES = 2.2
"""Processor time of a transaction of TATP at 49 a second, over that at 433 on a drive with more
spare space: two processors, 4 clients, PostgreSQL 15, one recording of each
(docs/results/advice.md)."""


@dataclass(frozen=True)
class Processors:
    """Processors of a machine, and what a recorded load took of them."""

    count: int
    seconds: float
    """Processor time of the load, above 0."""
    is_whole: bool = False
    """Whether it holds that of the clients."""

    @staticmethod
    def of(recorded: Mapping[str, Any]) -> Processors | None:
        """Read what the `result.json` of a recording tells; None if it does not."""
        told = recorded.get("processors") or {}
        clients = told.get("clients_seconds")
        known = (told.get("server_seconds") or 0.0) + (clients or 0.0)
        return Processors(int(told["count"]), known, clients is not None) if known > 0 else None

    def most(self, seconds: float) -> float:
        """Give the greatest multiple of a load that took so many seconds; 1 at least.

        That is if each transaction goes on taking as much. It is on the safe side: one took
        `IDLE_TAKES` times as much where processors were mostly idle.
        """
        return max(1.0, self.count * seconds / self.seconds)

    def busy(self, seconds: float) -> float:
        """Give the share of the processors' time in so many seconds."""
        return self.seconds / (self.count * seconds)


@dataclass(frozen=True)
class AtWork:
    """Clients who compute, and wait for the drive: the time of a load on another drive.

    Beside the drive a load takes what the processors take of it, and a rest: waits for locks that
    are held meanwhile, and what the simulated drive is too fast by. The first stays on another
    drive, the second grows with the drive's time.
    """

    clients: float
    """On average, 1 at least."""
    processor: float
    """Processor time of the load, in seconds, on any of `count` processors."""
    count: int
    busy: float
    """Seconds in which the recorded drive is busy with the load, by its simulation."""
    beside: float
    """Seconds that the recorded load took beside that; 0 if several requests were outstanding."""

    def seconds(self, drive: float, work: float = 1.0) -> float:
        """Give the time of a load for which the drive is busy for so many seconds.

        `work` is as `Load` has it. It is at least that of a closed network of drive and processors.
        """
        own = work * self._own()
        rest = max(0.0, work * self.beside - own)
        others = rest * drive / (work * self.busy) if self.busy > 0 else rest
        least = min(own, work * self.beside)
        return max(drive + least + others, self._network(drive, work * self.processor))

    def _own(self) -> float:
        """Give what the processors take of the recorded load, beside its drive.

        A client alone waits for the kernel and for its own way to the drive, too. Those are taken
        to be the same share of its time on any drive.
        """
        if self.clients > 1:
            return self.processor / min(self.clients, self.count)
        known = self.busy + self.processor
        return self.processor * max(1.0, (self.busy + self.beside) / known) if known else 0.0

    def _network(self, drive: float, processor: float) -> float:
        """Give the time of a closed network, all of whose clients could go on at once.

        Processors are one that is as fast as all of them, and a delay (Seidmann, Schweitzer and
        Shalev-Oren, "Computerized Closed Queueing Network Models of Flexible Manufacturing
        Systems", Large Scale Systems 12, 1987). A client alone never queues.
        """
        queued = processor / self.count
        return 1 / rate_of(round(self.clients), [drive, queued], processor - queued)
