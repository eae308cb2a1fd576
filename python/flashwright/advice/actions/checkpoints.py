"""Fewer checkpoints: fewer images of pages in the log, and fewer writes of pages."""

from __future__ import annotations

from collections.abc import Iterator

from flashwright.advice.action import Finding
from flashwright.advice.actions.server_settings import Tried, candidates, log_share
from flashwright.advice.case import Case

NAME = "checkpoints"
QUESTIONS = ("Which checkpoint interval, against full-page images?",)
_TRIED = (("15min", "16GB"), ("30min", "32GB"), ("1h", "64GB"))


def findings(case: Case) -> Iterator[Finding]:
    """Give longer intervals, each with the log that it needs."""
    if case.database != "postgres":
        return
    tried = [
        Tried(
            f"checkpoints({timeout})",
            f"A checkpoint each {timeout} (checkpoint_timeout, max_wal_size = {size})",
            {"checkpoint_timeout": timeout, "max_wal_size": size},
            f"recovery after a crash replays up to {timeout} of log; pg_wal may grow to {size}",
        )
        for timeout, size in _TRIED
    ]
    why = f"{log_share(case)}, and each page's first change after a checkpoint is an image of it."
    yield from candidates(case, NAME, "Fewer checkpoints", why, tried)
