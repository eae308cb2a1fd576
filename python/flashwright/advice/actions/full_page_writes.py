"""Images of pages left out of the log, where the device is known to write pages whole."""

from __future__ import annotations

from collections.abc import Iterator

from flashwright.advice.action import Finding, Loss, Lost, Told
from flashwright.advice.actions.server_settings import Tried, candidates, log_share
from flashwright.advice.case import Case

NAME = "full_page_writes"
QUESTIONS = (
    "full_page_writes off on a copy-on-write file system?",
    "Atomic writes in place of full-page images or doublewrite?",
)
WHOLE = ("zfs",)
"""File systems that write a page whole or not at all, if their record is a multiple of it."""
TORN = "a page that was torn by a crash stays damaged: the database may be lost"


def findings(case: Case) -> Iterator[Finding]:
    """Give it with what may be lost: next to nothing only where pages are written whole."""
    if case.database != "postgres":
        return
    kind = str(case.file_system.get("type") or "not known")
    assumes: tuple[str, ...] = ()
    if kind in WHOLE:
        loss = Loss(Lost.SECONDS, "nothing, as long as recordsize is 8 KiB or a multiple of it")
        assumes = ("recordsize is a multiple of 8 KiB, and the pool's disks are honest",)
    else:
        loss = Loss(Lost.ANY, TORN)
        yield Told(
            NAME,
            f"full_page_writes has to stay on: the file system ({kind}) is not known to write "
            "pages of 8 KiB whole. Nor is a drive, unless its atomic write unit (nvme id-ns, "
            "nawupf) is 8 KiB and the file system keeps pages together.",
        )
    tried = [
        Tried(
            "full_page_writes=off",
            "No images of pages (full_page_writes = off)",
            {"full_page_writes": "off"},
            "nothing",
            loss,
            assumes=assumes,
        )
    ]
    yield from candidates(case, NAME, "The log without images", f"{log_share(case)}.", tried)
