"""Compression of the images of pages in PostgreSQL's log."""

from __future__ import annotations

from collections.abc import Iterator

from flashwright.advice import questions, server_settings, telling
from flashwright.advice.action import NO_LOSS, Candidate, Finding, Useless
from flashwright.advice.case import Case

SINCE_15 = ("lz4", "zstd")
_WHAT = "Compress the images of pages in the log"


class WalCompression:
    """Offers the methods that the server's version has."""

    NAME = "wal_compression"
    QUESTIONS: tuple[str, ...] = (questions.WAL_COMPRESSION,)

    def findings(self, case: Case) -> Iterator[Finding]:
        """See `Action`."""
        if case.database != "postgres":
            return
        log = case.load.share("wal")
        if case.load.knows_purposes and log < telling.SMALL:
            why = f"all of the log is {telling.share(log)} of what is written"
            yield Useless(self.NAME, _WHAT, why)
        elif telling.is_on(case.settings, "full_page_writes") is False:
            yield Useless(self.NAME, _WHAT, "full_page_writes is off: there are 0 images")
        elif not telling.has_log(case):
            why = f"the log is {telling.share(log)} of what is written"
            yield telling.log_missing(case, self.NAME, _WHAT, why)
        else:
            yield from self._methods(case, log)

    def _methods(self, case: Case, log: float) -> Iterator[Candidate]:
        version = server_settings.version(case)
        now = str(case.settings.get("wal_compression", "off")).lower()
        now = {"on": "pglz", "true": "pglz", "false": "off"}.get(now, now)
        as_now = "not compressed today" if now == "off" else f"compressed by {now} today"
        methods = ("pglz",) if version is not None and version < 15 else (*SINCE_15, "pglz")
        for method in methods:
            if method == now:
                continue
            settings = {"wal_compression": "on" if methods == ("pglz",) else method}
            built = (
                (f"the server was built with {method} (`pg_config --configure`)",)
                if method in SINCE_15
                else ()
            )
            recent = ("it is version 15 or newer",) if version is None and built else ()
            yield Candidate(
                self.NAME,
                f"wal_compression({method})",
                f"{_WHAT} by {method}",
                server_settings.with_settings(case, settings),
                "processor time for each image",
                NO_LOSS,
                server_settings.altered(settings),
                server_settings.put_back(case, settings),
                f"The log is {telling.share(log)} of what is written, {as_now}; the recorded "
                "images themselves are compressed for this.",
                (*built, *recent),
                settings,
            )
