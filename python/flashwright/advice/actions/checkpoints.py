"""The interval of checkpoints: fewer images of pages, fewer writes of the same page."""

from __future__ import annotations

import math
from collections.abc import Iterator

from flashwright._text import size, span
from flashwright.advice import questions, server_settings, telling
from flashwright.advice.action import NO_LOSS, Candidate, Finding, NotKnown, Useless
from flashwright.advice.case import Case

INTERVALS = (900.0, 1800.0, 3600.0)
TIMES = (3, 6, 12)
"""Multiples of today's interval: of the default, 5 min, they are INTERVALS."""
LONGER = 1.5
"""Times as long as today that an interval has to be to be tried."""
SEEN = 2
"""Intervals that a recording has to hold: of one that is longer it does not tell which pages are
written again.
"""
MOST = 3
_MARGIN = 1.1
_WHAT = "Make checkpoints less often"
_DAY_S = 86_400


class Checkpoints:
    """Offers longer intervals, with the room for the log that they need."""

    NAME = "checkpoints"
    QUESTIONS: tuple[str, ...] = (questions.CHECKPOINTS,)

    def findings(self, case: Case) -> Iterator[Finding]:
        """See `Action`."""
        if case.database != "postgres":
            return
        rate = _log_rate(case)
        if not rate:
            why = f"the disk got 0 bytes of a log in {span(case.load.seconds)}"
            yield Useless(self.NAME, _WHAT, why)
            return
        now = _interval(case, rate)
        if not telling.has_log(case):
            yield telling.log_missing(
                case, self.NAME, _WHAT, f"a checkpoint comes each {span(now)} at this rate of log"
            )
            return
        wanted = sorted(
            {one for one in INTERVALS if one >= LONGER * now} | {n * now for n in TIMES}
        )
        wanted = [one for one in wanted if one <= _DAY_S]
        told = [one for one in wanted if case.load.seconds >= SEEN * one]
        for interval in told[-MOST:]:
            yield self._each(case, interval, now, rate)
        rest = [one for one in wanted if one not in told]
        if rest:
            why = (
                f"{span(case.load.seconds)} were recorded, which do not tell which pages are "
                f"written again within {span(rest[0])}; today a checkpoint comes each {span(now)}"
            )
            how = telling.record(case, f"{math.ceil(SEEN * rest[0] / 60)}m")
            yield NotKnown(self.NAME, f"{_WHAT}, each {span(rest[0])} or more", why, how)

    def _each(self, case: Case, interval: float, now: float, rate: float) -> Candidate:
        target = server_settings.number(case, "checkpoint_completion_target")
        need = _MARGIN * rate * interval * (1 + target)
        room = max(server_settings.number(case, "max_wal_size"), need)
        timeout = max(interval, server_settings.number(case, "checkpoint_timeout"))
        room = math.ceil(room / (256 << 20)) * (256 << 20)
        settings = {
            "checkpoint_timeout": server_settings.as_time(timeout),
            "max_wal_size": server_settings.as_size(room),
        }
        left = rate * interval * (1 + target)
        return Candidate(
            self.NAME,
            f"checkpoints({server_settings.as_time(interval)})",
            f"{_WHAT}, each {span(interval)}",
            server_settings.with_settings(case, settings),
            f"up to {size(room)} for the log, and after a crash up to {size(left)} of it to replay",
            NO_LOSS,
            server_settings.altered(settings),
            server_settings.put_back(case, settings),
            f"A checkpoint comes each {span(now)} today, and after each the first change of a page "
            f"puts all of it into the log, which is {telling.share(case.load.share('wal'))} of "
            "what is written.",
            tuple(filter(None, (server_settings.said(case, "checkpoint_timeout"),))),
            settings,
        )


def _log_rate(case: Case) -> float:
    """Give the bytes of log a second, as the disk gets them: pages that are filled twice count so.

    So room that is reckoned with it is enough.
    """
    return case.load.written_by.get("wal", 0) / case.load.seconds if case.load.seconds else 0.0


def _interval(case: Case, rate: float) -> float:
    """Give the seconds between checkpoints: by time, or by the log's size if that comes first."""
    target = server_settings.number(case, "checkpoint_completion_target")
    by_size = server_settings.number(case, "max_wal_size") / (1 + target) / rate
    return min(server_settings.number(case, "checkpoint_timeout"), by_size)
