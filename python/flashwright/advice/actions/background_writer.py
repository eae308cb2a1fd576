"""PostgreSQL's background writer, which writes pages before a checkpoint does."""

from __future__ import annotations

from collections.abc import Iterator

from flashwright.advice import server_settings, telling
from flashwright.advice.action import Finding, NotKnown, Useless
from flashwright.advice.case import Case

_WHAT = "Let the background writer write less (bgwriter_lru_maxpages)"


class BackgroundWriter:
    """Says which share of the pages is the background writer's."""

    NAME = "background_writer"
    QUESTIONS: tuple[str, ...] = ("Does the background writer write pages too early?",)

    def findings(self, case: Case) -> Iterator[Finding]:
        """See `Action`."""
        if case.database != "postgres":
            return
        counted = server_settings.counted(case)
        pages, its = counted.get("data_pages"), counted.get("background_pages")
        if not pages or its is None:
            why = "the recording does not say how many pages the background writer has written"
            yield NotKnown(self.NAME, _WHAT, why, telling.record(case))
            return
        share = int(its) / int(pages)
        if share < telling.SMALL:
            why = f"it wrote {its} of {pages} pages, {telling.share(share)}"
            yield Useless(self.NAME, _WHAT, why)
            return
        yield NotKnown(
            self.NAME,
            _WHAT,
            f"it wrote {its} of {pages} pages, {telling.share(share)}; how many of these backends "
            "would have had to write themselves is not told by the log",
            f'psql -c "ALTER SYSTEM SET bgwriter_lru_maxpages = 0" -c "SELECT pg_reload_conf()"; '
            f"{telling.record(case)}",
        )
