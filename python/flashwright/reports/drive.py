"""The report of one run on a simulated drive."""

from __future__ import annotations

from typing import Any

from flashwright import reading_words
from flashwright._text import count, percent, short_count, short_time, significant, span
from flashwright.devices import caveats
from flashwright.reports import drive_words as words
from flashwright.reports.drive_figures import (
    OPERATION_COLOURS,
    Columns,
    delay_bars,
    dies_figure,
    over_time_line,
    tail,
    tail_axes,
    tail_line,
    whole_ticks,
)
from flashwright.reports.figures import axes, time_axis, title
from flashwright.reports.heat_map import heat_maps
from flashwright.reports.page import Fact, Figure, Page, Section, Table
from flashwright.runs import Run
from flashwright.steady import holds

VIEWER = "ui.perfetto.dev"


def page(run: Run) -> Page:
    """Build the report of one run on a simulated drive."""
    result = run.result
    latency = [
        _tail(run),
        _delays(result),
        _latency_over_time(run),
        *heat_maps(run, "seconds of the drive's time"),
    ]
    throughput = [_throughput(run), _amplification(run)]
    inside = [_dies(run), _wear(run)]
    sections = [
        ("How long requests take", latency),
        ("How much the drive does", throughput),
        ("What happens inside", inside),
    ]
    return Page(
        kind="simulated drive",
        title=words.title(result),
        headline=headline(result),
        facts=facts(result),
        sections=[
            *(
                Section(name, [figure for figure in group if figure], _intro(name, result))
                for name, group in sections
                if any(group)
            ),
            Section(
                "All figures",
                [
                    latency_table(result),
                    *([flow_table(result)] if len(result.get("flows", ())) > 1 else []),
                    *([handle_table(result)] if "fdp" in result else []),
                    *([copies_table(result)] if "replication" in result else []),
                    delay_table(result),
                    figures_table(result),
                    drive_table(result),
                ],
            ),
        ],
        provenance=result["provenance"],
        remarks=[*reading_words.lines(result["workload"]), *caveats(result)],
    )


def headline(result: dict[str, Any]) -> str:
    """Give the answer in two sentences."""
    device = result["device"]
    text = (
        f"{device['name']} does {words.iops(result['iops'])} requests a second, "
        f"{words.rate(result['bytes_per_second'])}"
        f"{'' if holds(result) else ' in a run that is not steady'}"
    )
    operations = words.operations(result)
    waits = [
        f"a {op} takes {short_time(row['p50'])} at the median and {short_time(row['p99'])} at the "
        "99th percentile"
        for op, row in operations.items()
        if op in words.TIMED
    ]
    if waits:
        text += f": {'; '.join(waits)}"
    text += "."
    most = _greatest_delay(result)
    if most is not None:
        text += f" {most}"
    return text


def _greatest_delay(result: dict[str, Any]) -> str | None:
    """Say what most of the time of requests goes to."""
    totals = {
        delay: sum(
            result["delays"][op][delay]["mean"] * row["count"]
            for op, row in words.operations(result).items()
        )
        for delay in words.DELAYS
    }
    whole = sum(totals.values())
    if not whole:
        return None
    delay, most = max(totals.items(), key=lambda item: item[1])
    share = percent(most / whole, 2)
    return {
        "queue": f"Requests spend {share} of their time outside the flash: in queues, controller "
        "and link.",
        "channel": f"Requests spend {share} of their time waiting for a channel.",
        "die_busy": f"Requests spend {share} of their time waiting for dies that work for others.",
        "cleaning": f"Requests spend {share} of their time waiting for dies that clean.",
        "wear_levelling": f"Requests spend {share} of their time waiting for dies that even out "
        "wear.",
        "erase": f"Requests spend {share} of their time waiting for erases.",
        "buffer": f"Requests spend {share} of their time waiting for room in the write buffer.",
        "flush": f"Requests spend {share} of their time in flushes: waiting until the write buffer "
        "is on flash.",
        "service": f"Requests spend {share} of their time in the flash itself, which even an idle "
        "drive takes.",
    }.get(
        delay,
        f"Requests spend {share} of their time waiting for dies at work on {words.DELAYS[delay]}.",
    )


def facts(result: dict[str, Any]) -> list[Fact]:
    """Give the figures of the answer."""
    given = [
        Fact("requests a second", short_count(result["iops"]), words.pace(result)),
        Fact(
            "throughput",
            words.rate(result["bytes_per_second"]),
            f"over {span(result['simulated_seconds'])} of the drive's time",
        ),
    ]
    if result["host_page_writes"]:
        note = (
            f"{short_count(result['relocated_pages'])} pages relocated, "
            f"{short_count(result['erases'])} erases"
        )
        given.append(Fact("write amplification", significant(result["write_amplification"]), note))
    share = result["die_share"]
    internal = words.internal(share)
    given.append(
        Fact(
            "dies busy",
            percent(1 - share["idle"]),
            f"{percent(share['host'])} for the host, {percent(internal)} for the drive itself",
        )
    )
    if result["life_years"] is not None:
        rate = f"{significant(result['lifetime']['drive_writes_per_day'])} drive writes a day"
        given.append(Fact("life", f"{significant(result['life_years'])} years", rate))
    return given


