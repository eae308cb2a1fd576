"""The report of a recording: what a device got, and what was made of it on the way."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from flashwright._text import count, percent, significant, size, span
from flashwright.pages.page import Fact, Figure, Page, Section, Table
from flashwright.reports import trace, waterfall
from flashwright.reports.light import drive_rows, own_rows
from flashwright.runs import Run

KINDS = ("reads", "writes", "trims", "flushes")
_MOST_APART = 0.01
"""Of what the kernel counts, so much may be missing or more: it counts at the end of a request."""
_HEADINGS = ("got", "a second", "bytes", "mean size", "queued", "queued bytes", "queued mean size")


def page(run: Run) -> Page:
    """Build the report."""
    result = run.result
    figures, about = result["requests"], result["recording"]
    facts = [
        *trace.facts(figures),
        Fact("events lost", _lost(about), "in the kernel's buffer"),
    ]
    return Page(
        kind="recording",
        title=f"{about['device']['name']}, recorded",
        headline=headline(result),
        facts=facts,
        sections=[
            *(waterfall.sections(result["waterfall"], run.tables) if "waterfall" in result else []),
            Section("What was sent", [_kinds_table(result), *_processes(result)]),
            *(
                _with_checkpoints(section, run)
                for section in trace.sections(figures, run.tables, "trace_")
            ),
            *_drives(result),
            Section("All figures", [trace.scalars_table(figures), _about_table(about)]),
        ],
        provenance=result["provenance"],
        remarks=remarks(result),
    )


def headline(result: dict[str, Any]) -> str:
    """Give the recording in a few sentences."""
    figures, queued = result["requests"], result["queued"]
    text = trace.headline(figures)
    if "waterfall" in result:
        text = waterfall.headline(result["waterfall"])
    elif queued["write_bytes"] and figures["writes"]:
        ratio = queued["writes"] / figures["writes"]
        text += f" The file system queued {significant(ratio)} writes for each that the device got."
    warning = losses(result)
    return f"{warning} {text}" if warning else text


def losses(result: dict[str, Any]) -> str:
    """Say what is missing in a recording; nothing if nothing is."""
    about = result["recording"]
    lost, torn = about.get("lost_events"), about.get("torn_records", 0)
    lines = []
    if lost:
        lines.append(
            f"{count(lost)} events were LOST, so that this recording has holes: take a larger "
            "--trace-buffer."
        )
    if about["state"] == "killed":
        lines.append(
            "The recorder was killed: what it had written until then is here; how much the kernel "
            "still held is not known."
        )
    if torn:
        lines.append(f"{count(torn)} record at the end is cut off.")
    asked = sum(result["queued"][kind] for kind in KINDS)
    if asked and not any(result["requests"][kind] for kind in KINDS):
        lines.append(
            f"{about['device']['name']} got {count(asked)} requests, but the kernel issued NONE in "
            "its queue, as for devices that pass them on (device mapper, RAID, zram): what came is "
            "in queued.parquet; for issued ones record the disk below."
        )
    return " ".join(lines)


def remarks(result: dict[str, Any]) -> list[str]:
    """Say what to know when reading the figures."""
    about = result["recording"]
    lines = [
        "Requests are what the device got (issued, D); queued (Q) is what came from above. Tracer: "
        f"{about['tracer']}."
    ]
    if about["device"].get("start_bytes"):
        begin = about["device"]["start_bytes"]
        counted = (
            "count from the begin of the partition, which is at"
            if about.get("subtracted_bytes")
            else "are those on the disk, with the partition at"
        )
        lines.append(f"Offsets {counted} byte {begin:,} of the disk.")
    if "checked" in result:
        lines.append(f"Checked: {result['checked']}.")
    if "path" in result:
        lines += waterfall.remarks(result["path"])
    if "received" in about:
        lines.append(_received(result["requests"], about))
    warning = losses(result)
    return [warning, *lines] if warning else lines


def _received(figures: dict[str, Any], about: dict[str, Any]) -> str:
    """Hold what was recorded against what the kernel counts itself."""
    counted, recorded = about["received"]["written_bytes"], figures["write_bytes"]
    text = f"The kernel's own counter says that {size(counted)} were written meanwhile"
    if abs(counted - recorded) <= _MOST_APART * counted:
        return f"{text}, as was recorded."
    return f"{text}, and {size(recorded)} were recorded."


def rows(result: dict[str, Any]) -> list[list[str]]:
    """Give the recording line by line, for the terminal."""
    about, figures, queued = result["recording"], result["requests"], result["queued"]
    found = [
        ["recorded", span(about["seconds"]) if "seconds" in about else "not known: it was killed"]
    ]
    for kind in KINDS:
        if not (figures[kind] or queued[kind]):
            continue
        volume = f", {size(figures[_bytes(kind)])}" if kind != "flushes" else ""
        found.append([kind, f"{count(figures[kind])}{volume} (queued: {count(queued[kind])})"])
    if "checked" in result:
        found.append(["checked", result["checked"]])
    found.append(["events lost", _lost(about)])
    return found + _counted(result)


def _lost(about: dict[str, Any]) -> str:
    return count(about["lost_events"]) if "lost_events" in about else "not known"


def _with_checkpoints(section: Section, run: Run) -> Section:
    """Mark the database's checkpoints in the figure over time."""
    marks = run.tables["marks"].to_pydict()
    begins = [
        (time, end)
        for time, end, kind in zip(marks["time_ns"], marks["end_ns"], marks["kind"], strict=True)
        if kind == "checkpoint"
    ]  # fmt: skip
    if not begins:
        return section
    shapes = [
        {
            "type": "rect", "yref": "paper", "y0": 0, "y1": 1, "x0": time / 1e9, "x1": end / 1e9,
            "line": {"width": 0}, "fillcolor": "@muted", "opacity": 0.2, "layer": "below",
        }
        for time, end in begins
    ]  # fmt: skip
    blocks = [
        replace(
            block,
            layout={**block.layout, "shapes": shapes},
            reading=f"{block.reading} Grey: checkpoints of the database.",
        )
        if isinstance(block, Figure) and block.id == "over-time"
        else block
        for block in section.blocks
    ]
    return replace(section, blocks=blocks)


