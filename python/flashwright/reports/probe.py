"""The report of a probe: one page that answers, then every curve and value, folded.

Of two drives, one laid over the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flashwright import _core
from flashwright._text import count, percent, size, span
from flashwright.pages.figures import Colours, axes, title
from flashwright.pages.page import Fact, Figure, Page, Section, Table
from flashwright.probing.plan import file_of
from flashwright.probing.result import points
from flashwright.reports import probe_answer
from flashwright.reports import probe_words as words
from flashwright.reports.probe_charts import Curve, figure, size_axis
from flashwright.runs import Run

GROUPS = {
    "performance": "Throughput and latency",
    "patterns": "Patterns of writes",
    "internals": "How it is made",
    "interference": "What streams do to each other",
}
OTHER = "Other experiments"


def page(run: Run) -> Page:
    """Build the report of a probe."""
    result = run.result
    curves = points(run)
    return Page(
        kind="probe",
        title=words.title(result),
        headline=headline(result),
        facts=facts(result),
        sections=[
            *_answers(run, curves),
            *_details(run, curves),
            *_profile(result),
            _about(result),
        ],
        provenance=result["provenance"],
        remarks=[*words.remarks(result), *words.profile_lines(result)],
    )


def headline(result: Mapping[str, Any]) -> str:
    """Give the answer in a sentence for each drive."""
    against = result.get("against")
    if against is None:
        return probe_answer.sentence(result)
    return "\n".join(
        (
            probe_answer.sentence(result),
            probe_answer.sentence(against),
            f"{result['drive']} beside {against['drive']}: {_alike(result, against)}",
        )
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
    """Say what the probe cost, and how much of it is to be believed."""
    counted = words.verdict_counts(result)
    written = f"{size(result['written_bytes'])} written, " if result["written_bytes"] else ""
    of = f", {result['drive']}" if "against" in result else ""
    given = [
        Fact(
            f"values found{of}",
            count(counted["sure"] + counted["unsure"]),
            f"{count(counted['sure'])} of them sure, {count(counted['not_found'])} not found",
        ),
        Fact(
            f"time of the device{of}",
            span(result["device_seconds"]),
            f"{written}{size(result['read_bytes'])} read",
        ),
    ]
    profile = result.get("profile") or {}
    if profile.get("within_10_percent") is not None:
        near = percent(profile["within_10_percent"], 2)
        note = "of the throughputs of the fitted profile are within 10 %"
        given.append(Fact("profile", near, note))
    return given


FRONT = (
    ("throughput_read", "throughput_random_read_by_size"),
    ("throughput_write", "throughput_random_write_by_size"),
)
"""Charts (experiment, name) that stand on the first page."""


def _answers(run: Run, curves: Mapping[tuple[str, str, str, str], Sequence[Any]]) -> list[Section]:
    """Answer what is asked of a drive: a table, and the throughputs."""
    result = run.result
    results = [result] + ([result["against"]] if "against" in result else [])
    table = probe_answer.table(results)
    blocks: list[Figure | Table] = [] if table is None else [table]
    blocks += [
        drawn
        for label, name in FRONT
        if (drawn := _chart(label, name, _pair(result, label), curves, result)) is not None
    ]
    return [Section("The answer", blocks)] if blocks else []


def _pair(result: Mapping[str, Any], label: str) -> list[tuple[str, Mapping[str, Any]]]:
    """Give what an experiment found on one drive or two, with the drives' names."""
    return [
        (one["drive"], finding)
        for one in (result, result.get("against"))
        if one is not None
        for finding in one["findings"]
        if finding["label"] == label
    ]


def _details(run: Run, curves: Mapping[tuple[str, str, str, str], Sequence[Any]]) -> list[Section]:
    """Give all values and each experiment that was done, folded, group by group."""
    result = run.result
    entries = {entry["name"]: entry for entry in _core.variants("experiment")}
    ordered: dict[str, list[Section]] = {group: [] for group in (*GROUPS, "")}
    against = result.get("against") or {"findings": []}
    labels = [finding["label"] for one in (result, against) for finding in one["findings"]]
    for label in dict.fromkeys(labels):
        entry = entries.get(label.partition("(")[0], {})
        pair = _pair(result, label)
        ordered[entry.get("group", "")].append(_section(label, entry, pair, curves, result))
    sections: list[Section] = []
    for group, found in ordered.items():
        if found:
            intro = "One line an experiment: open it for its curves, its values, and why."
            sections += [Section(GROUPS.get(group, OTHER), [], intro if not sections else " ")]
            sections += found
    if "against" in result:
        sections.append(_side_by_side(run))
    return sections


