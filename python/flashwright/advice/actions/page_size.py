"""The database's page size."""

from __future__ import annotations

from collections.abc import Iterator

from flashwright._text import size
from flashwright.advice import questions, server_settings, telling
from flashwright.advice.action import Finding, NotKnown, Told
from flashwright.advice.case import Case

_WHAT = "Another page size of the database"


class PageSize:
    """Says how large writes are, and what would tell of other pages."""

    NAME = "page_size"
    QUESTIONS: tuple[str, ...] = (questions.PAGE_SIZE,)

    def findings(self, case: Case) -> Iterator[Finding]:
        """See `Action`."""
        writes = case.load.requests["write"]
        mean = size(case.load.written_bytes / max(writes, 1))
        got = f"the disk gets writes of {mean} in the mean"
        if case.database == "sqlite":
            now = server_settings.sqlite(case, "page_size")
            place = telling.place(case)
            yield NotKnown(
                self.NAME,
                _WHAT,
                f"{got}, with pages of {now} bytes; which rows would lie in a page of another size "
                "together, the recorded pages do not tell",
                f"cp {place} copy.db; sqlite3 copy.db 'PRAGMA journal_mode=DELETE; PRAGMA "
                "page_size=8192; VACUUM'; flashwright advise --database sqlite copy.db --for 10m",
            )
        elif case.database == "postgres":
            said = (
                f"PostgreSQL's pages have 8192 bytes, and others only where it is built anew "
                f"(--with-blocksize), with all data written anew; {got}."
            )
            yield Told(self.NAME, said)
        else:
            yield NotKnown(
                self.NAME,
                _WHAT,
                f"{got}; which of it are pages of a database the source does not say",
                telling.record(case),
            )
