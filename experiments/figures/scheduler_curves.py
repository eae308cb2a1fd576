"""Curves of SCHEDULER chapter 4, by experiments of the prober on a drive."""

from __future__ import annotations

from typing import Any

from experiments.figures.drawing import chart, probed, renamed
from experiments.figures.scheduler_drives import LONG, WHOLE

THREADS = 30
"""Outstanding requests of figures 4.11-4.14."""
MATRIX = f"sizes=512..1Mi,depths=1+{THREADS},accesses=sequential+random"


def reading(profile: str) -> dict[str, Any]:
    """Give the throughput of reads."""
    return probed(profile).find(f"throughput_read({MATRIX})", 60)


def writing(profile: str) -> dict[str, Any]:
    """Give the throughput of writes, and of reads and writes half and half."""
    return probed(profile).find(f"throughput_write({MATRIX},{WHOLE})", LONG.get(profile, 1) * 400)


def response_read(profile: str) -> dict[str, Any]:
    """Give the response times of 4 KB random reads."""
    return probed(profile).find("response_time_read", 10)


def response_write(profile: str) -> dict[str, Any]:
    """Give the response times of 4 KB random writes, and of reads and writes half and half."""
    return probed(profile).find(f"response_time_write({WHOLE})", LONG.get(profile, 1) * 120)


def throughput(profile: str, access: str, depth: int) -> dict[str, Any]:
    """Give reads, writes and both over the request size in one chart, as the paper has them."""
    name = "throughput_{access}_{kind}_by_size"
    series = f"{depth} outstanding"
    reads = chart(reading(profile), name.format(access=access, kind="read"))
    written = {
        kind: chart(writing(profile), name.format(access=access, kind=kind))
        for kind in ("write", "mix")
    }
    return {
        **reads,
        "name": f"{access}_{depth}",
        "series": [
            renamed(reads, series, "read"),
            renamed(written["write"], series, "write"),
            renamed(written["mix"], series, "mix (50r50w)"),
        ],
    }


def distribution(profile: str) -> dict[str, Any]:
    """Give the response times of reads, writes and both in one chart."""
    reads = chart(response_read(profile), "response_time_read_distribution")
    writes = chart(response_write(profile), "response_time_write_distribution")
    return {**reads, "series": [*reads["series"], *writes["series"]]}
