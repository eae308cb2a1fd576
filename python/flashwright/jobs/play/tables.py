"""Tables of a `play`: the same on the terminal and in the report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from flashwright._core import registry
from flashwright._text import (
    alpha,
    count,
    iops,
    percent,
    rate,
    several,
    short_count,
    short_time,
    significant,
    size,
    span,
)
from flashwright.jobs.play import said
from flashwright.jobs.play.names import DIRECT
from flashwright.jobs.play.said import CAUSES, DELAYS, TIMES
from flashwright.jobs.play.view import KEYS, Row, View
from flashwright.jobs.schema import Figure, figures_of
from flashwright.pages.page import Table
from flashwright.sources import name_of

PAIR = (("", "left"), ("", "right"))
COPIES = "Copies on other dies"
COPIES_HEADINGS = (
    ("commands asked for", "left"),
    ("1", "right"),
    ("2", "right"),
    ("3 or more", "right"),
)
BY_DEVICE = "Times faster in writing than the device alone"
_NOT_KNOWN = significant(None)


def _right(names: Iterable[str]) -> list[tuple[str, str]]:
    return [(name, "right") for name in names]


def figures(view: View, row: Row) -> Table:
    """List the main figures of a run."""
    device, source, sent = view.devices.get(row["device"], {}), view.result["source"], row["sent"]
    rows = []
    if "dies" in device:
        drive = (
            f"{size(device['capacity_bytes'])}, {several(device['dies'], 'die')} on "
            f"{several(device['channels'], 'channel')}"
        )
        over = f"{alpha(device['over_provisioning'])} over-provisioning"
        rows += [("drive", drive), ("mapping", f"{said.policy(device)}, {over}")]
    rows += [("pace", said.pace(row["pace"])), ("requests", count(row["requests"]))]
    if sent is not None and source["requests"] is not None and len(row["flows"]) < 2:
        of = f"{count(sent['sent'])} of {count(source['requests'])} of the source"
        rows.append(("requests sent", of))
    rows += [
        ("requests a second", iops(row["iops"])),
        ("throughput", rate(row["bytes_per_second"])),
        ("took", f"{span(row['seconds'])} of the device's time"),
        *_against_the_clock(source, row),
    ]
    if sent is not None:
        rows.append(("most outstanding", count(sent["most_outstanding"])))
        if sent["lateness_ns"]:
            late = short_time(sent["lateness_ns"]["p99"])
            rows.append(("99 % were late by at most", late))
    if row["simulated"] is not None:
        rows += _simulated(row)
    return Table(title(view), PAIR, rows)


def _against_the_clock(source: Row, row: Row) -> list[tuple[str, str]]:
    """Say how long the trace took, and this run of all of it."""
    if not source["has_times"] or not source["duration_ns"] or row["ended"] is not None:
        return []
    sent = row["sent"]
    if sent is None or sent["sent"] < source["requests"]:
        return []
    speed = said.factor(row["pace"]) or 1.0
    seconds = source["duration_ns"] / 1e9 / speed
    text = "as recorded" if speed == 1 else "at this speed"
    ratio = significant(row["seconds"] / seconds)
    return [("the trace takes", f"{span(seconds)} {text}: this run took {ratio} times as long")]


def _simulated(row: Row) -> list[tuple[str, str]]:
    found = row["simulated"]
    counters = found["counters"]
    rows = []
    if counters["host_page_writes"]:
        rows += [
            ("write amplification", significant(found["write_amplification"], 4)),
            ("page writes of the host", count(counters["host_page_writes"])),
            ("relocated pages", count(counters["relocated_pages"])),
            ("erases", count(counters["erases"])),
        ]
    merges = {kind: counters[f"{kind}_merges"] for kind in ("switch", "partial", "full")}
    if any(merges.values()):
        text = ", ".join(f"{short_count(number)} {kind}" for kind, number in merges.items())
        rows.append(("merges", text))
    rows += [*_placed_by_the_host(found), *copies(found["replication"])]
    if counters["retired_blocks"]:
        rows.append(("erase blocks worn out", count(counters["retired_blocks"])))
    speed = short_count(row["requests"] / max(found["wall_seconds"], 1e-9))
    if "life_years" in row:
        rows.append(("life", said.life(row)))
    return [
        *rows,
        ("energy", said.energy(found["energy"])),
        ("channels busy", percent(found["channel_share"])),
        ("simulated in", f"{span(found['wall_seconds'])}, {speed} requests/s"),
    ]


def _placed_by_the_host(found: Row) -> list[tuple[str, str]]:
    """Give what the logs of placement by the host say: of FDP, or of zones."""
    rows = []
    if fdp := found["fdp"]:
        events = fdp["events"]
        rows += [
            ("host bytes written (HBMW)", size(fdp["host_bytes_with_metadata_written"])),
            ("media bytes written (MBMW)", size(fdp["media_bytes_with_metadata_written"])),
            ("media bytes erased (MBE)", size(fdp["media_bytes_erased"])),
            ("reclaim unit", size(fdp["reclaim_unit_bytes"])),
            ("media reallocated", several(events["media_reallocated"], "reclaim unit")),
        ]
        rare = {
            "invalid_placement_identifiers": "invalid placement identifiers",
            "units_not_fully_written": "reclaim units not fully written",
        }
        rows += [(name, count(events[key])) for key, name in rare.items() if events[key]]
    if zones := found["zones"]:
        rows += [
            ("zones reset", count(zones["resets"])),
            ("zones opened by writes", count(zones["implicit_opens"])),
            ("zones closed by the drive", count(zones["implicit_closes"])),
        ]
    return rows


def copies(replication: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """Give what copies of pages on other dies came to, if the drive makes any."""
    if replication is None:
        return []
    found = {**replication, **replication["counts"], **replication["sizes"]}
    sizes = found["groups_by_size"]
    rows = [
        ("blocked reads", count(found["blocked_reads"])),
        ("blocked reads that had a copy", count(found["blocked_reads_with_copy"])),
        ("blocked writes", count(found["blocked_writes"])),
        ("copies written", count(found["replica_page_writes"])),
        ("copies expected by the paper's E_p", count(round(found["predicted_copies"]))),
        ("commands that came too late", count(found["commands_in_vain"])),
        (
            "room for copies in use",
            f"{count(found['used_pages'])} of {count(found['budget_pages'])} pages",
        ),
        ("most interference on a die", percent(max(found["interference"]), 3)),
        (
            "memory of the copies' tables",
            size(found["map_bytes"] + found["valid_map_bytes"] + found["counter_bytes"]),
        ),
    ]
    if found["extra_writes"] is not None:
        rows.insert(4, ("copies for each page of the host's", percent(found["extra_writes"], 3)))
    if sum(sizes):
        rows.append(("pages with copies that have one", percent(sizes[0] / sum(sizes), 3)))
    return rows


def copies_rows(replication: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Give how many dies reads and writes asked, as table 3 of REPLICATION does."""
    return [
        (name, *("" if share is None else percent(share, 3) for share in replication[key]))
        for name, key in (("reads", "reads_by_ios"), ("writes", "writes_by_ios"))
    ]


