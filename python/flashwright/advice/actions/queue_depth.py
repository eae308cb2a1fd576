"""Parallel reads of the drive, and what the planner should know of it."""

from __future__ import annotations

from collections.abc import Iterator

from flashwright._core import FlashwrightError
from flashwright._text import count, significant, span
from flashwright.advice import drive_facts, questions
from flashwright.advice.action import Finding, NotKnown, Told
from flashwright.advice.case import Case

_ENOUGH = 0.9


class QueueDepth:
    """Measures reads at several depths on the simulated drive."""

    NAME = "queue_depth"
    QUESTIONS: tuple[str, ...] = (questions.DEPTH,)

    def findings(self, case: Case) -> Iterator[Finding]:
        """See `Action`."""
        drive = case.base.drive
        try:
            found = drive_facts.reads(drive)
        except FlashwrightError as error:
            how = f"flashwright probe {case.profile_name} --only depth_read,throughput_read"
            what = "random_page_cost and effective_io_concurrency for this drive"
            yield NotKnown(self.NAME, what, str(error), how)
            return
        ratio, depth = found.random_over_sequential, found.enough(_ENOUGH)
        gain = max(found.random) / found.random[0]
        by_depth = ", ".join(
            f"{number}: {count(iops)}"
            for number, iops in zip(drive_facts.DEPTHS, found.random, strict=True)
        )
        said = (
            f"On {case.profile_name} a read of 8 KiB takes {span(1 / found.random[0])} at random, "
            f"{significant(ratio, 2)} times as long as in sequence. Reads a second by depth: "
            f"{by_depth}; {depth} outstanding give {_ENOUGH:.0%} of the most, "
            f"{significant(gain, 2)} times one at a time."
        )
        if case.database == "postgres":
            said += (
                f" So random_page_cost = {significant(max(1.0, ratio), 2)} for what is not cached, "
                f"with seq_page_cost = 1, and effective_io_concurrency = {depth}: ALTER SYSTEM SET "
                "both, and RESET to undo. The kernel's read-ahead, which makes sequences cheaper "
                "still, is not in it."
            )
        elif case.database == "sqlite":
            said += " SQLite reads one page at a time, and has 1 outstanding for each connection."
        yield Told(self.NAME, said)
