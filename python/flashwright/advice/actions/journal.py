"""SQLite's journal: a log in place of a rollback journal."""

from __future__ import annotations

from collections.abc import Iterator

from flashwright.advice import questions, server_settings, telling
from flashwright.advice.action import NO_LOSS, Candidate, Finding, Useless
from flashwright.advice.case import Case

_WHAT = "Write a log in place of a rollback journal (journal_mode = WAL)"


class Journal:
    """Offers the log where the database has a rollback journal."""

    NAME = "journal"
    QUESTIONS: tuple[str, ...] = (questions.SQLITE_MODES,)

    def findings(self, case: Case) -> Iterator[Finding]:
        """See `Action`."""
        if case.database != "sqlite":
            return
        mode, log = server_settings.sqlite(case, "journal_mode"), case.load.share("wal")
        if mode == "wal":
            why = f"it has a log already, {telling.share(log)} of what is written"
            yield Useless(self.NAME, _WHAT, why)
        elif not telling.has_log(case) or mode is None:
            why = f"log or journal are {telling.share(log)} of what is written"
            yield telling.log_missing(case, self.NAME, _WHAT, why)
        else:
            settings = {"journal_mode": "wal"}
            yield Candidate(
                self.NAME,
                "journal(wal)",
                _WHAT,
                server_settings.with_mode(case, settings),
                "two files beside the database while it is open, and a checkpoint now and then; no "
                "use over a network file system",
                NO_LOSS,
                (f"sqlite3 {telling.place(case)} 'PRAGMA journal_mode=WAL'",),
                (f"sqlite3 {telling.place(case)} 'PRAGMA journal_mode={mode.upper()}'",),
                f"The journal is {telling.share(log)} of what is written: each page goes there as "
                "it was, and then home; in a log it goes home once for many commits.",
                settings=settings,
            )
