"""Stacks that are tried where none is named: what each costs and risks, and which is right.

They are those of the registry that may make a device faster. Forms that depend on the device, such
as where a log has its summaries, are `auto`, and follow what is known of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flashwright import _core
from flashwright._core import InputError
from flashwright._text import percent, significant
from flashwright.layering.facts import AS_FAST_AT_RANDOM, Facts
from flashwright.layering.verdict import NOTICED

IN_SEGMENTS = "summaries=segments"
AS_GOOD = 0.05
"""Of two stacks whose gains differ by less, that with fewer layers is taken."""


@dataclass(frozen=True)
class Candidate:
    """A stack that may make a device faster."""

    stack: str
    """As `volume create` takes it."""
    cost: str
    risk: str
    played: str = ""
    """As a trace is played on it, if that differs: like a volume that is in use."""


_LOG_COST = (
    "10 % of the device as spare space, some 24 bytes of memory a page, and pages that cleaning "
    "moves once all is written"
)
_LOG_RISK = (
    "only the log's own tables say where pages lie: if all copies of them rot, `volume info "
    "--salvage` copies out what is left"
)
CANDIDATES = (
    Candidate(
        "scheduler(coalesce)",
        "memory for the writes that it holds until a flush",
        "none beyond that of any write cache: what no flush covers is lost with the power",
    ),
    Candidate(
        "stable_buffer",
        "each page is written twice, to a slot and to its place, and the slots take a part of the "
        "device",
        "the newest pages lie in slots alone until they are flushed: the device without its layers "
        "holds older ones",
    ),
    Candidate("log_volume", _LOG_COST, _LOG_RISK, "log_volume(filled=yes)"),
    Candidate(
        "scheduler(coalesce)|log_volume",
        f"{_LOG_COST}; memory for the writes that are held",
        _LOG_RISK,
        "scheduler(coalesce)|log_volume(filled=yes)",
    ),
    Candidate(
        "replicas",
        "copies of pages are written beside them, and take a part of the device",
        "none: copies are given up first",
    ),
)
NOT_TRIED = {
    "checksums": "it makes nothing faster: it finds what rots",
    "holes": "it makes nothing faster: what is trimmed reads as zeros",
}
"""Layers of the registry that no candidate has, and why."""
SEGMENTS_COST = (
    "; as summaries lie in the segments, two pages of each segment and of each commit, up to "
    "256 MiB that are read after a crash, more spare pages, so that a small volume holds less, and "
    "a form that stays as it was made"
)


def by_played(text: str) -> Candidate | None:
    """Give the candidate that was played as this stack, in any form; None if it is none."""
    plain = re.sub(r"\(summaries=\w+\)|,summaries=\w+", "", text)
    return next((one for one in CANDIDATES if plain in (one.stack, one.played)), None)


def playable(facts: Facts, *, with_data: bool) -> tuple[str, ...]:
    """Give the stacks that a trace is played on, in the forms that the device gets.

    With data a log begins empty, as its pages have to be written to be read.
    """
    texts = (one.stack if with_data or not one.played else one.played for one in CANDIDATES)
    return tuple(_core.settled_stack(text, facts=facts.values) for text in texts)


def choice(rows: Sequence[Mapping[str, Any]], facts: Mapping[str, Any]) -> dict[str, Any]:
    """Say which of the stacks that were tried on a device is right for the trace.

    `rows` are judged. Gives `stack` (None for the device alone), `times_faster`, `capacity_lost`
    (a share), `cost`, `risk`, `headline`, and `line`, all of it.
    """
    judged = [row for row in rows if row["verdict"] and row["verdict"]["times_faster"] is not None]
    direct = next((row for row in rows if row["stack"] == "direct"), None)
    best = max(judged, key=lambda row: row["verdict"]["times_faster"], default=None)
    if best is None or direct is None:
        line = "Nothing was written, so that no stack is better than another."
        return {"stack": None, "times_faster": None, "headline": line, "line": line}
    most = best["verdict"]["times_faster"]
    if most <= 1 + NOTICED:
        line = (
            f"Right for this trace is the device alone: the best of {len(judged)} stacks, "
            f"{best['stack']}, is {significant(most)} times as fast."
        )
        return {"stack": None, "times_faster": most, "headline": line, "line": line}
    near = [row for row in judged if row["verdict"]["times_faster"] >= most * (1 - AS_GOOD)]
    best = min(near, key=lambda row: (row["stack"].count("|"), -row["verdict"]["times_faster"]))
    candidate = by_played(best["stack"])
    if candidate is None:
        raise AssertionError("what was tried is a candidate")
    stack = _core.settled_stack(candidate.stack, facts=facts["values"])
    cost = candidate.cost + (SEGMENTS_COST if IN_SEGMENTS in stack else "")
    lost = 1 - best["capacity_bytes"] / direct["capacity_bytes"]
    headline = f"Right for this trace is {stack}: {best['verdict']['summary']}."
    line = (
        f"{headline} It costs {cost}; {percent(max(lost, 0.0), 2)} of the capacity is gone. Its "
        f"risk: {candidate.risk}."
    )
    return {
        "stack": stack,
        "times_faster": best["verdict"]["times_faster"],
        "capacity_lost": lost,
        "cost": cost,
        "risk": candidate.risk,
        "headline": headline,
        "line": line,
    }


WHAT_IT_TAKES = (
    "`flashwright probe DEVICE --write --only write_patterns` measures it before anything is on "
    "the device, and --facts takes its run folder; or name --stack"
)


RING_OF_UNKNOWN = (
    "The log keeps its summaries in a ring, as nothing is known of how the device writes: on a "
    "card that takes turns between two places badly, summaries=segments is tens of times faster. "
    "With --facts, the run folder of a probe, the form is chosen."
)


def is_log_in_a_ring(stack: str) -> bool:
    """Tell whether a stack has a log whose form nobody chose."""
    return "log_volume" in _core.check_stack(stack) and "summaries=" not in stack


@dataclass(frozen=True)
class Advice:
    """A stack by what is known of a device alone, without a trace."""

    stack: str
    line: str


def by_facts(facts: Facts) -> Advice:
    """Say which stack is right by what was measured of a device, or that nothing is known.

    A trace is not known here, so that a gain is that of a write at random at the most.
    """
    ratio = facts.random_over_sequential
    if ratio is None:
        return Advice(
            "direct",
            f"No layers, as nothing is known of how the device writes: {WHAT_IT_TAKES}.",
        )
    if ratio <= AS_FAST_AT_RANDOM:
        return Advice(
            "direct",
            f"No layers: a write at random takes {significant(ratio)} times as long as one in "
            "sequence, so that there is nothing to gain.",
        )
    log = next(one for one in CANDIDATES if one.stack == "log_volume")
    stack = _core.settled_stack(log.stack, facts=facts.values)
    cost = log.cost + (SEGMENTS_COST if IN_SEGMENTS in stack else "")
    return Advice(
        stack,
        f"{stack}: a write at random takes {significant(ratio)} times as long as one in sequence, "
        "and a log makes sequences of all; the gain is less than that, as it also writes records "
        f"and moves pages. It costs {cost}. Its risk: {log.risk}. `flashwright play` measures "
        "the gain for a trace.",
    )


def possible(
    stacks: Sequence[str], capacity_bytes: Callable[[str], int], end_bytes: int
) -> tuple[tuple[str, ...], dict[str, str]]:
    """Divide stacks into those that hold a trace, and those that do not, with the reason.

    `capacity_bytes` gives what a stack offers, or raises InputError if it cannot be made on the
    device.
    """
    kept, left_out = [], {}
    for text in stacks:
        try:
            found = capacity_bytes(text)
        except InputError as error:
            left_out[text] = str(error)
            continue
        if found < end_bytes:
            left_out[text] = f"it offers {found} bytes, and the trace goes up to byte {end_bytes}"
        else:
            kept.append(text)
    return tuple(kept), left_out
