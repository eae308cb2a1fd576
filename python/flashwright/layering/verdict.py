"""Verdict on a stack of layers: its gains and losses on a device, against the device alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flashwright._text import count, percent, short_time, significant, size, span
from flashwright.layering.facts import AS_FAST_AT_RANDOM

NOTICED = 0.02
"""Share by which a figure has to differ to be called a gain or a loss."""
MUCH = 1.2
BEFORE_CLEANING = "before the log had to clean"
EMPTY_LOG = "cleaned nothing"
"""Words of the condition of a log that was played on too little: its figures do not last."""


@dataclass(frozen=True)
class Figure:
    """A figure that stacks are judged by."""

    key: str
    name: str
    write: Callable[[float], str]
    more_is_better: bool = False

    def of(self, row: Mapping[str, Any]) -> float | None:
        """Give it of a stack; None if it has none."""
        value: Any = row
        for part in self.key.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        return None if value is None else float(value)


def _latencies(op: str) -> tuple[Figure, ...]:
    names = {
        "mean": f"mean {op}",
        "p50": f"median {op}",
        "p99": f"99th percentile of {op}{'es' if op == 'flush' else 's'}",
        "max": f"longest {op}",
    }
    return tuple(Figure(f"latency_ns.{op}.{key}", name, short_time) for key, name in names.items())


TOTAL = Figure("total_write_seconds", "time in which the device writes", span)
FIGURES = (
    TOTAL,
    Figure("seconds_with_drain", "time until all is on the device", span),
    Figure("iops", "requests a second", significant, more_is_better=True),
    *_latencies("read"),
    *_latencies("write"),
    *_latencies("flush"),
    Figure("programmed_bytes", "bytes that the flash programs", size),
    Figure("erases", "erases", count),
    Figure("capacity_bytes", "capacity", size, more_is_better=True),
)


def verdict(
    row: Mapping[str, Any],
    direct: Mapping[str, Any],
    facts: Mapping[str, Any],
    conditions: Sequence[str] = (),
) -> dict[str, Any]:
    """Judge a stack by its row and that of the device alone, both complete.

    `conditions`: what else the figures depend on.

    Gives `times_faster` (of `total_write_seconds`; None if nothing was written), `gain` and `lost`
    (each figure with both values and their ratio), `reasons`, `conditions`, `summary` in a few
    words, and `line`, all of it.
    """
    row, direct = _with_responses(row), _with_responses(direct)
    gain: list[dict[str, Any]] = []
    lost: list[dict[str, Any]] = []
    for figure in FIGURES:
        mine, theirs = figure.of(row), figure.of(direct)
        if mine is None or theirs is None or not _differs(figure, mine, theirs):
            continue
        found = {
            "figure": figure.key,
            "name": figure.name,
            "direct": theirs,
            "stack": mine,
            "ratio": mine / theirs if theirs else None,
            "text": f"{figure.name}: {figure.write(mine)} instead of {figure.write(theirs)}",
        }
        (gain if (mine > theirs) == figure.more_is_better else lost).append(found)
    mine, theirs = TOTAL.of(row) or 0.0, TOTAL.of(direct) or 0.0
    times_faster = theirs / mine if mine and theirs else None
    reasons = _reasons(row, direct, facts, times_faster)
    summary = _summary(times_faster, mine, theirs)
    if times_faster is not None and any(EMPTY_LOG in one for one in conditions):
        summary += f", {BEFORE_CLEANING}"
    because = f": {'; '.join(reasons)}" if reasons else ""
    depends = f" Depends on: {'; '.join(conditions)}." if conditions else ""
    return {
        "against": "direct",
        "times_faster": times_faster,
        "is_gain": None if times_faster is None else times_faster > 1 + NOTICED,
        "gain": gain,
        "lost": lost,
        "reasons": reasons,
        "summary": summary,
        "conditions": list(conditions),
        "line": f"{summary}{because}.{_tails(row, direct)}{depends}",
    }


def _with_responses(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Give a row whose times count from when requests were due, where a clock says when.

    A late request is a slow one.
    """
    return {**row, "latency_ns": row.get("response_ns") or row["latency_ns"]}


