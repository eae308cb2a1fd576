"""Names of what `play` speaks of: paces, states, stacks, causes, drives."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from flashwright import _core
from flashwright._text import alpha, count, rate, several, significant, size, span
from flashwright.jobs.play.names import DIRECT

OPERATIONS = ("read", "write", "trim", "flush")
TIMED = ("read", "write", "flush")
"""Operations whose latency a host feels: the commit of a database waits for a flush."""
PLURALS = {"read": "reads", "write": "writes", "trim": "trims", "flush": "flushes"}
_NAMES = {"service": "flash itself", "buffer": "buffer full", "flush": "buffer to flash"}
DELAYS = {delay: _NAMES.get(delay, delay.replace("_", " ")) for delay in _core.delays()}
DELAYS_EXPLAINED = (
    "Queue is everything outside the flash: the host's queue, controller, link. Buffer full: "
    "waited for room in the write buffer behind other pages. Channel: waited for it. Die busy: the "
    "die worked for other requests. Cleaning, wear levelling and erase: the die worked for the "
    "drive itself. Buffer to flash: a flush, or a durable write, waited until what the write "
    "buffer held was on flash. Flash itself is what an idle drive would take, too."
)
CAUSES = {
    cause: cause.replace("_", " ") for cause in (*(name for name, _ in _core.causes()), "idle")
}
TIMES = {
    "mean": "mean",
    "p50": "median",
    "p99": "99 %",
    "p999": "99.9 %",
    "p9999": "99.99 %",
    "max": "longest",
}
"""The 99.99th percentile of fewer than 10,000 requests is not known, and shown as a dash."""
RECORDED = "recorded"
"""The pace of what was no run of ours."""
ALONE = "device alone"
STACKS = {
    DIRECT: ALONE,
    "checksums": "page checksums",
    "log_volume": "log volume",
    "replicas": "page replication",
    "scheduler": "write scheduler",
    "stable_buffer": "StableBuffer",
}
"""Names of layers in prose; one that is not listed goes by its own name."""


def pace(text: str) -> str:
    """Put a pace into words."""
    if text == RECORDED:
        return "as it was recorded"
    kind, _, inside = text.rstrip(")").partition("(")
    values = dict(word.split("=") for word in inside.split(",") if "=" in word)
    factor = float(values.get("factor", 1))
    speed = "" if factor == 1 else f" {significant(factor)} times as fast"
    if kind == "open":
        return f"at the times of the trace{speed}"
    depth = inside.partition(",")[0]
    said = "one by one" if depth == "1" else f"{depth} outstanding"
    if kind == "intervals":
        said += f", with the trace's intervals{speed}"
    if think := values.get("think"):
        said += f", {significant(float(think.removesuffix('us')))} µs to think"
    return said


def factor(text: str) -> float | None:
    """Give how much faster than the trace's clock a pace is; None if it has no clock."""
    if text.partition("(")[0] not in ("open", "intervals"):
        return None
    found = re.search(r"factor=([^,)]+)", text)
    return float(found[1]) if found else 1.0


def state(found: Mapping[str, Any]) -> str:
    """Say how a simulated drive was at the start."""
    if found["kind"] == "aged":
        return f"aged by {significant(found['overwrites'])} overwrites"
    return str(found["kind"])


def stacks(specs: Iterable[str]) -> dict[str, str]:
    """Give each stack a name in words, of which no two are the same.

    Layers from the top to the bottom; their parameters only where that distinguishes stacks.
    """
    known = list(dict.fromkeys(specs))
    short = {spec: _named(spec, is_full=False) for spec in known}
    shared = list(short.values())
    return {
        spec: name if shared.count(name) == 1 else _named(spec, is_full=True)
        for spec, name in short.items()
    }


def _named(spec: str, *, is_full: bool) -> str:
    layers = []
    for layer in spec.split("|"):
        base, bracket, rest = layer.strip().partition("(")
        name = STACKS.get(base.strip(), base.strip().replace("_", " "))
        values = rest.rstrip().removesuffix(")").replace(",", ", ").replace(",  ", ", ")
        layers.append(f"{name} ({values})" if is_full and bracket else name)
    return " over ".join(layers)


