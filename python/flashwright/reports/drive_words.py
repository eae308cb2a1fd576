"""What the figures of a simulated drive are called, and how they are written.

The same on the terminal and in reports.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flashwright import _core
from flashwright._text import (
    alpha,
    count,
    percent,
    short_count,
    short_time,
    significant,
    size,
    span,
)

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
LATENCY_KEYS = ("mean", "p50", "p99", "p999", "p9999", "max")
LATENCY_NAMES = ("mean", "median", "99 %", "99.9 %", "99.99 %", "longest")
"""The 99.99th percentile of fewer than 10,000 requests is not known, and shown as a dash."""
OPERATIONS = ("read", "write", "trim", "flush")
TIMED = ("read", "write", "flush")
"""Operations whose latency a host feels: the commit of a database waits for a flush."""
PLURALS = {"read": "reads", "write": "writes", "trim": "trims", "flush": "flushes"}


def rate(bytes_per_second: float) -> str:
    """Give a throughput in millions of bytes a second, as drives are sold."""
    return f"{significant(bytes_per_second / 1e6)} MB/s"


def iops(per_second: float) -> str:
    """Give requests a second: whole, but for a drive that does only a few."""
    return count(per_second) if per_second >= 100 else significant(per_second)


def _requests(per_second: float) -> str:
    return f"{count(per_second)} a second"


def several(number: int, what: str) -> str:
    """Give a number of things."""
    return f"{count(number)} {what}{'' if number == 1 else 's'}"


LIMITS = {
    "link_bytes_per_second": ("limit of the link", rate),
    "channels_bytes_per_second": ("limit of the channels", rate),
    "die_reads_bytes_per_second": ("limit of the dies, reading", rate),
    "die_programs_bytes_per_second": ("limit of the dies, programming", rate),
    "controller_reads_per_second": ("limit of the controller, reads of a page", _requests),
    "controller_writes_per_second": ("limit of the controller, writes of a page", _requests),
}


def operations(result: Mapping[str, Any]) -> dict[str, Any]:
    """Give the latencies of the operations that occurred."""
    found = result["latency_ns"]
    return {op: found[op] for op in OPERATIONS if op in found}


def internal(share: Mapping[str, float]) -> float:
    """Give the share of the dies' time that the drive spends on itself."""
    return sum(share[cause] for cause in CAUSES if cause not in {"host", "idle"})


def pace(result: Mapping[str, Any]) -> str:
    """Say when requests are sent."""
    found = result["pace"]
    if found["kind"] == "open_loop":
        return "at the times of the trace"
    depth = found["depth"]
    if isinstance(depth, list):
        text = f"{', '.join(map(str, depth))} outstanding"
    else:
        text = "one by one" if depth == 1 else f"{depth} outstanding"
    if found["think_time_us"]:
        text += f", {significant(found['think_time_us'])} µs to think"
    return text


def state(result: Mapping[str, Any]) -> str:
    """Say how the drive was at the start."""
    found = result["state"]
    return (
        f"aged by {significant(found['overwrites'])} overwrites"
        if found["kind"] == "aged"
        else str(found["kind"])
    )


def policy(device: Mapping[str, Any]) -> str:
    """Say which scheme the drive has, with its policies if it is one that takes any."""
    text = str(device["scheme"])
    policies = [
        str(device[key]) for key in ("placement", "victim") if device[key] and device[key] != "none"
    ]
    if text.partition("(")[0] in {"zoned", "zns"}:
        # Nothing is placed or cleaned there, whatever the profile says.
        return text
    return f"{text}, {' with '.join(policies)}" if policies else text


def title(result: Mapping[str, Any]) -> str:
    """Name a run: what was played on which drive, how."""
    device = result["device"]
    return f"{result['workload']['name']} on {device['name']} ({state(result)}), {pace(result)}"


def life(result: Mapping[str, Any]) -> str:
    """Give the life, or why there is none."""
    if result["life_years"] is not None:
        found = result["lifetime"]
        return (
            f"{significant(result['life_years'])} years at "
            f"{significant(found['drive_writes_per_day'])} drive writes a day, "
            f"{count(found['endurance_cycles'])} erases a block"
        )
    return f"not known: {result['life_unknown']}"


def energy(result: Mapping[str, Any]) -> str:
    """Give the energy of the run."""
    found = result["energy_joules"]
    if found is None:
        return "unknown: the profile has no energies"
    return (
        f"{significant(found['total'])} J, {significant(found['mean_watts'])} W on average (an "
        "estimate)"
    )


FLOW_HEADINGS = (
    ("flow", "left"),
    ("priority", "right"),
    ("requests", "right"),
    ("requests/s", "right"),
    ("throughput", "right"),
    ("mean latency", "right"),
)


