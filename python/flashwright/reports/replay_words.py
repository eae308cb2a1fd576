"""What the figures of a replay are called, and how they are written.

The same on the terminal and in reports.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from flashwright import reading_words, slice_words
from flashwright._text import count, percent, short_time, significant, size, span
from flashwright.reports.drive_words import iops, rate, several

KEYS = {
    "mean": "mean",
    "p50": "median",
    "p90": "90 %",
    "p99": "99 %",
    "p999": "99.9 %",
    "p9999": "99.99 %",
    "max": "longest",
}
LATENCY_HEADINGS = (
    ("time", "left"),
    ("requests", "right"),
    *((name, "right") for name in KEYS.values()),
)
COMPARED = ("mean", "p50", "p99")
"""Of the times of two replays, what is printed on the terminal; the report has all."""
OPERATIONS = ("read", "write", "trim", "flush")


def title(result: Mapping[str, Any]) -> str:
    """Name the replay."""
    return f"{result['trace']['name']} on {result['device']['name']}"


def pace(said: Mapping[str, Any]) -> str:
    """Put a pace into words."""
    if said["kind"] == "recorded":
        return "as it was recorded"
    factor = said.get("factor", 1.0)
    speed = "" if factor == 1.0 else f" {significant(factor)} times as fast"
    if said["kind"] == "open_loop":
        return f"at the times of the trace{speed}"
    how = "one by one" if said["kind"] == "one_by_one" else f"{said['depth']} outstanding"
    return f"{how}, with the trace's intervals{speed}" if said["waiting"] else how


def trace_line(trace: Mapping[str, Any]) -> str:
    """Say what of a trace is played."""
    totals = trace["totals"]
    kinds = ", ".join(
        f"{count(totals[op])} {op}{'' if totals[op] == 1 else 's' if op != 'flush' else 'es'}"
        for op in OPERATIONS
        if totals[op]
    )
    over = f" over {span(totals['duration_ns'] / 1e9)}" if trace["has_times"] else ", without times"
    return f"{trace['name']}: {several(totals['requests'], 'request')} ({kinds}){over}"


def figures(result: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Give (what it is, value) of a replay as a whole."""
    totals = result["trace"]["totals"]
    rows = [
        ("pace", pace(result["pace"])),
        ("requests sent", f"{count(result['sent'])} of {count(totals['requests'])} of the trace"),
        ("requests a second", iops(result["iops"])),
        ("throughput", rate(result["bytes_per_second"])),
        ("took", f"{span(result['seconds'])} of the device's time"),
    ]
    if result["trace_seconds"] and result["complete"]:
        text = "at this speed" if result["pace"].get("factor", 1.0) != 1.0 else "as recorded"
        ratio = significant(result["seconds"] / result["trace_seconds"])
        rows.append(
            (
                "the trace takes",
                f"{span(result['trace_seconds'])} {text}: the replay took {ratio} times as long",
            )
        )
    rows.append(("most outstanding", count(result["most_outstanding"])))
    if result["lateness_ns"]:
        rows.append(("99 % were late by at most", short_time(result["lateness_ns"]["p99"])))
    return rows


