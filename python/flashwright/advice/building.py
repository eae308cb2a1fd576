"""From a question (a source, a drive, a goal) to the case that actions look at."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc
import pyarrow.parquet as pq

from flashwright import _core
from flashwright._core import InputError, Progress
from flashwright._text import size, span
from flashwright.advice import load as loads
from flashwright.advice import nearest
from flashwright.advice.action import RISKS
from flashwright.advice.case import GOALS, Case
from flashwright.advice.engine import Engine, loads_a_day
from flashwright.advice.load import Load
from flashwright.advice.loop import Loop
from flashwright.advice.processors import Processors
from flashwright.advice.setup import Drive, Setup
from flashwright.advice.what_ifs import of_recording
from flashwright.lifetime import LEAST_SECONDS
from flashwright.outputs import RESULT_FILE
from flashwright.recording.drive_counters import daily_bytes
from flashwright.runs import Run
from flashwright.slices.cut import Stopper
from flashwright.sources import REQUESTS_FILE, check_source

_CALLS, _FILES = "calls.parquet", "files.parquet"
LEAST_RATE = 0.25
"""Share of the fastest client's syncs a second below which somebody is none."""
KINDS = ("postgres", "sqlite", "mysql")
"""Databases that actions know."""
SERVER_FILE, SQLITE_FILE = "server.json", "sqlite.json"
"""What a recording keeps of a server's, and of a SQLite database's, settings."""


@dataclass(frozen=True)
class Question:
    """What is asked."""

    source: str
    device: str | None = None
    capacity_bytes: int | None = None
    """Of the disk, where the recording does not tell it."""
    fill: float | None = None
    writes_per_day: float | None = None
    goal: str = "life"
    risk: str = "seconds"
    format: str | None = None
    skip_bad: int = 0
    seed: int = 1

    def check(self) -> None:
        """Raise InputError if a word is not one of those that there are."""
        if self.goal not in GOALS:
            raise InputError(f"--goal {self.goal}: it is one of {', '.join(GOALS)}")
        if self.risk not in RISKS:
            raise InputError(f"--risk {self.risk}: it is one of {', '.join(RISKS)}")
        if self.fill is not None and not 0 < self.fill <= 1:
            raise InputError(f"--fill {self.fill:g}: it is a share above 0 and at most 100%")


def case_of(
    question: Question,
    engine: Engine,
    folder: Path,
    stopper: Stopper | None = None,
    progress: Progress | None = None,
) -> Case:
    """Read the source, find the drive, and simulate how things stand.

    `folder` is where the load is kept meanwhile.

    Raises:
        InputError: the source cannot be read, there is no such drive, or the load does not fit it.
        Cancelled: it was asked to stop.
    """
    question.check()
    load = loads.read(
        question.source,
        folder,
        question.format,
        question.skip_bad,
        stopper=stopper or Stopper(),
    )
    recorded = _recorded(question.source)
    about: Mapping[str, Any] = recorded.get("recording", {}).get("device") or {}
    found = nearest.of_disk(about) if question.device is None else nearest.named(question.device)
    drive, said = _drive(question, load, found)
    base = Setup(load, drive)
    figures = engine.figures(base, progress)
    per_day, rate_said = _rate(question, load, recorded)
    home = Path(check_source(question.source)).parent if recorded else None
    settings = _settings(home)
    processors = Processors.of(recorded)
    return Case(
        load,
        base,
        figures,
        question.goal,
        RISKS[question.risk],
        _database(recorded),
        _path(recorded),
        settings,
        recorded,
        home,
        found.how,
        said,
        per_day,
        rate_said,
        _loop(home, load, processors),
        None if home is None else of_recording(home, folder, load, _database(recorded)),
        recorded.get("drive_counters") or {},
        processors,
    )


def _recorded(source: str) -> dict[str, Any]:
    """Give `result.json` of a recording; empty of another source."""
    path = Path(check_source(source))
    if path.name != REQUESTS_FILE or not path.with_name(RESULT_FILE).is_file():
        return {}
    return Run.read_result(path.parent).result


def _database(recorded: Mapping[str, Any]) -> str | None:
    """Give the kind of the database; None if the source does not say it."""
    kind = (recorded.get("path") or {}).get("database")
    return str(kind) if kind in KINDS else None


def _path(recorded: Mapping[str, Any]) -> str | None:
    said = (recorded.get("recording") or {}).get("database") or {}
    return str(said["path"]) if isinstance(said, Mapping) and said.get("path") else None


def _settings(home: Path | None) -> dict[str, str]:
    """Give the settings of the database that the recording has noted."""
    for name in (SERVER_FILE, SQLITE_FILE):
        if home is not None and (home / name).is_file():
            noted = json.loads((home / name).read_text(encoding="utf-8"))
            found = noted.get("settings", noted)
            return {
                str(key): str(value)
                for key, value in found.items()
                if isinstance(value, str | int | float | bool)
            }
    return {}


