"""What a change gains over how things stand, for each goal."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from flashwright._text import percent, significant
from flashwright.advice.case import Case
from flashwright.advice.setup import Figures, Interval

UNITS = {
    "life": "less flash wear",
    "latency": "shorter commits (99th percentile)",
    "throughput": "more commits a second",
}
"""What a gain is a share of, for each goal."""
NOTICED = 0.03
"""Least gain that is worth a line."""
LEAST_THROUGHPUT, MOST_LATENCY, MOST_WEAR = 0.8, 2.0, 2.0
"""Multiples of commits a second, their 99th percentile and flash bytes that nobody would accept for
a gain of another kind.
"""


@dataclass(frozen=True)
class Gain:
    """Figures of a change as multiples of today's; NaN where one is not known."""

    flash: Interval
    """Bytes that the flash programs."""
    wear: Interval
    """Share of its life that the load takes of the drive that wears out first."""
    latency: float
    """99th percentile of the wait for the drive of a commit."""
    wait: float
    """Mean of that wait."""
    throughput: float
    """Commits a second of clients that wait for them."""

    def of(self, goal: str) -> Interval:
        """Give the gain for a goal as a share: 0.25 is a quarter better, below 0 is worse.

        A quarter less wear, a quarter less latency, a quarter more throughput.
        """
        if goal == "latency":
            return Interval(1 - self.latency)
        if goal == "throughput":
            return Interval(self.throughput - 1)
        worn = self.wear if self.wear.value > 0 else self.flash
        low = None if worn.high is None else 1 - worn.high
        return Interval(1 - worn.value, low, None if worn.low is None else 1 - worn.low)

    def document(self) -> dict[str, Any]:
        """Give it for a result."""
        return {
            "flash_bytes": self.flash.document(),
            "wear": self.wear.document(),
            "commit_p99": self.latency,
            "commit_mean": self.wait,
            "throughput": self.throughput,
        }


def gain_of(case: Case, after: Figures, before: Figures | None = None) -> Gain:
    """Give what figures gain over those `before`, or over the case as it stands."""
    before = before or case.figures
    latency = wait = throughput = math.nan
    if before.commits is not None and after.commits is not None and before.commits.mean > 0:
        wait = after.commits.mean / before.commits.mean
        latency = after.commits.p99 / before.commits.p99 if before.commits.p99 else math.nan
        if case.loop is not None:
            throughput = case.loop.gain(wait if after.commits.mean > 0 else None)
    worn = before.life_share()
    wear = after.life_share().over(worn) if worn.value > 0 else Interval(math.nan)
    return Gain(after.flash_bytes.over(before.flash_bytes), wear, latency, wait, throughput)


def costs_too_much(gain: Gain, goal: str) -> bool:
    """Tell whether a change takes more from the other goals than this one is worth."""
    slower = goal != "throughput" and gain.throughput < LEAST_THROUGHPUT
    later = goal == "life" and gain.latency > MOST_LATENCY and gain.throughput < 1
    wears = goal != "life" and gain.flash.value > MOST_WEAR
    return slower or later or wears


def is_worth(found: Interval) -> bool:
    """Tell whether a gain is NOTICED or more, and above 0 at the low end of its interval."""
    surely = found.low is None or found.low > 0
    return found.value >= NOTICED and surely


def share(value: float) -> str:
    """Give a share of 1 as per cent in two digits."""
    return percent(abs(value), 2)


def interval(found: Interval) -> str:
    """Give a share with its interval; the value alone where nothing is known of it."""
    said = share(found.value)
    if found.low is None or found.high is None or found.high - found.low < 0.005:
        return said
    return f"{said} ({_signed(found.low)} to {_signed(found.high)})"


def _signed(value: float) -> str:
    return f"{'−' if value < 0 else ''}{percent(abs(value), 2)}"  # noqa: RUF001  (a minus)


def gain_said(gain: Gain, goal: str) -> str:
    """Say what a change gains for a goal, and what it does to the rest."""
    found = gain.of(goal)
    if math.isnan(found.value):
        return "not known: commits do not show in this source"
    if abs(found.value) < 0.005:
        return f"no {UNITS[goal]}"
    if found.value > 0:
        return f"{interval(found)} {UNITS[goal]}"
    worse = {"life": "more flash wear", "latency": "longer commits (99th percentile)"}
    return f"{share(found.value)} {worse.get(goal, 'fewer commits a second')}"


def beside(gain: Gain, goal: str) -> str:
    """Say what a change does to the other goals, as far as it shows."""
    parts = []
    if goal != "life" and abs(gain.flash.value - 1) >= 0.02:
        parts.append(f"flash bytes x {significant(gain.flash.value, 2)}")
    if goal != "latency" and not math.isnan(gain.latency) and abs(gain.latency - 1) >= 0.05:
        parts.append(f"commit p99 x {significant(gain.latency, 2)}")
    known = goal != "throughput" and not math.isnan(gain.throughput)
    if known and abs(gain.throughput - 1) >= 0.02:
        parts.append(f"commits a second x {significant(gain.throughput, 2)}")
    return ", ".join(parts)
