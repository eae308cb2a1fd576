"""Images of whole pages in PostgreSQL's log, and what stands in their place."""

from __future__ import annotations

from collections.abc import Iterator

from flashwright.advice import questions, server_settings, telling
from flashwright.advice.action import NO_LOSS, Candidate, Finding, Loss, Lost, NotKnown, Told
from flashwright.advice.case import Case

PAGE_BYTES = 8192
"""Bytes of a page of PostgreSQL, which a power cut must not tear."""
COPY_ON_WRITE = ("zfs", "btrfs")
_TORN = Loss(
    Lost.ANY,
    "a power cut in the middle of a page leaves half of it old, nothing mends it, and the database "
    "is damaged; whatever was in that page may be gone",
)
_WHAT = "Leave whole pages out of the log (full_page_writes = off)"


def writes_pages_whole(case: Case) -> str | None:
    """Say why pages are known to be written whole; None if they are not.

    A file system that copies on write, does so for this database, and has records of a page or
    more. Of those that a log volume holds only sectors are promised.
    """
    kind, options = telling.file_system(case), telling.mount_options(case)
    record = case.file_system.get("record_bytes")
    if kind not in COPY_ON_WRITE or not isinstance(record, int) or record < PAGE_BYTES:
        return None
    if "nodatacow" in options:
        return None
    return f"{kind} writes a changed record of {record} bytes elsewhere, and then all of it counts"


class FullPageWrites:
    """Says what images cost, and whether this file system does without them."""

    NAME = "full_page_writes"
    QUESTIONS: tuple[str, ...] = (questions.FULL_PAGE_WRITES, questions.ATOMIC_WRITES)

    def findings(self, case: Case) -> Iterator[Finding]:
        """See `Action`."""
        if case.database != "postgres":
            return
        yield Told(self.NAME, _atomic(case))
        whole = writes_pages_whole(case)
        if telling.is_on(case.settings, "full_page_writes") is False:
            danger = "" if whole else f". Here {_TORN.says}"
            yield Told(self.NAME, f"full_page_writes is off already: 0 images are written{danger}.")
            return
        if telling.has_log(case):
            yield self._off(case, whole)
        else:
            why = f"the log is {telling.share(case.load.share('wal'))} of what is written"
            yield telling.log_missing(case, self.NAME, _WHAT, why)
        if whole is None and telling.file_system(case) in ("", *COPY_ON_WRITE):
            kind = telling.file_system(case) or "the file system"
            yield NotKnown(
                self.NAME,
                "Whether pages are written whole here, so that images are not needed",
                f"{kind} would have to copy on write in records of {PAGE_BYTES} bytes or more, and "
                "its record size was not recorded",
                f"zfs get recordsize DATASET; lsattr -d {telling.place(case)} (C is no copy on "
                "write); a btrfs of sectors of 4096 bytes does not promise 8192",
            )

    def _off(self, case: Case, whole: str | None) -> Candidate:
        settings = {"full_page_writes": "off"}
        kind = telling.file_system(case) or "a file system that is not known"
        danger = (
            f"{kind} is not known to write pages of {PAGE_BYTES} bytes whole, so it is not advised"
        )
        return Candidate(
            self.NAME,
            "full_page_writes(off)",
            _WHAT,
            server_settings.with_settings(case, settings),
            "nothing" if whole else "nothing but the safety of the data",
            NO_LOSS if whole else _TORN,
            server_settings.altered(settings),
            server_settings.put_back(case, settings),
            f"The log is {telling.share(case.load.share('wal'))} of what is written, a part of it "
            f"images of pages; {whole or danger}.",
            (whole,) if whole else (),
            settings,
        )


def _atomic(case: Case) -> str:
    unit = case.device.get("atomic_write_unit_max_bytes")
    has = (
        "whether this disk has any is not known "
        f"(`cat {telling.queue_file(case, 'atomic_write_unit_max_bytes')}`, from Linux 6.11 on)"
        if not isinstance(unit, int)
        else f"this disk takes {unit} bytes at once as a whole"
        if unit
        else "this disk has none (0 bytes)"
    )
    return (
        "Atomic writes do not stand in for images of pages: PostgreSQL up to version 18 does not "
        f"ask for any; {has}."
    )
