"""The drive's own counters, and what they mean for this database."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from flashwright._text import significant, size
from flashwright.advice import questions, telling
from flashwright.advice.action import Finding, NotKnown, Told
from flashwright.advice.case import Case
from flashwright.lifetime import volume
from flashwright.recording.drive_counters import daily_bytes, delta

_HOURS_IN_YEAR = 24 * 365.25


class Smart:
    """Says what SMART counts."""

    NAME = "smart"
    QUESTIONS: tuple[str, ...] = (questions.SMART,)

    def findings(self, case: Case) -> Iterator[Finding]:
        """See `Action`."""
        found = case.counters.get("after") or case.counters.get("before")
        said = [] if not isinstance(found, Mapping) else list(_said(case, found))
        if said:
            yield Told(self.NAME, f"The drive itself counts: {'; '.join(said)}.")
            return
        reasons = "; ".join(str(one) for one in case.counters.get("not_known") or ())
        yield NotKnown(
            self.NAME,
            "What the drive itself counts (SMART)",
            reasons or "the source has none of the drive's counters",
            f"apt-get install smartmontools nvme-cli; smartctl -a {telling.disk(case)}; "
            f"{telling.record(case)}",
        )


def _said(case: Case, found: Mapping[str, Any]) -> Iterator[str]:
    host, media = found.get("host_written_bytes"), found.get("media_written_bytes")
    if host:
        daily = daily_bytes(case.counters)
        rate = "" if daily is None else f", {volume(daily)} a day while it was on"
        yield f"{size(host)} written by hosts in its life{rate}"
    if host and media:
        yield (
            f"{size(media)} programmed, {significant(media / host)} bytes for each "
            f"(simulated for this load: {significant(case.figures.write_amplification)})"
        )
    used, hours = found.get("percentage_used"), found.get("power_on_hours")
    if used is not None:
        left = ""
        if used and hours:
            years = (100 - used) / used * hours / _HOURS_IN_YEAR
            left = (
                f"; as it was used so far, the rest lasts {significant(max(years, 0.0), 2)} years"
            )
        yield f"{used} % of the writes that its maker promises are used{left}"
    elif found.get("life_used_percent_ranges"):
        ranges = ", ".join(f"{low} to {high} %" for low, high in found["life_used_percent_ranges"])
        yield f"of its life {ranges} is used, by kind of flash"
    if found.get("available_spare_percent") is not None:
        yield f"{found['available_spare_percent']} % of its spare blocks are left"
    grown = delta(case.counters, "host_written_bytes")
    if grown:
        yield (
            f"{size(grown)} more during the recording, of which {size(case.load.written_bytes)} "
            "are in it"
        )
