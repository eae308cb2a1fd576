"""The report of a light recording: counters of the kernel, the server and the drive."""

from __future__ import annotations

import math
from typing import Any

from flashwright._text import count, significant, size, span
from flashwright.pages.figures import axes, size_unit, title
from flashwright.pages.page import Fact, Figure, Page, Section, Table
from flashwright.recording.drive_counters import daily_bytes, delta
from flashwright.runs import Run

_LEAST_SHARE = 0.0005
"""Below this a share is not worth a word."""


def page(run: Run) -> Page:
    """Build the report."""
    result = run.result
    counters, about = result["counters"], result["recording"]
    got = counters["device"]
    facts = [Fact("the device got", size(got["write_bytes"]), f"{count(got['writes'])} writes")]
    database = _database_bytes(counters)
    if database is not None:
        facts.insert(0, Fact("the database wrote", size(database[0]), database[1]))
    daily = daily_bytes(result["drive_counters"])
    if daily is not None:
        facts.append(Fact("a day", size(daily), "mean over the drive's life with power"))
    columns = (("", "left"), ("", "prose"))
    return Page(
        kind="light recording",
        title=f"{about['database']['path']}, counted",
        headline=headline(result),
        facts=facts,
        sections=[
            Section(
                "What was counted", [Table("Between beginning and end", columns, rows(result))]
            ),
            Section("Over time", [_over_time(run)]),
        ],
        provenance=result["provenance"],
        remarks=remarks(result),
    )


def headline(result: dict[str, Any]) -> str:
    """Give what was counted in two sentences at most."""
    counters = result["counters"]
    got, during = counters["device"]["write_bytes"], f"in {span(counters['seconds'])}"
    found = _database_bytes(counters)
    own = counters["own_counts"]
    if found is None and own is not None and None not in (own["page_bytes"], own["wal_bytes"]):
        written = own["page_bytes"] + own["wal_bytes"]
        first = f"The database wrote {size(written)} or more by its own count {during}"
        return f"{first}; {_got(counters)}, from all programs."
    if found is None:
        is_seen = counters["database"] is None or counters["database"]["processes"]
        said = (
            "What the database wrote cannot be seen by this user"
            if is_seen
            else "No process was seen with the database open"
        )
        return f"{said}; {_got(counters)} {during}, from all programs."
    written, how = found
    first = f"The database wrote {size(written)} {how} {during}; {_got(counters)}."
    return f"{first} {_others(counters)}" if got else first


def _got(counters: dict[str, Any]) -> str:
    names, got = counters["device"]["names"], counters["device"]["write_bytes"]
    device = f"the device {names[0]}" if len(names) == 1 else f"the {len(names)} devices"
    return f"{device} got {size(got) if got else 'nothing'}"


def _database_bytes(counters: dict[str, Any]) -> tuple[int, str] | None:
    """Give what the database's processes wrote, and how that is known; None if it is not."""
    database = counters["database"]
    if database is None or not (database["is_whole"] or database["write_calls"]):
        return None
    seen = "by write calls" if database["is_whole"] else "or more by write calls"
    return database["write_call_bytes"], seen


def _others(counters: dict[str, Any]) -> str:
    """Say which share of what the device got is not the database's data: a range."""
    got, data = counters["device"]["write_bytes"], counters["database_data_at_device"]
    low, high = 1 - data["to_bytes"] / got, 1 - data["from_bytes"] / got
    what = "is not its data: it is other programs' or the file system's own"
    if low < _LEAST_SHARE and high > 1 - _LEAST_SHARE:
        return "How much of that is other programs' cannot be seen without tracing."
    if low < _LEAST_SHARE:
        return f"At most {_share(high, up=True)} of that {what}."
    if high > 1 - _LEAST_SHARE:
        return f"At least {_share(low, up=False)} of that {what}."
    return f"{_share(low, up=False)} to {_share(high, up=True)} of that {what}."


def _share(share: float, *, up: bool) -> str:
    """Give an end of a range as per cent, rounded away from the middle of it."""
    tenths = share * 1000
    return f"{(math.ceil(tenths) if up else math.floor(tenths)) / 10:g} %"


