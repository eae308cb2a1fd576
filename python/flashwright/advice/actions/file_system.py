"""The file system: how much its own writes are, which bounds what another one could save."""

from __future__ import annotations

from collections.abc import Iterator

from flashwright._text import percent, size
from flashwright.advice.action import Finding, NotKnown, Told, Useless
from flashwright.advice.case import Case

NAME = "file_system"
QUESTIONS = ("Which file system?", "Which record size on ZFS?", "Doublewrite off on an SSD?")
_SMALL = 0.05
_ALIGNED = 1 << 20


def findings(case: Case) -> Iterator[Finding]:
    """Bound what another file system could save, and look at where the partition begins."""
    what = "Another file system"
    if not case.load.knows_purposes:
        yield NotKnown(
            NAME,
            what,
            "the source does not say which requests are the file system's own",
            "`flashwright record --database KIND PATH` does.",
        )
    else:
        share = case.load.share("journal", "metadata")
        kind = str(case.file_system.get("type") or "the file system")
        if share < _SMALL:
            yield Useless(
                NAME,
                what,
                f"{kind}'s own journal and metadata are {percent(share, 2)} of what the disk is "
                "written, and no other saves more than that",
            )
        else:
            yield NotKnown(
                NAME,
                what,
                f"{kind}'s own journal and metadata are {percent(share, 2)} of what the disk is "
                "written; how much another one would write was not recorded",
                "`flashwright bench WORKLOAD --record DIR --on 'volume(xfs)'` records the same on "
                "another.",
            )
    yield NotKnown(
        NAME,
        "Record size of ZFS, doublewrite of MySQL",
        "neither is in what was recorded here",
        "Record the database on it; then their parts show.",
    )
    start = case.device.get("start_bytes")
    if start is not None and int(start) % _ALIGNED:
        yield Told(
            NAME,
            f"The partition begins at {size(int(start))}, which is no multiple of 1 MiB: pages of "
            "the database may lie across two of the drive's.",
        )
