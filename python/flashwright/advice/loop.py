"""Throughput of clients that wait for their commits.

A client thinks for Z (and computes, and reads), then waits L for its commit: N clients make
N / (Z + L) commits a second (the closed-loop law; Little). N and L are recorded, and Z is what is
left, so a drive that answers in L' makes N / (Z + L'). Where the recorded wait is longer than what
the drive is known to have taken, the rest is the file system's and the processor's, and stays.
However fast the drive is, processors allow only so much (`processors`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

LEAST_BUSY = 0.05
"""Share of a client's time that is taken to be its own work, however little the recording shows."""


@dataclass(frozen=True)
class Loop:
    """Clients of a database, as they were recorded."""

    clients: float
    """Clients that wait for commits: threads that sync the log."""
    per_second: float
    """Commits a second."""
    wait: float
    """Mean seconds that a commit waits for its sync, of which the drive's part is `of_drive`."""
    of_drive: float
    most: float = math.inf
    """Greatest throughput, as a multiple of today's, that the processors allow."""

    @property
    def thinks(self) -> float:
        """Seconds of a client from one commit's end to the next one's beginning."""
        return max(0.0, self.clients / self.per_second - self.wait) if self.per_second else 0.0

    @property
    def waiting_share(self) -> float:
        """Share of a client's time in which it waits for commits."""
        whole = self.thinks + self.wait
        return self.wait / whole if whole else 0.0

    def gain(self, ratio: float | None) -> float:
        """Give throughput as a multiple of today's, if the drive takes `ratio` of its time.

        None for commits that do not wait at all: not for the way to the drive, either.
        """
        whole = self.thinks + self.wait
        if not whole:
            return 1.0
        drive = min(self.of_drive, self.wait)
        after = 0.0 if ratio is None else self.wait - drive + drive * ratio
        # Clients that did nothing but wait find something else to wait for.
        return min(self.most, whole / max(self.thinks + after, LEAST_BUSY * whole))
