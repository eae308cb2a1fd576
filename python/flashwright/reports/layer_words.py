"""What the figures of stacks of layers are called, and how they are written.

The same on the terminal and in reports.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from flashwright import reading_words, slice_words
from flashwright._core import registry
from flashwright._text import count, short_time, significant, size, span
from flashwright.reports import replay_words
from flashwright.reports.drive_words import iops, rate, several

DIRECT = "direct"
ALONE = "device alone"
NAMES = {
    DIRECT: ALONE,
    "checksums": "page checksums",
    "log_volume": "log volume",
    "replicas": "page replication",
    "scheduler": "write scheduler",
    "stable_buffer": "StableBuffer",
}
"""What the layers are called in prose; one that is not listed goes by its own name."""
COLUMNS = (
    ("stack", "left"),
    ("requests/s", "right"),
    ("throughput", "right"),
    ("writing", "right"),
    ("to direct", "right"),
    ("writes", "right"),
    ("mean", "right"),
    ("layers' WA", "right"),
    ("drive's WA", "right"),
    ("CPU", "right"),
    ("I/O", "right"),
)
"""`writing`: time in which the device had a write, trim or flush; `writes`, `mean`: how many the
device got, of which mean size; WA: bytes written below per byte above, and programmed per byte
below; CPU in the layers and time at the device, per request.
"""
EXPLAINED = (
    "Writing: the time in which the device had at least one write, trim or flush, what layers "
    "write back at the end included. Writes and mean: how many the device got, and their size. "
    "Layers' WA: bytes written below the layers for each above. Drive's WA: bytes that the flash "
    "programs for each that the drive is sent. CPU: time of this machine's processor in the "
    "layers, for each request; I/O: time in which the device had anything to do, for each request."
)
LATENCY_COLUMNS = (
    ("stack", "left"),
    ("operation", "left"),
    ("requests", "right"),
    ("mean", "right"),
    ("median", "right"),
    ("99 %", "right"),
    ("99.9 %", "right"),
    ("99.99 %", "right"),
    ("longest", "right"),
)
COUNTER_COLUMNS = (("stack", "left"), ("layer", "left"), ("what", "left"), ("number", "right"))
MOST_HEADLINES = 4
BY_DRIVE = "Times faster in writing than the device alone"
OPERATIONS = ("read", "write", "trim", "flush")


def names(stacks: Iterable[str]) -> dict[str, str]:
    """Give each stack a name in words, of which no two are the same.

    Layers from the top to the bottom; their parameters only where that distinguishes stacks.
    """
    specs = list(dict.fromkeys(stacks))
    short = {spec: _named(spec, is_full=False) for spec in specs}
    shared = list(short.values())
    return {
        spec: name if shared.count(name) == 1 else _named(spec, is_full=True)
        for spec, name in short.items()
    }


def _named(spec: str, *, is_full: bool) -> str:
    layers = []
    for layer in spec.split("|"):
        base, bracket, rest = layer.strip().partition("(")
        name = NAMES.get(base.strip(), base.strip().replace("_", " "))
        values = rest.rstrip().removesuffix(")").replace(",", ", ").replace(",  ", ", ")
        layers.append(f"{name} ({values})" if is_full and bracket else name)
    return " over ".join(layers)


def drives(result: Mapping[str, Any]) -> list[str]:
    """Give the names of the devices."""
    return list(dict.fromkeys(row["drive"] for row in result["results"]))


def rows_of(result: Mapping[str, Any], drive: str) -> list[dict[str, Any]]:
    """Give the rows of one device."""
    return [row for row in result["results"] if row["drive"] == drive]


def title(result: Mapping[str, Any], drive: str) -> str:
    """Name what was played where."""
    text = f"{result['trace']['name']} on {drive}, {replay_words.pace(result['pace'])}"
    checkpoints = result["checkpoints"]
    if checkpoints["number"]:
        text += (
            f", {several(checkpoints['number'], 'checkpoint')} ({checkpoints['origin']}, sent as a "
            f"{checkpoints['told_as']})"
        )
    return text


def by_drive(result: Mapping[str, Any]) -> tuple[list[tuple[str, str]], list[tuple[str, ...]]]:
    """Give headings and rows of how many times faster each stack writes on each device.

    Compared with the device alone.
    """
    names = drives(result)
    found = {(row["stack"], row["drive"]): row["verdict"] for row in result["results"]}
    rows = []
    for stack in result["stacks"]:
        verdicts = [found.get((stack, name)) for name in names]
        if any(verdicts):
            rows.append(
                (stack, *(significant(one["times_faster"] if one else None) for one in verdicts))
            )
    return [("stack", "left"), *((name, "right") for name in names)], rows


def is_alone(row: Mapping[str, Any]) -> bool:
    """Check whether a row is of the device without layers, by its spec or its name."""
    return row["stack"] in (DIRECT, ALONE)


def ratio_to_direct(row: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> float | None:
    """Give the writing time as a multiple of that of the device alone."""
    alone = next((one for one in rows if is_alone(one) and one["error"] is None), None)
    if alone is None or not alone["total_write_seconds"]:
        return None
    return float(row["total_write_seconds"] / alone["total_write_seconds"])


def cells(row: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Give a stack's row of the table of stacks."""
    if row["error"] is not None:
        return (row["stack"], "failed", *[""] * (len(COLUMNS) - 2))
    writes = row["writes_below"]
    return (
        row["stack"],
        iops(row["iops"]),
        rate(row["bytes_per_second"]),
        span(row["total_write_seconds"]),
        significant(ratio_to_direct(row, rows)),
        count(writes),
        size(row["writes_below_bytes"] / writes) if writes else significant(None),
        significant(row["layer_write_amplification"]),
        significant(row["drive_write_amplification"]),
        short_time(row["computing_ns_per_request"]) if not is_alone(row) else significant(None),
        short_time(row["device_ns_per_request"]),
    )


