"""The answer of a `play` in a sentence or two, and what a reader must know to trust its figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from flashwright import reading_words, slice_words, steady
from flashwright._text import count, iops, percent, rate, several, short_time, significant, span
from flashwright.devices import PAGE_MAPPED
from flashwright.jobs.play import said
from flashwright.jobs.play.said import PLURALS, TIMED
from flashwright.jobs.play.tables import is_unsteady, ratio, title
from flashwright.jobs.play.view import Row, View

MOST_HEADLINES = 4
MOST_IMBALANCE = 0.1
MOST_LATENESS = 0.05
"""Mean latency as a share of the run: as much of all requests is then outstanding, on average."""
LEAST_REQUESTS_TO_BE_LATE = 1000
NO_COMPARISON = "What is not steady, or ended early, is not to be compared yet."
_ENDED = {
    "stopped": " until it was stopped",
    "failed": " until it failed",
    "worn_out": " until it wore out",
}


def headline(view: View) -> str:
    """Give the answer.

    Of stacks which one is right, where that was asked, or what each gains; else how fast the device
    is, or the best and the worst of several.
    """
    if view.is_one:
        return _of_one(view, view.rows[0])
    if view.result.get("choices"):
        return "\n".join(one["headline"] for one in view.result["choices"].values())
    if view.has_layers or len(view.result.get("stacks") or ()) > 1:
        return _of_stacks(view)
    return _of_several(view.rows)


def _of_one(view: View, row: Row) -> str:
    device = _device(view, row)
    # The title shows the overrides of a simulated drive; here its model will do.
    name = device.get("model") if row["simulated"] else row["device"]
    text = (
        f"{name or row['device']} does {iops(row['iops'])} requests a second, "
        f"{rate(row['bytes_per_second'])}{_ENDED.get(row['ended'], '')}"
        f"{'' if _is_steady(row) else ' in a run that is not steady'}"
    )
    waits = [
        f"a {op} takes {short_time(one['p50'])} at the median and {short_time(one['p99'])} at the "
        "99th percentile"
        for op, one in said.operations(row).items()
        if op in TIMED
    ]
    text += f": {'; '.join(waits)}." if waits else "."
    for more in (_greatest_delay(row), _late(row)):
        text += "" if more is None else f" {more}"
    if view.against is not None:
        found = [_times(mine, theirs) for mine, theirs in view.pairs()]
        if len(found) == 1:
            text += f"\nAgainst {title(view.against)}: {found[0]}"
    return text


def _times(row: Row, theirs: Row) -> str:
    if not (holds(row) and holds(theirs)):
        return NO_COMPARISON
    return f"{ratio(row['iops'], theirs['iops'])} times the requests a second."


def _late(row: Row) -> str | None:
    sent = row["sent"] or {}
    late, held = sent.get("lateness_ns"), sent.get("held_ns")
    if not late:
        return None
    text = f"Requests were sent {short_time(late['p99'])} late at the 99th percentile"
    if not held:
        return f"{text}."
    share = percent(held["count"] / max(sent["sent"], 1))
    return f"{text}; {share} of them were due while the device's queue was full."


def _greatest_delay(row: Row) -> str | None:
    """Say what most of the time of requests goes to, in a simulated drive."""
    if row["simulated"] is None:
        return None
    delays = row["simulated"]["delays"]
    totals = {
        delay: sum(
            delays[op][delay]["mean"] * one["count"] for op, one in said.operations(row).items()
        )
        for delay in said.DELAYS
    }
    whole = sum(totals.values())
    if not whole:
        return None
    delay, most = max(totals.items(), key=lambda item: item[1])
    where = {
        "queue": "outside the flash: in queues, controller and link",
        "channel": "waiting for a channel",
        "die_busy": "waiting for dies that work for others",
        "cleaning": "waiting for dies that clean",
        "wear_levelling": "waiting for dies that even out wear",
        "erase": "waiting for erases",
        "buffer": "waiting for room in the write buffer",
        "flush": "in flushes: waiting until the write buffer is on flash",
        "service": "in the flash itself, which even an idle drive takes",
    }.get(delay, f"waiting for dies at work on {said.DELAYS[delay]}")
    return f"Requests spend {percent(most / whole, 2)} of their time {where}."


def _of_stacks(view: View) -> str:
    """Give a line for each stack that was judged, or for the best and the worst of many."""
    judged = [row for row in view.rows if row["verdict"] is not None]
    if len(judged) > MOST_HEADLINES:
        ordered = sorted(judged, key=lambda row: row["verdict"]["times_faster"] or 1.0)
        judged = [ordered[-1], ordered[0]]
    named = said.stacks(row["stack"] for row in view.rows)
    lines = []
    for row in judged:
        names = View.names(view, row)
        if "stack" in view.differs:
            names[view.differs.index("stack")] = named[row["stack"]]
        lines.append(f"{', '.join(names)}: {row['verdict']['summary']}.")
    return "\n".join(lines) or "Nothing was compared."


def _of_several(rows: Sequence[Row]) -> str:
    done = sorted(rows, key=lambda row: -row["iops"])
    if not done:
        return "No run has finished."
    best, worst = done[0], done[-1]
    text = (
        f"{best['label']} does {iops(best['iops'])} requests a second "
        f"({rate(best['bytes_per_second'])}){_mark(best)}"
    )
    if worst is not best:
        text += f", {worst['label']} {iops(worst['iops'])}{_mark(worst)}"
        if worst["iops"] and holds(best) and holds(worst):
            text += f": {significant(best['iops'] / worst['iops'])} times as many"
    text += "."
    if not all(holds(row) for row in done):
        return f"{text} {NO_COMPARISON}"
    for op in TIMED:
        of = sorted(
            (row for row in done if op in said.operations(row)),
            key=lambda row: row["latency_ns"][op]["p99"],
        )
        if len(of) > 1:
            text += (
                f" 99 % of the {PLURALS[op]} take less than "
                f"{short_time(of[0]['latency_ns'][op]['p99'])} on {of[0]['label']}, "
                f"{short_time(of[-1]['latency_ns'][op]['p99'])} on {of[-1]['label']}."
            )
    return text


def _mark(row: Row) -> str:
    if row["ended"] is not None:
        return f" ({_ENDED[row['ended']].strip()})"
    return "" if _is_steady(row) else " (not steady)"


def _is_steady(row: Row) -> bool:
    """Check whether all figures of a run are steady, as far as they were judged."""
    if "steady" not in row:
        return True
    found, counters = row["steady"], row["simulated"]["counters"]
    writes = found["write_amplification"] is True or not counters["host_page_writes"]
    return found["iops"] is True and writes


def holds(row: Row) -> bool:
    """Check whether a run came to its end, and is steady: it may be compared then."""
    return row["ended"] is None and _is_steady(row)


def remarks(view: View) -> list[str]:
    """Say what a reader must know before trusting the figures."""
    result = view.result
    lines = [*reading_words.lines(result["source"]), *_counted(result["source"])]
    lines += _shared(view, lambda row: slice_words.lines(_device(view, row).get("slice")))
    lines += result["remarks"]
    lines += [f"{_where(row)} failed: {row['error']}." for row in view.failed]
    if view.has_layers:
        lines += [known(device) for device in result["devices"] if "facts" in device]
    lines += [text for row in view.rows if (text := unmapped(row)) is not None]
    lines += [text for row in view.rows if (text := kept(row)) is not None]
    lines += _shared(view, lambda row: sent(row, result["settings"]))
    lines += _shared(view, lambda row: caveats(row, _device(view, row)))
    lines += _shared(view, _early)
    if view.against is not None and not view.pairs():
        lines.append("No run that it is laid beside is of the same device, stack and pace.")
    if "recorded" in result:
        lines.append(recorded(result["recorded"]))
    return lines


def _device(view: View, row: Row) -> Mapping[str, Any]:
    return view.devices.get(row["device"], {})


def _shared(view: View, of: Any) -> list[str]:
    """Say what holds of all runs once, and before what holds of some which ones they are."""
    found: dict[str, list[str]] = {}
    for row in view.rows:
        for line in of(row):
            star = " *" if is_unsteady(row) and line.startswith("Not steady") else ""
            found.setdefault(line, []).append(row["label"] + star)
    return [
        line if len(names) == len(view.rows) else f"{'; '.join(dict.fromkeys(names))}: {line}"
        for line, names in found.items()
    ]


def _counted(source: Row) -> list[str]:
    totals = source["totals"] or {}
    return _numbers(
        (
            (
                totals.get("clamped_times"),
                "requests had times before the first one's, which were set to 0",
            ),
            (
                totals.get("empty"),
                "requests were left out, as they have no bytes, or trim what is never touched",
            ),
        )
    )


def _numbers(counted: Iterable[tuple[int | None, str]]) -> list[str]:
    return [f"{count(number)} {what}." for number, what in counted if number]


def sent(row: Row, settings: Mapping[str, Any]) -> list[str]:
    """Say what became of requests on their way to a device: changed, failed, too late."""
    found = row["sent"]
    if found is None:
        return []
    fitted = found["fitted"]
    fit = settings["source"].get("fit")
    how = "--fold" if fit is None else f"fit={fit} in part(...)"
    lines = _numbers(
        (
            (fitted["moved"], f"requests went to other addresses than in the trace ({how})"),
            (fitted["cut"], "requests were longer than the region, and were cut"),
            (
                fitted["widened"],
                "requests were not of whole sectors of the device, and were widened",
            ),
            (
                fitted["split"],
                "requests were longer than the device takes, and were sent in "
                f"{count(fitted['more_parts'])} more parts",
            ),
            (fitted["trims_without_device"], "trims were left out, as the device has none"),
            (fitted["trims_too_short"], "trims were left out, as they hold no whole sector"),
        )
    )
    lines += [
        f"{several(one['requests'], 'request')} failed: {one['first']}" for one in found["failures"]
    ]
    if found["starved"]:
        lines.append(
            f"The trace was not read fast enough {several(found['starved'], 'time')}, "
            f"{span(found['starved_seconds'])} in all."
        )
    return lines


def _early(row: Row) -> list[str]:
    if row["ended"] is None:
        return []
    if row["ended"] == "worn_out":
        return [f"The drive wore out, which ended the run: {row['error']}."]
    return [f"The run ended before the source did: {row['error'] or 'it was stopped'}."]


def caveats(row: Row, device: Mapping[str, Any]) -> list[str]:
    """Say what the figures of a run on a simulated drive hide."""
    found = row["simulated"]
    if found is None:
        return []
    lines = []
    state, counters = row["state"]["kind"], found["counters"]
    if state == "fresh":
        lines.append(
            "The drive was fresh at the start: reads of pages that were never written need no "
            "flash, and nothing is cleaned until the spare space is used up. state=aged in "
            "profile(...) shows the drive after long use."
        )
    elif counters["host_page_writes"] and not counters["erases"] and not found["zones"]:
        aged = "" if state == "aged" else ", or state=aged in profile(...),"
        lines.append(
            "No erase block was cleaned: what was written fits into the spare space. A longer "
            f"run{aged} shows the drive after long use."
        )
    if found["streams_left_out"]:
        lines.append(
            f"The placement policy has {found['streams_left_out']} streams fewer than it would: "
            "each needs an open erase block on every plane, and the spare space does not hold more."
        )
    lines += [line for line in (_imbalance(counters, device), _behind(row)) if line is not None]
    return lines + _unsteadiness(row)


def _unsteadiness(row: Row) -> list[str]:
    """Say which figures are not steady, and why, and with which options they would be."""
    if "judged" not in row:
        return []
    remedy = f" Steady with {row['steady_with']}, or more." if row.get("steady_with") else ""
    by_reason: dict[str, list[str]] = {}
    for key, name in steady.FIGURES.items():
        judged = row["judged"][key]
        if judged["steady"] is False:
            by_reason.setdefault(judged["unsteady"], []).append(name)
    if not by_reason and all(value is None for value in row["steady"].values()):
        return [f"The run is too short to say whether it is steady.{remedy}"]
    return [
        f"Not steady: {' and '.join(names)}, as {reason}. The figures may change with the length "
        f"of the run.{remedy}"
        for reason, names in by_reason.items()
    ]


def _imbalance(counters: Mapping[str, int], device: Mapping[str, Any]) -> str | None:
    """Say if a page-mapped drive erased much less, or more, than it programmed.

    That cannot go on, however level the figures are.
    """
    scheme = str(device.get("scheme", "")).partition("(")[0]
    if not counters["erases"] or scheme not in PAGE_MAPPED:
        return None
    causes = ("host_page_writes", "relocated_pages", "wear_moved_pages", "mapping_page_writes")
    later = ("parity_page_writes", "replica_page_writes")
    programmed = sum(counters[cause] for cause in causes)
    programmed += sum(counters.get(cause, 0) for cause in later)
    share = 1 - counters["erases"] * device["pages_per_erase_block"] / programmed
    if abs(share) <= MOST_IMBALANCE:
        return None
    if share > 0:
        return (
            f"Not in balance: {percent(share, 2)} of what was programmed went to erase blocks that "
            "were free at the start, and not to cleaned ones. A longer run has to clean more: its "
            "write amplification is higher."
        )
    return (
        f"Not in balance: {percent(-share, 2)} more was erased than programmed, as cleaning made a "
        "reserve. A longer run cleans less: its write amplification is lower."
    )


def _behind(row: Row) -> str | None:
    """Say if a simulated drive fell behind the times of a trace.

    Then latencies grow with the length of the run, and say little of the drive.
    """
    is_open = str(row["pace"]).startswith("open")
    if not is_open or row["requests"] < LEAST_REQUESTS_TO_BE_LATE:
        return None
    mean_seconds = row["latency_ns"]["all"]["mean"] / 1e9
    if mean_seconds < MOST_LATENESS * row["seconds"]:
        return None
    return (
        "The drive did not keep up with the times of the trace: a request takes "
        f"{span(mean_seconds)} on average in a run of {span(row['seconds'])}, and the longer the "
        "run, the longer. --pace 32 shows what the drive can do."
    )


def unmapped(row: Row) -> str | None:
    """Say how many reads cost nothing because a volume was empty at first, which none in use is."""
    layers = row.get("counters") or ()
    pages = sum(layer["counters"].get("unmapped_reads", 0) for layer in layers)
    if not pages:
        return None
    return (
        f"{_where(row)}: {several(pages, 'page')} that were read had not been written before, and "
        "cost nothing; with log_volume(filled=yes) all are on the device from the start, as on a "
        "volume in use."
    )


def _where(row: Row) -> str:
    return f"{row['stack']} on {row['device']}" if row["stack"] else str(row["label"])


def kept(row: Row) -> str | None:
    """Say what was found of the data when the stack was opened again."""
    found = (row["layers"] or {}).get("kept")
    if not found:
        return None
    ended = {
        "drained": "written back and flushed",
        "killed": "killed with what its layers still held",
    }[found["ending"]]
    text = (
        f"{_where(row)}: {ended}, and opened again in {span(found['recovery_seconds'])} of the "
        f"device's time; all {several(found['sectors'], 'sector')} that were written hold what "
        "they have to"
    )
    older = found["sectors"] - found["newest"]
    if not older:
        return f"{text}."
    return f"{text}, {count(older)} an older version that no flush came after."


def known(device: Mapping[str, Any]) -> str:
    """Say where what layers know of a device is from, and name what is not sure of it."""
    facts = device["facts"]
    text = f"What layers know of {device['label']}: {facts['origin']}"
    if not facts["remarks"]:
        return f"{text}."
    unsure = ", ".join(remark.partition(" (")[0] for remark in facts["remarks"])
    return f"{text}; {unsure}; why is in the report's last table."


def recorded(found: Mapping[str, Any]) -> str:
    """Say what a recording of the run says of it."""
    if not found["compared"]:
        return (
            f"What the device got is in {found['folder']}; it is not compared with the trace: "
            f"{found['why_not']}."
        )
    if found["same"]:
        return (
            "The device got exactly the requests that were played of the trace, "
            f"{count(found['trace_requests'])} of them, in their order."
        )
    first = found["first_difference"]
    pair = [
        "nothing more"
        if one is None
        else f"a {one['op']} of {one['length']} bytes at byte {one['offset']}"
        for one in (first["trace"], first["recorded"])
    ]
    counts = f"{count(found['trace_requests'])} requests against "
    return (
        "The device did not get the requests of the trace in their order: as request "
        f"{count(first['request'])}, from 0, the trace has {pair[0]}, and the device got {pair[1]} "
        f"({counts}{count(found['recorded_requests'])})."
    )


def verdicts(view: View) -> list[str]:
    """Say what each stack gains and loses."""
    return [f"{row['label']}: {row['verdict']['line']}" for row in view.rows if row["verdict"]]


def choices(view: View) -> list[str]:
    """Say which of the stacks that were tried is right for each device."""
    return [one["line"] for one in (view.result.get("choices") or {}).values()]