def _differs(figure: Figure, mine: float, theirs: float) -> bool:
    if figure.key == "capacity_bytes":
        # Of the capacity any loss is reported: it is what the user's data need.
        return mine < theirs
    return abs(mine - theirs) > NOTICED * max(abs(mine), abs(theirs))


def _summary(times_faster: float | None, mine: float, theirs: float) -> str:
    if times_faster is None:
        return "nothing was written: there is nothing to gain or lose"
    if abs(times_faster - 1) <= NOTICED:
        said = "as fast as the device alone"
    elif times_faster > 1:
        said = f"{significant(times_faster)} times faster than the device alone"
    else:
        said = f"{significant(1 / times_faster)} times slower than the device alone"
    return f"{said} ({span(mine)} of writing instead of {span(theirs)})"


def _tails(row: Mapping[str, Any], direct: Mapping[str, Any]) -> str:
    """Tell of reads and writes whose longest waits changed much.

    What a mean of writes does not show.
    """
    said = []
    for op, name in (("read", "reads"), ("write", "writes"), ("flush", "flushes")):
        mine, theirs = (one["latency_ns"].get(op) for one in (row, direct))
        if mine and theirs and not 1 / MUCH <= mine["p99"] / max(theirs["p99"], 1) <= MUCH:
            said.append(
                f"99th percentile of {name}: {_time(mine['p99'], IN_MEMORY.get(op, ''))} instead "
                f"of {_time(theirs['p99'])}"
            )
    return f" {'; '.join(said)}." if said else ""


IN_MEMORY = {"write": " (in memory, not yet durable)", "read": " (from memory)"}
"""Words for a request that a stack answers in no time, while the device alone took some."""


def _time(nanoseconds: float, where: str = "") -> str:
    return short_time(nanoseconds) if nanoseconds else f"under 1 µs{where}"


def _reasons(
    row: Mapping[str, Any],
    direct: Mapping[str, Any],
    facts: Mapping[str, Any],
    times_faster: float | None,
) -> list[str]:
    said: list[str] = []
    if times_faster is None:
        return said
    ratio = facts.get("random_over_sequential")
    is_slower = times_faster < 1 - NOTICED
    if ratio is not None and ratio <= AS_FAST_AT_RANDOM and times_faster <= 1 + NOTICED:
        said.append("this drive writes at random as fast as in sequence")
    if ratio is not None and ratio > AS_FAST_AT_RANDOM and times_faster > 1 + NOTICED:
        said.append(
            f"this drive takes {significant(ratio)} times as long for a write at random as for one "
            "in sequence"
        )
    amplification = row["layer_write_amplification"]
    if amplification is not None and abs(amplification - 1) > NOTICED:
        said.append(
            f"the layers write {significant(amplification)} bytes for each that they are given"
        )
    reads_more = row["reads_below_bytes"] - direct["reads_below_bytes"]
    if (
        is_slower
        and direct["writes_above_bytes"]
        and reads_more > NOTICED * direct["writes_above_bytes"]
    ):
        said.append(f"they read {size(reads_more)} more")
    if (
        direct["writes_below"]
        and row["writes_below"]
        and row["writes_below"] < direct["writes_below"] / MUCH
    ):
        means = [one["writes_below_bytes"] / one["writes_below"] for one in (row, direct)]
        said.append(f"writes are of {size(means[0])} on average instead of {size(means[1])}")
    flushes = row["flush_seconds_below"] / max(
        row["flush_seconds_below"] + row["write_seconds_below"], 1e-9
    )
    if is_slower and flushes > 0.5:
        said.append(f"flushes take {percent(flushes)} of that time")
    mine, theirs = row["programmed_bytes"], direct["programmed_bytes"]
    if mine is not None and theirs and not 1 / MUCH <= mine / theirs <= MUCH:
        said.append(f"the flash programs {significant(mine / theirs)} times as much")
    return said