def _intro(name: str, result: dict[str, Any]) -> str:
    if name != "What happens inside" or "timeline" not in result:
        return ""
    return (
        f"{result['timeline']} beside this report holds what every die did when. To look at it, "
        f"open https://{VIEWER}, choose Open trace file, and take it: a channel is a process "
        "there, a die a thread. It stays on your machine."
    )


def _columns(run: Run, name: str) -> Columns | None:
    table = run.tables.get(name)
    return None if table is None or table.num_rows == 0 else table.to_pydict()


def tails(columns: Columns) -> dict[str, tuple[list[float], list[float]]]:
    """Give the latency curve of each operation of a histogram."""
    found = {}
    for op in words.OPERATIONS:
        rows = [number for number, other in enumerate(columns["op"]) if other == op]
        if rows:
            found[op] = tail(
                [columns["value_ns"][row] for row in rows], [columns["count"][row] for row in rows]
            )
    return found


def _tail(run: Run) -> Figure | None:
    columns = _columns(run, "latency_histogram")
    if columns is None:
        return None
    curves = tails(columns)
    data = [tail_line(op, xs, ys, OPERATION_COLOURS[op]) for op, (xs, ys) in curves.items()]
    lines = [
        f"1 in 100 {words.PLURALS[op]} takes longer than {short_time(row['p99'])}, "
        f"1 in 1000 longer than {short_time(row['p999'])}"
        for op, row in words.operations(run.result).items()
        if op in words.TIMED
    ]
    reading = (
        f"The further left and the steeper, the better. {'; '.join(lines)}."
        if lines
        else "The further left, the better."
    )
    return Figure(
        "latency",
        "Latency",
        reading,
        data,
        tail_axes(min(min(ys) for _, ys in curves.values())),
        480,
    )


def _delays(result: dict[str, Any]) -> Figure | None:
    operations = words.operations(result)
    if not operations:
        return None
    data, layout, height = delay_bars(
        {op: result["delays"][op] for op in operations},
        {op: row["mean"] for op, row in operations.items()},
    )
    return (
        Figure("delays", "What requests wait for", words.DELAYS_EXPLAINED, data, layout, height)
        if data
        else None
    )


def _latency_over_time(run: Run) -> Figure | None:
    columns = _columns(run, "over_time")
    if columns is None:
        return None
    data = [
        over_time_line(op, columns, f"mean_{op}_ns", OPERATION_COLOURS[op], 1e-9)
        for op in words.TIMED
        # Folders of earlier versions have no latency of flushes over time.
        if op in words.operations(run.result) and f"mean_{op}_ns" in columns
    ]
    values = [value for line in data for value in line["y"] if value]
    if not values:
        return None
    layout = axes(title("seconds of the drive's time"), time_axis("mean latency", values))
    return Figure(
        "latency-time",
        "Latency over the run",
        "The mean of each stretch of the run; a level line is steady.",
        data,
        layout,
        380,
    )


def _throughput(run: Run) -> Figure | None:
    columns = _columns(run, "over_time")
    if columns is None:
        return None
    data = [
        over_time_line(name, columns, f"{key}_bytes_per_second", OPERATION_COLOURS[op], 1e-6)
        for op, key, name in (("read", "read", "read"), ("write", "written", "written"))
        if any(columns[f"{key}_bytes_per_second"])
    ]
    if not data:
        return None
    reading = (
        f"On average {words.rate(run.result['bytes_per_second'])}, "
        f"{words.iops(run.result['iops'])} requests a second."
    )
    layout = axes(title("seconds of the drive's time"), title("MB/s", rangemode="tozero"))
    return Figure("throughput", "Throughput over the run", reading, data, layout, 380)


def _amplification(run: Run) -> Figure | None:
    columns = _columns(run, "over_time")
    if columns is None or not run.result["host_page_writes"]:
        return None
    line = over_time_line("write amplification", columns, "write_amplification", "@c1")
    if not any(value is not None for value in line["y"]):
        return None
    reading = (
        f"Over the run, {significant(run.result['write_amplification'], 4)} pages are programmed "
        "for each page that the host writes."
    )
    layout = axes(
        title("seconds of the drive's time"),
        title("write amplification", rangemode="tozero"),
        showlegend=False,
    )
    return Figure("amplification", "Write amplification over the run", reading, [line], layout, 380)