def rows(result: dict[str, Any]) -> list[list[str]]:
    """Give what was counted line by line, for the terminal."""
    counters = result["counters"]
    found = [["counted for", span(counters["seconds"])]]
    database, own = counters["database"], counters["own_counts"]
    if database is not None:
        number = database["processes"]
        who = f"{count(number)} process{'es' if number != 1 else ''} seen"
        more = "" if database["is_whole"] else ", and more that cannot be seen"
        found.append(
            [
                "database, write calls",
                f"{size(database['write_call_bytes'])} in {count(database['write_calls'])} calls, "
                f"{who}{more}",
            ]
        )
    if own is not None:
        found += own_rows(own)
    for name, label in (("device", "got"), ("disks", "disks below")):
        got = counters[name]
        if name == "disks" and got["names"] == counters["device"]["names"]:
            continue
        whose = ", ".join(got["names"])
        trims = f", {size(got['trim_bytes'])} trimmed" if got["trim_bytes"] else ""
        found.append(
            [
                f"{whose} {label}" if name == "device" else f"{label} ({whose})",
                f"{size(got['write_bytes'])} in {count(got['writes'])} writes, "
                f"{count(got['flushes'])} flushes{trims}",
            ]
        )
    data = counters["database_data_at_device"]
    found.append(
        [
            "of it the database's data",
            f"{size(data['from_bytes'])} to {size(data['to_bytes'])}",
        ]
    )
    waits = counters["dirty_bytes"]
    found.append(
        [
            "not written yet, all programs",
            f"{size(waits['before'])} before, {size(waits['after'])} after",
        ]
    )
    return found + drive_rows(result["drive_counters"])


def own_rows(own: dict[str, Any]) -> list[list[str]]:
    """Give what a server counts itself, line by line."""
    found = []
    if own["wal_bytes"] is not None:
        syncs = "" if own["wal_syncs"] is None else f", {count(own['wal_syncs'])} syncs"
        found.append(["its count: log", f"{size(own['wal_bytes'])} {own['wal_from']}{syncs}"])
    if own["page_bytes"] is not None:
        found.append(["its count: pages", f"{size(own['page_bytes'])} ({own['pages_from']})"])
    if own["temporary_bytes"]:
        found.append(["its count: temporary files", size(own["temporary_bytes"])])
    return found


def drive_rows(counters: dict[str, Any]) -> list[list[str]]:
    """Give a drive's own counters line by line: what they grew by, and what they are."""
    found = []
    for one in counters.get("drives", ()):
        after = one["after"]
        if after is None:
            continue
        for name, label in (
            ("host_written_bytes", "hosts wrote"),
            ("media_written_bytes", "written to flash"),
        ):
            grown, step = delta(one, name), after.get(name.replace("bytes", "step_bytes"))
            if grown is None:
                continue
            steps = f" (in steps of {size(step)})" if step and step > 1 else ""
            found.append(
                [f"{one['drive']}: {label}", f"{size(grown)}{steps}; {size(after[name])} in all"]
            )
        found += _state_rows(one["drive"], after)
        daily = daily_bytes(one)
        if daily is not None:
            found.append(
                [
                    f"{one['drive']}: a day",
                    f"{size(daily)}, mean over {count(after['power_on_hours'])} hours with power",
                ]
            )
    return found


def _state_rows(drive: str, after: dict[str, Any]) -> list[list[str]]:
    found = []
    if (after.get("host_written_bytes") or 0) and "media_written_bytes" in after:
        factor = after["media_written_bytes"] / after["host_written_bytes"]
        found.append([f"{drive}: write amplification", f"{significant(factor)} over its life"])
    if "percentage_used" in after:
        found.append([f"{drive}: endurance used", f"{after['percentage_used']} %"])
    for low, high in after.get("life_used_percent_ranges", ()):
        said = f"{low} to {high} %" if low < high else "more than 100 %"
        found.append([f"{drive}: endurance used", said])
    if "reserve" in after:
        found.append([f"{drive}: spare blocks", after["reserve"]])
    return found


def remarks(result: dict[str, Any]) -> list[str]:
    """Say what to know when reading the figures."""
    lines = [f"Not known: {one}." for one in result["not_known"]]
    database = result["counters"]["database"]
    if database is not None:
        lines.append(
            "Write calls are those of the database's processes, to sockets and pipes too. What a "
            "call writes may be written over in memory before it comes to the device."
        )
        if database["writes_otherwise"] is not None:
            lines.append(f"Not all writes are calls: {database['writes_otherwise']}.")
    lines.append(
        "The range of the database's data has what may have waited in memory before; the file "
        "system's journal and metadata are in neither end. Whose each byte is, only a traced "
        "recording says."
    )
    return lines


def _over_time(run: Run) -> Figure:
    columns = run.tables["samples"].to_pydict()
    x = [round(time / 1e9, 3) for time in columns["time_ns"]]
    named = (
        ("database_call_bytes", "database, write calls", "solid"),
        ("device_write_bytes", "device", "dash"),
    )
    unit, name = size_unit(max(max(columns[column]) for column, _, _ in named))
    data = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": label,
            "x": x,
            "y": [value / unit for value in columns[column]],
            "line": {"color": f"@c{number}", "width": 1.6, "dash": dash},
        }
        for number, (column, label, dash) in enumerate(named)
    ]
    return Figure(
        "over-time",
        "Written so far",
        "Where the device's line rises and the database's does not, others write, or what waited "
        "in memory.",
        data,
        axes(title("seconds"), title(name, rangemode="tozero")),
    )