def title(view: View) -> str:
    """Name what was played, on what, and how."""
    result = view.result
    rows = view.rows or view.failed
    devices = list(dict.fromkeys(row["device"] for row in rows))
    on = ", ".join(devices) if len(devices) < 4 else f"{len(devices)} devices"
    text = f"{result['source']['name']} on {on}"
    states = {said.state(row["state"]) if row["state"] else "" for row in rows}
    if len(states) == 1 and "" not in states and "state=" not in on:
        text += f" ({states.pop()})"
    if "pace" not in view.differs and rows[0]["pace"]:
        text += f", {said.pace(rows[0]['pace'])}"
    checkpoints = result.get("checkpoints") or {"number": 0}
    if checkpoints["number"]:
        text += (
            f", {several(checkpoints['number'], 'checkpoint')} ({checkpoints['origin']}, sent as a "
            f"{checkpoints['told_as']})"
        )
    return text


FEW = ("mean", "p50", "p99", "p999", "p9999")
"""Of the times of several runs, what fits a terminal; the report has all."""


def times(view: View, *, is_brief: bool = False) -> Table:
    """List how long requests took, by run and operation; in brief without what is less needed."""
    keys = FEW if is_brief else tuple(TIMES)
    rows = []
    for row in view.rows:
        found = _times(row) if view.is_one else said.responses(row).items()
        for number, (name, one) in enumerate(found):
            names = view.names(row) if number == 0 else [""] * len(view.differs)
            number_of = () if is_brief else (count(one["count"]),)
            rows.append((*names, name, *number_of, *(short_time(one[key]) for key in keys)))
    lead = [(key, "left") for key in view.differs]
    numbers = [*([] if is_brief else ["requests"]), *(TIMES[key] for key in keys)]
    columns = (*lead, ("latency", "left"), *_right(numbers))
    return Table("Latency", columns, rows, "Quantiles are at most 0.1 % too large.")


