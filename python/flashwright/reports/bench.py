"""The report of `bench`: of one run all of it, of several their figures side by side.

Of those that were recorded also what each layer did.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

from flashwright._text import count, percent, short_count, short_time, significant, size
from flashwright.lifetime import volume
from flashwright.pages.page import Fact, Figure, Page, Section, Table
from flashwright.reports import bench_figures as figures
from flashwright.reports import bench_run
from flashwright.reports.bench_summary import median, pairs
from flashwright.runs import Run

Cell = dict[str, Any]

_FIGURES = ("transactions/s", "range", "p50", "p99")
_FIGURES_OF_LAYERS = (
    "writes queued/s",
    "issued/s",
    "mean size",
    "written/s",
    "written a transaction",
    "device / called",
    "sequential",
    "flushes/s",
)
_NOTE_OF_LAYERS = (
    "Device / called: bytes that the device got for each that the database wrote. Queued is what "
    "the file system sends to the block layer, issued what the device gets after merging and "
    "splitting."
)
_MOST_DIFFERENCE = 1.3
_RATE, _PER_TRANSACTION = "transactions_per_second", "issued_write_bytes_per_transaction"


def page(run: Run) -> Page:
    """Build the report."""
    result = run.result
    sections: list[Section] = []
    tables: list[Table] = []
    if _is_one(result):
        sections.append(Section("The run", bench_run.figures(run)))
        tables += bench_run.tables(result)
    else:
        varied = (figures.throughput(result), figures.ratio(result), figures.responses(result))
        sections.append(Section("What was varied", [one for one in varied if one]))
    if result["has_layers"]:
        found = [one for one in figures.layers(result) if one]
        sections.append(Section("What each layer did", found))
    if result["drive"] is not None or result["life"]["guaranteed_bytes"]:
        blocks: list[Figure | Table] = [one for one in figures.drive(result) if one]
        blocks += [*_drive_table(result), *_life_table(result)]
        sections.append(Section("Down to flash", blocks, intro=_drive_intro(result)))
    if not _is_one(result):
        over_time = figures.over_time(run)
        sections += [Section("Over time", [over_time])] if over_time else []
    tables += _side_by_side(result)
    if result["has_layers"]:
        tables += [_io_table(result), _device_table(result)]
    sections.append(Section("All figures", [*tables, _machine_table(result)]))
    return Page(
        kind="benchmark",
        title=title_of(result),
        headline=headline(result),
        facts=bench_run.facts(result) if _is_one(result) else _facts(result["cells"]),
        sections=sections,
        provenance=result["provenance"],
        remarks=remarks(result),
    )


def _is_one(result: dict[str, Any]) -> bool:
    """Tell whether there was one run, of which more is known."""
    return "kinds" in result


def _side_by_side(result: dict[str, Any]) -> list[Table]:
    is_alone = _is_one(result) and not result["has_layers"]
    return [] if is_alone else [_main_table(result)]


def terminal_tables(result: dict[str, Any]) -> list[Table]:
    """Give the tables that a terminal shows."""
    title = title_of(result)
    one = [replace(bench_run.kinds_table(result), title=title)] if _is_one(result) else []
    cells = [replace(table, title="" if one else title) for table in _side_by_side(result)]
    return [*one, *cells]


def title_of(result: dict[str, Any]) -> str:
    """Name what was run."""
    workloads = dict.fromkeys(one["workload"]["name"] for one in result["benches"])
    databases = dict.fromkeys(one["settings"]["database"]["name"] for one in result["benches"])
    if _is_one(result):
        database = result["database"]
        return f"{', '.join(workloads)} on {database.get('version', database['name'])}"
    by = f", by {result['axis']['title']}" if len(result["benches"]) > 1 else ""
    return f"{' and '.join(workloads)} on {' and '.join(databases)}{by}"


def headline(result: dict[str, Any]) -> str:
    """Give the answer in a few lines."""
    found = result["cells"]
    if not found:
        return "Nothing was measured."
    lines = [bench_run.headline(result)] if _is_one(result) else [_rates_of(found)]
    lines += [_bytes_of(found), _ratios(found)]
    if result["life"]["guaranteed_bytes"] or result["drive"] is not None:
        lines += _lives(found)
    return "\n".join(line for line in lines if line)


def _rates_of(found: list[Cell]) -> str:
    by_rate = sorted(found, key=lambda cell: -(median(cell, _RATE) or 0.0))
    best, worst = by_rate[0], by_rate[-1]
    text = f"{name_of(best)} made {significant(median(best, _RATE))} transactions a second"
    if worst is not best:
        text += f", {name_of(worst)} {significant(median(worst, _RATE))}"
    return f"{text}."


def _bytes_of(found: list[Cell]) -> str:
    by_bytes = sorted(
        (cell for cell in found if median(cell, _PER_TRANSACTION)),
        key=lambda cell: median(cell, _PER_TRANSACTION) or 0.0,
    )
    if not by_bytes:
        return ""
    least, most = by_bytes[0], by_bytes[-1]
    text = (
        f"A transaction wrote {size(median(least, _PER_TRANSACTION) or 0)} to the device on "
        f"{name_of(least)}"
    )
    if most is not least:
        text += f", {size(median(most, _PER_TRANSACTION) or 0)} on {name_of(most)}"
    return f"{text}."


def name_of(cell: Cell) -> str:
    """Name a cell in a sentence."""
    level = cell["level"].replace("_", " ")
    return f"{cell['file_system']} ({level})" if level else str(cell["file_system"])


def _ratios(found: list[Cell]) -> str:
    text = pairs(found, _RATE)
    if not text:
        return ""
    _, out, inside, _ = text[0]
    named = [(level.replace("_", " "), ratio) for level, _, _, ratio in text]
    each = ", ".join(
        f"{significant(ratio)} ({level})" if level else significant(ratio) for level, ratio in named
    )
    return f"Out of place over in place ({out} over {inside}), transactions a second: {each}."


def _lives(found: list[Cell]) -> list[str]:
    lines = []
    for name, what in (
        ("life_years", "by its cycles"),
        ("life_years_by_guarantee", "by what its maker guarantees"),
    ):
        known = [cell for cell in found if median(cell, name) is not None]
        if known:
            each = ", ".join(
                f"{significant(median(cell, name))} on {name_of(cell)}" for cell in known
            )
            lines.append(f"At this rate all day a drive lives N years {what}, with N: {each}.")
    if not lines and any(median(cell, "write_bytes_per_day") for cell in found):
        each = ", ".join(
            f"{volume(median(cell, 'write_bytes_per_day') or 0.0)} on {name_of(cell)}"
            for cell in found
        )
        lines.append(
            "How long a drive lives is not known: that takes runs of ten minutes or more "
            f"(--for 600), in which the drive is steady. Written a day at this rate: {each}."
        )
    return lines


def remarks(result: dict[str, Any]) -> list[str]:
    """Say what to know when reading the figures."""
    lines = []
    runs = result["runs"]
    if _is_one(result):
        lines += bench_run.remarks(result)
    elif not result["complete"]:
        lines.append(
            f"Only {runs['done']} of {runs['of']} runs were made: "
            f"{result['stopped_by'] or 'it was stopped'}."
        )
    for name, what in (("lost_events", "the layers"), ("lost_call_events", "the database's calls")):
        lost = sum((cell["figures"].get(name) or {}).get("most", 0) for cell in result["cells"])
        if lost:
            lines.append(
                f"{count(lost)} events were LOST: figures of {what} are too small. Take a larger "
                "--trace-buffer."
            )
    if result["violations"] and not _is_one(result):
        lines.append(f"NOT consistent: {result['violations'][0]}.")
    if result["repeats"] == 1 and runs["of"] > 1:
        lines.append(
            "Each was run once: how much runs differ by themselves is not known (--repeat)."
        )
    lines += _differences(result["cells"])
    failed = sum(
        (cell["figures"].get("cleanings_failed") or {}).get("most", 0) for cell in result["cells"]
    )
    if failed:
        lines.append(f"{count(failed)} cleanings FAILED: runs.parquet has the file system's words.")
    busy = [median(cell, "load_average") or 0.0 for cell in result["cells"]]
    processors = result["machine"]["processors"]
    if busy and max(busy) > processors:
        lines.append(
            f"The machine was busy: load averages of up to {significant(max(busy))} on "
            f"{processors} processors before a run."
        )
    drive = result["drive"]
    if drive is not None:
        lines += [f"{drive['name']}: {line}" for line in result["drive_caveats"]]
    return [*lines, *result["remarks"]]


def _differences(found: list[Cell]) -> list[str]:
    """Say how much runs of the same differ, if that is much."""
    spreads = [cell["figures"][_RATE] for cell in found if cell["runs"] > 1]
    worst = max((one["most"] / one["least"] for one in spreads if one["least"]), default=1.0)
    if worst <= _MOST_DIFFERENCE:
        return []
    return [
        f"Runs of the same differ by up to {significant(worst)} times in transactions a second: "
        "smaller differences between levels mean nothing. Bytes for each transaction, and "
        "for each that was called, depend less on the machine."
    ]


def _facts(found: list[Cell]) -> list[Fact]:
    facts = []
    for name, label, better in (
        (_RATE, "most transactions a second", max),
        (_PER_TRANSACTION, "fewest bytes written a transaction", min),
    ):
        known = [cell for cell in found if median(cell, name)]
        if known:
            best = better(known, key=lambda cell: median(cell, name) or 0.0)
            value = median(best, name) or 0.0
            facts.append(
                Fact(label, size(value) if "bytes" in name else significant(value), name_of(best))
            )
    return facts


def _rows(result: dict[str, Any]) -> list[list[str]]:
    return [
        [
            *_leading(cell, result),
            significant(median(cell, _RATE)),
            spread(cell, _RATE),
            short_time(median(cell, "response_p50_ns")),
            short_time(median(cell, "response_p99_ns")),
            *(_of_layers(cell) if result["has_layers"] else ()),
        ]
        for cell in result["cells"]
    ]


def _of_layers(cell: Cell) -> list[str]:
    return [
        significant(median(cell, "queued_writes_per_second")),
        significant(median(cell, "issued_writes_per_second")),
        _size(median(cell, "issued_mean_write_bytes")),
        _size(median(cell, "issued_write_bytes_per_second")),
        _size(median(cell, _PER_TRANSACTION)),
        significant(median(cell, "device_amplification")),
        percent(median(cell, "issued_sequential_share_of_writes")),
        significant(median(cell, "queued_flushes_per_second")),
    ]


def spread(cell: Cell, name: str) -> str:
    """Give the range of a figure over the repeats; nothing if there was one run."""
    found = cell["figures"].get(name)
    return (
        ""
        if found is None or cell["runs"] == 1
        else f"{significant(found['least'])} to {significant(found['most'])}"
    )


def _size(value: float | None) -> str:
    return "–" if value is None else size(value)  # noqa: RUF001


def _has_levels(result: dict[str, Any]) -> bool:
    return any(cell["level"] for cell in result["cells"])


def _leading(cell: Cell, result: dict[str, Any]) -> list[str]:
    """Name a cell in a row: file system, and its level if there is any."""
    return (
        [cell["file_system"], cell["level"].replace("_", " ")]
        if _has_levels(result)
        else [cell["file_system"]]
    )


def _aligned(result: dict[str, Any], headings: tuple[str, ...]) -> list[tuple[str, str]]:
    leading = ["file system", result["axis"]["title"]] if _has_levels(result) else ["file system"]
    return [
        *((heading, "left") for heading in leading),
        *((heading, "right") for heading in headings),
    ]


def _main_table(result: dict[str, Any]) -> Table:
    repeats = result["repeats"]
    note = f"Medians of {repeats} runs, with the least and the most. " if repeats > 1 else ""
    if result["has_layers"]:
        note += _NOTE_OF_LAYERS
    columns = _aligned(result, _FIGURES + (_FIGURES_OF_LAYERS if result["has_layers"] else ()))
    return Table("By level and file system", columns, _rows(result), note=note)


def _io_table(result: dict[str, Any]) -> Table:
    headings = (
        "layer",
        "reads/s",
        "read/s",
        "mean read",
        "writes/s",
        "written/s",
        "mean write",
        "trims/s",
        "flushes/s",
    )
    lines = []
    for cell in result["cells"]:
        for layer in ("called", "queued", "issued"):
            if median(cell, f"{layer}_writes") is None:
                continue
            line = [*_leading(cell, result), layer]
            for op in ("read", "write"):
                line += [
                    significant(median(cell, f"{layer}_{op}s_per_second")),
                    _size(median(cell, f"{layer}_{op}_bytes_per_second")),
                    _size(median(cell, f"{layer}_mean_{op}_bytes")),
                ]
            line += [
                significant(median(cell, f"{layer}_{name}_per_second"))
                for name in ("trims", "flushes")
            ]
            lines.append(line)
    return Table(
        "Requests by layer",
        _aligned(result, headings),
        lines,
        note="SCHEDULER figures 5.6 to 5.8 in numbers. Called is what the database asks of the "
        "file system; flushes there are fsync.",
    )


def _device_table(result: dict[str, Any]) -> Table:
    kinds = [(op, name) for op in ("read", "write", "flush") for name in ("p50", "p99")]
    headings = tuple(f"{op} {name}" for op, name in kinds)
    lines = [
        [
            *_leading(cell, result),
            *(short_time(median(cell, f"issued_{op}_{name}_ns")) for op, name in kinds),
        ]
        for cell in result["cells"]
    ]
    note = (
        "From issue to completion: where these differ between runs of the same, the machine below "
        "differed."
    )
    return Table("How long the device took", _aligned(result, headings), lines, note=note)


def _drive_intro(result: dict[str, Any]) -> str:
    drive = result["drive"]
    if drive is None:
        return ""
    whole = (
        "at its own size"
        if drive["is_whole"]
        else f"of {size(drive['capacity_bytes'])}, the size of the volume"
    )
    return (
        f"Each recording is played on {drive['name']} {whole}, which is {drive['state']} at the "
        "start, until it has written the drive some times over; figures are of the second half, 32 "
        "requests outstanding."
    )


def _drive_table(result: dict[str, Any]) -> list[Table]:
    known = [
        cell for cell in result["cells"] if median(cell, "drive_write_amplification") is not None
    ]
    if not known:
        return []
    headings = (
        "write amplification",
        "flash written a transaction",
        "flash / device bytes",
        "flash / called bytes",
        "drive's time for the run",
        "most transactions/s",
        "mean write",
        "p99 write",
    )
    lines = [
        [
            *_leading(cell, result),
            significant(median(cell, "drive_write_amplification")),
            _size(median(cell, "drive_flash_write_bytes_per_transaction")),
            significant(median(cell, "drive_bytes_amplification")),
            significant(median(cell, "total_amplification")),
            short_time((median(cell, "drive_seconds") or 0.0) * 1e9),
            significant(median(cell, "drive_most_transactions_per_second")),
            short_time(median(cell, "drive_mean_write_ns")),
            short_time(median(cell, "drive_p99_write_ns")),
        ]
        for cell in known
    ]
    note = (
        "Simulated. Write amplification is pages programmed for each page that the host writes; "
        "flash / device bytes also counts what a page written in part costs. Most transactions/s "
        "is what the drive's speed alone would allow."
    )
    return [Table(f"On {result['drive']['name']}", _aligned(result, headings), lines, note=note)]


def _life_table(result: dict[str, Any]) -> list[Table]:
    names = [
        name
        for name in ("life_years", "life_years_by_guarantee")
        if any(median(cell, name) for cell in result["cells"])
    ]
    if not names:
        return []
    said = {"life_years": "years by cycles", "life_years_by_guarantee": "years by guarantee"}
    transactions = {
        "life_years": "transactions by cycles",
        "life_years_by_guarantee": "transactions by guarantee",
    }
    headings = (
        "written a day",
        *(said[name] for name in names),
        *(transactions[name] for name in names),
    )
    lines = [
        [
            *_leading(cell, result),
            _size(median(cell, "write_bytes_per_day")),
            *(significant(median(cell, name)) for name in names),
            *(
                short_count(median(cell, name.replace("years", "transactions")) or 0.0)
                for name in names
            ),
        ]
        for cell in result["cells"]
    ]
    note = (
        "By guarantee: the bytes that the maker guarantees over the measured rate (SCHEDULER 5.5, "
        "table 5.4). By cycles: the flash of the whole profile times its erases, over what the "
        "flash was programmed with. Run at this rate day and night, wear even; where the drive "
        "would allow fewer transactions a second than were measured, it would live longer. "
        "Transactions are free of the rate."
    )
    return [Table("How long the drive lives", _aligned(result, headings), lines, note=note)]


def _machine_table(result: dict[str, Any]) -> Table:
    machine, database = result["machine"], result["database"]
    lines = [
        ["processor", f"{machine['processor']}, {machine['processors']} of them"],
        ["memory", size(machine["memory_bytes"])],
        ["kernel", machine["kernel"]],
        ["database", str(database.get("version", "not known"))],
        ["page cache", str(database.get("page_cache", "not known"))],
        ["clients", ", ".join(_settings_of(result, "run", "clients"))],
        [
            "processors busy",
            ", ".join(
                f"{name_of(cell)}: {percent(median(cell, 'cpu_busy_share'), 2)}"
                for cell in result["cells"]
            ),
        ],
    ]
    lines += [
        [f"setting {name}", ", ".join(known)]
        for name in dict.fromkeys(itertools.chain(*_databases(result)))
        if (known := _settings_of(result, "database", name))
    ]
    return Table("The machine and the database", (("", "left"), ("", "left")), lines, folded=True)


def _databases(result: dict[str, Any]) -> list[dict[str, Any]]:
    return [one["settings"]["database"] for one in result["benches"]]


def _settings_of(result: dict[str, Any], area: str, name: str) -> list[str]:
    """Give the values that a setting has among the benches, but for those that mean nothing."""
    found = (one["settings"][area].get(name) for one in result["benches"])
    return list(dict.fromkeys(str(value) for value in found if value not in (None, {}, False)))
