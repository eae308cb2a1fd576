"""How much more work the machine's processors allow, however fast its drive.

A recording has the processor time of a PostgreSQL server, and of clients of `flashwright bench`.
More work takes as much more of it, so that `count` processors are all at work at some rate (the
bottleneck law; Denning and Buzen, "The Operational Analysis of Queueing Network Models", ACM
Computing Surveys 10, 1978). That is a bound from above: other clients of this machine, and what the
kernel does in threads of its own, come on top.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Processors:
    """Processors of a machine, and what a recorded load took of them."""

    count: int
    seconds: float
    """Processor time of the load, above 0."""

    @staticmethod
    def of(recorded: Mapping[str, Any]) -> Processors | None:
        """Read what the `result.json` of a recording tells; None if it does not."""
        told = recorded.get("processors") or {}
        known = [told.get(name) or 0.0 for name in ("server_seconds", "clients_seconds")]
        return Processors(int(told["count"]), sum(known)) if sum(known) > 0 else None

    def most(self, seconds: float) -> float:
        """Give the greatest multiple of a load that took so many seconds; 1 at least."""
        return max(1.0, self.count * seconds / self.seconds)
