"""Questions that people ask about databases and flash, most often first, and who answers each."""

from __future__ import annotations

from collections.abc import Sequence

from flashwright.advice.action import Action

LOG_APART = "Should the write-ahead log lie on its own drive?"
FULL_PAGE_WRITES = "full_page_writes off on a copy-on-write file system?"
ATOMIC_WRITES = "Atomic writes in place of full-page images or doublewrite?"
DOUBLEWRITE = "Doublewrite off on an SSD?"
RECORD_SIZE = "Which record size on ZFS?"
WAL_COMPRESSION = "wal_compression: none, lz4, zstd?"
CHECKPOINTS = "Which checkpoint interval, against full-page images?"
TRIM = "discard at mount or fstrim, and how often?"
SPARE = "Leave space unpartitioned, and how much?"
ENDURANCE = "Which endurance class (drive writes a day, terabytes written) do I need?"
POWER_LOSS = "Does power-loss protection matter for fsync?"
FAST_ENOUGH = "Is my disk fast enough for a log (p99 of fdatasync)?"
WHO_WRITES = "What writes so much, and how long will the drive live?"
TINY = "Why does a tiny database write terabytes?"
SQLITE_MODES = "SQLite: synchronous NORMAL or FULL, WAL or journal?"
PAGE_SIZE = "Which page size?"
FILE_SYSTEM = "Which file system?"
FEWER_COMMITS = "How to have fewer commits on an SD card?"
SMART = "What do the SMART figures mean for my database?"
DEPTH = "random_page_cost, effective_io_concurrency: what for this drive?"

PEOPLE_ASK = (
    LOG_APART,
    FULL_PAGE_WRITES,
    ATOMIC_WRITES,
    DOUBLEWRITE,
    RECORD_SIZE,
    WAL_COMPRESSION,
    CHECKPOINTS,
    TRIM,
    SPARE,
    ENDURANCE,
    POWER_LOSS,
    FAST_ENOUGH,
    WHO_WRITES,
    TINY,
    SQLITE_MODES,
    PAGE_SIZE,
    FILE_SYSTEM,
    FEWER_COMMITS,
    SMART,
    DEPTH,
)


def answered_by(actions: Sequence[Action]) -> dict[str, list[Action]]:
    """Give the actions that answer each question, those that people ask first."""
    found: dict[str, list[Action]] = {question: [] for question in PEOPLE_ASK}
    for action in actions:
        for question in action.QUESTIONS:
            found.setdefault(question, []).append(action)
    return found
