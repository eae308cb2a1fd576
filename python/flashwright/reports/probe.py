"""The report of a probe: what was found, and every curve.

Of two drives, one laid over the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flashwright import _core
from flashwright._text import count, size, span
from flashwright.probing.plan import file_of
from flashwright.probing.result import points
from flashwright.reports import probe_words as words
from flashwright.reports.figures import Colours, axes, title
from flashwright.reports.page import Fact, Figure, Page, Section, Table
from flashwright.reports.probe_charts import Curve, figure, size_axis
from flashwright.runs import Run

GROUPS = {
    "performance": "Throughput and latency",
    "patterns": "Patterns of writes",
    "internals": "How it is made",
    "interference": "What streams do to each other",
}
OTHER = "Other experiments"
FACTS = (
    "random_read_4ki_requests_per_second",
    "random_write_4ki_requests_per_second",
    "sequential_read_most_mb_per_second",
    "sequential_write_most_mb_per_second",
    "chunk_bytes",
    "domains",
    "mapping",
    "write_buffer_bytes",
    "superblock_bytes",
)
"""Values that stand in the answer, if they were found."""
MOST_FACTS = 9
MOST_ROWS_OPEN = 20


def page(run: Run) -> Page:
    """Build the report of a probe."""
    result = run.result
    curves = points(run)
    return Page(
        kind="probe",
        title=words.title(result),
        headline=headline(result),
        facts=facts(result),
        sections=[_answers(run), *_sections(result, curves), *_profile(result), _about(result)],
        provenance=result["provenance"],
        remarks=[*words.remarks(result), *words.profile_lines(result)],
    )


def headline(result: Mapping[str, Any]) -> str:
    """Give the answer in a sentence or two."""
    against = result.get("against")
    if against is not None:
        return f"{result['drive']} beside {against['drive']}: {_alike(result, against)}"
    counted = words.verdict_counts(result)
    found = counted["sure"] + counted["unsure"]
    told = (
        f"{result['drive']}: {count(found)} values found from outside, {count(counted['sure'])} of "
        "them sure"
    )
    return (
        f"{told}."
        if not counted["not_found"]
        else f"{told}; {count(counted['not_found'])} not found."
    )


def _alike(result: Mapping[str, Any], against: Mapping[str, Any]) -> str:
    """Say how many of the numbers that are sure of both drives agree within 10 %."""
    theirs = {
        (finding["label"], value["key"]): value
        for finding in against["findings"]
        for value in words.told_values(finding)
    }
    pairs = [
        (value["number"], other["number"])
        for finding in result["findings"]
        for value in words.told_values(finding)
        if (other := theirs.get((finding["label"], value["key"]))) is not None
        and all(one["verdict"] == "sure" and one.get("number") for one in (value, other))
    ]
    if not pairs:
        return "no number is sure of both."
    alike = sum(0.9 <= second / first <= 1 / 0.9 for first, second in pairs)
    return f"{alike} of {len(pairs)} numbers that are sure of both agree within 10 %."


def facts(result: Mapping[str, Any]) -> list[Fact]:
    """Give the figures of the answer."""
    found = {
        value["key"]: value
        for finding in result["findings"]
        for value in finding["values"]
        if value["verdict"] != "not_found"
    }
    keys = [key for key in FACTS if key in found][:MOST_FACTS]
    against = result.get("against")
    theirs = (
        {}
        if against is None
        else {value["key"]: value for one in against["findings"] for value in one["values"]}
    )
    given = []
    for key in keys:
        note = words.VERDICTS[found[key]["verdict"]]
        if against is not None:
            other = words.value_text(theirs[key]) if key in theirs else words.NOTHING
            note = f"{note}; {against['drive']}: {other}"
        given.append(Fact(_name(key), words.value_text(found[key]), note))
    written = f"{size(result['written_bytes'])} written, " if result["written_bytes"] else ""
    given.append(
        Fact(
            "time of the device",
            span(result["device_seconds"]),
            f"{written}{size(result['read_bytes'])} read",
        )
    )
    return given


def _name(key: str) -> str:
    """Give the name of a value without its unit."""
    for unit in ("_mb_per_second", "_requests_per_second", "_bytes", "_us", "_ms", "_ns"):
        key = key.removesuffix(unit)
    return key.replace("_", " ").replace("4ki", "of 4 KiB")


def _answers(run: Run) -> Section:
    """List all values: of one drive with what is to be believed of them, of two side by side."""
    result = run.result
    if "against" in result:
        columns = words.comparison_headings(result)[1:]
        rows, emphasised = _grouped(words.comparison_rows(run))
        note = "The ratio is of the second drive to the first."
        table = Table("Side by side", columns, rows, note, emphasised=emphasised)
    else:
        columns = tuple(column for column in words.HEADINGS if column[0] != "why")
        rows = [row[:-1] for row in words.value_rows(result)]
        table = Table(
            "Every value",
            columns,
            rows,
            f"{words.VERDICTS_EXPLAINED} Why is below, with each experiment.",
            folded=len(rows) > MOST_ROWS_OPEN,
        )
    return Section("What was found", [table] if rows else [])


def _grouped(rows: Sequence[tuple[str, ...]]) -> tuple[list[tuple[str, ...]], frozenset[int]]:
    """Give each experiment a row of its own instead of a column, which a page has no room for.

    And which rows those are.
    """
    grouped: list[tuple[str, ...]] = []
    headings = []
    for label, *cells in rows:
        if label:
            headings.append(len(grouped))
            grouped.append((label, *[""] * (len(cells) - 1)))
        grouped.append(tuple(cells))
    return grouped, frozenset(headings)


def _sections(
    result: Mapping[str, Any], curves: Mapping[tuple[str, str, str, str], Sequence[Any]]
) -> list[Section]:
    """Give a section for each experiment that was done, group by group."""
    entries = {entry["name"]: entry for entry in _core.experiments()}
    against = result.get("against")
    theirs = (
        {} if against is None else {finding["label"]: finding for finding in against["findings"]}
    )
    ordered: dict[str, list[Section]] = {group: [] for group in (*GROUPS, "")}
    mine = {finding["label"]: finding for finding in result["findings"]}
    for label in dict.fromkeys([*mine, *theirs]):
        finding, other = mine.get(label), theirs.get(label)
        entry = entries.get(label.partition("(")[0], {})
        pair = [
            (one["drive"], found)
            for one, found in ((result, finding), (against, other))
            if one is not None and found is not None
        ]
        drives = [result["drive"]] + ([] if against is None else [against["drive"]])
        ordered[entry.get("group", "")].append(_section(label, entry, pair, curves, drives))
    return [section for group in ordered.values() for section in group]


def _section(
    label: str,
    entry: Mapping[str, Any],
    pair: Sequence[tuple[str, Mapping[str, Any]]],
    curves: Mapping[tuple[str, str, str, str], Sequence[Any]],
    drives: Sequence[str],
) -> Section:
    """Give what one experiment found on one drive or two."""
    group = GROUPS.get(entry.get("group", ""), OTHER)
    summary = str(entry.get("summary", ""))
    source = f" ({entry['source']})" if entry.get("source") else ""
    intro = f"{group}: {summary}{source}." if summary else f"{group}."
    charts: dict[str, dict[str, Any]] = {}
    for _, finding in pair:
        for chart in finding["charts"]:
            charts.setdefault(chart["name"], chart)
    blocks: list[Figure | Table] = []
    for name, chart in charts.items():
        stem = file_of(pair[0][1]["experiment"]).removesuffix(".json")
        drawn = figure(f"{stem}-{name}", chart, *_of_chart(label, name, pair, curves), drives)
        if drawn is not None:
            blocks.append(drawn)
    blocks += [
        _values(drive if len(drives) > 1 else "", finding)
        for drive, finding in pair
        if words.told_values(finding)
    ]
    notes = []
    for drive, finding in pair:
        shared = [note for _, one in pair for note in one["notes"]]
        alone = len(drives) > 1
        notes += [
            f"{drive}: {note}" if alone and shared.count(note) == 1 else note
            for note in finding["notes"]
        ]
    notes = list(dict.fromkeys(notes))
    return Section(
        label, blocks or [_values("", pair[0][1])], " ".join([intro, *map(_sentence, notes)])
    )


def _of_chart(
    label: str,
    name: str,
    pair: Sequence[tuple[str, Mapping[str, Any]]],
    curves: Mapping[tuple[str, str, str, str], Sequence[Any]],
) -> tuple[list[Curve], list[Mapping[str, Any]]]:
    """Collect the curves and the marks of a chart from one drive or two."""
    found: list[Curve] = []
    marks: list[tuple[str, Mapping[str, Any]]] = []
    for drive, finding in pair:
        for chart in finding["charts"]:
            if chart["name"] != name:
                continue
            for series in chart["series"]:
                rows = curves.get((drive, label, name, series["name"]), [])
                found.append(
                    Curve(drive, series["name"], rows, is_scatter=series.get("is_scatter", False))
                )
            marks += [(drive, mark) for mark in chart.get("marks", [])]
    return found, ([mark for _, mark in marks] if len(pair) == 1 else _told_apart(marks))


def _told_apart(marks: Sequence[tuple[str, Mapping[str, Any]]]) -> list[Mapping[str, Any]]:
    """Name the drive at each mark of two drives that the other has not got at the same place."""
    told: list[Mapping[str, Any]] = []
    for drive, mark in marks:
        shared = len({other for other, same in marks if same == mark}) > 1
        if mark not in told or not shared:
            told.append(mark if shared else {**mark, "label": f"{mark['label']} ({drive})"})
    return told


def _values(drive: str, finding: Mapping[str, Any]) -> Table:
    columns = tuple(column for column in words.HEADINGS if column[0] != "experiment")
    rows = [words.value_row(value) for value in words.told_values(finding)]
    spent = (
        f"{span(finding['device_seconds'])} of the device's time, {count(finding['requests'])} "
        f"requests, {size(finding['read_bytes'])} read, {size(finding['written_bytes'])} written."
    )
    return Table(f"Values{f' of {drive}' if drive else ''}", columns, rows, spent)


def _sentence(note: str) -> str:
    return f"{note[:1].upper()}{note[1:]}{'' if note.endswith('.') else '.'}"


def _profile(result: Mapping[str, Any]) -> list[Section]:
    """Show how near the fitted profile comes to what was measured."""
    profile = result.get("profile") or {}
    if not profile.get("cells"):
        return []
    data = []
    kinds: dict[str, list[Mapping[str, Any]]] = {}
    for cell in profile["cells"]:
        kinds.setdefault(words.kind_of_load(cell), []).append(cell)
    colours = Colours(list(kinds))
    for kind, cells in kinds.items():
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": kind,
                "x": [cell["size_bytes"] for cell in cells],
                "y": [cell["ratio"] - 1 for cell in cells],
                "text": [f"{cell['depth']} outstanding" for cell in cells],
                "marker": {"color": colours[kind], "symbol": colours.symbol(kind), "size": 7},
            }
        )
    layout = axes(
        size_axis("request size", [cell["size_bytes"] for cell in profile["cells"]]),
        title("throughput of the profile more than measured", tickformat="+.0%"),
        shapes=[
            {
                "type": "line",
                "xref": "paper",
                "x0": 0,
                "x1": 1,
                "y0": level,
                "y1": level,
                "line": {"color": "@muted", "width": 1.2, "dash": "dot"},
            }
            for level in (-0.1, 0.1)
        ],
    )
    reading = f"At 0 they agree; the lines are 10 % off. {words.closeness(profile)}."
    drawn = Figure("profile", "The profile against the drive", reading, data, layout, 460)
    return [Section("The profile", [drawn], " ".join(map(_sentence, profile["notes"])))]


def _about(result: Mapping[str, Any]) -> Section:
    """Tell what was probed, and how."""
    tables = [_device(result)]
    if "against" in result:
        tables.append(_device(result["against"]))
    return Section("What was probed", tables)


def _device(result: Mapping[str, Any]) -> Table:
    device, region = result["device"], result["region"]
    rows = [
        ("named as", device["given"]),
        ("says of itself", device["model"] or words.NOTHING),
        ("kind", device["kind"].replace("_", " ")),
        ("capacity", f"{count(device['capacity_bytes'])} bytes ({size(device['capacity_bytes'])})"),
        ("sector", f"{count(device['sector_bytes'])} bytes"),
        ("region", f"{size(region['length_bytes'])} from byte {count(region['offset_bytes'])}"),
        ("set", f"{result['set']}, {span(result['budget_seconds'])} of the device's time planned"),
        (
            "written",
            size(result["written_bytes"])
            if result["may_write"]
            else "nothing; writing was not allowed",
        ),
        ("seed", str(result["seed"])),
    ]
    if "state" in device:
        state = device["state"]
        rows.append(
            (
                "state at the start",
                state["kind"]
                + (f", {state['overwrites']:g} overwrites" if "overwrites" in state else ""),
            )
        )
        rows.append(("profile", f"SHA-256 {device['profile_hash']}"))
        if device["overrides"]:
            rows.append(("changed", ", ".join(device["overrides"])))
    return Table(f"The drive: {result['drive']}", (("", "left"), ("", "left")), rows, folded=True)
