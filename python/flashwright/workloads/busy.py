"""How busy the machine's processors are: where they are the limit, a drive is not what counts."""

from __future__ import annotations

import os
from pathlib import Path

_FIRST = 11
"""Of the words behind a process's name: its own time in user and system mode, then that of its
children that have ended (proc(5), fields 14 to 17)."""


class Busy:
    """The processors' work from `begin` to `end`."""

    def __init__(self) -> None:
        self._before = self._after = (0, 0)

    def begin(self) -> None:
        """Look from now on."""
        self._before = _processor_times()

    def end(self) -> None:
        """Look no more."""
        self._after = _processor_times()

    @property
    def share(self) -> float | None:
        """Share of all processors' time, 0 ... 1, in which any process was at work.

        None if no time went by.
        """
        total = self._after[1] - self._before[1]
        return (self._after[0] - self._before[0]) / total if total > 0 else None


def _processor_times() -> tuple[int, int]:
    """Give busy and total time of all processors, in ticks (proc(5), /proc/stat)."""
    words = Path("/proc/stat").read_text(encoding="ascii").splitlines()[0].split()[1:9]
    ticks = [int(word) for word in words]
    idle = ticks[3] + ticks[4]
    return sum(ticks) - idle, sum(ticks)


def process_seconds(pid: int) -> float | None:
    """Give the processor time of a process and of its children that have ended.

    None if it is gone.
    """
    try:
        text = Path("/proc", str(pid), "stat").read_text(errors="replace")
    except OSError:
        return None
    # The name stands in brackets and may hold anything.
    ticks = text.rpartition(")")[2].split()[_FIRST : _FIRST + 4]
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
