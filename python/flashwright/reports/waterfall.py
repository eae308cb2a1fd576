"""The part of a recording's report on the way from the database to the flash.

Who wrote how much, layer by layer.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from flashwright import slice_words
from flashwright._text import count, percent, several, short_count, significant, size
from flashwright.pages.figures import Colours, Windows, axes, line, size_unit, title
from flashwright.pages.page import Fact, Figure, Page, Section, Table
from flashwright.runs import Run

LAYERS = {
    "calls": "database's calls",
    "pages": "in whole pages",
    "queued": "file system queued",
    "device": "device got",
    "flash": "flash programmed",
}
"""Names of the layers, in order; see `recording.waterfall`."""

WHOSE = {
    "data": "the database's files",
    "own": "the file system's own data for it",
    "shared": "not known whose",
    "others": "others'",
}
"""Names of the shares of the written bytes; see `recording.owners.SHARES`."""
_OPS = ("read", "write")
_HEADINGS = ("requests", "a second", "bytes", "bytes a second", "mean size", "x above", "x calls")
_COUNTS = {
    "gaps": "holes in their stream, after which files have to be seen again",
    "lost_opens": "files not looked at when they were opened",
    "unresolved_calls": "on files that nobody has seen (unknown)",
    "unplaced_calls": "without a known offset",
    "unpaired_enters": "without an end, and left out",
    "unpaired_exits": "without a beginning, and left out",
    "contradicted_files": "numbers of open files that were seen as two (unknown)",
}


def page(run: Run) -> Page:
    """Build the report of `flashwright waterfall`."""
    result, layers = run.result["waterfall"], run.result["waterfall"]["layers"]
    facts = [
        Fact(
            f"written: {LAYERS[name]}",
            size(ops["write"]["bytes"]),
            f"{_times(ops['write'])} of the calls",
        )
        for name, ops in layers.items()
        if "write" in ops
    ]
    flash = result["device"]
    lines = [] if flash is None else [_of_drive(flash), *slice_words.lines(flash.get("slice"))]
    return Page(
        kind="waterfall",
        title=f"Recorded by {shlex.join(run.result['recorded'])}",
        headline=headline(result),
        facts=facts,
        sections=sections(result, run.tables),
        provenance=run.result["provenance"],
        remarks=[*lines, *remarks(run.result["path"])],
    )


def _of_drive(flash: Mapping[str, Any]) -> str:
    steady = {True: "steady", False: "NOT steady", None: "of unknown steadiness"}[
        flash["steady"]["write_amplification"]
    ]
    return (
        f"The flash is that of {flash['name']} with {size(flash['capacity_bytes'])}, "
        f"{flash['state']['kind']} at the start. The requests were played {flash['plays']} times "
        "over, and the second half was measured: its write amplification is "
        f"{significant(flash['write_amplification'])}, and {steady}."
    )


def sections(result: Mapping[str, Any], tables: Mapping[str, pa.Table]) -> list[Section]:
    """Give the sections of a report.

    `result`: of `recording.waterfall.waterfall`; `tables`: with its `path_rates`.
    """
    writes = [_writes(result), _rates(result), _sizes(result), _over_time(tables["path_rates"])]
    return [
        Section(
            "From the database to the flash",
            [*writes, _whose_table(result), _layers_table(result), _purposes_table(result)],
            intro=headline(result),
        )
    ]


def headline(result: Mapping[str, Any]) -> str:
    """Say what became of a byte that the database wrote, and how much was of others."""
    layers = result["layers"]
    device, queued = layers["device"]["write"], layers["queued"]["write"]
    calls = layers["calls"]["write"]
    written = calls["bytes"] - calls["by_purpose"].get("unknown", 0)
    if queued["bytes"] and not device["bytes"]:
        asked = f"For every byte the database wrote, the file system queued {_times(queued)} for it"
        return (
            f"{asked if written else _NOTHING}. The device's own queue issued no write: it passes "
            "them on, or the recording ended before."
        )
    text = _NOTHING + "."
    if written:
        text = f"For every byte the database wrote, the device received {_times(device)} for it"
        own, most = device["whose"]["own"], device["to_first_most"]
        if _times(device) != significant(most):
            text += ", as not all can be told apart."
        elif own:
            text += f", {significant(own / calls['bytes'])} of that the file system's own data."
        else:
            text += "."
    parts = [one for one in (_of_others(device["whose"]), _of_flash(result)) if one]
    second = "; ".join(parts)
    return f"{text} {second[:1].upper()}{second[1:]}." if parts else text


_NOTHING = "The database wrote nothing by its calls while it was recorded"


def _times(one: Mapping[str, Any]) -> str:
    """Give bytes for the database as a multiple of its calls: a range, where they may be more."""
    least, most = (significant(one[name]) for name in ("to_first", "to_first_most"))
    return least if least == most else f"{least} to {most}"


def _of_others(whose: Mapping[str, int]) -> str:
    total = sum(whose.values())
    if not total or not whose["others"]:
        return ""
    least, most = whose["others"] / total, (whose["others"] + whose["shared"]) / total
    shares = [_share(one) for one in (least, most)]
    share = shares[0]
    if shares[0] != shares[1]:
        share = f"{shares[0].removesuffix(' %')} to {shares[1]}"
    return f"{share} of what this disk wrote was not your database's"


def _share(fraction: float) -> str:
    """Give a share of which no part is rounded away."""
    if 0.9995 <= fraction < 1:
        return "over 99.9 %"
    return percent(fraction, 2 if fraction < 0.995 else 3)


def _of_flash(result: Mapping[str, Any]) -> str:
    flash = result["layers"].get("flash")
    if flash is None or not (result["device"]["steady"] or {}).get("write_amplification"):
        return ""
    name, write = result["device"]["name"], flash["write"]
    if write["to_first"] is not None:
        return f"the flash of {name} programmed {significant(write['to_first'])} for it"
    return f"the flash of {name} programmed {significant(write['to_previous'])} for each received"


def remarks(about: Mapping[str, Any]) -> list[str]:
    """Say what to know when reading the figures. `about`: of `recording.path.finish_path`."""
    calls, owners = about["calls"], about["owners"]
    lines = []
    if calls.get("lost_events") is None:
        lines.append(
            "The copier of calls was killed: how many events the kernel lost is not known."
        )
    elif calls["lost_events"]:
        lines.append(
            f"{count(calls['lost_events'])} events of calls were LOST, so that calls are missing: "
            "take a larger buffer."
        )
    counted = [
        f"{count(calls[name])} {words}" for name, words in _COUNTS.items() if calls.get(name)
    ]
    if counted:
        lines.append(f"Of {count(calls['calls'])} calls: {'; '.join(counted)}.")
    lines.append(_whose(about["whose"]))
    if owners["mixed"]:
        lines.append(
            f"{several(owners['mixed'], 'request')} of more than one owner: each byte counts for "
            "whose it is; what it is for is said of the first of the database's."
        )
    lines += [f"Not known: {one}." for one in about["not_told"]]
    lines.append(
        "Writes through mmap are not captured. What was changed in memory before the beginning "
        "counts below the calls alone, what was not written at the end in the calls alone."
    )
    return lines


def _whose(whose: Mapping[str, int]) -> str:
    """Say whose all was that the device received."""
    parts = ", ".join(f"{size(whose[name])} {words}" for name, words in WHOSE.items())
    return f"Of the {size(sum(whose.values()))} that the device was written in all: {parts}."


def rows(result: Mapping[str, Any]) -> list[list[str]]:
    """Give the layers line by line, for the terminal: layer, op, and the columns of `HEADINGS`."""
    found = []
    for layer, ops in result["layers"].items():
        for op in _OPS:
            if op not in ops or not ops[op]["requests"]:
                continue
            one = ops[op]
            found.append(
                [
                    LAYERS[layer],
                    op,
                    count(one["requests"]),
                    significant(one["requests_per_second"]),
                    size(one["bytes"]),
                    size(one["bytes_per_second"]),
                    size(one["mean_bytes"]),
                    significant(one["to_previous"]),
                    _times(one),
                ]
            )
    return found


HEADINGS = ("layer", "op", *_HEADINGS)
"""Headings of the columns of `rows`."""


def _writes(result: Mapping[str, Any]) -> Figure:
    layers = {name: ops["write"] for name, ops in result["layers"].items() if "write" in ops}
    purposes = list(
        dict.fromkeys(purpose for one in layers.values() for purpose in one["by_purpose"])
    )
    colours = Colours(purposes)
    labels = [LAYERS[name] for name in layers]
    most = max([one["bytes"] for one in layers.values()] or [1])
    scale, unit = size_unit(most)
    data = [
        {
            "type": "bar",
            "name": purpose,
            "x": labels,
            "y": [one["by_purpose"].get(purpose, 0) / scale for one in layers.values()],
            "marker": colours.fill(purpose),
            "hovertemplate": f"{purpose}: %{{y:.4g}} {unit}<extra>%{{x}}</extra>",
        }
        for purpose in purposes
    ]
    above = [
        {
            "x": LAYERS[name],
            "y": one["bytes"] / scale,
            "text": f"{size(one['bytes'])}"
            + (f"<br>{_times(one)} x" if one["to_first"] is not None and name != "calls" else ""),
            "showarrow": False,
            "yanchor": "bottom",
        }
        for name, one in layers.items()
    ]
    layout = axes(
        {"type": "category", "showgrid": False},
        title(f"{unit} written", range=[0, most / scale * 1.2]),
        barmode="stack",
        bargap=0.4,
        annotations=above,
    )
    reading = (
        "Bytes written at each layer, by what they are for; x is the multiple of what the database "
        "wrote, without what is others'. From the calls to whole pages: writes smaller than a page "
        "of the cache. To what was queued: what a later write replaced in the cache, and the file "
        "system's own."
    )
    return Figure("waterfall-writes", "Bytes written, layer by layer", reading, data, layout)


def _by_op(
    result: Mapping[str, Any], key: str, axis: str
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    layers = {
        name: ops for name, ops in result["layers"].items() if name in ("calls", "queued", "device")
    }
    colours = Colours(_OPS)
    scale, unit = size_unit(max((ops[op][key] or 0) for ops in layers.values() for op in _OPS))
    data = [
        {
            "type": "bar",
            "name": f"{op}s",
            "x": [LAYERS[name] for name in layers],
            "y": [(ops[op][key] or 0) / scale for ops in layers.values()],
            "marker": colours.fill(op),
            "hovertemplate": f"{op}s: %{{y:.4g}} {unit}<extra>%{{x}}</extra>",
        }
        for op in _OPS
    ]
    layout = axes(
        {"type": "category", "showgrid": False},
        title(axis.format(unit), rangemode="tozero"),
        barmode="group",
        bargap=0.4,
    )
    return data, layout


def _rates(result: Mapping[str, Any]) -> Figure:
    data, layout = _by_op(result, "bytes_per_second", "{} a second")
    reading = (
        "Logical throughput (calls) against physical (device), as figures 5.6 and 5.7 of "
        "SCHEDULER: what is missing below was answered or replaced in memory, what is more is the "
        "file system's."
    )
    return Figure(
        "path-rates", "Throughput: logical and physical", reading, data, layout, height_px=380
    )


def _sizes(result: Mapping[str, Any]) -> Figure:
    data, layout = _by_op(result, "mean_bytes", "mean size in {}")
    merged = result["merging"]["write"]
    reading = "Mean size of a call and of a request, as figure 5.8 of SCHEDULER." + (
        f" The block layer made one write of {significant(merged)} queued ones."
        if merged is not None
        else ""
    )
    return Figure("path-sizes", "Mean sizes", reading, data, layout, height_px=380)


def _over_time(rates: pa.Table) -> Figure:
    names = [
        name
        for name in ("calls", "queued", "device")
        if name in rates["layer"].unique().to_pylist()
    ]
    colours = Colours([LAYERS[name] for name in names])
    scale, unit = size_unit(pc.max(rates["bytes"]).as_py() or 0)
    seconds = rates["second"].to_pylist()
    if "seconds" in rates.column_names:
        windows = Windows(seconds, rates["seconds"].to_pylist())
    else:
        # A folder of an earlier version, which does not say how long the last one is.
        last = max(seconds, default=0)
        windows = Windows(seconds, [0.0 if second == last else 1.0 for second in seconds])
    data = []
    for name in names:
        rows = rates.filter(
            pc.and_(pc.equal(rates["layer"], name), pc.equal(rates["op"], "write"))
        ).to_pylist()
        kept = [row for row in rows if windows.is_drawn(row["second"])]
        data.append(
            line(
                LAYERS[name],
                [row["second"] for row in kept],
                [row["bytes"] / row.get("seconds", 1.0) / scale for row in kept],
                colours,
                markers=False,
            )
        )
    layout = axes(title("seconds"), title(f"{unit} written a second", rangemode="tozero"))
    reading = (
        "Writes in each second. Where the calls are above the device, memory holds back; it pays "
        f"at a checkpoint or when the kernel writes back.{windows.note}"
    )
    return Figure("path-over-time", "Writes over time", reading, data, layout)


def _whose_table(result: Mapping[str, Any]) -> Table:
    whose = result["layers"]["device"]["write"]["whose"]
    total = sum(whose.values())
    lines = [
        [words, size(whose[name]), percent(whose[name] / total if total else None)]
        for name, words in WHOSE.items()
    ]
    return Table(
        "Whose writes the device received",
        (("", "left"), ("bytes", "right"), ("share", "right")),
        lines,
        note="Each byte is in one row; together they are all that was recorded in this time.",
    )


def _layers_table(result: Mapping[str, Any]) -> Table:
    syncs = result["syncs"]
    return Table(
        "Layers",
        (("layer", "left"), ("", "left"), *((heading, "right") for heading in _HEADINGS)),
        rows(result),
        note=f"The database asked {count(syncs['calls'])} times that its data be safe; the device "
        f"got {count(syncs['flushes'])} flushes.",
    )


def _purposes_table(result: Mapping[str, Any]) -> Table:
    layers = [name for name in LAYERS if name in result["layers"]]
    found: dict[str, list[str]] = {}
    for column, name in enumerate(layers):
        one = result["layers"][name]["write"]
        for purpose, value in one["by_purpose"].items():
            line_of = found.setdefault(purpose, [""] * len(layers))
            line_of[column] = f"{size(value)} in {short_count(one['requests_by_purpose'][purpose])}"
    return Table(
        "Writes by purpose",
        (("purpose", "left"), *((LAYERS[name], "right") for name in layers)),
        [[purpose, *values] for purpose, values in found.items()],
        note="Bytes, and calls, requests or programs. A log holds what goes to tables and indexes "
        "later.",
        folded=len(found) > 12,
    )