def _times(row: Row) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Give every kind of time that was measured, with its name."""
    sent = row["sent"] or {}
    due = sent.get("response_ns") or {}
    for op, one in said.operations(row).items():
        yield f"{op}, from sending" if due else op, one
    for op, one in said.operations({"latency_ns": due}).items():
        yield f"{op}, from when it was due", one
    if sent.get("lateness_ns"):
        yield "lateness", sent["lateness_ns"]
    if sent.get("held_ns"):
        yield "of it, for want of room", sent["held_ns"]


def shares(row: Row) -> Table:
    """List which share of their latency requests wait for what, of what they wait for at all."""
    of = {op: row["simulated"]["delays"][op] for op in said.operations(row)}
    names = [
        (delay, name)
        for delay, name in DELAYS.items()
        if any(found[delay]["delayed"] for found in of.values())
    ]
    rows = [
        (op, *(percent(found[delay]["share_of_latency"], 2) for delay, _ in names))
        for op, found in of.items()
    ]
    headings = _right(name for _, name in names)
    return Table("", (("share of latency", "left"), *headings), rows)


def delayed(row: Row) -> Table:
    """List what delayed each operation, and how much."""
    rows = [
        (
            op,
            name,
            percent(found["share_of_requests"]),
            short_time(found["mean"]),
            percent(found["share_of_latency"]),
            *(short_time(found[key]) for key in list(TIMES)[1:]),
        )
        for op in said.operations(row)
        for delay, name in DELAYS.items()
        if (found := row["simulated"]["delays"][op][delay])["delayed"]
    ]
    columns = (
        ("operation", "left"),
        ("delayed by", "left"),
        *_right(["of them", "mean of all", "of the latency", *list(TIMES.values())[1:]]),
    )
    note = (
        "Median, 99 %, 99.9 % and longest are of the requests that were delayed by this at all. "
        f"{said.DELAYS_EXPLAINED}"
    )
    return Table("What delayed requests", columns, rows, note, folded=True)


def flows(row: Row) -> Table | None:
    """List what each of several flows did: until its own last request."""
    rows = [
        (
            name_of(flow["source"]),
            count(flow["priority"]),
            count(flow["requests"]),
            iops(flow["iops"]),
            rate(flow["bytes_per_second"]),
            short_time(flow["mean_latency_ns"]),
        )
        for flow in row["flows"]
    ]
    names = ("priority", "requests", "requests/s", "throughput", "mean latency")
    return Table("Flows", (("flow", "left"), *_right(names)), rows) if len(rows) > 1 else None


def handles(row: Row, page_bytes: int) -> Table:
    """List what was written and moved by reclaim unit handle, of those that were written to."""
    fdp = row["simulated"]["fdp"]
    shared = fdp["relocated"]

    def units(handle: Row) -> tuple[str, str]:
        held = handle["reclaim_units"] * fdp["reclaim_unit_bytes"]
        valid = handle["valid_pages"] * page_bytes
        return count(handle["reclaim_units"]), percent(valid / held) if held else ""

    rows: list[tuple[str, ...]] = []
    for number, handle in enumerate(fdp["handles"]):
        host, moved = handle["host_page_writes"], handle["relocated_pages"]
        if host or handle["reclaim_units"]:
            own = significant(1 + moved / host, 4) if host and shared is None else ""
            written = size(host * page_bytes), size(moved * page_bytes)
            rows.append((str(number), *written, own, *units(handle)))
    if shared is not None:
        moved = size(shared["relocated_pages"] * page_bytes)
        rows.append(("what was moved", "", moved, "", *units(shared)))
    names = ("written by the host", "moved", "amplification", "reclaim units", "of them valid")
    note = (
        "Reclaim units and what is valid in them at the end. Under initial isolation what the "
        "controller moves of all handles shares reclaim units."
    )
    return Table("Reclaim unit handles", (("handle", "left"), *_right(names)), rows, note)


def asked(row: Row) -> Table:
    """List how many dies reads and writes asked, where pages have copies."""
    note = (
        "Reads of pages on flash, and writes of pages, by the number of dies that they asked: one, "
        "or more because the die was blocked by the drive's own work."
    )
    return Table(COPIES, COPIES_HEADINGS, copies_rows(row["simulated"]["replication"]), note)


def dies(row: Row) -> Table:
    """List what the time of the dies went to."""
    share = row["simulated"]["die_share"]
    names = {cause: name for cause, name in CAUSES.items() if share[cause] or cause == "idle"}
    cells = tuple(percent(share[cause], 3) for cause in names)
    return Table("Time of the dies", _right(names.values()), [cells])


def every_figure(row: Row) -> Table:
    """List every figure that Rust gives of a run: what it is, by the outcome's declaration."""
    rows = [
        (one.name, _written(one, value), one.help)
        for one, value in figures_of("play", {**row, **dict.fromkeys(("about", *KEYS))})
    ]
    flash = (row["simulated"] or {}).get("flash_operations", {})
    for operation, by_cause in flash.items():
        text = ", ".join(f"{count(n)} {CAUSES[cause]}" for cause, n in by_cause.items() if n)
        rows.append((f"flash: {operation.replace('_', '-')}", text or "none", ""))
    columns = (("figure", "left"), ("value", "right"), ("", "prose"))
    return Table("Every figure", columns, rows, "What is zero is left out.", folded=True)


