"""Conditions of a stack's gain: flushes, the state of the drive, spare space."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flashwright._text import count, percent, significant, size
from flashwright.layering.verdict import EMPTY_LOG

LOG = "log_volume"


def conditions(
    row: Mapping[str, Any],
    direct: Mapping[str, Any],
    ops: Sequence[str],
    state: Mapping[str, Any] | None,
) -> list[str]:
    """Say what holds beside the figures of a stack, and would change them.

    `ops` of the trace that are played, `state` of a simulated drive at the start.
    """
    found = []
    if "flush" not in ops:
        found.append("the trace's flushes were dropped, so that nothing is durable when it should")
    elif direct["flushes_below"]:
        found.append(f"the trace's {count(direct['flushes_below'])} flushes were kept")
    else:
        found.append("the trace has no flushes")
    if state is not None and state["kind"] != "aged":
        found.append(f"the drive was {state['kind']} at the start, not aged")
    logs = [part["counters"] for part in row["counters"] or [] if part["layer"] == LOG]
    return [*found, *(_of_log(counters, row, direct) for counters in logs)]


def _of_log(counters: Mapping[str, int], row: Mapping[str, Any], direct: Mapping[str, Any]) -> str:
    """Say how much spare space a log has, and whether it has had to clean."""
    spare = direct["capacity_bytes"] / row["capacity_bytes"] - 1
    text = f"the log has {percent(spare, 2)} spare space and "
    host, relocated = counters["host_pages"], counters["relocated_pages"]
    if counters["cleanings"]:
        return f"{text}writes {significant((host + relocated) / max(host, 1))} pages for each page"
    written = row["writes_below_bytes"]
    room = direct["capacity_bytes"] - row["capacity_bytes"]
    return (
        f"{text}{EMPTY_LOG}, as {size(written)} were written to {size(room)} of it: it writes "
        "more once it has to clean"
    )
