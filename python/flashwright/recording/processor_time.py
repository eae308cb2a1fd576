"""Processor time of a server's processes, by /proc/PID/stat: nothing is traced.

It says how many transactions a second the machine can do, however fast its disk. What the kernel
does in threads of its own, such as writing its page cache out, is not in it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from flashwright.workloads.busy import process_seconds

from .process_io import tree_of

_TRIES = 5


class ProcessorTime:
    """Adds up what a tree of processes takes of the processors between `begin` and `end`.

    What a child took is its parent's when that takes note of its end: so the sum has also those
    that came and went meanwhile.
    """

    def __init__(self, roots: Iterable[int]) -> None:
        """Do nothing yet; the trees are those below these processes."""
        self._roots = tuple(roots)
        self._before = 0.0

    def begin(self) -> None:
        """Count from now on."""
        self._before = self._seconds()

    def end(self) -> float:
        """Give the seconds since `begin`."""
        return max(0.0, self._seconds() - self._before)

    def _seconds(self) -> float:
        seconds = 0.0
        for _ in range(_TRIES):
            members = tree_of(self._roots)
            found = [process_seconds(pid) for pid in members]
            seconds = sum(one for one in found if one is not None)
            if None not in found and tree_of(self._roots) == members:
                break
        return seconds


def about(server_seconds: float | None, clients_seconds: float | None) -> dict[str, Any]:
    """Give what a recording notes: None of what is not known."""
    return {
        "count": os.cpu_count() or 1,
        "server_seconds": server_seconds,
        "clients_seconds": clients_seconds,
    }
