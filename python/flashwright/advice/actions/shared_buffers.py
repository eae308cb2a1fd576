"""PostgreSQL's own buffers: pages that are changed again before they are written."""

from __future__ import annotations

from collections.abc import Iterator

from flashwright._text import size
from flashwright.advice import server_settings, telling
from flashwright.advice.action import NO_LOSS, Candidate, Finding, Useless
from flashwright.advice.case import Case

TIMES = (2, 4, 8)
DATA = ("heap", "index", "catalog", "temp", "other")
_WHAT = "Give PostgreSQL larger buffers"


class SharedBuffers:
    """Offers multiples of today's buffers."""

    NAME = "shared_buffers"
    QUESTIONS: tuple[str, ...] = ("How large should shared_buffers be, for fewer writes?",)

    def findings(self, case: Case) -> Iterator[Finding]:
        """See `Action`."""
        if case.database != "postgres":
            return
        data = case.load.share(*DATA)
        if case.load.knows_purposes and data < telling.SMALL:
            why = f"tables and indexes are {telling.share(data)} of what is written"
            yield Useless(self.NAME, _WHAT, why)
            return
        if not telling.has_log(case):
            why = f"tables and indexes are {telling.share(data)} of what is written"
            yield telling.log_missing(case, self.NAME, _WHAT, why)
            return
        now = server_settings.number(case, "shared_buffers")
        for times in TIMES:
            settings = {"shared_buffers": server_settings.as_size(now * times)}
            yield Candidate(
                self.NAME,
                f"shared_buffers({settings['shared_buffers']})",
                f"{_WHAT} ({size(now * times)})",
                server_settings.with_settings(case, settings),
                f"{size(now * (times - 1))} of memory that the page cache has no more, and a "
                "restart",
                NO_LOSS,
                server_settings.altered(settings, needs_restart=True),
                server_settings.put_back(case, settings, needs_restart=True),
                f"Tables and indexes are {telling.share(data)} of what is written; pages that stay "
                f"in buffers longer than in today's {size(now)} are written once for more changes.",
                (
                    f"the machine has {size(now * times)} to spare",
                    *filter(None, (server_settings.said(case, "shared_buffers"),)),
                ),
                settings,
            )
