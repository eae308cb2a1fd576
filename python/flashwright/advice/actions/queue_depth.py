"""What the drive says to a planner: random and sequential reads, and how deep reads pay."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from flashwright import drive_runs
from flashwright._text import significant
from flashwright.advice.action import Finding, Told
from flashwright.advice.case import Case
from flashwright.devices import DriveProfile

NAME = "queue_depth"
QUESTIONS = ("random_page_cost, effective_io_concurrency: what for this drive?",)
_DEPTHS = (1, 2, 4, 8, 16, 32, 64, 128)
_REQUESTS = 2000
_PAGE = "8Ki"
_ENOUGH = 0.9
"""Share of the most reads a second that is worth no deeper queue."""


def findings(case: Case) -> Iterator[Finding]:
    """Give the ratio of a random to a sequential page, and the depth that reads profit from."""
    if case.database not in (None, "postgres"):
        return
    drive = case.base.drive
    random_s, sequential_s, by_depth = _measured(drive.profile, drive.overrides)
    most = max(by_depth.values())
    depth = next(one for one in _DEPTHS if by_depth[one] >= _ENOUGH * most)
    yield Told(
        NAME,
        f"A random page costs {significant(random_s / sequential_s, 2)} times a sequential one on "
        f"this kind of drive with one read at a time (random_page_cost, with seq_page_cost = 1). "
        f"With {depth} reads outstanding it reads {significant(by_depth[depth] / by_depth[1], 2)} "
        f"times as many pages a second, and hardly more with more: effective_io_concurrency = "
        f"{depth}. Simulated; pages that the cache holds cost neither.",
    )


@cache
def _measured(profile: str, overrides: tuple[str, ...]) -> tuple[float, float, dict[int, float]]:
    """Give seconds of a random and of a sequential page, and random pages a second by depth."""
    toml = DriveProfile.load(profile, overrides).toml

    def rate(pattern: str, depth: int) -> float:
        pace = {"closed": {"depth": depth}}
        found = drive_runs.run(toml, pattern, requests=_REQUESTS, pace=pace)
        return float(found["iops"])

    by_depth = {depth: rate(f"io:random(reads=1,size={_PAGE})", depth) for depth in _DEPTHS}
    sequential = rate(f"io:sequential(reads=1,size={_PAGE})", 1)
    return 1 / by_depth[1], 1 / sequential, by_depth
