"""The report of a `play`: the answer, charts, tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from flashwright._text import count, percent, rate, short_count, short_time, significant, size, span
from flashwright.jobs.play import charts, layer_charts, remarks, said, tables
from flashwright.jobs.play.view import KEYS, Row, View
from flashwright.pages import heat_map
from flashwright.pages.figures import Colours
from flashwright.pages.page import Fact, Figure, Page, Section, Table
from flashwright.runs import TIMELINE_FILE, Run

VIEWER = "ui.perfetto.dev"
MOST_FACTS = 4
Blocks = Iterable[Figure | Table | None]


def page(run: Run) -> Page:
    """Build the report."""
    view = View(run, in_words=True)
    return Page(
        kind="play",
        title=tables.title(view),
        headline=remarks.headline(view),
        facts=_facts(view),
        sections=list(_of_one(view) if view.is_one else _of_several(view)),
        provenance=view.result["provenance"],
        remarks=[*remarks.choices(view), *remarks.remarks(view)],
    )


def _section(title: str, blocks: Blocks, **more: Any) -> Iterator[Section]:
    """Give a section of what there is; none of nothing."""
    found = [block for block in blocks if block is not None]
    if found:
        yield Section(title, found, **more)


def _facts(view: View) -> list[Fact]:
    if view.is_one:
        return _facts_of_one(view.rows[0])
    if view.has_layers:
        return [_fact_of_stack(row) for row in view.rows[:MOST_FACTS]]
    return [
        Fact(row["label"], f"{short_count(row['iops'])}/s", rate(row["bytes_per_second"]))
        for row in sorted(view.rows, key=lambda row: -row["iops"])[:MOST_FACTS]
    ]


def _fact_of_stack(row: Row) -> Fact:
    times = (row["verdict"] or {}).get("times_faster")
    alone = f": the device alone takes {significant(times)} times as long" if times else ""
    return Fact(row["label"], span(row["total_write_seconds"]), f"of writing{alone}")


def _facts_of_one(row: Row) -> list[Fact]:
    facts = [
        Fact("requests a second", short_count(row["iops"]), said.pace(row["pace"])),
        Fact(
            "throughput",
            rate(row["bytes_per_second"]),
            f"over {span(row['seconds'])} of the device's time",
        ),
    ]
    inside = row["simulated"]
    if inside is None:
        facts += [
            Fact(f"median {op}", short_time(one["p50"]), f"99 % within {short_time(one['p99'])}")
            for op, one in said.operations(row).items()
            if op in ("read", "write")
        ]
        if late := row["sent"]["lateness_ns"]:
            latest = f"the latest by {short_time(late['max'])}"
            facts.append(Fact("99 % late by at most", short_time(late["p99"]), latest))
        return facts
    counters, share = inside["counters"], inside["die_share"]
    if counters["host_page_writes"]:
        note = (
            f"{short_count(counters['relocated_pages'])} pages relocated, "
            f"{short_count(counters['erases'])} erases"
        )
        facts.append(Fact("write amplification", significant(inside["write_amplification"]), note))
    facts.append(
        Fact(
            "dies busy",
            percent(1 - share["idle"]),
            f"{percent(share['host'])} for the host, {percent(said.internal(share))} for the drive "
            "itself",
        )
    )
    if row.get("life_years") is not None:
        a_day = f"{significant(row['lifetime']['drive_writes_per_day'])} drive writes a day"
        facts.append(Fact("life", f"{significant(row['life_years'])} years", a_day))
    return facts


def _of_one(view: View) -> Iterator[Section]:
    row = view.rows[0]
    device, inside = view.devices[row["device"]], row["simulated"]
    times = [
        charts.of_operations(view, row),
        charts.of_operations(view, row, "response"),
        charts.lateness(view, row),
        charts.delays_of(row),
        charts.latency_over_time(view, row),
        *heat_map.heat_maps(view.part(heat_map.TABLE, row), charts.SECONDS),
        charts.lateness_over_time(view, row),
    ]
    yield from _section("How long requests take", times)
    amount = [charts.rate_over_time(view, row)]
    if inside is not None:
        amount.append(charts.amplification_over_time(view, row))
    yield from _section("How much the device does", amount)
    if inside is not None:
        drawn = [charts.dies(view, row), charts.wear(view, row)]
        yield from _section("What happens inside", drawn, intro=_timeline(view))
    found: list[Table | None] = [*tables.compared(view), tables.times(view), tables.flows(row)]
    if inside is not None:
        if inside["fdp"] is not None:
            found.append(tables.handles(row, device["page_bytes"]))
        if inside["replication"] is not None:
            found.append(tables.asked(row))
        found.append(tables.delayed(row))
    found += [replace(tables.figures(view, row), title="Figures"), tables.every_figure(row)]
    if "dies" in device:
        found.append(tables.drive(device))
    yield from _section("All figures", [*found, _known(view, row["device"])])


def _timeline(view: View) -> str:
    if not view.result["settings"]["timeline"]:
        return ""
    return (
        f"{TIMELINE_FILE} beside this report holds what every die did when. To look at it, open "
        f"https://{VIEWER}, choose Open trace file, and take it: a channel is a process there, a "
        "die a thread. It stays on your machine."
    )


def _of_several(view: View) -> Iterator[Section]:
    groups = view.groups()
    yield from _section("All devices", [tables.by_device(view)])
    for number, group in enumerate(groups):
        prefix = f"{_name_of(view, group)}: " if len(groups) > 1 else ""
        yield from _group(group, f"d{number}", prefix)
    if len(groups) == 1:
        yield from _section("All figures", [*tables.compared(view), *_figures(view)])
        return
    for group in groups:
        yield from _section(f"{_name_of(view, group)}: All figures", _figures(group))
    yield from _section("All figures", tables.compared(view))


def _name_of(view: View, group: View) -> str:
    row = group.result["runs"][0]
    return ", ".join(str(row[key]) for key in KEYS if key in view.differs and key != "stack")


def _group(view: View, key: str, prefix: str) -> Iterator[Section]:
    rows = view.rows
    if not rows:
        return
    colours = Colours([row["label"] for row in rows])
    operations = [op for op in said.TIMED if any(op in said.operations(row) for row in rows)]
    times = [
        figure
        for op in operations
        for figure in (
            charts.tails_of_runs(view, rows, op, key, colours),
            charts.delays_of_runs(rows, op, f"{key}-{op}-delays"),
        )
    ]
    rates = charts.rates_of_runs(view, rows, key, colours)
    if view.has_layers:
        answers = [_verdicts(rows), layer_charts.writing(rows, key), *times]
        answers.append(layer_charts.amplification(rows, key))
        yield from _section(f"{prefix}What is gained and lost", answers)
        yield from _section(f"{prefix}Over time", [rates])
        inside = [
            *layer_charts.levels(view, rows, key, colours),
            *layer_charts.sums(view, rows, key),
        ]
        summary = "what each layer held and counted while the trace was played"
        yield from _section(f"{prefix}Inside the layers", inside, folded=True, summary=summary)
        return
    yield from _section("How long requests take", times)
    amount = [charts.iops_of_runs(rows, key), rates, charts.amplification_of_runs(rows, key)]
    yield from _section("How much the devices do", amount)
    yield from _section("What happens inside", [charts.dies_of_runs(rows, key)])


def _figures(view: View) -> Blocks:
    yield _gains(view.rows)
    yield tables.runs(view)
    yield _durations(view)
    yield tables.times(view)
    yield from map(tables.counted, view.rows)
    yield _drives(view)
    for device in dict.fromkeys(row["device"] for row in view.result["runs"]):
        yield _known(view, device)


def _verdicts(rows: Sequence[Row]) -> Table | None:
    lines = [
        cells
        for row in rows
        if row["verdict"] is not None
        for cells in ((row["label"], row["verdict"]["line"]), ("as --stack", row["stack"]))
    ]
    columns = (("stack", "left"), ("against the device alone", "prose"))
    return Table("Verdicts", columns, lines) if lines else None


def _gains(rows: Sequence[Row]) -> Table | None:
    lines = []
    for row in rows:
        first = True
        for kind, text in (("gain", "gained"), ("lost", "lost")):
            for found in (row["verdict"] or {}).get(kind, []):
                cells = (text, found["text"], significant(found["ratio"]))
                lines.append((row["label"] if first else "", *cells))
                first = False
    if not lines:
        return None
    columns = (("stack", "left"), ("", "left"), ("what", "left"), ("to device alone", "right"))
    note = "What differs by 2 % or less is neither gained nor lost; any loss of capacity is listed."
    return Table("Gained and lost", columns, lines, note)


def _durations(view: View) -> Table | None:
    lines = [
        (
            row["label"],
            span(row["seconds"]),
            span(row["drain_seconds"]),
            count(row["flushes_below"]),
            f"{count(row['reads_below'])}, {size(row['reads_below_bytes'])}",
            count(row["erases"]),
            size(row["capacity_bytes"]),
        )
        for row in view.rows
        if "drain_seconds" in row
    ]
    columns = (
        ("stack", "left"),
        ("playing", "right"),
        ("writing back at the end", "right"),
        ("flushes below", "right"),
        ("reads below", "right"),
        ("erases", "right"),
        ("capacity", "right"),
    )
    name = "How long it took, and what else the device did"
    note = "In the device's time."
    return Table(name, columns, lines, note, folded=True) if lines else None


def _drives(view: View) -> Table | None:
    lines = [
        (
            row["label"],
            size(device["capacity_bytes"]),
            str(device["channels"]),
            str(device["dies"]),
            said.policy(device),
            (row["simulated"] or {}).get("event_hash", ""),
        )
        for row in view.rows
        if "dies" in (device := view.devices[row["device"]])
    ]
    columns = (
        ("drive", "left"),
        ("capacity", "right"),
        ("channels", "right"),
        ("dies", "right"),
        ("mapping", "left"),
        ("event hash", "left"),
    )
    return Table("The drives", columns, lines, folded=True) if lines else None


def _known(view: View, name: str) -> Table:
    """List what was played on a device, and what layers know of it."""
    device, source = view.devices[name], view.result["source"]
    region, part = device["region"], source["part"]
    lines = [("source", said.source(source))]
    lines += [(f"SHA-256 of {one['name']}", one["sha256"]) for one in source["sources"]]
    if source["totals"] is not None:
        lines.append(("its highest address", count(source["totals"]["end_bytes"])))
    if len(part) > 1:
        words = (f"{key} {value}" for key, value in part.items() if key != "of")
        lines.append(("part", ", ".join(words)))
    length = device["capacity_bytes"] - region["offset_bytes"]
    length = length if region["length_bytes"] is None else region["length_bytes"]
    lines.append(("region", f"{size(length)} from byte {count(region['offset_bytes'])} on"))
    if view.has_layers and "facts" in device:
        facts = device["facts"]
        lines.append(("what layers know of the device", facts["origin"]))
        lines += [(key.replace("_", " "), _fact(value)) for key, value in facts["values"].items()]
        lines += [("not sure, or not known", remark) for remark in facts["remarks"]]
    title = f"What was played on {name}"
    return Table(title, (("", "left"), ("", "prose")), lines, folded=True)


def _fact(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(
            f"{key.replace('_', ' ')} {significant(number)}" for key, number in value.items()
        )
    if isinstance(value, list):
        return "; ".join(
            f"{significant(at_zero)} ns + {significant(slope)} ns a byte"
            for _, at_zero, slope in value
        )
    return count(value)
