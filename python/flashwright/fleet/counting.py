"""A volume through several policies and sizes of spare space: a kind of job, see `engine.task`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from flashwright import _core, sources
from flashwright._core import InputError, RunError
from flashwright.engine.task import Found, Scalar
from flashwright.runs import table
from flashwright.sources import Reading

if TYPE_CHECKING:
    from flashwright._core import Progress, Workload

KIND = "flashwright.fleet.counting"
COUNTS = "counts"
PASSES = 4
"""A volume is played until it has written its pages so many times: then most are steady."""
MOST_REPEATS = 64
LEAST_ERASE_BLOCKS = 64
"""Erase blocks of a volume's data at least: those of a small volume have fewer pages."""
_LEAST_PAGES = 4
_MEMORY_BYTES = 1 << 30
"""Of page writes that a job holds: a volume that is written more is read again for each row."""
FIGURES = ("pages", "page_writes", "one_in", "repeat", "pages_per_erase_block")
"""What is known of a volume, beside its rows."""
_OF_A_ROW = (
    "write_amplification",
    "write_amplification_low",
    "write_amplification_high",
    "steady",
    "erases",
)


def erase_block_pages(most: int, pages: int) -> int:
    """Give the pages of an erase block: a power of two below `most` for a small volume."""
    fitting = max(_LEAST_PAGES, 1 << int(math.log2(max(1, pages // LEAST_ERASE_BLOCKS))))
    return min(most, fitting)


def do(settings: Mapping[str, Any], progress: Progress) -> Found:
    """See `Kind`: one row for each policy and over-provisioning."""
    if not settings["writes"]:
        return Found(dict.fromkeys(FIGURES, 0), {COUNTS: _table([])})
    source = settings["source"]
    reading = Reading(page_size=settings["page_size"], sample=settings["sample"])
    once = sources.load(source, reading, progress, _MEMORY_BYTES)
    needed = math.ceil(PASSES * once.logical_pages / once.page_writes)
    repeat = min(MOST_REPEATS, max(1, needed))
    workload = once if repeat == 1 else once.repeated(repeat)
    block = erase_block_pages(settings["pages_per_erase_block"], once.logical_pages)
    rows = [
        _row(workload, pair, share, block, settings, progress)
        for share in settings["over_provisionings"]
        for pair in settings["policies"]
    ]
    figures: dict[str, Scalar] = {
        "pages": once.whole_pages,
        "page_writes": once.whole_page_writes,
        "one_in": once.one_in,
        "repeat": repeat,
        "pages_per_erase_block": block,
    }
    return Found(figures, {COUNTS: _table(rows)})


def _row(
    workload: Workload,
    policy: tuple[str, str],
    over_provisioning: float,
    block: int,
    settings: Mapping[str, Any],
    progress: Progress,
) -> dict[str, Any]:
    placement, victim = policy
    row = {"placement": placement, "victim": victim, "over_provisioning": over_provisioning}
    try:
        found = _core.simulate(
            workload,
            placement=placement,
            victim=victim,
            over_provisioning=over_provisioning,
            pages_per_erase_block=block,
            start=settings["start"],
            seed=settings["seed"],
            progress=progress,
        )
    except (InputError, RunError) as error:
        # One that a volume is too small for is no reason to lose the others.
        return {**row, "error": str(error)}
    return {**row, **{name: found[name] for name in _OF_A_ROW}, "error": None}


def _table(rows: list[dict[str, Any]]) -> Any:
    names = ("placement", "victim", "over_provisioning", *_OF_A_ROW, "error")
    return table({name: [row.get(name) for row in rows] for name in names})