def operations(row: Mapping[str, Any]) -> dict[str, Any]:
    """Give the latencies of the operations that occurred."""
    return {op: one for op in OPERATIONS if (one := row["latency_ns"].get(op))}


def responses(row: Mapping[str, Any]) -> dict[str, Any]:
    """Give times by operation, from when a request was due where a clock says when."""
    found = (row["sent"] or {}).get("response_ns")
    return operations(row if found is None else {"latency_ns": found})


def internal(share: Mapping[str, float]) -> float:
    """Give the share of the dies' time that a drive spends on itself."""
    return sum(share[cause] for cause in CAUSES if cause not in {"host", "idle"})


def life(row: Mapping[str, Any]) -> str:
    """Give the life of a drive, or why there is none."""
    if row["life_years"] is None:
        return f"not known: {row['life_unknown']}"
    found = row["lifetime"]
    return (
        f"{significant(row['life_years'])} years at {significant(found['drive_writes_per_day'])} "
        f"drive writes a day, {count(found['endurance_cycles'])} erases a block"
    )


def energy(found: Mapping[str, Any] | None) -> str:
    """Give the energy of a run."""
    if found is None:
        return "unknown: the profile has no energies"
    return (
        f"{significant(found['total'])} J, {significant(found['mean_watts'])} W on average (an "
        "estimate)"
    )


def source(found: Mapping[str, Any]) -> str:
    """Say what of a source is played."""
    totals = found["totals"]
    if totals is None:
        known = found["requests"]
        return f"{found['name']}: {'without end' if known is None else several(known, 'request')}"
    kinds = ", ".join(
        f"{count(totals[op])} {op if totals[op] == 1 else PLURALS[op]}"
        for op in OPERATIONS
        if totals[op]
    )
    over = f" over {span(totals['duration_ns'] / 1e9)}" if found["has_times"] else ", without times"
    return f"{found['name']}: {several(totals['requests'], 'request')} ({kinds}){over}"


def policy(device: Mapping[str, Any]) -> str:
    """Say which scheme a drive has, with its policies if it is one that takes any."""
    text = str(device["scheme"])
    policies = [
        str(device[key]) for key in ("placement", "victim") if device[key] and device[key] != "none"
    ]
    if text.partition("(")[0] in {"zoned", "zns"}:
        # Nothing is placed or cleaned there, whatever the profile says.
        return text
    return f"{text}, {' with '.join(policies)}" if policies else text


def _requests(per_second: float) -> str:
    return f"{count(per_second)} a second"


LIMITS = {
    "link_bytes_per_second": ("limit of the link", rate),
    "channels_bytes_per_second": ("limit of the channels", rate),
    "die_reads_bytes_per_second": ("limit of the dies, reading", rate),
    "die_programs_bytes_per_second": ("limit of the dies, programming", rate),
    "controller_reads_per_second": ("limit of the controller, reads of a page", _requests),
    "controller_writes_per_second": ("limit of the controller, writes of a page", _requests),
}


def drive(device: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Give what a profile comes to."""
    rows = [
        (
            "capacity",
            f"{size(device['capacity_bytes'])} ({count(device['logical_pages'])} pages of "
            f"{size(device['page_bytes'])})",
        ),
        ("over-provisioning", alpha(device["over_provisioning"])),
        (
            "channels, dies",
            f"{several(device['channels'], 'channel')}, {several(device['dies'], 'die')} of "
            f"{several(device['planes'], 'plane')} in all",
        ),
        ("mapping", policy(device)),
        (
            "erases that an erase block stands",
            count(device["endurance_cycles"]) if device["endurance_cycles"] else "no limit",
        ),
    ]
    limits = device["limits"]
    rows += [(name, write(limits[key])) for key, (name, write) in LIMITS.items() if key in limits]
    if device["overrides"]:
        rows.append(("changed", ", ".join(device["overrides"])))
    return rows


def fitted(device: Mapping[str, Any]) -> str:
    """Say which keys of a profile are not published."""
    return (
        f"Ours, fitted or assumed: {', '.join(device['fitted'])}."
        if device["fitted"]
        else "All keys are published."
    )
