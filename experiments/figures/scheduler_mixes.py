"""SCHEDULER figures 4.20-4.31: reads among writes, in shares from none to all (4.3.3)."""

from __future__ import annotations

from functools import partial
from typing import Any

from experiments.figures.drawing import (
    Drawing,
    Mark,
    Shape,
    chart,
    points,
    probed,
    value,
    verdict,
)
from experiments.figures.scheduler_drives import DRIVES, INTEL, LONG, WHOLE

MUCH = 1.5
"""Times from which on something counts as much slower: the paper gives no number."""
LEAST = 0.01
"""Share by which a response time has to differ to count as shorter."""


def mixing(profile: str) -> dict[str, Any]:
    """Give the throughput and response times of reads among writes, by the share of reads."""
    return probed(profile).find(f"mix({WHOLE})", LONG.get(profile, 1) * 240)


def _tub(profile: str, access: str, *, is_tub: bool) -> tuple[str, bool | None]:
    """Say whether the middle is worse than both ends; nothing if the prober is not sure.

    A sequential mix has to be `MUCH` worse.
    """
    found = mixing(profile)
    keys = "mb_per_second", "over_worse_end"
    rate, ends = (value(found, f"{access}_mix_lowest_{key}") for key in keys)
    text = f"lowest between the ends: {rate:.2f} MB/s, {ends:.2f} of the worse end"
    if verdict(found, f"{access}_bathtub") == "sure":
        has_tub = value(found, f"{access}_bathtub") == "yes"
        return text, has_tub == is_tub and (access == "random" or ends <= 1 / MUCH)
    low, high = next(
        one["interval"] for one in found["values"] if one["key"] == f"{access}_mix_lowest_{keys[1]}"
    )
    return f"{text} (95 % interval {low:.2f} to {high:.2f})", None


def _worst(profile: str, access: str) -> tuple[str, bool]:
    share = value(mixing(profile), f"{access}_mix_lowest_reads_share")
    return f"at {share:.0%}", 0.4 <= share <= 0.6


def _times(profile: str, access: str, of: str) -> dict[float, float]:
    return points(chart(mixing(profile), f"mix_{access}_response_time"), of)


def _reads(profile: str, access: str) -> tuple[str, bool]:
    reads = _times(profile, access, "reads")
    least = MUCH if access == "sequential" else 1 + LEAST
    ratio = reads[50.0] / reads[100.0]
    text = f"{reads[50.0]:.0f} us at 50 %, {reads[100.0]:.0f} alone: {ratio:.2f} times"
    return text, ratio >= least


def _writes(profile: str, access: str) -> tuple[str, bool]:
    writes = _times(profile, access, "writes")
    places = [writes[share] for share in (0.0, 10.0, 50.0, 90.0)]
    text = "{:.0f} us alone, {:.0f} at 10 % reads, {:.0f} at 50 %, {:.0f} at 90 %".format(*places)
    return text, places[-1] <= (1 - LEAST) * places[0]


def _throughput(number: str, profile: str, access: str) -> Drawing:
    """Figures 4.20-4.22 and 4.26-4.28."""
    drive = DRIVES[profile]
    is_sequential = access == "sequential"
    is_tub = is_sequential or profile != INTEL
    said = "better at either side" if is_tub else "not better at either side"
    shapes = [
        Shape(
            f"{drive}: throughput of a {access} mix",
            "4.3.3",
            f"much {said} (here: {MUCH} times)" if is_sequential else said,
            partial(_tub, profile, access, is_tub=is_tub),
        )
    ]
    marks = []
    if is_sequential:
        marks.append(Mark("published: worst at 50 % reads", x=50))
        shapes.append(
            Shape(
                f"{drive}: a {access} mix is worst",
                "4.3.3",
                "at 50 % reads",
                partial(_worst, profile, access),
            )
        )
    return Drawing(
        number,
        f"throughput of a {access} mix of reads and writes, {drive}",
        profile,
        partial(_chart, profile, access, "throughput"),
        marks,
        shapes=shapes,
    )


def _response(number: str, profile: str, access: str) -> Drawing:
    """Figures 4.23-4.25 and 4.29-4.31."""
    drive = DRIVES[profile]
    is_sequential = access == "sequential"
    shapes = [
        Shape(
            f"{drive}: reads of a {access} mix against reads alone",
            "4.3.3",
            f"much slower (here: {MUCH} times or more)" if is_sequential else "slower",
            partial(_reads, profile, access),
        ),
        Shape(
            f"{drive}: writes of a {access} mix by the share of reads",
            "4.3.3",
            "slightly faster with more reads" if is_sequential else "faster with more reads",
            partial(_writes, profile, access),
        ),
    ]
    return Drawing(
        number,
        f"response times of a {access} mix of reads and writes, {drive}",
        profile,
        partial(_chart, profile, access, "response_time"),
        shapes=shapes,
    )


def _chart(profile: str, access: str, what: str) -> dict[str, Any]:
    return chart(mixing(profile), f"mix_{access}_{what}") | {"marks": []}


def mixes() -> list[Drawing]:
    """Give figures 4.20-4.31 in the order of their numbers."""
    found: list[Drawing] = []
    for access in ("sequential", "random"):
        for draw in (_throughput, _response):
            for profile in DRIVES:
                found.append(draw(f"4.{20 + len(found)}", profile, access))
    return found
