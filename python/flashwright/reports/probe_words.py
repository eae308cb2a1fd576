"""Findings of a probe in words: the same on the terminal and in reports."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from flashwright._text import count, percent, significant, size, span
from flashwright.probing.plan import ONLY
from flashwright.runs import PROFILE_FILE, Run

NOTHING = "–"  # noqa: RUF001  (a dash in a table is an en dash)
VERDICTS = {"sure": "sure", "unsure": "unsure", "not_found": "not found"}
VERDICTS_EXPLAINED = (
    "Sure: the statistics leave little doubt, at most one in twenty such values is wrong. Unsure: "
    "the best guess, and something else fits nearly as well. Not found: nothing of the kind shows, "
    "or what shows contradicts it."
)
POOR_BELOW = 0.5
"""Share of throughputs near the measured ones below which nobody should rely on a profile."""
HEADINGS = (
    ("experiment", "left"),
    ("what", "left"),
    ("value", "right"),
    ("95 % interval", "right"),
    ("verdict", "left"),
    ("why", "prose"),
)


def number_text(key: str, number: float) -> str:
    """Give a number with the unit that its key ends in."""
    unit = next((unit for unit in _UNITS if key == unit or key.endswith(f"_{unit}")), "")
    return _UNITS[unit](number)


def _plain_number(number: float) -> str:
    return count(number) if number == round(number) and abs(number) < 1e15 else significant(number)


def _a_second(number: float) -> str:
    return f"{count(number) if number >= 100 else significant(number)} /s"


def _time(seconds: float) -> str:
    return span(seconds) if seconds >= 0 else f"-{span(-seconds)}"


def _whole_size(number: float) -> str:
    """Give a size.

    In full where the greatest unit that fits has six digits for it, or it is a small one.
    """
    for power, name in ((40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")):
        if number >= 2**power:
            text = f"{number / 2**power:.6g}"
            if float(text) * 2**power == number:
                return f"{text} {name}"
            break
    return size(number) if number >= 2**20 else f"{count(number)} B"


_UNITS: dict[str, Callable[[float], str]] = {
    # In this order, as the end of one is another.
    "mb_per_second": lambda number: f"{significant(number)} MB/s",
    "bytes_per_second": lambda number: f"{significant(number / 1e6)} MB/s",
    "per_second": _a_second,
    "iops": _a_second,
    "bytes": _whole_size,
    "ns": lambda number: _time(number * 1e-9),
    "us": lambda number: _time(number * 1e-6),
    "ms": lambda number: _time(number * 1e-3),
    "seconds": _time,
    "s": _time,
    "share": percent,
    "fraction": percent,
    "percent": lambda number: f"{significant(number)} %",
    "": _plain_number,
}


def value_text(value: Mapping[str, Any]) -> str:
    """Give a value with its unit, or its word; a dash if it was not found."""
    if value["verdict"] == "not_found":
        return NOTHING
    if value.get("number") is not None:
        return number_text(value["key"], value["number"])
    return str(value.get("word") or NOTHING).replace("_", " ")


def interval_text(value: Mapping[str, Any]) -> str:
    """Give the 95 % interval of a number, or what all lies in that it stands for.

    Nothing if there is neither.
    """
    if value["verdict"] == "not_found":
        return ""
    if value.get("range"):
        return f"range {_from_to(value['key'], value['range'])}"
    return _from_to(value["key"], value["interval"]) if value.get("interval") else ""


def _from_to(key: str, ends: Sequence[float]) -> str:
    texts = [number_text(key, end) for end in ends]
    if texts[0] == texts[1]:
        return texts[0]
    # One unit is enough for both.
    (first, _, first_unit), (_, _, unit) = (text.rpartition(" ") for text in texts)
    return " – ".join(  # noqa: RUF001
        [first if first and first_unit == unit else texts[0], texts[1]]
    )


def told_values(finding: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Give the values of a finding that readers see: what was found, not what was set.

    JSON and Parquet have all.
    """
    return [value for value in finding["values"] if not value.get("is_setting")]


