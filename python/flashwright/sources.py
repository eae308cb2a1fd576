"""Opening a SOURCE, a trace file or a synthetic workload, for the simulator.

And the least that it could cost.
"""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flashwright import _core
from flashwright._core import InputError
from flashwright._text import count
from flashwright.lifetime import SECONDS_IN_DAY, Lifetime, Recorded, Wear, lifetime_of
from flashwright.outputs import FLEET_FILE, RESULT_FILE
from flashwright.runs import Run, sha256_of

if TYPE_CHECKING:
    from flashwright._core import Progress, Source, Workload

_VOLUME = re.compile(r"volume=\d+")
"""Name of the folder of a volume, in a store of many."""
SYNTHETIC = "synth:"
PATTERN = "io:"
STANDARD_INPUT = "-"
REQUESTS_FILE = "requests.parquet"
"""File of a recording with the requests that its device got."""
SAMPLES_FILE = "samples.parquet"
"""File of a light recording with its counters over time."""


@dataclass(frozen=True)
class Reading:
    """Settings of reading a source, as the core takes them."""

    page_size: int = 4096
    format: str | None = None
    skip_bad: int = 0
    seed: int = 1
    repeat: int = 1
    sample: int = 1
    """One page in so many, where that leaves enough of them."""


def part_of(
    given: str, *, page_size: int = 4096, seed: int = 1, takes_fleets: bool = False
) -> tuple[str, Reading]:
    """Give the source that a text means, and how it is read: `x.csv` or `part(x.csv, repeat=3)`.

    Raises InputError if there is none, or its requests are selected, which only `play` does; for
    the store of a fleet, unless whoever asks `takes_fleets`.
    """
    part = json.loads(_core.read_setting("source", given))
    for key in ("skip", "for", "limit", "ops", "fit"):
        if key in part:
            raise InputError(f"{given}: `{key}` selects requests, which `play` does; leave it out")
    reading = Reading(
        page_size,
        part.get("format"),
        part.get("skip_bad", 0),
        seed,
        part.get("repeat", 1),
        part.get("sample") or 1,
    )
    return check_source(part["of"], takes_fleets=takes_fleets), reading


def check_source(source: str, *, takes_fleets: bool = False) -> str:
    """Give the source that a name means.

    Of the folder of a recording the requests in it, of anything else itself.

    Raises InputError if it names a file that is not there.
    """
    if source.startswith(SYNTHETIC) or source == STANDARD_INPUT:
        return source
    if source.startswith(PATTERN) and not Path(source).exists():
        raise InputError(
            f"{source}: a pattern of requests is for a device: `flashwright play {source} --on "
            "PROFILE` takes it"
        )
    if not on_disk(Path(source)).exists():
        raise InputError(
            f"{source}: no such file; a SOURCE is a trace file, or a synthetic workload such as "
            "`synth:uniform(pages=1M)`"
        )
    if Path(source).is_dir():
        if _VOLUME.fullmatch(Path(source).name):
            return source
        if is_fleet(source):
            if takes_fleets:
                return source
            raise InputError(
                f"{source}: a store of many volumes; right would be one of them: {source}/volume=N"
            )
        requests = Path(source) / REQUESTS_FILE
        if (Path(source) / SAMPLES_FILE).is_file():
            raise InputError(
                f"{source}: a light recording, which has counters and no requests; right would be "
                "one without --light"
            )
        if not requests.is_file():
            raise InputError(
                f"{source}: a folder without a {REQUESTS_FILE}; name a trace file, or the folder "
                "of a recording"
            )
        return str(requests)
    return source


def is_fleet(source: str | Path) -> bool:
    """Tell whether a source is a store of many volumes."""
    try:
        return (Path(source) / FLEET_FILE).is_file()
    except OSError:
        # A workload may be described at a length that no path has.
        return False


def on_disk(path: Path) -> Path:
    """Give the file that a path leads to, or the archive that it leads into."""
    if path.exists():
        return path
    return next((above for above in path.parents if above.is_file()), path)


def load(
    source: str,
    reading: Reading,
    progress: Progress | None = None,
    memory_bytes: int = 4 << 30,
) -> Workload:
    """Read a source into page writes over dense logical pages.

    They are kept in memory up to `memory_bytes`, and read again each time beyond.
    """
    return _core.load_workload(
        source, **vars(reading), memory_limit_bytes=memory_bytes, progress=progress
    )


def is_file(source: str) -> bool:
    """Tell whether a source is a trace file."""
    return not source.startswith((PATTERN, SYNTHETIC)) and source != STANDARD_INPUT


