"""Fewer commits: several transactions of the application in one."""

from __future__ import annotations

from collections.abc import Iterator

from flashwright._text import significant, span
from flashwright.advice import questions, server_settings, telling
from flashwright.advice.action import Candidate, Finding, Loss, Lost
from flashwright.advice.case import Case

IN_ONE = (10, 100)
_WHAT = "Put several transactions into one"


class LargerTransactions:
    """Offers ten and a hundred in one, by the union of their pages."""

    NAME = "larger_transactions"
    QUESTIONS: tuple[str, ...] = (questions.FEWER_COMMITS,)

    def findings(self, case: Case) -> Iterator[Finding]:
        """See `Action`."""
        if case.database != "sqlite":
            return
        flushes = case.load.requests.get("flush", 0)
        if not telling.has_log(case):
            why = f"{flushes} flushes came in {span(case.load.seconds)}"
            yield telling.log_missing(case, self.NAME, _WHAT, why)
            return
        for number in IN_ONE:
            yield self._of(case, number, flushes)

    def _of(self, case: Case, number: int, flushes: int) -> Candidate:
        settings = {"transactions_in_one": str(number)}
        rate = flushes / case.load.seconds if case.load.seconds else 0.0
        held = f", up to {span(number / rate)} of them at this rate" if rate else ""
        return Candidate(
            self.NAME,
            f"larger_transactions({number})",
            f"{_WHAT}: {number}",
            server_settings.with_mode(case, settings),
            "a change of the application, and a lock that writers hold for longer",
            Loss(
                Lost.SECONDS,
                f"after a crash, what the application has done since its last commit: up to "
                f"{number} of today's transactions{held}; the database is whole",
            ),
            (f"BEGIN IMMEDIATE; -- {number} of today's transactions; COMMIT",),
            ("-- commit each by itself again",),
            f"{flushes} flushes came in {span(case.load.seconds)}, {significant(rate)} a second; "
            "a page that several transactions change is written once for all of them.",
            ("an error rolls back all that are in one",),
        )
