"""The kernel's I/O scheduler."""

from __future__ import annotations

from collections.abc import Iterator

from flashwright.advice import telling
from flashwright.advice.action import Finding, NotKnown, Useless
from flashwright.advice.case import Case

_WHAT = "Take another I/O scheduler"


class IoScheduler:
    """Says which one there is; what another brings is to be measured."""

    NAME = "io_scheduler"
    QUESTIONS: tuple[str, ...] = ("Which I/O scheduler: none, mq-deadline, kyber, bfq?",)

    def findings(self, case: Case) -> Iterator[Finding]:
        """See `Action`."""
        now, depth = case.device.get("scheduler"), case.device.get("nr_requests")
        file = telling.queue_file(case, "scheduler")
        if now == "none":
            why = (
                f"it is none: requests go to the disk as they come ({depth or 'up to 1023'} queued)"
            )
            yield Useless(self.NAME, _WHAT, why)
            return
        why = (
            f"it is {now}; the simulated drive gets requests as the disk got them, behind it"
            if now
            else "which one there is was not recorded"
        )
        how = f"echo none > {file}; {telling.record(case)}; and compare the commits of both"
        yield NotKnown(self.NAME, _WHAT, why, how)
