"""Which endurance class the load needs, and what the drive's own counters mean for it."""

from __future__ import annotations

from collections.abc import Iterator

from flashwright._text import significant
from flashwright.advice.action import Finding, NotKnown, Told
from flashwright.advice.case import Case
from flashwright.lifetime import volume

NAME = "endurance_class"
QUESTIONS = (
    "Which endurance class (drive writes a day, terabytes written) do I need?",
    "What do the SMART figures mean for my database?",
)
_YEARS = 5
"""Years that makers promise drive writes a day for."""


def findings(case: Case) -> Iterator[Finding]:
    """Say what the host writes a day, as drives are sold, and how far the drive's counters are."""
    yield from _needed(case)
    yield from _counters(case)


def _needed(case: Case) -> Iterator[Finding]:
    capacity = case.base.drive.capacity_bytes
    if case.writes_per_day is None or capacity is None:
        yield NotKnown(
            NAME,
            "Which endurance class is needed",
            "what a day brings is not known"
            if case.writes_per_day is None
            else "the size of the disk is not known",
            "--writes-per-day 40G and --size 256G tell.",
        )
        return
    daily = case.writes_per_day
    total = daily * 365.25 * _YEARS
    yield Told(
        NAME,
        f"The host writes {significant(daily / capacity, 2)} of the disk a day: over {_YEARS} "
        f"years {significant(total / 1e12)} TB ({volume(daily)} a day, {case.rate_said}). A drive "
        "whose maker promises at least that many drive writes a day (or terabytes written) keeps "
        "its warranty; the promise holds for a write amplification of the maker's own choice.",
    )


def _counters(case: Case) -> Iterator[Finding]:
    after = case.counters.get("after") or {}
    used = after.get("percentage_used")
    if used is None:
        yield NotKnown(
            NAME,
            "What the drive has used of its life",
            "its own counters are not in the source",
            "`flashwright record --database KIND PATH --light` as root reads them (nvme-cli, "
            "smartmontools).",
        )
        return
    written, media = after.get("host_written_bytes"), after.get("media_written_bytes")
    said = f"The drive says that {used} % of its rated life is used"
    if written and media:
        said += (
            f"; over its life it programmed {significant(media / written)} bytes for each that it "
            f"was written, and {significant(case.figures.write_amplification)} are simulated for "
            "this load"
        )
    yield Told(NAME, f"{said}.")
