"""Whether the disk is fast enough for a log: how long commits wait, and for what."""

from __future__ import annotations

from collections.abc import Iterator

from flashwright._text import significant, span
from flashwright.advice import questions, telling
from flashwright.advice.action import Finding, NotKnown, Told
from flashwright.advice.case import Case


class LogFastEnough:
    """Tells how long commits wait for the disk, and what it would bring if they did not."""

    NAME = "log_fast_enough"
    QUESTIONS: tuple[str, ...] = (questions.FAST_ENOUGH,)

    def findings(self, case: Case) -> Iterator[Finding]:
        """See `Action`."""
        found = telling.commits(case)
        if found is None:
            yield NotKnown(
                self.NAME,
                "Whether the disk is fast enough for a log",
                "the source has neither flushes nor writes that are known to be a log's",
                telling.record(case),
            )
            return
        said = (
            f"A commit waits for the disk {telling.commits_said(case)}; "
            f"{telling.share(telling.flush_share(found))} of it is the flush "
            f"({span(found.flush_mean)}), the rest the log's write."
        )
        if case.loop is None:
            said += " How much that is of a client's time is not known without its calls."
        else:
            most = significant(case.loop.gain(0.0))
            said += (
                f" It is fast enough if {telling.share(case.loop.waiting_share)} of a client's "
                f"time is little: a disk that took no time would bring {most} times the commits."
            )
        yield Told(self.NAME, said)