def describe(source: str, requests: Workload | Source | None = None) -> dict[str, Any]:
    """Tell an input for the provenance.

    Its SHA-256 if it is a file, the hash of its requests or page writes if it was read as such.
    """
    return {
        "source": source,
        "sha256": sha256_of(on_disk(Path(source))) if is_file(source) else None,
        "content_hash": None if requests is None else requests.content_hash,
    }


def names(given: Sequence[str]) -> list[str]:
    """Give what sources are called in results.

    Files by their name, with the path only where two would be the same.
    """
    short = [name_of(source) for source in given]
    return [
        name if short.count(name) == 1 else source
        for name, source in zip(short, given, strict=True)
    ]


def name_of(source: str) -> str:
    """Give what a source is called in results."""
    return file_name(Path(source)) if is_file(source) else source


def file_name(path: Path) -> str:
    """Name a trace file for people.

    That of a recording by its folder, as all recordings call it the same.
    """
    return path.name if path.name != REQUESTS_FILE else f"{path.absolute().parent.name}/{path.name}"


def recorded_bytes_per_day(workload: Workload, reading: Reading) -> float | None:
    """Give the bytes a day that the workload writes at the speed of its recording.

    None if it has no times.
    """
    if not workload.duration_ns:
        return None
    written = workload.whole_page_writes / reading.repeat * reading.page_size
    return written * SECONDS_IN_DAY / (workload.duration_ns / 1e9)


def data_bytes(workload: Workload, reading: Reading) -> int:
    """Give the bytes that the workload touches, in whole pages."""
    return workload.whole_pages * reading.page_size


def lifetime(name: str, source: str, workload: Workload, reading: Reading, wear: Wear) -> Lifetime:
    """Resolve the write rate that a workload's life is computed for; see `lifetime_of`."""
    rate, nanoseconds = recorded_bytes_per_day(workload, reading), workload.duration_ns
    recorded = None if rate is None or not nanoseconds else Recorded(nanoseconds / 1e9, rate)
    return lifetime_of(
        name,
        wear,
        wear.endurance,
        data_bytes(workload, reading),
        recorded,
        counted_bytes_per_day(source),
    )


def counted_bytes_per_day(source: str) -> float | None:
    """Give what a drive was written a day by its own counters, if a recording has them."""
    path = Path(source)
    about = path.with_name(RESULT_FILE)
    if path.name != REQUESTS_FILE or not about.is_file():
        return None
    counters = Run.read_result(path.parent).result.get("drive_counters")
    if not counters:
        return None
    try:
        module = importlib.import_module("flashwright.recording.drive_counters")
    except ImportError:
        return None
    found: float | None = module.daily_bytes(counters)
    return found


def summary(name: str, workload: Workload, reading: Reading) -> dict[str, Any]:
    """Give a workload's sizes for the result."""
    return {
        "name": name,
        "logical_pages": workload.logical_pages,
        "page_size_bytes": reading.page_size,
        "page_writes": workload.page_writes,
        **_sample(workload),
        "page_trims": workload.page_trims,
        **workload.reading,
        "recorded_bytes_per_day": recorded_bytes_per_day(workload, reading),
    }


def _sample(workload: Workload) -> dict[str, Any]:
    if workload.one_in == 1:
        return {}
    return {
        "one_in": workload.one_in,
        "whole_pages": workload.whole_pages,
        "whole_page_writes": workload.whole_page_writes,
    }


def frequency_bounds(workload: Workload, over_provisionings: Sequence[float]) -> list[float]:
    """Give the frequency bound on write amplification at each over-provisioning.

    It is that of MULTILOG Algorithm 1: the least by update frequency for updates that are
    independent of each other, in large erase blocks that are cleaned in the order in which they
    were written. A workload need not be like that: see `below_the_bound`. Where it trims, a page is
    counted only for the time in which it holds data, and is spare space for the rest.
    """
    weights = workload.update_weights()
    if workload.page_trims:
        costs = _core.cleaning_cost_bound_of_held(
            weights, workload.held_fractions(), list(over_provisionings)
        )
        return [1.0 + cost for cost in costs]
    found = _core.cleaning_cost_bound(weights, list(over_provisionings))
    return [bound.write_amplification for bound in found]


def below_the_bound(trims: int) -> str:
    """Say why a simulation may write less than the frequency bound, in a sentence."""
    less = (
        "The frequency bound assumes independent updates, and large erase blocks that are cleaned "
        "in order. A write-ahead log and small erase blocks violate that, so a policy can beat it"
    )
    if trims:
        return (
            f"{less}. Its {count(trims)} trimmed pages count as spare space until they are written "
            "again."
        )
    return f"{less}."
