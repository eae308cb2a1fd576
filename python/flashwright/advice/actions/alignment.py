"""Whether partition and writes lie on the drive's pages."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from flashwright._text import count, size
from flashwright.advice import drive_facts, telling, traces
from flashwright.advice.action import Finding, NotKnown, Told
from flashwright.advice.case import Case
from flashwright.advice.load import WRITE

PAGE_BYTES = 4096
"""Bytes that drives of today map by."""
MIB = 1 << 20


class Alignment:
    """Says where the partition begins, and how many writes take a part of a page."""

    NAME = "alignment"
    QUESTIONS: tuple[str, ...] = ("Is my partition aligned?",)

    def findings(self, case: Case) -> Iterator[Finding]:
        """See `Action`."""
        requests = traces.load(case.load.path)
        writes = requests.taken(requests.op == WRITE)
        partial = (writes.offset % PAGE_BYTES != 0) | (writes.length % PAGE_BYTES != 0)
        parts = float(np.mean(partial)) if len(partial) else 0.0
        said = (
            f"{telling.share(parts)} of {count(len(partial))} writes take a part of a page of 4 KiB"
        )
        start = case.device.get("start_bytes")
        what = "Whether the partition lies on the drive's pages and erase blocks"
        probe = f"flashwright probe {telling.disk(case)} --write --only alignment"
        if not isinstance(start, int):
            yield Told(self.NAME, f"{said} (from where the source begins).")
            why = "where the partition begins was not recorded"
            yield NotKnown(self.NAME, what, why, f"cat /sys/class/block/PARTITION/start; {probe}")
        elif start % PAGE_BYTES:
            why = (
                f"it begins at byte {start}, which is no multiple of {PAGE_BYTES}: each page lies "
                f"on two of the drive's; {said}. What that costs here is not simulated"
            )
            how = f"{probe}; parted {telling.disk(case)} mkpart data 1MiB 100%, after a backup"
            yield NotKnown(self.NAME, what, why, how)
        else:
            media = drive_facts.profile(case.base.drive).profile["media"]
            page = int(media["page_bytes"])
            mib = "a multiple of 1 MiB" if start % MIB == 0 else "no multiple of 1 MiB"
            own = "a multiple" if start % page == 0 else "no multiple"
            yield Told(
                self.NAME,
                f"The partition begins at byte {start}: {mib}, and {own} of the {size(page)} that "
                f"{case.profile_name} maps by; {said}.",
            )
