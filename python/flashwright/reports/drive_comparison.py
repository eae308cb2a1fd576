"""The report of a comparison of simulated drives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flashwright import reading_words
from flashwright._text import percent, short_count, short_time, significant
from flashwright.devices import caveats
from flashwright.reports import drive_words as words
from flashwright.reports.drive import tails
from flashwright.reports.drive_figures import (
    Columns,
    delay_bars,
    over_time_line,
    share_bars,
    tail_axes,
    tail_line,
)
from flashwright.reports.figures import (
    Colours,
    axes,
    bar_colours,
    bars,
    highlight,
    highlight_note,
    log_axis,
    title,
)
from flashwright.reports.page import Fact, Figure, Page, Section, Table
from flashwright.runs import Run
from flashwright.steady import holds

COLUMNS = (
    ("drive", "left"),
    ("requests/s", "right"),
    ("throughput", "right"),
    ("write ampl.", "right"),
    ("host", "right"),
    ("internal", "right"),
    ("idle", "right"),
    ("life in years", "right"),
)
"""Of the table of drives; `host`, `internal` and `idle` are shares of the dies' time."""
LATENCY_COLUMNS = (
    ("drive", "left"),
    ("operation", "left"),
    ("mean", "right"),
    ("median", "right"),
    ("99 %", "right"),
    ("99.9 %", "right"),
    ("99.99 %", "right"),
)
"""Of the table of latencies, with a row for each operation of each drive."""
MOST_BEST = 3
"""Drives that stand out where there are too many lines for colours."""
MOST_TIMES_LONGER = 10
"""Up to this ratio of the longest run to the shortest they are drawn over the same seconds."""


def cells(row: dict[str, Any]) -> tuple[str, ...]:
    """Give a drive's row of the table of drives."""
    if "error" in row:
        return (row["drive"], "failed", *[""] * (len(COLUMNS) - 2))
    share = row["die_share"]
    return (
        row["drive"] + (" *" if is_unsteady(row) else ""),
        words.iops(row["iops"]),
        words.rate(row["bytes_per_second"]),
        significant(row["write_amplification"], 4)
        if row["host_page_writes"]
        else significant(None),
        percent(share["host"]),
        percent(words.internal(share)),
        percent(share["idle"]),
        significant(row["life_years"]),
    )


def latencies(row: dict[str, Any]) -> list[tuple[str, ...]]:
    """Give a drive's rows of the table of latencies."""
    if "error" in row:
        return []
    return [
        (
            row["drive"] if number == 0 else "",
            op,
            *(short_time(latency[key]) for key in ("mean", "p50", "p99", "p999", "p9999")),
        )
        for number, (op, latency) in enumerate(words.operations(row).items())
    ]


def is_unsteady(row: dict[str, Any]) -> bool:
    """Check whether a figure of the run was seen to drift."""
    return any(value is False for value in row["steady"].values())


def remarks(result: dict[str, Any]) -> list[str]:
    """Say what a reader must know before trusting the figures."""
    lines = reading_words.lines(*result["workloads"])
    if not result["complete"]:
        lines.append("The run was stopped before its end: simulations are missing.")
    lines += [
        f"{row['workload']} could not run on {row['drive']}: {row['error']}"
        for row in result["results"]
        if "error" in row
    ]
    found: dict[str, list[str]] = {}
    for row in result["results"]:
        for line in [] if "error" in row else caveats(row):
            found.setdefault(line, []).append(row["drive"])
    drives = set(result["drives"])
    for line, names in found.items():
        of = "; ".join(dict.fromkeys(names))
        lines.append(
            line
            if set(names) == drives
            else f"{of}{' *' if line.startswith('Not steady') else ''}: {line}"
        )
    return lines


def headline(rows: Sequence[dict[str, Any]]) -> str:
    """Give the answer in a sentence or two."""
    done = sorted((row for row in rows if "error" not in row), key=lambda row: -row["iops"])
    if not done:
        return "No drive has finished."
    best, worst = done[0], done[-1]
    text = (
        f"{best['drive']} does {words.iops(best['iops'])} requests a second "
        f"({words.rate(best['bytes_per_second'])}){_mark(best)}"
    )
    if worst is not best:
        text += f", {worst['drive']} {words.iops(worst['iops'])}{_mark(worst)}"
        if worst["iops"] and holds(best) and holds(worst):
            text += f": {significant(best['iops'] / worst['iops'])} times as many"
    text += "."
    if not all(holds(row) for row in done):
        return f"{text} What is not steady is not to be compared yet."
    tails_of = [(op, row) for op in words.TIMED for row in done if op in row["latency_ns"]]
    for op in words.TIMED:
        of = sorted(
            (row for other, row in tails_of if other == op),
            key=lambda row: row["latency_ns"][op]["p99"],
        )
        if len(of) > 1:
            text += (
                f" 99 % of the {words.PLURALS[op]} take less than "
                f"{short_time(of[0]['latency_ns'][op]['p99'])} on {of[0]['drive']}, "
                f"{short_time(of[-1]['latency_ns'][op]['p99'])} on {of[-1]['drive']}."
            )
    return text


