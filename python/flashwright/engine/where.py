"""Where tasks are done, and where their results are kept."""

from __future__ import annotations

import os
from dataclasses import dataclass

from flashwright.engine.pools import Pool, Processes, Threads
from flashwright.engine.store import Store
from flashwright.runs import RUNS

STORE = RUNS / "store"
"""The store, if no other is named: of all that starts in this folder."""
LOCAL, RAY = "local", "ray"


@dataclass(frozen=True)
class Where:
    """Workers and a store, as they are asked for."""

    engine: str = LOCAL
    address: str | None = None
    """Of a Ray cluster; None is that of this machine."""
    jobs: int | None = None
    """Tasks at a time; None is one a core."""
    store: str | None = None

    def results(self) -> Store:
        """Give the store."""
        return Store(self.store or str(STORE))

    @property
    def wanted(self) -> int:
        """Tasks at a time on this machine, if memory suffices."""
        return self.jobs or len(os.sched_getaffinity(0))

    def at_once(self, memory_bytes: int | None) -> int:
        """Give the tasks at a time on this machine, each of so many bytes."""
        if memory_bytes is None:
            return self.wanted
        room = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        return max(1, min(self.wanted, room // memory_bytes))

    def pool(self, memory_bytes: int | None = None) -> Pool:
        """Make the workers of tasks that hold so many bytes each."""
        if self.engine == RAY:
            from flashwright.engine.cluster import Cluster  # noqa: PLC0415  (Ray is an extra)

            return Cluster(self.address, memory_bytes, self.jobs)
        return Processes(self.at_once(memory_bytes))

    def shared(self) -> Pool:
        """Make the workers of tasks that share what they read, and leave the interpreter free.

        On this machine they are threads of this process.
        """
        return self.pool() if self.engine == RAY else Threads(self.wanted)

    def measuring(self) -> Pool:
        """Make the workers of tasks that measure time: a machine does one alone.

        On this machine it is a thread, which comes to a clean point when it is stopped.
        """
        if self.engine == RAY:
            from flashwright.engine.cluster import Cluster  # noqa: PLC0415  (Ray is an extra)

            return Cluster(self.address, None, self.jobs, takes_node=True)
        return Threads(1)
