"""Whether the figures of a simulated drive's run may be called steady, and how well they are known.

The interval and its verdict are those of `ssd::steady`, which the counting simulator uses too:
batch means that know how long stretches depend on each other. Beside it stands what an interval
cannot see: buffers, logs and spare space that the run has not used up once look steady until they
are full.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flashwright._core import judge
from flashwright._text import percent, significant, size

FIGURES = {"iops": "throughput", "write_amplification": "write amplification"}
TOO_SHORT = "the run is too short to judge"
BUFFER_TURNS = 10
"""What a buffer takes at the start of a run, and does not have to pass on, is then 10 % of it."""
LOG_TURNS = 2


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
        found["write_amplification"] = {"low": None, "high": None, "steady": None, "unsteady": None}
    return found


def _judged(counted: Any, over: Any, left: list[str]) -> dict[str, Any]:
    import numpy as np

    found = judge(np.ascontiguousarray(counted), np.ascontiguousarray(over))
    reasons = [*left, *([found["unsteady"]] if found["unsteady"] else [])]
    is_short = found["unsteady"] == TOO_SHORT
    return {
        "low": found["low"],
        "high": found["high"],
        "steady": False if left else None if is_short else found["steady"],
        "unsteady": "; ".join(reasons) or None,
    }


def not_turned_over(
    profile: Mapping[str, Any],
    summary: Mapping[str, Any],
    outcome: Mapping[str, Any],
    plays: float = 1.0,
) -> list[str]:
    """Name what the run has not used up: the read cache, the write buffer, logs, spare space.

    `plays`: what the whole run did is this often what was measured.
    """
    if not outcome["host_page_writes"]:
        cache, read = profile["read_cache"]["bytes"], outcome["read_bytes"] * plays
        few = cache and read < cache
        return [f"{size(round(read))} were read through a cache of {size(cache)}"] if few else []
    found = []
    buffer, written = profile["write_buffer"]["bytes"], outcome["written_bytes"] * plays
    if written < BUFFER_TURNS * buffer:
        turns = significant(written / buffer, 2)
        found.append(
            f"the write buffer of {size(buffer)} was filled {turns} times, which has to be "
            f"{BUFFER_TURNS}"
        )
    logs = _log_bytes(profile, summary)
    if logs is None:
        return [*found, *_spare_left(summary, outcome, plays)]
    if written < LOG_TURNS * logs:
        turns = significant(written / logs, 2)
        found.append(
            f"the log superblocks of {size(logs)} were filled {turns} times, which has to be "
            f"{LOG_TURNS}"
        )
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


def _spare_left(summary: Mapping[str, Any], outcome: Mapping[str, Any], plays: float) -> list[str]:
    """Say if the spare space of a drive that maps pages was not written once.

    In a drive that was not aged each erase block has to be erased once, too: until then cleaning
    meets what the fill left.
    """
    causes = ("host_page_writes", "relocated_pages", "mapping_page_writes", "wear_moved_pages")
    spare = summary["physical_pages"] - summary["logical_pages"]
    written = sum(outcome[cause] for cause in causes) * plays / spare
    if written < 1:
        return [f"{percent(written, 2)} of the spare space was written, which has to be all"]
    erased = outcome["erases"] * plays / summary["erase_blocks"]
    if outcome["state"] != "aged" and erased < 1:
        return [
            f"each erase block was erased {significant(erased, 2)} times, which has to be once in "
            "a drive that was not aged"
        ]
    return []