def _written(one: Figure, value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    for ending, write in (
        ("bytes_per_second", rate),
        ("bytes", size),
        ("ns", short_time),
        ("seconds", span),
        ("share", percent),
    ):
        if any(part.endswith(ending) for part in one.key.split("/")):
            return str(write(value))
    return count(value) if isinstance(value, int) else significant(value, 4)


def drive(device: Mapping[str, Any]) -> Table:
    """Describe a simulated drive."""
    note = (
        f"{device['summary']}. {said.fitted(device)} profile.toml beside this report has every key."
    )
    columns = (("", "left"), ("", "left"))
    return Table(f"The drive: {device['name']}", columns, said.drive(device), note, folded=True)


def _of_dies(cause: str) -> Callable[[Row], str | None]:
    def cell(row: Row) -> str | None:
        share = (row["simulated"] or {}).get("die_share")
        if share is None:
            return None
        return percent(said.internal(share) if cause == "internal" else share[cause])

    return cell


def _amplification(row: Row) -> str | None:
    found = row["simulated"]
    if found is None:
        return None
    if not found["counters"]["host_page_writes"]:
        return _NOT_KNOWN
    return significant(found["write_amplification"], 4)


def _late(row: Row) -> str | None:
    late = (row["sent"] or {}).get("lateness_ns")
    return short_time(late["p99"]) if late else None


def _of_layers(key: str, write: Callable[[Any], str]) -> Callable[[Row], str | None]:
    return lambda row: write(row[key]) if key in row else None


def _mean_write(row: Row) -> str | None:
    writes = row.get("writes_below")
    if writes is None:
        return None
    return size(row["writes_below_bytes"] / writes) if writes else _NOT_KNOWN


def _computing(row: Row) -> str | None:
    if "computing_ns_per_request" not in row:
        return None
    return _NOT_KNOWN if row["stack"] == DIRECT else short_time(row["computing_ns_per_request"])


def _to_direct(row: Row) -> str | None:
    """Give the writing time as a multiple of that of the device alone."""
    if "total_write_seconds" not in row:
        return None
    if row["stack"] == DIRECT:
        return significant(1.0 if row["total_write_seconds"] else None)
    alone = (row["verdict"] or {}).get("times_faster")
    return significant(1 / alone if alone else None)


COLUMNS: tuple[tuple[str, Callable[[Row], str | None]], ...] = (
    ("requests/s", lambda row: iops(row["iops"])),
    ("throughput", lambda row: rate(row["bytes_per_second"])),
    ("99 % late by", _late),
    ("write ampl.", _amplification),
    ("host", _of_dies("host")),
    ("internal", _of_dies("internal")),
    ("idle", _of_dies("idle")),
    (
        "life in years",
        lambda row: significant(row["life_years"]) if row.get("life_years") else None,
    ),
    ("writing", _of_layers("total_write_seconds", span)),
    ("to direct", _to_direct),
    ("writes", _of_layers("writes_below", count)),
    ("mean", _mean_write),
    ("layers' WA", _of_layers("layer_write_amplification", significant)),
    ("drive's WA", _of_layers("drive_write_amplification", significant)),
    ("CPU", _computing),
    ("I/O", _of_layers("device_ns_per_request", short_time)),
)
"""Of the table of runs; those are left out in which no run has anything."""
EXPLAINED = {
    "idle": "Host, internal and idle are shares of the dies' time. * throughput or write "
    "amplification still changed during the run.",
    "writing": "Writing: the time in which the device had at least one write, trim or flush, what "
    "layers write back at the end included. Writes and mean: how many the device got, and their "
    "size. Layers' WA: bytes written below the layers for each above. Drive's WA: bytes that the "
    "flash programs for each that the drive is sent. CPU: time of this machine's processor in the "
    "layers, for each request; I/O: time in which the device had anything to do, for each request.",
}


def runs(view: View) -> Table:
    """List the runs, a row each."""
    cells = {name: [cell(row) for row in view.rows] for name, cell in COLUMNS}
    shown = [name for name, column in cells.items() if any(one is not None for one in column)]
    rows = [
        (*_starred(view, row), *(cells[name][number] or _NOT_KNOWN for name in shown))
        for number, row in enumerate(view.rows)
    ]
    rows += [(*view.names(row), "failed", *[""] * (max(len(shown), 1) - 1)) for row in view.failed]
    lead = [(key, "left") for key in view.differs]
    note = " ".join(text for name, text in EXPLAINED.items() if name in shown)
    return Table(title(view), (*lead, *_right(shown or ["requests/s"])), rows, note)


def _starred(view: View, row: Row) -> list[str]:
    names = view.names(row) or [str(row["device"])]
    return [names[0] + (" *" if is_unsteady(row) else ""), *names[1:]]


def is_unsteady(row: Row) -> bool:
    """Check whether a figure of the run was seen to drift."""
    return any(value is False for value in row.get("steady", {}).values())


def counters(layers: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, str, str]]:
    """Give what each layer of a stack has counted, but for what is zero."""
    helps = {
        (entry["name"], one["name"]): one
        for entry in registry()["layer"]
        for one in entry["counters"]
    }
    for layer in layers:
        name = layer["layer"]
        for counter, number in layer["counters"].items():
            if not number:
                continue
            known = helps.get((layer["layer"], counter))
            what = counter if known is None else known["help"]
            what += " (at the end)" if known is not None and known["is_level"] else ""
            text = (
                size(number)
                if counter.endswith("_bytes")
                else short_time(number)
                if counter.endswith("_ns")
                else count(number)
            )
            yield name, what, text
            name = ""