def _dies(run: Run) -> Figure | None:
    columns = _columns(run, "dies")
    return None if columns is None else dies_figure(columns)


def _wear(run: Run) -> Figure | None:
    columns = _columns(run, "wear")
    if columns is None or not run.result["erases_max"]:
        return None
    data = [
        {
            "type": "bar",
            "x": columns["erases"],
            "y": columns["erase_blocks"],
            "marker": {"color": "@c0"},
        }
    ]
    result = run.result
    reading = (
        "Of the drive's whole life, filling and aging included: "
        f"{significant(result['erases_mean'])} erases on average, {count(result['erases_min'])} to "
        f"{count(result['erases_max'])}, standard deviation "
        f"{significant(result['erases_stddev'])}."
    )
    layout = axes(
        title("erases of an erase block", **whole_ticks(columns["erases"])),
        title("erase blocks"),
        bargap=0.05,
        showlegend=False,
    )
    return Figure("wear", "Wear", reading, data, layout, 360)


def latency_table(result: dict[str, Any]) -> Table:
    """List latencies by operation."""
    rows = [
        (op, count(row["count"]), *(short_time(row[key]) for key in words.LATENCY_KEYS))
        for op, row in words.operations(result).items()
    ]
    columns = (
        ("operation", "left"),
        ("requests", "right"),
        *((name, "right") for name in words.LATENCY_NAMES),
    )
    return Table("Latency", columns, rows)


def delay_table(result: dict[str, Any]) -> Table:
    """List what delayed each operation, and how much."""
    rows = [
        (
            op,
            name,
            percent(found["share_of_requests"]),
            short_time(found["mean"]),
            percent(found["share_of_latency"]),
            *(short_time(found[key]) for key in words.LATENCY_KEYS[1:]),
        )
        for op in words.operations(result)
        for delay, name in words.DELAYS.items()
        if (found := result["delays"][op][delay])["delayed"]
    ]
    columns = (
        ("operation", "left"),
        ("delayed by", "left"),
        ("of them", "right"),
        ("mean of all", "right"),
        ("of the latency", "right"),
        *((name, "right") for name in words.LATENCY_NAMES[1:]),
    )
    note = (
        "Median, 99 %, 99.9 % and longest are of the requests that were delayed by this at all. "
        f"{words.DELAYS_EXPLAINED}"
    )
    return Table("What delayed requests", columns, rows, note, folded=True)


def flow_table(result: dict[str, Any]) -> Table:
    """Say what each of several flows did: until its own last request."""
    return Table("Flows", words.FLOW_HEADINGS, words.flow_rows(result["flows"]))


def handle_table(result: dict[str, Any]) -> Table:
    """Say what was written and moved by reclaim unit handle."""
    note = (
        "Reclaim units and what is valid in them at the end. Under initial isolation what the "
        "controller moves of all handles shares reclaim units."
    )
    rows = words.handle_rows(result)
    return Table("Reclaim unit handles", words.HANDLE_HEADINGS, rows, note)


def copies_table(result: dict[str, Any]) -> Table:
    """Say how many dies reads and writes asked, where pages have copies."""
    note = (
        "Reads of pages on flash, and writes of pages, by the number of dies that they asked: one, "
        "or more because the die was blocked by the drive's own work."
    )
    rows = words.copies_rows(result)
    return Table("Copies on other dies", words.COPIES_HEADINGS, rows, note)


def figures_table(result: dict[str, Any]) -> Table:
    """List the main figures, and what flash did for whom."""
    rows = [*words.figures(result), ("event hash", result["event_hash"])]
    for operation, by_cause in result["flash_operations"].items():
        text = ", ".join(
            f"{count(done)} {words.CAUSES[cause]}" for cause, done in by_cause.items() if done
        )
        rows.append((f"flash: {operation.replace('_', '-')}", text or "none"))
    rows += [
        (
            "tables of the FTL for each physical page, in bytes",
            significant(result["table_bytes_per_page"]),
        ),
        ("time to make the drive", span(result["prepare_seconds"])),
        (
            "flash operations simulated a second",
            short_count(result["flash_operations_per_wall_second"]),
        ),
    ]
    return Table("Every figure", (("figure", "left"), ("value", "right")), rows, folded=True)


def drive_table(result: dict[str, Any]) -> Table:
    """Describe the drive."""
    device = result["device"]
    note = (
        f"{device['summary']}. {words.fitted(device)} profile.toml beside this report has every "
        "key."
    )
    return Table(
        f"The drive: {device['name']}",
        (("", "left"), ("", "left")),
        words.device_rows(device),
        note,
        folded=True,
    )
