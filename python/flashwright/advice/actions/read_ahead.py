"""The kernel's read-ahead."""

from __future__ import annotations

from collections.abc import Iterator

from flashwright._text import size
from flashwright.advice import telling
from flashwright.advice.action import Finding, NotKnown, Useless
from flashwright.advice.case import Case

_WHAT = "Another read-ahead of the kernel"


class ReadAhead:
    """Says how much is read at all."""

    NAME = "read_ahead"
    QUESTIONS: tuple[str, ...] = ("Which read-ahead (blockdev --setra)?",)

    def findings(self, case: Case) -> Iterator[Finding]:
        """See `Action`."""
        read, written = case.load.bytes["read"], case.load.written_bytes
        share = read / (read + written)
        if share < telling.SMALL:
            why = f"{size(read)} are read beside {size(written)} written: {telling.share(share)}"
            yield Useless(self.NAME, _WHAT, why)
            return
        mean = size(read / max(1, case.load.requests["read"]))
        now = case.device.get("read_ahead_kb")
        said = "is not known" if now is None else f"is {now} KiB"
        yield NotKnown(
            self.NAME,
            _WHAT,
            f"{size(read)} are read, {mean} at a time, and the kernel's read-ahead {said}; which "
            "of that nobody wanted, requests do not tell",
            f"blockdev --setra 0 {telling.disk(case)}; {telling.record(case)}; and compare what is "
            "read",
        )