def counted(row: Row) -> Table | None:
    """List what the layers of a stack counted."""
    found = list(counters(row.get("counters") or ()))
    columns = (("layer", "left"), ("what", "left"), ("number", "right"))
    note = "What is zero is left out."
    name = f"Counted in {row['label']}"
    return Table(name, columns, found, note, folded=True) if found else None


def by_device(view: View) -> Table | None:
    """List how many times faster each stack writes on each device than that alone."""
    devices = list(dict.fromkeys(row["device"] for row in view.rows))
    found: dict[str, dict[str, str]] = {}
    for row in view.rows:
        if row["verdict"]:
            name = ", ".join(view.names({**row, "device": ""})).lstrip(", ")
            cell = significant(row["verdict"]["times_faster"])
            found.setdefault(name, {})[row["device"]] = cell
    if len(devices) < 2 or not found:
        return None
    rows = [
        (name, *(cells.get(one, _NOT_KNOWN) for one in devices)) for name, cells in found.items()
    ]
    note = "Below 1 the device alone is faster."
    return Table(BY_DEVICE, (("stack", "left"), *_right(devices)), rows, note)


def compared(view: View, keys: Sequence[str] = tuple(TIMES)) -> list[Table]:
    """List each figure of runs and of those that they are laid beside, with their ratios.

    Of times those of the keys.
    """
    other = view.against
    if other is None:
        return []
    return [_pair(view, other, mine, theirs, keys) for mine, theirs in view.pairs()]