def _drive(question: Question, load: Load, found: nearest.Nearest) -> tuple[Drive, str]:
    """Give the drive at the size and fill of the disk, and say where each is from."""
    known = None if load.disk is None else load.disk.size_bytes
    capacity = question.capacity_bytes or known
    used = None if load.disk is None else load.disk.used_share
    fill = question.fill if question.fill is not None else used
    if capacity is None:
        own = int(_core.profile_summary(_toml(found.profile))["capacity_bytes"])
        where = "the profile's own size, as that of the disk is not known"
        if load.end_bytes > own:
            capacity, where = load.end_bytes, "as large as the last address of the source"
            return Drive(found.profile, (), capacity, fill or 1.0), f"{found.said}; {where}"
        return Drive(found.profile), f"{found.said}; {where} ({size(own)}), full"
    by = "as asked" if question.capacity_bytes else "as recorded"
    filled = (
        "taken as full, as how much of it holds data is not known"
        if fill is None
        else f"{fill:.0%} full"
    )
    return (
        Drive(found.profile, (), capacity, 1.0 if fill is None else fill),
        f"{found.said}; {size(capacity)} ({by}), {filled}",
    )


def _toml(profile: str) -> str:
    from flashwright.devices import DriveProfile  # noqa: PLC0415  (only where it is asked)

    return DriveProfile.load(profile).toml


def _rate(question: Question, load: Load, recorded: Mapping[str, Any]) -> tuple[float | None, str]:
    """Give the bytes that the disk is written a day, and say what that rests on."""
    if question.writes_per_day is not None:
        return question.writes_per_day, "as asked"
    counted = daily_bytes(recorded.get("drive_counters") or {})
    if counted is not None:
        return counted, "the mean over the drive's life, by its own counters"
    if not load.seconds:
        return None, "the source has no times; --writes-per-day 40G gives the rate"
    rate = load.written_bytes * loads_a_day(load.seconds)
    if load.seconds < LEAST_SECONDS:
        return rate, f"if all of the day were like these {span(load.seconds)}"
    return rate, f"at the rate of these {span(load.seconds)}"


def _loop(home: Path | None, load: Load, processors: Processors | None) -> Loop | None:
    """Give how clients wait for commits: by their sync calls, where those were recorded."""
    if home is None or load.commits is None or not load.seconds:
        return None
    if not ((home / _CALLS).is_file() and (home / _FILES).is_file()):
        return None
    calls = pq.read_table(home / _CALLS, columns=["op", "file", "pid", "time_ns", "duration_ns"])
    files = pq.read_table(home / _FILES, columns=["file", "purpose"])
    of_log = [
        number
        for number, purpose in zip(
            files["file"].to_pylist(), files["purpose"].cast("string").to_pylist(), strict=True
        )
        if purpose == "wal"
    ]
    is_sync = pc.equal(calls["op"].cast("string"), "sync")
    # Calls are recorded from the warm-up on, which is before the first request.
    end_ns = load.begin_ns + round(load.seconds * 1e9)
    is_measured = pc.and_(
        pc.greater_equal(calls["time_ns"], load.begin_ns), pc.less(calls["time_ns"], end_ns)
    )
    is_of_log = pc.is_in(calls["file"], _values(calls, of_log))
    syncs = calls.filter(pc.and_(pc.and_(is_sync, is_measured), is_of_log))
    if not len(syncs):
        return None
    took = syncs["duration_ns"].to_numpy().astype(np.float64) / 1e9
    clients = clients_of(syncs["pid"].to_numpy(), syncs["time_ns"].to_numpy(), load.seconds)
    most = math.inf if processors is None else processors.most(load.seconds)
    rate = len(syncs) / load.seconds
    return Loop(clients, rate, float(took.mean()), load.commits.mean, most)


def clients_of(pid: npt.NDArray[Any], time_ns: npt.NDArray[Any], seconds: float) -> float:
    """Give the mean number of clients that commit, by who syncs the log and when; 1 at least.

    Each counts for the time from its first sync to its last: some come and go. Who syncs far less
    often meanwhile than the fastest (a checkpointer, a writer of the log) is no client.
    """
    _, who = np.unique(pid, return_inverse=True)
    syncs = np.bincount(who)
    first = np.full(len(syncs), np.iinfo(np.int64).max)
    last = np.full(len(syncs), np.iinfo(np.int64).min)
    np.minimum.at(first, who, time_ns)
    np.maximum.at(last, who, time_ns)
    there = (last - first) / 1e9
    # One that has come and gone is not fast for the two syncs that it made.
    rate = syncs / np.maximum(there, seconds / 4)
    is_client = rate >= LEAST_RATE * rate.max(initial=0.0)
    return max(1.0, float(there[is_client].sum()) / seconds)


def _values(calls: Any, numbers: list[int]) -> Any:
    import pyarrow as pa  # noqa: PLC0415

    return pa.array(numbers, calls["file"].type)