def _bytes(kind: str) -> str:
    return f"{kind.removesuffix('s')}_bytes"


def _kinds_table(result: dict[str, Any]) -> Table:
    figures, queued = result["requests"], result["queued"]
    seconds = max(figures["duration_ns"] or 0, 1) / 1e9
    lines = []
    for kind in KINDS:
        line = [kind]
        for which, said in (("device", figures), ("queued", queued)):
            number = said[kind]
            line.append(count(number))
            if which == "device":
                line.append(significant(number / seconds))
            if kind == "flushes":
                line += ["", ""]
            else:
                line += [
                    size(said[_bytes(kind)]),
                    size(round(said[_bytes(kind)] / number)) if number else "",
                ]
        lines.append(line)
    return Table(
        "By kind",
        (("", "left"), *((heading, "right") for heading in _HEADINGS)),
        lines,
        note="Got is what the device was sent; queued is what came from the file system, before "
        "merging and splitting.",
    )


def _processes(result: dict[str, Any]) -> list[Table]:
    lines = [
        [one["command"], count(one["requests"]), percent(one["share"])]
        for one in result.get("processes", ())
    ]
    if not lines:
        return []
    columns = (("thread", "left"), ("requests", "right"), ("share", "right"))
    return [
        Table(
            "By who sent them",
            columns,
            lines,
            note="Threads that the kernel remembered; writing back is its own.",
        )
    ]


def _drives(result: dict[str, Any]) -> list[Section]:
    """Give what the server and the drive count themselves, where that may be read."""
    lines = _counted(result)
    table = Table(
        "By how much counters grew, and what those of the drive are",
        (("", "left"), ("", "left")),
        lines,
        note="The drive's are of all programs, from before the recording to after it.",
    )
    return [Section("What server and drive count themselves", [table])] if lines else []


def _counted(result: dict[str, Any]) -> list[list[str]]:
    own = own_rows(result["own_counts"]) if "own_counts" in result else []
    return own + drive_rows(result.get("drive_counters", {}))


def _about_table(about: dict[str, Any]) -> Table:
    lines = [[name.replace("_", " "), str(value)] for name, value in about["device"].items()]
    lines += [
        [name, str(about[name])] for name in ("kernel", "tracer", "buffer_kib") if name in about
    ]
    return Table("The device", (("", "left"), ("", "left")), lines, folded=True)
