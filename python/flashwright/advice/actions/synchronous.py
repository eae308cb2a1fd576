"""SQLite's synchronous: which commits wait for the disk."""

from __future__ import annotations

from collections.abc import Iterator

from flashwright._text import span
from flashwright.advice import questions, server_settings, telling
from flashwright.advice.action import Candidate, Finding, Loss, Lost, Told
from flashwright.advice.case import Case

FRAME_HEADER_BYTES = 24
_WHAT = "Let commits not wait for the disk (synchronous = NORMAL)"


class Synchronous:
    """Offers NORMAL where there is a log, with the time between its syncs."""

    NAME = "synchronous"
    QUESTIONS: tuple[str, ...] = (questions.SQLITE_MODES, questions.FEWER_COMMITS)

    def findings(self, case: Case) -> Iterator[Finding]:
        """See `Action`."""
        if case.database != "sqlite":
            return
        mode = server_settings.sqlite(case, "journal_mode")
        now = server_settings.sqlite(case, "synchronous")
        flushes = case.load.requests.get("flush", 0)
        if now in ("normal", "off"):
            yield Told(self.NAME, f"synchronous is {now} already; {_lost(case, now).says}.")
        elif not telling.has_log(case) or mode is None:
            why = f"{flushes} flushes came in {span(case.load.seconds)}"
            yield telling.log_missing(case, self.NAME, _WHAT, why)
        else:
            # With a rollback journal NORMAL saves one flush of a commit, and a power cut at the
            # wrong moment may damage the database: it goes with a log alone.
            is_log = mode == "wal"
            settings = {} if is_log else {"journal_mode": "wal"}
            settings["synchronous"] = "normal"
            first = () if is_log else (f"sqlite3 {telling.place(case)} 'PRAGMA journal_mode=WAL'",)
            back = () if is_log else (f"PRAGMA journal_mode={mode.upper()}",)
            yield Candidate(
                self.NAME,
                "synchronous(normal)",
                _WHAT if is_log else f"{_WHAT[:-1]}, with journal_mode = WAL)",
                server_settings.with_mode(case, settings, None),
                "nothing" if is_log else "two files beside the database while it is open",
                _lost(case, "normal"),
                (*first, "PRAGMA synchronous=NORMAL   -- of each connection, after it is opened"),
                ("PRAGMA synchronous=FULL", *back),
                f"{flushes} flushes came in {span(case.load.seconds)}; with a log and NORMAL only "
                "checkpoints flush.",
                settings=settings,
            )


def _lost(case: Case, mode: str) -> Loss:
    """Say what may be lost: what was committed since the last checkpoint began."""
    if mode == "off":
        return Loss(Lost.ANY, "a power cut may take commits, or damage the database as a whole")
    page = float(server_settings.sqlite(case, "page_size") or 4096) + FRAME_HEADER_BYTES
    frames = float(server_settings.sqlite(case, "wal_autocheckpoint") or 1000)
    log = case.load.written_by.get("wal", 0)
    long = (
        f"{span(frames * page * case.load.seconds / log)} at the rate of today's "
        f"{'log' if server_settings.sqlite(case, 'journal_mode') == 'wal' else 'journal'}"
        if log and case.load.seconds
        else "a time that the rate of commits decides"
    )
    return Loss(
        Lost.SECONDS,
        f"after a power cut or a crash of the system, commits since the last checkpoint, which "
        f"comes each {frames:.0f} pages of log, {long}; the database is whole, and a crash of the "
        "program alone loses none",
    )