def _mark(row: dict[str, Any]) -> str:
    return "" if holds(row) else " (not steady)"


def page(run: Run) -> Page:
    """Build the report of a comparison of drives."""
    result = run.result
    names = [workload["name"] for workload in result["workloads"]]
    alone = len(names) == 1
    rows = {name: [row for row in result["results"] if row["workload"] == name] for name in names}
    return Page(
        kind="comparison of simulated drives",
        title=f"{', '.join(names)} on {len(result['drives'])} drives",
        headline="\n".join(("" if alone else f"{name}: ") + headline(rows[name]) for name in names),
        facts=_facts(rows[names[0]]) if alone else [],
        sections=[
            section
            for number, name in enumerate(names)
            for section in _sections(run, name, f"w{number}", "" if alone else f"{name}: ")
        ],
        provenance=result["provenance"],
        remarks=remarks(result),
    )


def _facts(rows: Sequence[dict[str, Any]]) -> list[Fact]:
    done = [row for row in rows if "error" not in row]
    return [
        Fact(row["drive"], f"{short_count(row['iops'])}/s", words.rate(row["bytes_per_second"]))
        for row in sorted(done, key=lambda row: -row["iops"])[:4]
    ]


def _sections(run: Run, workload: str, key: str, prefix: str) -> list[Section]:
    rows = [
        row for row in run.result["results"] if row["workload"] == workload and "error" not in row
    ]
    if not rows:
        return []
    colours = Colours(run.result["drives"])
    operations = [op for op in words.OPERATIONS if any(op in row["latency_ns"] for row in rows)]
    latency = [
        figure
        for op in operations
        if op in words.TIMED
        for figure in (
            _tail(run, workload, op, f"{key}-{op}", colours),
            _delays(rows, op, f"{key}-{op}-delays"),
        )
    ]
    amount = [
        _iops(rows, key),
        _throughput(run, workload, key, colours),
        _amplification(rows, key),
    ]
    inside = [_dies(rows, key)]
    return [
        Section(f"{prefix}How long requests take", [figure for figure in latency if figure]),
        Section(f"{prefix}How much the drives do", [figure for figure in amount if figure]),
        Section(f"{prefix}What happens inside", inside),
        Section(f"{prefix}All figures", [_table(rows), _latency_table(rows), _drives(rows)]),
    ]


def _columns(run: Run, name: str, workload: str, drive: str) -> Columns | None:
    table = run.tables.get(name)
    if table is None:
        return None
    wanted = [
        row for row in table.to_pylist() if row["workload"] == workload and row["drive"] == drive
    ]
    return {key: [row[key] for row in wanted] for key in wanted[0]} if wanted else None


def _tail(run: Run, workload: str, op: str, key: str, colours: Colours) -> Figure | None:
    data, least = [], 1.0
    for drive in run.result["drives"]:
        columns = _columns(run, "latency_histogram", workload, drive)
        curve = tails(columns).get(op) if columns else None
        if curve is not None:
            data.append(tail_line(drive, *curve, colours[drive], dash=colours.dash(drive)))
            least = min(least, *curve[1])
    if not data:
        return None
    rows = [row for row in run.result["results"] if op in row.get("latency_ns", {})]
    rows = [row for row in rows if row["workload"] == workload]
    rows.sort(key=lambda row: row["latency_ns"][op]["p99"])
    data = highlight(data, [row["drive"] for row in rows[:MOST_BEST]])
    reading = (
        f"The further left and the steeper, the better. One line a drive, all "
        f"{words.PLURALS[op]} of its run.{highlight_note(data)}"
    )
    return Figure(
        f"{key}-latency", f"Latency of {words.PLURALS[op]}", reading, data, tail_axes(least), 480
    )


def _delays(rows: Sequence[dict[str, Any]], op: str, key: str) -> Figure | None:
    found = [row for row in rows if op in row["latency_ns"]]
    data, layout, height = delay_bars(
        {row["drive"]: row["delays"][op] for row in found},
        {row["drive"]: row["latency_ns"][op]["mean"] for row in found},
    )
    reading = "Shares of the mean latency, which stands below the name."
    if op == "read" or all("read" not in row["latency_ns"] for row in rows):
        reading += f" {words.DELAYS_EXPLAINED}"
    return (
        Figure(key, f"What {words.PLURALS[op]} wait for", reading, data, layout, height)
        if data
        else None
    )


