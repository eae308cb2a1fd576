"""A larger buffer of the server, so that pages are written once where they are changed often."""

from __future__ import annotations

from collections.abc import Iterator

from flashwright._text import percent
from flashwright.advice.action import Finding
from flashwright.advice.actions.server_settings import Tried, candidates
from flashwright.advice.case import Case

NAME = "shared_buffers"
QUESTIONS: tuple[str, ...] = ()
_TRIED = ("512MB", "1GB", "4GB")


def findings(case: Case) -> Iterator[Finding]:
    """Give some sizes; how many pages each would write is computed from the log's changes."""
    if case.database != "postgres":
        return
    data = case.load.share("heap", "index")
    why = f"Tables and indexes are {percent(data, 2)} of what the disk is written."
    tried = [
        Tried(
            f"shared_buffers={size}",
            f"A buffer of {size} (shared_buffers)",
            {"shared_buffers": size},
            f"{size} of memory, a restart",
            needs_restart=True,
        )
        for size in _TRIED
    ]
    yield from candidates(case, NAME, "A larger buffer", why, tried)
