"""Group commit: commits of PostgreSQL that wait a little, and share one flush."""

from __future__ import annotations

from collections.abc import Iterator

from flashwright._text import significant, span
from flashwright.advice import questions, server_settings, telling
from flashwright.advice.action import NO_LOSS, Candidate, Finding, NotKnown, Useless
from flashwright.advice.case import Case

SIBLINGS = 1
"""Others that have to be in a transaction for a commit to wait: commit_siblings, which is 5."""
TIMES = (0.5, 1.0, 2.0)
"""Delays, in the mean wait of a commit."""
LEAST_S, MOST_S = 1e-5, 0.1
"""PostgreSQL waits 100 ms at most; below 10 us a timer is no shorter."""
_WHAT = "Let commits wait for others, and share a flush (commit_delay)"


class CommitDelay:
    """Offers delays of the order of a commit, where there are clients enough to share."""

    NAME = "commit_delay"
    QUESTIONS: tuple[str, ...] = (questions.FEWER_COMMITS,)

    def findings(self, case: Case) -> Iterator[Finding]:
        """See `Action`."""
        if case.database != "postgres":
            return
        found, loop = telling.commits(case), case.loop
        if loop is None or found is None:
            why = "how many clients wait for commits at a time was not recorded"
            yield NotKnown(self.NAME, _WHAT, why, telling.record(case))
            return
        if loop.clients <= SIBLINGS:
            clients = significant(loop.clients, 2)
            why = f"{clients} client commits at a time, and has nobody to wait for"
            yield Useless(self.NAME, _WHAT, why)
            return
        if case.load.knows_purposes and not case.load.share("wal"):
            yield Useless(self.NAME, _WHAT, "the disk got 0 bytes of a log: it lies elsewhere")
            return
        delays = {round(min(MOST_S, max(LEAST_S, n * found.mean)) * 1e6) for n in TIMES}
        for micros in sorted(delays):
            yield self._of(case, micros, loop.clients)

    def _of(self, case: Case, micros: int, clients: float) -> Candidate:
        delay = {"commit_delay": str(micros)}
        settings = {**delay, "commit_siblings": str(SIBLINGS)}
        seconds = micros / 1e6
        return Candidate(
            self.NAME,
            f"commit_delay({span(seconds)})",
            f"{_WHAT}: {span(seconds)}",
            server_settings.with_merging(case, delay, seconds, seconds),
            f"each commit waits up to {span(seconds)} more",
            NO_LOSS,
            server_settings.altered(settings),
            server_settings.put_back(case, settings),
            f"{significant(clients, 2)} clients commit, and a commit waits "
            f"{telling.commits_said(case)}; those that come within the delay are flushed together.",
            (
                f"another client is in a transaction at each commit (commit_siblings = {SIBLINGS})",
                "the delay is added to each commit whole, which is the most",
            ),
            settings,
        )
