"""Findings held against each other before any is called sure.

Each experiment judges by what it saw itself. Two that are sure and cannot both be right show that a
model behind one of them does not hold for this drive: then neither is sure, and both say why.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from flashwright._text import significant, size

Finding = dict[str, Any]
Values = Mapping[str, Mapping[str, Any]]

BEYOND = 1.5
"""Reads in parallel are at most this many times as fast as one, for each parallel unit: the rest is
what host and link do meanwhile.
"""
APART = 1.5
"""Sizes of one thing, found in two ways, that differ by more than this."""
SURE, UNSURE = "sure", "unsure"


@dataclass(frozen=True)
class Rule:
    """Two or more values that cannot all be right, if `contradiction` gives the reason."""

    keys: tuple[str, ...]
    doubted: tuple[str, ...]
    """Which of them are not sure then: not those that are plain measurements."""
    contradiction: Callable[..., str | None]


def _gains_beyond_units(units: float, knee: float) -> str | None:
    if knee <= BEYOND * units + 0.5:
        return None
    return (
        f"reads in parallel are {significant(knee)} times as fast as one at a time, which "
        f"{significant(units)} parallel units cannot do"
    )


def _logs_of_another_size(superblock: float, logs: float, area: float) -> str | None:
    ratio = area / (superblock * logs)
    if 1 / APART < ratio < APART:
        return None
    return (
        f"{significant(logs)} logs of {size(superblock)} are not the {size(area)} within which "
        "focused writes are cheap"
    )


def _burst_of_another_size(buffer: float, burst: float) -> str | None:
    # A burst may be more than the buffer, as that is emptied meanwhile, but not much less.
    if burst * APART >= buffer:
        return None
    return f"bursts of {size(burst)} are absorbed, and the buffer has {size(buffer)}"


def _chunk_of_parts_of_pages(chunk: float, page: float) -> str | None:
    if chunk >= page and abs(chunk / page - round(chunk / page)) < 0.01:
        return None
    return f"a chunk of {size(chunk)} is not a number of pages of {size(page)}"


RULES = (
    Rule(
        ("parallel_units", "random_read_knee_depth"),
        ("parallel_units", "domains", "sub_domains"),
        _gains_beyond_units,
    ),
    Rule(
        ("superblock_bytes", "log_blocks", "focused_area_bytes"),
        ("superblock_bytes", "log_blocks"),
        _logs_of_another_size,
    ),
    Rule(
        ("write_buffer_bytes", "burst_bytes"),
        ("write_buffer_bytes", "burst_bytes"),
        _burst_of_another_size,
    ),
    Rule(("chunk_bytes", "page_bytes"), ("chunk_bytes", "page_bytes"), _chunk_of_parts_of_pages),
)


def consistent(findings: Mapping[str, Finding]) -> dict[str, Finding]:
    """Give the findings, with what contradicts another one not called sure any more.

    A plain measurement counts though it is not sure: with the lower end of its interval.
    """
    values: dict[str, Mapping[str, Any]] = {
        value["key"]: value
        for finding in findings.values()
        for value in finding["values"]
        if value.get("number")
    }
    doubts: dict[str, list[str]] = {}
    for rule in RULES:
        if all(key in values for key in rule.keys) and all(
            values[key]["verdict"] == SURE for key in rule.keys if key in rule.doubted
        ):
            reason = rule.contradiction(*(_number(values[key]) for key in rule.keys))
            for key in rule.doubted if reason else ():
                doubts.setdefault(key, []).append(str(reason))
    if not doubts:
        return dict(findings)
    return {
        spec: {**finding, "values": [_doubted(value, doubts) for value in finding["values"]]}
        for spec, finding in findings.items()
    }


def _number(value: Mapping[str, Any]) -> float:
    low, _ = value.get("interval") or (value["number"], None)
    return float(value["number"] if value["verdict"] == SURE else low)


def _doubted(value: Mapping[str, Any], doubts: Mapping[str, list[str]]) -> dict[str, Any]:
    reasons = doubts.get(value["key"], [])
    if value["verdict"] != SURE or not reasons:
        return dict(value)
    return {
        **value,
        "verdict": UNSURE,
        "why": f"{value['why']}; but {'; '.join(reasons)}",
    }