def latency_rows(result: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Give a row for each kind of time."""
    return [_row(name, found) for name, found in times(result)]


def times(result: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Give every kind of time that was measured, with its name."""
    for op in OPERATIONS:
        if result["latency_ns"].get(op):
            yield f"{op}, from sending", result["latency_ns"][op]
    for op in OPERATIONS:
        if (result["response_ns"] or {}).get(op):
            yield f"{op}, from when it was due", result["response_ns"][op]
    if result["lateness_ns"]:
        yield "lateness", result["lateness_ns"]
    if result["held_ns"]:
        yield "of it, for want of room", result["held_ns"]


def _row(name: str, found: Mapping[str, Any]) -> tuple[str, ...]:
    return (name, count(found["count"]), *(short_time(found[key]) for key in KEYS))


def remarks(result: Mapping[str, Any]) -> list[str]:
    """Say what was lost, changed or left out, and what else to know when reading the figures."""
    totals, fitted = result["trace"]["totals"], result["fitted"]
    counted: tuple[tuple[int, str], ...] = (
        (totals["clamped_times"], "requests had times before the first one's, which were set to 0"),
        (
            totals["empty"],
            "requests were left out, as they have no bytes, or trim what is never touched",
        ),
        (
            fitted["moved"],
            f"requests went to other addresses than in the trace (--remap {result['remap']})",
        ),
        (fitted["cut"], "requests were longer than the region, and were cut"),
        (fitted["widened"], "requests were not of whole sectors of the device, and were widened"),
        (
            fitted["split"],
            "requests were longer than the device takes, and were sent in "
            f"{count(fitted['more_parts'])} more parts",
        ),
        (fitted["trims_without_device"], "trims were left out, as the device has none"),
        (fitted["trims_too_short"], "trims were left out, as they hold no whole sector"),
    )
    lines = reading_words.lines(result["trace"])
    lines += slice_words.lines(result.get("device", {}).get("slice"))
    lines += [f"{count(number)} {what}." for number, what in counted if number]
    lines += [
        f"{several(one['requests'], 'request')} failed: {one['first']}"
        for one in result["failures"]
    ]
    if result["starved"]:
        lines.append(
            f"The trace was not read fast enough {several(result['starved'], 'time')}, "
            f"{span(result['starved_seconds'])} in all."
        )
    if "recorded" in result:
        lines.append(recorded_line(result["recorded"]))
    if not result["complete"]:
        why = result["error"] or "it was stopped"
        lines.append(f"The replay ended before the trace did: {why}.")
    return lines


def recorded_line(said: Mapping[str, Any]) -> str:
    """Say what a recording of the replay says of it."""
    if not said["compared"]:
        return (
            f"What the device got is in {said['folder']}; it is not compared with the trace: "
            f"{said['why_not']}."
        )
    if said["same"]:
        return (
            f"The device got exactly the {several(said['trace_requests'], 'request')} of the "
            "trace, in their order."
        )
    first = said["first_difference"]
    pair = [
        "nothing more"
        if one is None
        else f"a {one['op']} of {one['length']} bytes at byte {one['offset']}"
        for one in (first["trace"], first["recorded"])
    ]
    counts = f"{count(said['trace_requests'])} requests against {count(said['recorded_requests'])}"
    return (
        "The device did not get the requests of the trace in their order: as request "
        f"{count(first['request'])}, from 0, the trace has {pair[0]}, and the device got {pair[1]} "
        f"({counts})."
    )


def _ratio(mine: float | None, theirs: float | None) -> str:
    return significant(mine / theirs) if mine is not None and theirs else "–"  # noqa: RUF001


def comparison_title(result: Mapping[str, Any]) -> str:
    """Name what is compared."""
    other = result["against"]
    same = (
        result["trace"]["sources"] == other["trace"]["sources"]
        and result["trace"]["part"] == other["trace"]["part"]
    )
    return f"Against {title(other)}, {pace(other['pace'])}" + (
        "" if same else " (another trace, or another part of it)"
    )


def comparison_headings() -> list[tuple[str, str]]:
    """Give the headings of the rows of two replays."""
    return [("", "left"), ("this", "right"), ("the other", "right"), ("ratio", "right")]


def comparison_rows(
    result: Mapping[str, Any], keys: Sequence[str] = tuple(KEYS)
) -> list[tuple[str, str, str, str]]:
    """Give each figure of two replays, and the ratio of the first to the second.

    Of times those of the keys.
    """
    other = result["against"]
    single: tuple[tuple[str, str, Callable[[float], str]], ...] = (
        ("requests a second", "iops", iops),
        ("throughput", "bytes_per_second", rate),
        ("took", "seconds", span),
        ("requests sent", "sent", count),
    )
    rows = [
        (name, write(result[key]), write(other[key]), _ratio(result[key], other[key]))
        for name, key, write in single
    ]
    mine, theirs = dict(times(result)), dict(times(other))
    for name in dict.fromkeys((*mine, *theirs)):
        for key in keys:
            pair = [found[name][key] if name in found else None for found in (mine, theirs)]
            rows.append(
                (f"{name}: {KEYS[key]}", short_time(pair[0]), short_time(pair[1]), _ratio(*pair))
            )
    return rows


def headline(result: Mapping[str, Any]) -> str:
    """Give the answer in a sentence or two."""
    text = (
        f"{result['device']['name']} did {count(sum(result['requests'].values()))} requests of "
        f"{result['trace']['name']}, {pace(result['pace'])}, in {span(result['seconds'])}: "
        f"{iops(result['iops'])} a second, {rate(result['bytes_per_second'])}."
    )
    waits = [
        f"a {op} takes {short_time(found['p50'])} at the median and {short_time(found['p99'])} at "
        "the 99th percentile"
        for op in ("read", "write", "flush")
        if (found := result["latency_ns"].get(op))
    ]
    if waits:
        text += f" {'; '.join(waits)[0].upper()}{'; '.join(waits)[1:]}."
    late = result["lateness_ns"]
    if late:
        held = result["held_ns"]
        text += f" Requests were sent {short_time(late['p99'])} late at the 99th percentile"
        text += (
            f"; {percent(held['count'] / max(result['sent'], 1))} of them were due while the "
            "device's queue was full."
            if held
            else "."
        )
    if "against" in result:
        other = result["against"]
        text += (
            f"\nAgainst {title(other)}: {_ratio(result['iops'], other['iops'])} times the requests "
            "a second."
        )
    return text


def region_line(result: Mapping[str, Any]) -> str:
    """Say where on the device it was played."""
    region = result["region"]
    return f"{size(region['length_bytes'])} from byte {region['offset_bytes']} on"