def _side_by_side(run: Run) -> Section:
    """List every value of two drives."""
    rows: list[tuple[str, ...]] = []
    for label, *cells in words.comparison_rows(run):
        if label:
            rows.append((label,))
        rows.append(tuple(cell or words.NOTHING for cell in cells))
    note = "The ratio is of the second drive to the first."
    columns = words.comparison_headings(run.result)[1:]
    return Section("Side by side", [Table("Every value", columns, rows, note, folded=True)])


def _chart(
    label: str,
    name: str,
    pair: Sequence[tuple[str, Mapping[str, Any]]],
    curves: Mapping[tuple[str, str, str, str], Sequence[Any]],
    result: Mapping[str, Any],
) -> Figure | None:
    """Draw a chart of an experiment, if it has one of this name."""
    chart = next(
        (chart for _, finding in pair for chart in finding["charts"] if chart["name"] == name),
        None,
    )
    if chart is None:
        return None
    stem = file_of(pair[0][1]["experiment"]).removesuffix(".json")
    drawn, marks = _of_chart(label, name, pair, curves)
    return figure(f"{stem}-{name}", chart, drawn, marks, _drives(result))


def _drives(result: Mapping[str, Any]) -> list[str]:
    return [result["drive"]] + ([result["against"]["drive"]] if "against" in result else [])


def _section(
    label: str,
    entry: Mapping[str, Any],
    pair: Sequence[tuple[str, Mapping[str, Any]]],
    curves: Mapping[tuple[str, str, str, str], Sequence[Any]],
    result: Mapping[str, Any],
) -> Section:
    """Give what one experiment found on one drive or two."""
    names = dict.fromkeys(chart["name"] for _, finding in pair for chart in finding["charts"])
    drives = _drives(result)
    blocks: list[Figure | Table] = [
        drawn
        for name in names
        if (label, name) not in FRONT
        and (drawn := _chart(label, name, pair, curves, result)) is not None
    ]
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
    if any((label, name) in FRONT for name in names):
        notes.insert(0, "its first chart stands above, with the answer")
    if entry.get("source"):
        notes.append(f"after {entry['source']}")
    return Section(
        label,
        blocks,
        " ".join(map(_sentence, dict.fromkeys(notes))),
        folded=True,
        summary=str(entry.get("summary", "")),
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
    lines: list[Mapping[str, Any]] = []
    for drive, mark in marks:
        shared = len({other for other, same in marks if same == mark}) > 1
        if mark not in lines or not shared:
            lines.append(mark if shared else {**mark, "label": f"{mark['label']} ({drive})"})
    return lines


VALUE_COLUMNS = (("what", "prose"), ("value", "right"), ("how sure", "prose"))


def _values(drive: str, finding: Mapping[str, Any]) -> Table:
    spent = (
        f"{span(finding['device_seconds'])} of the device's time, {count(finding['requests'])} "
        f"requests, {size(finding['read_bytes'])} read, {size(finding['written_bytes'])} written."
    )
    rows = [_value_row(value) for value in words.told_values(finding)]
    return Table(f"Values{f' of {drive}' if drive else ''}", VALUE_COLUMNS, rows, spent)


def _value_row(value: Mapping[str, Any]) -> tuple[str, str, str]:
    if value["verdict"] == "not_found":
        return value["key"], "not found", _sentence(value["why"])
    interval = words.interval_text(value)
    text = words.value_text(value)
    shown = f"{text} ({interval})" if interval and interval != text else text
    why = f"{words.VERDICTS[value['verdict']]}: {value['why']}" if value["why"] else "sure"
    return value["key"], shown, _sentence(why)


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
    """Say what was probed, and how."""
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
