"""Steadiness of the figures of a simulated drive's run, and how well they are known.

The interval and its verdict are those of `ssd::steady`, which the counting simulator uses too:
batch means that know how long stretches depend on each other. Beside it stands what an interval
cannot see: buffers, logs and spare space that the run has not used up once look steady until they
are full.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flashwright._core import judge
from flashwright._text import percent, significant, size

FIGURES = {"iops": "throughput", "write_amplification": "write amplification"}
TOO_SHORT = "the run is too short to judge"
BUFFER_TURNS = 10
"""Times that a run has to fill a buffer: what the buffer takes at the start, and need not pass on,
is then 10 % of the run.
"""
LOG_TURNS = 2


@dataclass(frozen=True)
class Left:
    """Capacity that a run has not used up: a cache, a buffer, a log or spare space."""

    reason: str
    times: float
    """Factor by which the measured part, or what came before it, has to become longer."""
    is_space: bool = False
    """True if requests that are played in no time use it up, too."""


def of_drive(
    profile: Mapping[str, Any],
    summary: Mapping[str, Any],
    outcome: Mapping[str, Any],
    warm_up_requests: int = 0,
) -> dict[str, Any]:
    """Judge throughput and write amplification of a run over all that was measured.

    `profile` and `summary` are the drive's, `outcome` what the core gives for the run. Gives for
    each figure its 95 % interval `low` and `high` (None if nothing is known of it), whether it is
    `steady` (None if the run is too short to say, or has none), and why it is `unsteady`.
    """
    import numpy as np

    over_time = outcome["tables"]["over_time"]
    seconds = np.asarray(over_time["length_seconds"], dtype=float)
    host = np.asarray(over_time["host_page_writes"], dtype=float)
    moved = sum(
        np.asarray(over_time[key], dtype=float)
        for key in (
            "relocated_pages",
            "mapping_page_writes",
            "parity_page_writes",
            "replica_page_writes",
        )
        if key in over_time
    )
    requests = np.asarray(over_time["iops"], dtype=float) * seconds
    measured = outcome["requests"]
    # The warm-up is not counted, and uses up as much as the same number of measured requests.
    plays = (measured + warm_up_requests) / measured if measured else 1.0
    left = not_turned_over(profile, summary, outcome, plays)
    found: dict[str, Any] = {"iops": _judged(requests, seconds, left)}
    if outcome["host_page_writes"]:
        found["write_amplification"] = _judged(host + moved, host, left)
    else:
        unknown = dict.fromkeys(("low", "high", "steady", "unsteady", "times"))
        found["write_amplification"] = {**unknown, "has_space_left": False}
    return found


def _judged(counted: Any, over: Any, left: list[Left]) -> dict[str, Any]:
    import numpy as np

    found = judge(np.ascontiguousarray(counted), np.ascontiguousarray(over))
    reasons = [one.reason for one in left] + ([found["unsteady"]] if found["unsteady"] else [])
    is_short = found["unsteady"] == TOO_SHORT
    times = [one.times for one in left if not one.is_space]
    times += [found["times"]] if found["unsteady"] else []
    return {
        "low": found["low"],
        "high": found["high"],
        "steady": False if left else None if is_short else found["steady"],
        "unsteady": "; ".join(reasons) or None,
        "times": max(times, default=None),
        "has_space_left": any(one.is_space for one in left),
    }


def holds(result: Mapping[str, Any]) -> bool:
    """Tell whether all figures of a run on a drive are steady, so that they may be compared."""
    found = result["steady"]
    writes = found["write_amplification"] is True or not result["host_page_writes"]
    return found["iops"] is True and writes


def not_turned_over(
    profile: Mapping[str, Any],
    summary: Mapping[str, Any],
    outcome: Mapping[str, Any],
    plays: float = 1.0,
) -> list[Left]:
    """Name what the run has not used up: the read cache, the write buffer, logs, spare space.

    `plays`: what the whole run did is this often what was measured.
    """
    if not outcome["host_page_writes"]:
        cache, read = profile["read_cache"]["bytes"], outcome["read_bytes"] * plays
        if not cache or read >= cache:
            return []
        said = f"{size(round(read))} were read through a cache of {size(cache)}"
        return [Left(said, cache / max(read, 1))]
    found = []
    buffer, written = profile["write_buffer"]["bytes"], outcome["written_bytes"] * plays
    if written < BUFFER_TURNS * buffer:
        turns = significant(written / buffer, 2)
        said = (
            f"the write buffer of {size(buffer)} was filled {turns} times, which has to be "
            f"{BUFFER_TURNS}"
        )
        found.append(Left(said, BUFFER_TURNS * buffer / written))
    logs = _log_bytes(profile, summary)
    if logs is None:
        return [*found, *_spare_left(summary, outcome, plays)]
    if written < LOG_TURNS * logs:
        turns = significant(written / logs, 2)
        said = (
            f"the log superblocks of {size(logs)} were filled {turns} times, which has to be "
            f"{LOG_TURNS}"
        )
        found.append(Left(said, LOG_TURNS * logs / written))
    return found


def _log_bytes(profile: Mapping[str, Any], summary: Mapping[str, Any]) -> int | None:
    """Give the size of the log or open superblocks; None if the drive maps pages."""
    _, _, text = profile["ftl"]["scheme"].partition("(")
    given = dict(part.split("=") for part in text.rstrip(")").split(",") if "=" in part)
    logs = given.get("log_blocks", given.get("open_blocks"))
    if logs is None:
        return None
    wide = int(given.get("interleave", 0)) or summary["planes"]
    return (
        int(logs) * int(wide) * int(summary["pages_per_erase_block"]) * int(summary["page_bytes"])
    )


def _spare_left(summary: Mapping[str, Any], outcome: Mapping[str, Any], plays: float) -> list[Left]:
    """Say if the spare space of a drive that maps pages was not written once.

    In a drive that was not aged each erase block has to be erased once, too: until then cleaning
    meets what the fill left.
    """
    causes = ("host_page_writes", "relocated_pages", "mapping_page_writes", "wear_moved_pages")
    spare = summary["physical_pages"] - summary["logical_pages"]
    before = outcome.get("untimed_page_writes", 0) + outcome.get("untimed_relocated_pages", 0)
    written = (sum(outcome[cause] for cause in causes) * plays + before) / spare
    if written < 1:
        said = f"{percent(written, 2)} of the spare space was written, which has to be all"
        return [Left(said, 1 / max(written, 1e-6), is_space=True)]
    # Writes in no time made the drive clean as far as they exceeded the spare space.
    earlier = max(0.0, before - spare) / summary["pages_per_erase_block"]
    erased = (outcome["erases"] * plays + earlier) / summary["erase_blocks"]
    if outcome["state"] != "aged" and erased < 1:
        said = (
            f"each erase block was erased {significant(erased, 2)} times, which has to be once in "
            "a drive that was not aged"
        )
        return [Left(said, 1 / max(erased, 1e-6), is_space=True)]
    return []


SURE = 1.5
"""Factor on the length that is needed by a count, as a run that is too short again costs more."""
REWRITES = 8
"""Times that the data are written over until cleaning finds its level: once is often not enough."""
LEAST_REQUESTS = 300_000
"""Fewest requests that are measured, so that bursts of cleaning even out."""


@dataclass(frozen=True)
class Played:
    """Play of a source, as far as it matters to how long a run has to be."""

    total: int | None
    """Requests that the source has, played `repeat` times; None if it has no end."""
    repeat: int
    untimed: int
    most_requests: int | None
    most_seconds: float | None
    data_pages: int
    """Pages of the drive that the source may write to."""


def remedy(
    summary: Mapping[str, Any],
    outcome: Mapping[str, Any],
    judged: Mapping[str, Mapping[str, Any]],
    played: Played,
) -> str | None:
    """Give the options of `play` that would make a run steady; None if it is.

    Of the run itself: what is missing of its turns and of its precision, in requests.
    """
    wanting = [one for one in judged.values() if one["times"] or one["has_space_left"]]
    if not wanting:
        return None
    count = outcome["requests"]
    measured = math.ceil(count * SURE * max([one["times"] or 1.0 for one in wanting]))
    measured = max(measured, LEAST_REQUESTS)
    untimed = played.untimed
    writes = outcome["host_page_writes"] / max(count, 1)
    if writes:
        pages = summary["physical_pages"] + REWRITES * played.data_pages
        untimed = max(untimed + count, math.ceil(pages / writes))
    return _options(played, untimed, measured, outcome["simulated_seconds"] / max(count, 1))


def _options(played: Played, untimed: int, measured: int, seconds_each: float) -> str:
    said = []
    if played.total is None or played.most_requests is not None:
        said.append(f"--requests {rounded_up(measured)}")
    if played.total is None:
        said += [f"--untimed {rounded_up(untimed)}"] if untimed > played.untimed else []
    else:
        once = played.total / played.repeat
        repeat = max(played.repeat, math.ceil((untimed + measured) / once))
        said += [f"part(..., repeat={repeat})"] if repeat > played.repeat else []
        if untimed > played.untimed:
            # Rounded so that enough is left to measure.
            share = min(untimed / (untimed + measured), 1 - measured / (once * repeat))
            said.append(f"--untimed {math.floor(100 * share)}%")
    if played.most_seconds is not None:
        seconds = math.ceil(measured * seconds_each)
        said.append(f"--for {max(seconds, math.ceil(played.most_seconds))}")
    return " ".join(said)


WINDOW_PAGES = 1024
"""Host page writes of a window of the counting simulator, where it has the fewest."""
LEAST_WINDOWS = 100
"""Fewest windows that say something of a run, a part of which may be its start."""


UPDATES = 25
"""Writes of each page after which cleaning has found its level, on average."""
UPDATES_TO_LEARN = 300
"""The same of a policy that learns how often pages are written."""
WITHOUT_LEARNING = ("none", "separate", "future_knowledge")


def repeats(row: Mapping[str, Any], repeat: int, logical_pages: int) -> int:
    """Give how often a source has to be played for a counted run to be steady.

    `row`: of the run, which played it `repeat` times and was not steady. It is on the long side,
    and yet a policy with many streams on few erase blocks may need more.
    """
    learns = row["placement"].partition("(")[0] not in WITHOUT_LEARNING
    updates = UPDATES_TO_LEARN if learns else UPDATES
    pages = max(LEAST_WINDOWS * WINDOW_PAGES, updates * logical_pages)
    times: float = max(row["steady_times"], pages / row["host_page_writes"])
    return math.ceil(times * repeat)


def rounded_up(number: float) -> str:
    """Give a count as an option takes it, in two digits and never less: `480k`."""
    for unit, letter in ((1_000_000, "M"), (1_000, "k")):
        if number >= 10 * unit:
            digits = max(0, len(str(int(number / unit))) - 2)
            step = unit * 10**digits
            return f"{math.ceil(number / step) * step // unit}{letter}"
    return str(math.ceil(number))
