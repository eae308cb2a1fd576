"""Single figures in words: what each is called, and in which unit it is written.

For tables on the terminal and in reports.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from flashwright import reading_words
from flashwright._text import alpha, count, percent, significant, size, span

Labels: TypeAlias = Mapping[str, tuple[str, Callable[[Any], str]]]


def _exact(value: float) -> str:
    return significant(value, 4)


def _plain(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return (
        count(value)
        if isinstance(value, int)
        else _exact(value)
        if isinstance(value, float)
        else str(value)
    )


def _nanoseconds(value: float) -> str:
    return span(value / 1e9)


def _bytes_per_second(value: float) -> str:
    return f"{size(value)}/s"


def _years(value: float | None) -> str:
    return "not known" if value is None else f"{significant(value)} years"


TRACE: Labels = {
    "format": ("format", _plain),
    "requests": ("requests", count),
    "reads": ("reads", count),
    "writes": ("writes", count),
    "trims": ("trims", count),
    "flushes": ("flushes", count),
    "skipped": ("malformed records skipped", count),
    "lost_events": ("events that are missing, about", count),
    "clamped_times": ("times before the first request, set to 0", count),
    "time_reversals": ("times that go back", count),
    "duration_ns": ("duration", _nanoseconds),
    "requests_per_second": ("requests a second", significant),
    "reads_per_second": ("reads a second", significant),
    "writes_per_second": ("writes a second", significant),
    "read_bytes": ("read", size),
    "write_bytes": ("written", size),
    "trim_bytes": ("trimmed", size),
    "read_bytes_per_second": ("read a second", _bytes_per_second),
    "write_bytes_per_second": ("written a second", _bytes_per_second),
    "read_share_of_requests": ("reads, share of the reads and writes", percent),
    "read_share_of_bytes": ("reads, share of their bytes", percent),
    "mean_read_bytes": ("mean size of a read", size),
    "mean_write_bytes": ("mean size of a write", size),
    "sequential_share_of_reads": ("reads that start where the one before ended", percent),
    "sequential_share_of_writes": ("writes that start where the one before ended", percent),
    "streams": ("streams", count),
    "address_end_bytes": ("end of the highest request", size),
    "page_bytes": ("page", size),
    "page_reads": ("page reads", count),
    "page_writes": ("page writes", count),
    "footprint_pages": ("pages read or written", count),
    "footprint_bytes": ("footprint of reads and writes", size),
    "footprint_read_pages": ("pages read", count),
    "footprint_written_pages": ("pages written", count),
    "footprint_written_bytes": ("footprint of writes", size),
    "mean_updates_per_written_page": ("writes of a written page, mean", significant),
    "update_share_of_hottest_1_percent": (
        "page writes to the hottest 1 % of the written pages",
        percent,
    ),
    "update_share_of_hottest_20_percent": (
        "page writes to the hottest 20 % of the written pages",
        percent,
    ),
    "rewrite_distance_told_apart_up_to": (
        "longest rewrite distance that is exact, in page writes",
        count,
    ),
    "inter_arrival_ns_p50": ("time between requests, median", _nanoseconds),
    "inter_arrival_ns_p99": ("time between requests, 99th percentile", _nanoseconds),
    "inter_arrival_ns_max": ("time between requests, longest", _nanoseconds),
    "idle_ns": ("time without an outstanding request", _nanoseconds),
    "idle_share_of_time": ("share of the duration without one", percent),
    "requests_with_latency": ("requests with a time to answer", count),
    "window_ns": ("window of the plots over time", _nanoseconds),
    "picture_row_bytes": ("height of a dot in the picture of addresses", size),
}

SIMULATION: Labels = {
    "placement": ("placement policy", _plain),
    "victim": ("victim policy", _plain),
    "over_provisioning": ("over-provisioning", alpha),
    "write_amplification": ("write amplification", _exact),
    "write_amplification_low": ("its 95 % interval from", _exact),
    "write_amplification_high": ("to", _exact),
    "offline_minimum": ("offline minimum found", _exact),
    "frequency_bound": ("frequency bound (MULTILOG Algorithm 1)", _exact),
    "cleaning_cost": ("cleaning cost: relocated pages for each page written", _exact),
    "p_gc": ("valid pages in a victim (p_gc)", percent),
    "life_years": ("life", _years),
    "life_unknown": ("why it is not known", _plain),
    "steady": ("steady", _plain),
    "unsteady": ("why not", _plain),
    "steady_from_update": ("counted from page write", count),
    "host_page_writes": ("page writes of the host", count),
    "trimmed_pages": ("trimmed pages", count),
    "relocated_pages": ("relocated pages", count),
    "pulled_pages": ("of these taken along from other streams", count),
    "streams_left_out": ("streams that the spare space has no room for", count),
    "spilled_pages": (
        "relocated pages put in another stream for want of a free erase block",
        count,
    ),
    "unused_pages": (
        "pages left unwritten in erase blocks that the policy closed early",
        count,
    ),
    "rescues": ("victims chosen by the FTL, as the policy's gained no space", count),
    "erases": ("erases", count),
    "erases_mean": ("erases of an erase block, mean", _exact),
    "erases_stddev": ("erases of an erase block, standard deviation", _exact),
    "erases_min": ("erases of an erase block, fewest", count),
    "erases_max": ("erases of an erase block, most", count),
    "logical_pages": ("logical pages", count),
    "physical_pages": ("physical pages", count),
    "page_bytes": ("page", size),
    "pages_per_erase_block": ("pages in an erase block", count),
    "start": ("device at the start", _plain),
    "repeat": ("times that the source is played", count),
    "seed": ("seed", count),
    "wall_seconds": ("time to simulate", span),
    "flash_page_programs_per_second": ("page programs simulated a second", count),
    "table_bytes_per_page": ("tables of the FTL for each physical page, in bytes", significant),
    "peak_rss_bytes": ("memory of the process, at most", size),
}


def rows(figures: Mapping[str, Any], labels: Labels) -> list[tuple[str, str]]:
    """Give (what it is, value with its unit) for every single figure, in the order of the labels.

    The unlabelled come last.
    """
    scalars = {
        key: value
        for key, value in figures.items()
        if value is None or isinstance(value, int | float | str)
    }
    known = [(key, *labels[key]) for key in labels if key in scalars]
    others = [(key, key.replace("_", " "), _plain) for key in scalars if key not in labels]
    return [
        (label, "unknown" if scalars[key] is None else write(scalars[key]))
        for key, label, write in known + others
    ]


def trace_rows(figures: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Give the figures of a trace; where it has no times, windows are counted in requests."""
    # Most traces do not tell whether events are missing.
    figures = {key: value for key, value in figures.items() if key != "lost_events" or value}
    labels = TRACE
    if not figures.get("duration_ns"):
        label, _ = TRACE["window_ns"]
        labels = {**TRACE, "window_ns": (label, lambda value: f"{count(value)} requests")}
    found = rows(figures, labels)
    # Behind what else was lost while reading.
    at = next(number for number, (label, _) in enumerate(found) if label == TRACE["skipped"][0]) + 1
    return [*found[:at], *reading_words.rows(figures), *found[at:]]
