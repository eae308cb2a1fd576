"""SQLite's checkpoints of its log."""

from __future__ import annotations

from collections.abc import Iterator

from flashwright._text import size
from flashwright.advice import questions, server_settings, telling
from flashwright.advice.action import NO_LOSS, Candidate, Finding, Useless
from flashwright.advice.case import Case

TIMES = (4, 16)
_WHAT = "Copy the log into the database less often (wal_autocheckpoint)"


class Autocheckpoint:
    """Offers longer logs."""

    NAME = "autocheckpoint"
    QUESTIONS: tuple[str, ...] = (questions.CHECKPOINTS,)

    def findings(self, case: Case) -> Iterator[Finding]:
        """See `Action`."""
        if case.database != "sqlite":
            return
        mode, heap = server_settings.sqlite(case, "journal_mode"), case.load.share("heap", "index")
        if mode is not None and mode != "wal":
            why = f"it has a rollback journal ({mode}), and 0 checkpoints"
            yield Useless(self.NAME, _WHAT, why)
        elif case.load.knows_purposes and heap < telling.SMALL:
            why = f"the database's own pages are {telling.share(heap)} of what is written"
            yield Useless(self.NAME, _WHAT, why)
        elif not telling.has_log(case) or mode is None:
            why = f"the database's own pages are {telling.share(heap)} of what is written"
            yield telling.log_missing(case, self.NAME, _WHAT, why)
        else:
            for times in TIMES:
                yield self._each(case, times, heap)

    def _each(self, case: Case, times: int, heap: float) -> Candidate:
        now = int(float(server_settings.sqlite(case, "wal_autocheckpoint") or 1000))
        page = int(float(server_settings.sqlite(case, "page_size") or 4096))
        frames = max(now, 1) * times
        settings = {"wal_autocheckpoint": str(frames)}
        return Candidate(
            self.NAME,
            f"autocheckpoint({frames})",
            f"{_WHAT}: each {frames} pages",
            server_settings.with_mode(case, settings),
            f"a log of {size(frames * page)}, in which reads look for pages, and which is read "
            "after a crash; more commits to lose with synchronous = NORMAL",
            NO_LOSS,
            (f"PRAGMA wal_autocheckpoint={frames}   -- of each connection, after it is opened",),
            (f"PRAGMA wal_autocheckpoint={now}",),
            f"Pages that are copied home are {telling.share(heap)} of what is written, with a "
            f"checkpoint each {now} pages; one that changed many times in between is copied once.",
            ()
            if "wal_autocheckpoint" in case.settings
            else ("wal_autocheckpoint is SQLite's default, as it was not recorded",),
            settings,
        )
