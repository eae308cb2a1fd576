"""Compression of the images of pages in the log."""

from __future__ import annotations

from collections.abc import Iterator

from flashwright.advice.action import Finding
from flashwright.advice.actions.server_settings import Tried, candidates, log_share
from flashwright.advice.case import Case

NAME = "wal_compression"
QUESTIONS = ("wal_compression: none, lz4, zstd?",)


def findings(case: Case) -> Iterator[Finding]:
    """Give each method; images of the recorded log are compressed with it here."""
    if case.database != "postgres":
        return
    tried = [
        Tried(
            f"wal_compression={method}",
            f"Compress images of pages with {method} (wal_compression = {method})",
            {"wal_compression": method},
            "processor time for each image",
            assumes=() if method == "pglz" else (f"the server was built with {method}",),
        )
        for method in ("lz4", "zstd", "pglz")
    ]
    yield from candidates(case, NAME, "Compression of images", f"{log_share(case)}.", tried)
