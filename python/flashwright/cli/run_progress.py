"""The progress of a benchmark on a database, from its load to its check."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from flashwright._text import short_count, span
from flashwright.progress import follow

if TYPE_CHECKING:
    from flashwright.workloads.session import Finding, Session


def follow_session(session: Session) -> Finding:
    """Run a session in a thread, draw its progress, and give what it found.

    Raises StoppedError after Ctrl-C, with what was measured so far.
    """
    return follow(lambda: _label(session), "", _Tracker(session), session.run)


class _Tracker:
    """Reports the progress of a session."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def state(self) -> tuple[int, int]:
        stage = self._session.stage
        if stage.measured_from is None:
            return round(stage.done * 1000), round(stage.total * 1000)
        if stage.unit == "s":
            passed = min(max(time.monotonic() - stage.measured_from, 0.0), stage.total)
            return round(passed * 1000), round(stage.total * 1000)
        done = sum(kind.count for kind in stage.windows.kinds.values()) if stage.windows else 0
        return done, round(stage.total)

    def preparation(self) -> tuple[int, int]:
        return 0, 0

    def cancel(self) -> None:
        self._session.stop()


def _label(session: Session) -> str:
    stage = session.stage
    if stage.windows is None:
        return stage.name
    rate, quantiles = stage.windows.recent()
    if not quantiles:
        return stage.name
    times = ", ".join(f"{name} {span(quantiles[name])}" for name in ("p50", "p95", "p99"))
    return f"{stage.name}: {short_count(rate)} transactions/s, {times}"
