"""Commits of PostgreSQL that do not wait for the disk."""

from __future__ import annotations

from collections.abc import Iterator

from flashwright._text import span
from flashwright.advice import questions, server_settings, telling
from flashwright.advice.action import Candidate, Finding, Loss, Lost, Told, Useless
from flashwright.advice.case import Case

DELAYS = 3
"""Times wal_writer_delay that a commit may be lost for (PostgreSQL's manual, "Asynchronous
Commit").
"""
_WHAT = "Let commits not wait for the disk (synchronous_commit = off)"


class SynchronousCommit:
    """Offers it, with what may be lost."""

    NAME = "synchronous_commit"
    QUESTIONS: tuple[str, ...] = (questions.FEWER_COMMITS,)

    def findings(self, case: Case) -> Iterator[Finding]:
        """See `Action`."""
        if case.database != "postgres":
            return
        delay = server_settings.number(case, "wal_writer_delay")
        if case.settings.get("synchronous_commit") in ("off", "False"):
            lost = span(DELAYS * delay)
            yield Told(self.NAME, f"synchronous_commit is off: up to {lost} may be lost already.")
            return
        flushes = case.load.requests.get("flush", 0)
        if case.load.knows_purposes and not case.load.share("wal"):
            yield Useless(self.NAME, _WHAT, "the disk got 0 bytes of a log: it lies elsewhere")
            return
        if not case.load.knows_purposes and not telling.has_log(case):
            yield telling.purposes_not_known(case, self.NAME, _WHAT)
            return
        settings = {"synchronous_commit": "off"}
        waits = telling.commits_said(case)
        yield Candidate(
            self.NAME,
            "synchronous_commit(off)",
            _WHAT,
            server_settings.with_merging(case, settings, delay, None),
            "nothing",
            Loss(
                Lost.SECONDS,
                f"commits of up to the last {span(DELAYS * delay)} (three times wal_writer_delay), "
                "after a crash of server, system or power; the database is whole",
            ),
            server_settings.altered(settings),
            server_settings.put_back(case, settings),
            f"{flushes} flushes came in {span(case.load.seconds)}, one for each commit or few; "
            f"then the log is written each {span(delay)}"
            + (f". A commit waits {waits} today." if waits else "."),
            ()
            if telling.has_log(case)
            else ("what the file system writes for each flush stays as it is",),
            settings,
        )
