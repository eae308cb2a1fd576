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
"""Processor time of a transaction whose flushes are `_IDLE_S` apart, over that of one among many.

Fitted by hand to recordings of TATP, TPC-B and YCSB on PostgreSQL 15, on a virtual machine of two
processors; those are in docs/results/advice.md.
"""
_IDLE_S = 0.03
"""Seconds from flush to flush, from which on it is no more. Fitted with it."""
_LITTLE = 0.05
"""Share of a load's time by which the recorded drive may take longer than it did: a drive is not
simulated more exactly."""
_ROUNDS = 30
_NEAR = 1e-3


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

    Beside the drive a load takes what the processors take of it, the way of each flush to the
    drive and back, and a rest: waits for locks that are held meanwhile, and what the simulated
    drive is too fast by. The rest grows with the drive's time, as far as it is no more than that;
    all else stays. Where flushes follow each other sooner, processors wake from less deep a sleep:
    then they and the way take less.
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
    flushes: int = 0
    """Of the recorded load; 0 if it has none, or they are not known."""
    way: float = 0.0
    """Seconds of a recorded flush that no drive makes shorter."""

    def seconds(
        self, drive: float, work: float = 1.0, flushes: int = 0, delay: float = 0.0
    ) -> float:
        """Give the time of a load for which the drive is busy for so many seconds.

        `work` is as `Load` has it. `flushes`: those that clients wait for, each for `delay` seconds
        before it begins, in which the drive goes on with other work. It is at least that of a
        closed network of drive and processors.
        """
        taken = work * (self.busy + self.beside)
        for _ in range(_ROUNDS):
            share = self._waking(taken, flushes or round(work * self.flushes))
            found = self._seconds(drive, work, share, flushes * share * self._way, flushes * delay)
            if abs(found - taken) <= _NEAR * taken:
                break
            taken = found
        return found

    def _seconds(self, drive: float, work: float, share: float, way: float, delay: float) -> float:
        """Give the time where processors take that `share` of what they took."""
        own, busy = work * self._own(), work * self.busy
        rest = max(0.0, work * (self.beside - self.flushes * self._way) - own)
        of_drive = min(rest, busy)
        grown = of_drive * drive / busy if busy > 0 else of_drive
        least = share * min(own, work * self.beside)
        return max(
            max(drive + grown + rest - of_drive, delay) + way + least,
            self._network(drive + way, share * work * self.processor),
        )

    @property
    def _way(self) -> float:
        """Seconds of the way of a flush: no more than is left beside drive and processors.

        That of a client alone is in what processors take (`_own`).
        """
        if self.clients <= 1 or not self.flushes:
            return 0.0
        left = max(0.0, self.beside - self._own()) + _LITTLE * (self.busy + self.beside)
        return min(self.way, left / self.flushes)

    def _waking(self, seconds: float, flushes: int) -> float:
        """Give what processors take for the same work, over what they took when recorded."""
        if not self.flushes or not flushes:
            return 1.0
        return _woken(seconds / flushes) / _woken((self.busy + self.beside) / self.flushes)

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


def _woken(gap: float) -> float:
    """Give what a transaction takes of the processors if its flushes are so many seconds apart.

    Over what it takes if nobody ever sleeps.
    """
    return 1 + (IDLE_TAKES - 1) * min(1.0, gap / _IDLE_S)