def value_rows(result: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """List every value that was found; an experiment is named at the first of its values."""
    return [
        ("" if number else finding["label"], *value_row(value))
        for finding in result["findings"]
        for number, value in enumerate(told_values(finding))
    ]


def value_row(value: Mapping[str, Any]) -> tuple[str, ...]:
    """Give a value as a row: what, value, interval, verdict, why."""
    return (
        value["key"],
        value_text(value),
        interval_text(value),
        VERDICTS[value["verdict"]],
        value["why"],
    )


def comparison_headings(result: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Give the headings of two drives side by side."""
    drives = [(f"{one['drive']}", "right") for one in (result, result["against"])]
    return (
        ("experiment", "left"),
        ("what", "left"),
        *drives,
        ("ratio", "right"),
        ("sure of both", "left"),
    )


def comparison_rows(run: Run) -> list[tuple[str, ...]]:
    """List every value of two drives side by side, with the ratio of the second to the first."""
    first, second = run.result, run.result["against"]
    theirs = {(finding["label"], value["key"]): value for finding, value in _values(second)}
    rows = []
    for finding, value in _values(first):
        other = theirs.pop((finding["label"], value["key"]), None)
        rows.append(_pair(finding["label"], value, other))
    rows += [_pair(label, None, value) for (label, _), value in theirs.items()]
    # A value that one drive alone has stands with its experiment, whose first row names it.
    order = {label: number for number, label in enumerate(dict.fromkeys(row[0] for row in rows))}
    rows.sort(key=lambda row: order[row[0]])
    return [
        ("" if number and rows[number - 1][0] == row[0] else row[0], *row[1:])
        for number, row in enumerate(rows)
    ]


def _values(result: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    return ((finding, value) for finding in result["findings"] for value in told_values(finding))


def _pair(
    label: str, first: Mapping[str, Any] | None, second: Mapping[str, Any] | None
) -> tuple[str, ...]:
    known = [value for value in (first, second) if value is not None]
    texts = [NOTHING if value is None else value_text(value) for value in (first, second)]
    is_sure = len(known) == 2 and all(value["verdict"] == "sure" for value in known)
    return label, str(known[0]["key"]), *texts, _ratio(first, second), "yes" if is_sure else ""


def _ratio(first: Mapping[str, Any] | None, second: Mapping[str, Any] | None) -> str:
    if first is None or second is None or NOTHING in (value_text(first), value_text(second)):
        return ""
    numbers = first.get("number"), second.get("number")
    if numbers[0] is None or numbers[1] is None:
        return "same" if first.get("word") == second.get("word") else "differs"
    if numbers[0] == numbers[1]:
        return "1"
    return significant(numbers[1] / numbers[0]) if numbers[0] else ""


def title(result: Mapping[str, Any]) -> str:
    """Name what was probed."""
    against = result.get("against")
    return _drive(result) if against is None else f"{_drive(result)} and {_drive(against)}"


def _drive(result: Mapping[str, Any]) -> str:
    device = result["device"]
    state = f", {device['state']['kind']}" if "state" in device else ""
    return f"{result['drive']} ({size(device['capacity_bytes'])}{state})"


def verdict_counts(result: Mapping[str, Any]) -> dict[str, int]:
    """Count the values of each verdict."""
    verdicts = [value["verdict"] for _, value in _values(result)]
    return {verdict: verdicts.count(verdict) for verdict in VERDICTS}


def remarks(result: Mapping[str, Any]) -> list[str]:
    """Say what a reader must know before trusting the figures of a probe."""
    text = _of_one(result, "")
    against = result.get("against")
    if against is not None:
        text += _of_one(against, f"{against['drive']}: ")
        text += _differences(result, against)
    return text


def _unexpected(result: Mapping[str, Any], lead: str) -> list[str]:
    """Say if a whole probe took much more or less time than was said before."""
    expected, took = result.get("estimate"), result["device_seconds"]
    # Experiments of an earlier run are not in the estimate.
    if expected is None or not result["complete"] or not expected["is_whole"]:
        return []
    if expected["low_seconds"] <= took <= expected["high_seconds"]:
        return []
    return [
        f"{lead}It took {span(round(took))} of the device's time, where "
        f"{span(round(expected['seconds']))} were expected."
    ]


def _of_one(result: Mapping[str, Any], lead: str) -> list[str]:
    lines = []
    missing = f"Not done: {', '.join(result['missing'])}." if result["missing"] else ""
    if result["error"] is not None:
        lines.append(
            f"{lead}The device failed, which ended the probe: {result['error']}. {missing}".rstrip()
        )
    elif result["missing"]:
        lines.append(f"{lead}The probe was stopped before its end. {missing}")
    by_reason: dict[str, list[str]] = {}
    for entry in result["left_out"]:
        by_reason.setdefault(entry["reason"], []).append(entry["experiment"])
    lines += [
        f"{lead}Left out: {', '.join(names)}: {reason}." for reason, names in by_reason.items()
    ]
    lines += _unexpected(result, lead)
    state = result["device"].get("state", {}).get("kind")
    if state == "fresh":
        lines.append(
            f"{lead}The drive was fresh: reads of what no experiment has written need no flash."
        )
    elif state is None and not result["may_write"]:
        lines.append(
            f"{lead}Nothing was written, and what was never written may be read without touching "
            "the flash: figures of reads hold for a device that is full of data."
        )
    return lines


def _differences(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[str]:
    """Say where two drives were not probed alike."""
    lines = []
    lengths = [one["region"]["length_bytes"] for one in (first, second)]
    # By a part in a hundred, no figure is another.
    if abs(lengths[1] / lengths[0] - 1) > 0.01:
        lines.append(f"The regions differ: {' and '.join(size(length) for length in lengths)}.")
    theirs = {finding["label"]: finding["budget_seconds"] for finding in second["findings"]}
    unequal = [
        finding["label"]
        for finding in first["findings"]
        if finding["label"] in theirs
        and abs(theirs[finding["label"]] / finding["budget_seconds"] - 1) > 0.01
    ]
    if unequal:
        lines.append(f"Not given the same time on both drives: {', '.join(unequal)}.")
    return lines


def profile_lines(result: Mapping[str, Any]) -> list[str]:
    """Say where the profile is and how well it fits, or why there is none."""
    profile = result.get("profile")
    # Who names experiments of his own does not expect one.
    if profile is None or (not profile.get("file") and result["set"] == ONLY):
        return []
    if not profile.get("file"):
        return [f"No profile: {profile['why_not']}."]
    is_poor = profile["within_10_percent"] is not None and profile["within_10_percent"] < POOR_BELOW
    warning = ": it is a poor stand-in for the drive" if is_poor else ""
    return [
        f"Profile: {PROFILE_FILE} in the run folder, a drive for --on. "
        f"{closeness(profile)}{warning}."
    ]


def profile_notes(result: Mapping[str, Any]) -> list[str]:
    """Say what of the profile is assumed, as nothing was found of it."""
    notes = (result.get("profile") or {}).get("notes") or []
    return [f"{note[:1].upper()}{note[1:].rstrip('.')}." for note in notes]


def closeness(profile: Mapping[str, Any]) -> str:
    """Say how many throughputs of a fitted profile are near those that were measured.

    And how far off the others are.
    """
    cells = profile["cells"]
    near = (
        f"{percent(profile['within_10_percent'], 2)} of its {len(cells)} throughputs are within 10 "
        "% of what was measured"
    )
    worst = max(cells, key=lambda cell: abs(math.log(cell["ratio"])), default=None)
    if worst is None or abs(worst["ratio"] - 1) <= 0.1:
        return near
    load = f"{kind_of_load(worst)} of {size(worst['size_bytes'])} at depth {worst['depth']}"
    return f"{near}, the worst is {significant(worst['ratio'])} times that ({load})"


def kind_of_load(cell: Mapping[str, Any]) -> str:
    """Name the order and the operations of a cell of the matrix."""
    op = (
        "reads"
        if cell["reads"] == 1
        else "writes"
        if cell["reads"] == 0
        else f"{cell['reads']:.0%} reads"
    )
    return f"{cell['access']} {op}"