def _iops(rows: Sequence[dict[str, Any]], key: str) -> Figure:
    ranked = sorted(rows, key=lambda row: -row["iops"])
    data, layout = bars(
        [row["drive"] for row in ranked],
        [row["iops"] for row in ranked],
        [f"{short_count(row['iops'])}/s, {words.rate(row['bytes_per_second'])}" for row in ranked],
        bar_colours(len(ranked)),
        "requests a second",
    )
    reading = "Bars: requests a second, all operations together; beside them the throughput."
    return Figure(f"{key}-iops", "Requests a second", reading, data, layout, 110 + 34 * len(ranked))


def _throughput(run: Run, workload: str, key: str, colours: Colours) -> Figure | None:
    found = {drive: _columns(run, "over_time", workload, drive) for drive in run.result["drives"]}
    data = [
        over_time_line(drive, columns, "iops", colours[drive], dash=colours.dash(drive))
        for drive, columns in found.items()
        if columns is not None
    ]
    if not data:
        return None
    ranked = sorted(
        (row for row in run.result["results"] if row["workload"] == workload and "iops" in row),
        key=lambda row: -row["iops"],
    )
    data = highlight(data, [row["drive"] for row in ranked[:MOST_BEST]])
    along, across = (
        title("seconds of the drive's time"),
        title("requests a second", rangemode="tozero", exponentformat="SI"),
    )
    ends = [line["x"][-1] for line in data]
    if max(ends) > MOST_TIMES_LONGER * min(ends):
        # In seconds, all but the slowest drive would be a point at the left, and all but the
        # fastest a line at the bottom.
        for line, end in zip(data, ends, strict=True):
            line["x"] = [x / end for x in line["x"]]
            line["y"] = [y or None for y in line["y"]]
        along = title("share of each drive's run", tickformat=".0%", range=[0, 1])
        across = log_axis("requests a second", [value for line in data for value in line["y"]])
    return Figure(
        f"{key}-time",
        "Requests a second over the run",
        f"A level line is steady.{highlight_note(data)}",
        data,
        axes(along, across),
        400,
    )


def _amplification(rows: Sequence[dict[str, Any]], key: str) -> Figure | None:
    ranked = sorted(
        (row for row in rows if row["host_page_writes"]), key=lambda row: row["write_amplification"]
    )
    if not ranked:
        return None
    data, layout = bars(
        [row["drive"] for row in ranked],
        [row["write_amplification"] for row in ranked],
        [significant(row["write_amplification"]) for row in ranked],
        bar_colours(len(ranked)),
        "write amplification",
    )
    reading = "Pages programmed for each page that the host writes. Lower is better."
    return Figure(
        f"{key}-amplification", "Write amplification", reading, data, layout, 110 + 34 * len(ranked)
    )


def _dies(rows: Sequence[dict[str, Any]], key: str) -> Figure:
    data, layout, height = share_bars(
        [row["drive"] for row in rows],
        {cause: [row["die_share"][cause] for row in rows] for cause in words.CAUSES},
    )
    reading = (
        "Over all dies of a drive. What is neither for the host nor idle, the drive does for "
        "itself."
    )
    return Figure(f"{key}-dies", "What the dies did", reading, data, layout, height)


def _table(rows: Sequence[dict[str, Any]]) -> Table:
    note = (
        "Host, internal and idle are shares of the dies' time. * throughput or write amplification "
        "still changed during the run."
    )
    return Table("Every drive", COLUMNS, [cells(row) for row in rows], note)


def _latency_table(rows: Sequence[dict[str, Any]]) -> Table:
    return Table("Latency", LATENCY_COLUMNS, [line for row in rows for line in latencies(row)])


def _drives(rows: Sequence[dict[str, Any]]) -> Table:
    lines = [
        (
            row["drive"],
            f"{row['device']['capacity_bytes'] / 2**30:.3g} GiB",
            str(row["device"]["channels"]),
            str(row["device"]["dies"]),
            words.policy(row["device"]),
            row["event_hash"],
        )
        for row in rows
    ]
    columns = (
        ("drive", "left"),
        ("capacity", "right"),
        ("channels", "right"),
        ("dies", "right"),
        ("mapping", "left"),
        ("event hash", "left"),
    )
    return Table("The drives", columns, lines, folded=True)
