"""One run of a load on a simulated drive, as a run with its tables."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flashwright import devices, flows, slices
from flashwright._core import InputError
from flashwright.progress import work
from flashwright.runs import PROFILE_FILE, TIMELINE_FILE, Job, Run, peak_rss_bytes, table
from flashwright.slices import Effort, SizeAsked

if TYPE_CHECKING:
    from flashwright._core import Requests
    from flashwright.devices import Device, Load
    from flashwright.slices import Sized
    from flashwright.sources import Reading

COMMAND = "simulate"
REQUESTS = "requests"
"""The table of each request by itself."""


@dataclass(frozen=True)
class DriveRun:
    """All that goes into a run, but for the drive."""

    source: str
    """A trace file, `synth:...` or `io:...`; see `devices.check_load_source`."""
    reading: Reading
    load: Load
    timeline_spans: int = 0
    audit: bool = False
    endurance: float | None = None
    writes_per_day: float | str | None = None
    size: SizeAsked = field(default_factory=SizeAsked)
    requests_to: Path | None = None
    """The Parquet file that each request is written to while the run goes on; None for no such
    table. It is a table of the run, and goes where the run is written.
    """


@contextmanager
def request_file(beside: Path) -> Iterator[Path]:
    """Give the file that requests are written to while a run goes on, in the folder `beside`.

    That is the one that the run folder will lie in: the file is then only renamed, however long it
    is. What is left of it at the end is removed, with the folders that were made for it.

    Raises InputError if the folder cannot be made.
    """
    made = [folder for folder in (beside, *beside.parents) if not folder.exists()]
    try:
        beside.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{beside}: cannot write the run folder: {error.strerror}") from error
    path = beside / f".{REQUESTS}.{os.getpid()}.parquet"
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)
        for folder in made:
            if any(folder.iterdir()):
                break
            folder.rmdir()


def preparing(load: Load, what: str) -> str | None:
    """Label the time before the first request, which may be most of a run.

    None if the state is made in an instant.
    """
    return {"aged": f"Aging {what}", "filled": f"Filling {what}", "loaded": f"Loading {what}"}.get(
        load.state
    )


def effort_of(load: Load, reading: Reading, runs: int = 1, at_once: int = 1) -> Effort:
    """Give what such runs cost, for the slice that is taken."""
    return Effort(
        reading.repeat,
        load.state,
        load.overwrites,
        runs=runs,
        at_once=at_once,
        most_requests=load.most_requests,
    )


def read_sized(sized: Sized, source: str, load: Load, reading: Reading) -> Requests:
    """Read the requests that a drive of its size gets."""
    if sized.is_cut:
        reading = replace(reading, format=None, skip_bad=0)
    return work(
        f"Reading {devices.name_of(source)}",
        "bytes",
        lambda progress: devices.load_requests(sized.source, load, reading, progress),
    )


def play(own: Device, asked: DriveRun) -> Run:
    """Play the source on the drive, at the size of the disk that the source is from.

    Raises InputError if it cannot be read, or cannot be sent to the drive in this way; Cancelled.
    """
    source, load = asked.source, asked.load
    sized = slices.take(own, source, asked.reading, asked.size, effort_of(load, asked.reading))
    device, requests = sized.device, read_sized(sized, source, load, asked.reading)
    devices.check_load(device, requests, load)
    beside = work(
        "Reading what is played beside it",
        "bytes",
        lambda progress: flows.load(load.beside, replace(asked.reading, seed=load.seed), progress),
    )
    lifetime = devices.lifetime_of_drive(
        device, source, requests, asked.endurance, asked.writes_per_day
    )
    outcome = work(
        f"Simulating {device.name}",
        "requests",
        lambda progress: devices.run(
            device,
            requests,
            load,
            beside=beside,
            timeline_spans=asked.timeline_spans,
            audit=asked.audit,
            requests_to=asked.requests_to,
            progress=progress,
        ),
        preparing=preparing(load, device.name),
    )
    tables = {name: table(columns) for name, columns in outcome.pop("tables").items()}
    timeline = outcome.pop("timeline")
    result = {
        **result_of(asked, device, requests, outcome),
        **devices.life_of(device, outcome, lifetime).document(),
        "lifetime": lifetime.document(),
    }
    texts = {PROFILE_FILE: device.toml}
    if timeline is not None:
        texts[TIMELINE_FILE] = timeline
        result["timeline"] = TIMELINE_FILE
    identity = [
        devices.identity(device, requests, load),
        [flow["requests"].content_hash for flow in beside],
        asked.timeline_spans,
        result["lifetime"],
    ]
    if asked.requests_to is not None:
        identity.append(REQUESTS)
    inputs = [devices.describe(asked.source, requests)] + [
        devices.describe(flow.source, given["requests"])
        for flow, given in zip(load.beside, beside, strict=True)
    ]
    kept = {name: found for name, found in tables.items() if found.num_rows}
    run = Job(COMMAND, identity, inputs, load.seed).run(result, kept, texts)
    if asked.requests_to is not None:
        run.table_files[REQUESTS] = asked.requests_to
    return run


def result_of(
    asked: DriveRun, device: Device, requests: Requests, outcome: dict[str, Any]
) -> dict[str, Any]:
    """Give the result of a run: its figures, and what they are of."""
    return {
        **outcome,
        "device": device.document(),
        "pace": asked.load.pace_document(),
        "priority": asked.load.priority,
        **({} if asked.load.handle is None else {"handle": asked.load.handle}),
        "beside": [flow.document() for flow in asked.load.beside],
        "state": asked.load.state_document(),
        "limits": asked.load.limits_document(),
        "seed": asked.load.seed,
        "workload": devices.summary(devices.name_of(asked.source), requests),
        "peak_rss_bytes": peak_rss_bytes(),
    }
