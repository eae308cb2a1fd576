"""The progress of benches, of which each goes from its load to its check."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from flashwright._text import short_count, span
from flashwright.progress import follow

if TYPE_CHECKING:
    from flashwright.benches.session import BenchesSession, Outcome
    from flashwright.workloads.session import Session


def follow_benches(session: BenchesSession) -> Outcome:
    """Run benches in a thread, draw their progress, and give what they found.

    Raises StoppedError after Ctrl-C, with what was measured so far.
    """
    return follow(lambda: _label(session), "", _Tracker(session), session.run)


class _Tracker:
    """Reports the progress of one run, or of several: whole ones, and what one has measured."""

    def __init__(self, session: BenchesSession) -> None:
        self._session = session

    def state(self) -> tuple[int, int]:
        session = self._session
        done, total = (0, 0) if session.current is None else _state(session.current)
        if len(session.plan) == 1:
            return done, total
        is_measured = session.current is not None and session.current.stage.measured_from
        passed = done / total if is_measured and total else 0.0
        return round(1000 * (max(session.number - 1, 0) + passed)), 1000 * len(session.plan)

    def cancel(self) -> None:
        self._session.stop()


def _state(session: Session) -> tuple[int, int]:
    stage = session.stage
    if stage.measured_from is None:
        return round(stage.done * 1000), round(stage.total * 1000)
    if stage.unit == "s":
        passed = min(max(time.monotonic() - stage.measured_from, 0.0), stage.total)
        return round(passed * 1000), round(stage.total * 1000)
    done = sum(kind.count for kind in stage.windows.kinds.values()) if stage.windows else 0
    return done, round(stage.total)


def _label(session: BenchesSession) -> str:
    if session.current is None or not session.number:
        return "Preparing"
    stage = _stage(session.current)
    if len(session.plan) == 1:
        return stage
    _, bench = session.plan[session.number - 1]
    return f"Run {session.number} of {len(session.plan)}, {bench.label}: {stage}"


def _stage(session: Session) -> str:
    stage = session.stage
    if stage.windows is None:
        return stage.name
    rate, quantiles = stage.windows.recent()
    if not quantiles:
        return stage.name
    times = ", ".join(f"{name} {span(quantiles[name])}" for name in ("p50", "p95", "p99"))
    return f"{stage.name}: {short_count(rate)} transactions/s, {times}"