def latencies(row: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Give a stack's rows of the table of response times.

    From when a request was due where the trace's clock says when.
    """
    if row["error"] is not None:
        return []
    found = times(row)
    return [
        (
            row["stack"] if number == 0 else "",
            op,
            count(found[op]["count"]),
            *(short_time(found[op][key]) for key in ("mean", "p50", "p99", "p999", "p9999", "max")),
        )
        for number, op in enumerate(op for op in OPERATIONS if op in found)
    ]


def times(row: Mapping[str, Any]) -> dict[str, Any]:
    """Give the response times by operation."""
    return {op: one for op, one in (row["response_ns"] or row["latency_ns"]).items() if one}


def counters(row: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """Give what each layer of a stack has counted, but for what is zero."""
    if row["error"] is not None:
        return
    helps = {
        (entry["name"], one["name"]): one
        for entry in registry()["layer"]
        for one in entry["counters"]
    }
    first = True
    for layer in row["counters"]:
        is_first_of_layer = True
        for name, number in layer["counters"].items():
            known = helps.get((layer["layer"], name))
            if not number:
                continue
            what = name if known is None else known["help"]
            what += " (at the end)" if known is not None and known["is_level"] else ""
            text = (
                size(number)
                if name.endswith("_bytes")
                else short_time(number)
                if name.endswith("_ns")
                else count(number)
            )
            yield (
                row["stack"] if first else "",
                layer["layer"] if is_first_of_layer else "",
                what,
                text,
            )
            first = is_first_of_layer = False


def verdict_line(row: Mapping[str, Any]) -> str | None:
    """Say what a stack gains and loses; None of the device alone."""
    return f"{row['stack']}: {row['verdict']['line']}" if row["verdict"] is not None else None


def remarks(result: Mapping[str, Any]) -> list[str]:
    """Say what a reader must know before trusting the figures."""
    lines = [*reading_words.lines(result["trace"]), *result["remarks"]]
    for device in result["devices"]:
        lines += [f"{device['label']}: {line}" for line in slice_words.lines(device.get("slice"))]
    lines += [
        f"{row['stack']} on {row['drive']} failed: {row['error']}."
        for row in result["results"]
        if row["error"]
    ]
    if any(stack not in (DIRECT, ALONE) for stack in result["stacks"]):
        lines += [known(device) for device in result["devices"]]
    for line in (unmapped_line, kept_line):
        lines += [said for row in result["results"] if (said := line(row)) is not None]
    done = next((row for row in result["results"] if row["error"] is None), None)
    if done is not None:
        as_replay = {
            **result,
            "fitted": done["fitted"],
            "failures": [],
            "starved": 0,
            "complete": True,
        }
        lines += replay_words.remarks(as_replay)
    return lines


def unmapped_line(row: Mapping[str, Any]) -> str | None:
    """Say how many reads cost nothing because a volume was empty at first, which none in use is."""
    pages = sum(layer["counters"].get("unmapped_reads", 0) for layer in row.get("counters") or ())
    if not pages:
        return None
    return (
        f"{row['stack']} on {row['drive']}: {several(pages, 'page')} that were read had not been "
        "written before, and cost nothing; with log_volume(filled=yes) all are on the device from "
        "the start, as on a volume in use."
    )


def kept_line(row: Mapping[str, Any]) -> str | None:
    """Say what was found of the data when the stack was opened again."""
    kept = row.get("kept")
    if not kept:
        return None
    ended = {
        "drained": "written back and flushed",
        "killed": "killed with what its layers still held",
    }[kept["ending"]]
    text = (
        f"{row['stack']} on {row['drive']}: {ended}, and opened again in "
        f"{span(kept['recovery_seconds'])} of the device's time; all "
        f"{several(kept['sectors'], 'sector')} that were written hold what they have to"
    )
    older = kept["sectors"] - kept["newest"]
    return (
        f"{text}, {count(older)} an older version that no flush came after."
        if older
        else f"{text}."
    )


def known(device: Mapping[str, Any]) -> str:
    """Say where what layers know of a device is from, and name what is not sure of it."""
    facts = device["facts"]
    text = f"What layers know of {device['label']}: {facts['origin']}"
    if not facts["remarks"]:
        return f"{text}."
    return (
        f"{text}; {', '.join(remark.partition(' (')[0] for remark in facts['remarks'])}; why is in "
        "the report's last table."
    )


def choices(result: Mapping[str, Any]) -> list[str]:
    """Say which of the stacks that were tried is right for each device."""
    return [one["line"] for one in (result.get("choices") or {}).values()]


def headline(result: Mapping[str, Any]) -> str:
    """Give the answer.

    Which stack is right, where that was asked; or else a line for each stack that was judged, or
    for the best and the worst of many.
    """
    if result.get("choices"):
        return "\n".join(one["headline"] for one in result["choices"].values())
    judged = [row for row in result["results"] if row["verdict"] is not None]
    if len(judged) > MOST_HEADLINES:
        ordered = sorted(judged, key=lambda row: row["verdict"]["times_faster"] or 1.0)
        judged = [ordered[-1], ordered[0]]
    several_drives = len(drives(result)) > 1
    named = names(result["stacks"])
    lines = [
        f"{row['drive'] + ', ' if several_drives else ''}{named.get(row['stack'], row['stack'])}: "
        f"{row['verdict']['summary']}."
        for row in judged
    ]
    return "\n".join(lines) or "Nothing was compared."