def _pair(view: View, other: View, mine: Row, theirs: Row, keys: Sequence[str]) -> Table:
    single: tuple[tuple[str, str, Callable[[float], str]], ...] = (
        ("requests a second", "iops", iops),
        ("throughput", "bytes_per_second", rate),
        ("took", "seconds", span),
        ("requests", "requests", count),
    )
    rows = [
        (name, write(mine[key]), write(theirs[key]), ratio(mine[key], theirs[key]))
        for name, key, write in single
    ]
    ours, of_theirs = dict(_times(mine)), dict(_times(theirs))
    if any("," in name for name in ours) != any("," in name for name in of_theirs):
        ours, of_theirs = _alike(ours), _alike(of_theirs)
    for name in dict.fromkeys((*ours, *of_theirs)):
        for key in keys:
            a, b = (found[name][key] if name in found else None for found in (ours, of_theirs))
            rows.append((f"{name}: {TIMES[key]}", short_time(a), short_time(b), ratio(a, b)))
    first, second = (one.result["source"] for one in (view, other))
    is_same = _played(first) == _played(second)
    heading = f"Against {title(other)}" + (
        "" if is_same else " (another trace, or another part of it)"
    )
    if not view.is_one and view.differs:
        heading = f"{mine['label']}: against {other.label(theirs)}"
    columns = (("", "left"), *_right(["this", "the other", "ratio"]))
    return Table(heading, columns, rows)


def _played(source: Row) -> tuple[Any, dict[str, Any]]:
    """Give what of a source is played, wherever it lies."""
    part = source["part"].items()
    return source["sources"], {key: value for key, value in part if key != "of"}


def _alike(times: Mapping[str, Any]) -> dict[str, Any]:
    """Name times from sending as those of a run without times to be due at."""
    return {name.removesuffix(", from sending"): one for name, one in times.items()}


def ratio(mine: float | None, theirs: float | None) -> str:
    """Give how many times the other's a figure is."""
    return _NOT_KNOWN if mine is None or not theirs else significant(mine / theirs)
