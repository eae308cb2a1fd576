"""The figures by which stacks of layers are compared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

OPERATIONS = ("read", "write", "trim", "flush")


def figures(run: Mapping[str, Any]) -> dict[str, Any]:
    """Give the figures that stacks are compared by, of a run through one.

    Times in seconds or nanoseconds, as the key says; None where nobody knows.
    `total_write_seconds` is how long the device had something to do other than reads: writes,
    trims, and flushes, which take what a drive's write buffer had put off. One by one it is the
    sum of their times; what overlaps counts once. What layers write back at the end is in it.
    """
    layers, sent = run["layers"], max(run["sent"]["sent"], 1)
    below = {op: layers["below"].get(op, {}) for op in OPERATIONS}
    above_bytes, below_bytes = run["written_bytes"], below["write"].get("bytes", 0)
    flash = layers["flash"]
    seconds = {f"{op}_seconds_below": one.get("latency_ns", 0) / 1e9 for op, one in below.items()}
    # Overlapping times count once within reads and within all else, but not across the two.
    device_seconds = (layers["busy_reads_ns"] + layers["busy_changes_ns"]) / 1e9
    programmed_bytes = flash["page_programs"] * flash["page_bytes"] if flash else None
    return {
        "capacity_bytes": layers["capacity_bytes"],
        "drain_seconds": layers["drain_seconds"],
        "seconds_with_drain": run["seconds"] + layers["drain_seconds"],
        "writes_above": run["latency_ns"].get("write", {}).get("count", 0),
        "writes_above_bytes": above_bytes,
        "writes_below": below["write"].get("requests", 0),
        "writes_below_bytes": below_bytes,
        "reads_below": below["read"].get("requests", 0),
        "reads_below_bytes": below["read"].get("bytes", 0),
        "flushes_below": below["flush"].get("requests", 0),
        **seconds,
        "total_write_seconds": layers["busy_changes_ns"] / 1e9,
        "device_seconds": device_seconds,
        "layer_write_amplification": below_bytes / above_bytes if above_bytes else None,
        "programmed_bytes": programmed_bytes,
        "drive_write_amplification": programmed_bytes / below_bytes
        if programmed_bytes is not None and below_bytes
        else None,
        "erases": flash["erases"] if flash else None,
        "computing_ns_per_request": 1e9 * layers["computing_seconds"] / sent,
        "device_ns_per_request": 1e9 * device_seconds / sent,
        "counters": layers["counters"],
        "response_ns": run["sent"]["response_ns"],
    }


def flat(row: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Give a row's single figures, nested ones with joined names: `latency_ns_read_p99`."""
    found: dict[str, Any] = {}
    for key, value in row.items():
        if key == "verdict":
            found["times_faster"] = None if value is None else value["times_faster"]
        elif key == "counters" and isinstance(value, list):
            for level, one in enumerate(value):
                counters = one["counters"].items()
                found |= {f"{level}_{one['layer']}_{name}": number for name, number in counters}
        elif isinstance(value, Mapping):
            found |= flat(value, f"{prefix}{key}_")
        elif not isinstance(value, list | tuple):
            found[prefix + key] = value
    return found