def flow_rows(flows: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """Give a row for each flow of a run that had several."""
    return [
        (
            flow["name"],
            count(flow["priority"]),
            count(flow["requests"]),
            iops(flow["iops"]),
            rate(flow["bytes_per_second"]),
            short_time(flow["latency_ns"]["mean"]),
        )
        for flow in flows
    ]


HANDLE_HEADINGS = (
    ("handle", "left"),
    ("written by the host", "right"),
    ("moved", "right"),
    ("amplification", "right"),
    ("reclaim units", "right"),
    ("of them valid", "right"),
)


def handle_rows(result: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Give a row for each reclaim unit handle of a drive with FDP that was written through."""
    found = result["fdp"]
    page = result["device"]["page_bytes"]
    shared = found["relocated"]
    rows: list[tuple[str, ...]] = []
    for number, handle in enumerate(found["handles"]):
        host, moved = handle["host_page_writes"], handle["relocated_pages"]
        if not host and not handle["reclaim_units"]:
            continue
        own = significant(1 + moved / host, 4) if host and shared is None else ""
        rows.append(
            (str(number), size(host * page), size(moved * page), own, *_units(result, handle))
        )
    if shared is not None:
        moved = size(shared["relocated_pages"] * page)
        rows.append(("what was moved", "", moved, "", *_units(result, shared)))
    return rows


def _units(result: Mapping[str, Any], handle: Mapping[str, Any]) -> tuple[str, str]:
    pages = handle["reclaim_units"] * result["fdp"]["reclaim_unit_bytes"]
    valid = handle["valid_pages"] * result["device"]["page_bytes"]
    return count(handle["reclaim_units"]), percent(valid / pages) if pages else ""


def placement(result: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Give what the logs of placement by the host say: of FDP, or of zones."""
    rows = []
    if fdp := result.get("fdp"):
        events = fdp["events"]
        rows += [
            ("host bytes written (HBMW)", size(fdp["host_bytes_with_metadata_written"])),
            ("media bytes written (MBMW)", size(fdp["media_bytes_with_metadata_written"])),
            ("media bytes erased (MBE)", size(fdp["media_bytes_erased"])),
            ("reclaim unit", size(fdp["reclaim_unit_bytes"])),
            ("media reallocated", several(events["media_reallocated"], "reclaim unit")),
        ]
        if events["invalid_placement_identifiers"]:
            rows.append(
                ("invalid placement identifiers", count(events["invalid_placement_identifiers"]))
            )
        if events["units_not_fully_written"]:
            rows.append(
                ("reclaim units not fully written", count(events["units_not_fully_written"]))
            )
    if zones := result.get("zones"):
        rows += [
            ("zones reset", count(zones["resets"])),
            ("zones opened by writes", count(zones["implicit_opens"])),
            ("zones closed by the drive", count(zones["implicit_closes"])),
        ]
    return rows


COPIES_HEADINGS = (
    ("commands asked for", "left"),
    ("1", "right"),
    ("2", "right"),
    ("3 or more", "right"),
)


def copies_rows(result: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Give how many dies reads and writes asked, as table 3 of REPLICATION does."""
    found = result["replication"]
    return [
        (name, *("" if share is None else percent(share, 3) for share in found[key]))
        for name, key in (("reads", "reads_by_ios"), ("writes", "writes_by_ios"))
    ]


def copies(result: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Give what copies of pages on other dies came to, if the drive makes any."""
    found = result.get("replication")
    if found is None:
        return []
    sizes = found["groups_by_size"]
    rows = [
        ("blocked reads", count(found["blocked_reads"])),
        ("blocked reads that had a copy", count(found["blocked_reads_with_copy"])),
        ("blocked writes", count(found["blocked_writes"])),
        ("copies written", count(found["replica_page_writes"])),
        ("copies expected by the paper's E_p", count(round(found["predicted_copies"]))),
        ("commands that came too late", count(found["commands_in_vain"])),
        (
            "room for copies in use",
            f"{count(found['used_pages'])} of {count(found['budget_pages'])} pages",
        ),
        ("most interference on a die", percent(max(found["interference"]), 3)),
        (
            "memory of the copies' tables",
            size(found["map_bytes"] + found["valid_map_bytes"] + found["counter_bytes"]),
        ),
    ]
    if found["extra_writes"] is not None:
        rows.insert(4, ("copies for each page of the host's", percent(found["extra_writes"], 3)))
    if sum(sizes):
        rows.append(("pages with copies that have one", percent(sizes[0] / sum(sizes), 3)))
    return rows


def figures(result: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Give the main figures of a run in words."""
    device = result["device"]
    merges = result["merges"]
    rows = [
        (
            "drive",
            f"{size(device['capacity_bytes'])}, {several(device['dies'], 'die')} on "
            f"{several(device['channels'], 'channel')}",
        ),
        ("mapping", f"{policy(device)}, {alpha(device['over_provisioning'])} over-provisioning"),
        ("requests", count(result["requests"])),
        ("simulated time", span(result["simulated_seconds"])),
        ("requests a second", iops(result["iops"])),
        ("throughput", rate(result["bytes_per_second"])),
    ]
    if result["host_page_writes"]:
        rows += [
            ("write amplification", significant(result["write_amplification"], 4)),
            ("page writes of the host", count(result["host_page_writes"])),
            ("relocated pages", count(result["relocated_pages"])),
            ("erases", count(result["erases"])),
        ]
    if any(merges.values()):
        text = ", ".join(
            f"{short_count(merges[kind])} {kind}" for kind in ("switch", "partial", "full")
        )
        rows.append(("merges", text))
    rows += placement(result)
    rows += copies(result)
    if result["retired_blocks"]:
        rows.append(("erase blocks worn out", count(result["retired_blocks"])))
    rows += [
        ("life", life(result)),
        ("energy", energy(result)),
        ("channels busy", percent(result["channel_share"])),
        (
            "simulated in",
            f"{span(result['wall_seconds'])}, {short_count(result['requests_per_wall_second'])} "
            "requests/s",
        ),
    ]
    return rows


def device_rows(device: Mapping[str, Any]) -> list[tuple[str, str]]:
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
