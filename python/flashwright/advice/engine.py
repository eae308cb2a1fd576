"""Simulates setups, each once: kept, side by side, on a slice of the disk.

A setup's trace is played on the drive until it was written some times over. The first half is
played in no time, the second with the clock: at the pace of clients that wait for their commits
and pause as they did (`intervals`), so that a slow drive is sent less, and a fast one more.
"""

from __future__ import annotations

import contextlib
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

from flashwright import drive_runs, slices, steady
from flashwright._core import InputError, Progress
from flashwright.advice import emulated, traces, two_drives
from flashwright.advice.commits import commits_of, thought_elsewhere
from flashwright.advice.load import Load
from flashwright.advice.processors import AtWork
from flashwright.advice.setup import APART, HERE, Commits, Drive, Figures, Interval, Setup
from flashwright.advice.two_drives import Times
from flashwright.devices import DriveProfile
from flashwright.kept import Kept, key_of
from flashwright.lifetime import SECONDS_IN_DAY
from flashwright.progress import hidden
from flashwright.slices import Effort, SizeAsked
from flashwright.slices.cut import STRIPE_BYTES
from flashwright.slices.sized import Sized
from flashwright.sources import Reading

CAPACITIES_WRITTEN = 3.0
"""Full drive writes until which a load is played over, of which the second half is measured."""
DEPTH = 32
"""Requests outstanding at most."""
PACE = {"intervals": {"depth": DEPTH}}
MOST_TIMED = 400_000
"""Most requests that are played with a clock: percentiles of commits are known well by then."""
MOST_LAYERED = 100_000
"""Most requests that are played through layers, of which the second half is measured."""
LEAST_REQUESTS = 500
"""Fewest requests of a slice."""
_OTHERWISE = 0.1
"""Share of a load's time by which its pauses differ, from which it is played with those."""
ROOM_BELOW_LAYERS = 1.35
"""Space below layers for each byte above them: logs, slots and tables need their own."""
_PARTS = (
    "host_page_writes",
    "relocated_pages",
    "wear_moved_pages",
    "mapping_page_writes",
    "parity_page_writes",
    "replica_page_writes",
)


@dataclass(frozen=True)
class Clients:
    """Whoever sends a load, as a closed loop.

    Some requests are outstanding at a time, and each that ends is followed by the next after some
    time to think. A load that is the same work takes the same time to think, in however many
    requests it is sent, and beside that the same time for each flush.
    """

    outstanding: int
    thinks: float
    """Seconds to think of all requests of the load together, one after the other."""
    commit: int = 1
    """Clients that commit in turn."""
    flushing: float = 0.0
    """Seconds of each flush that its drive has no part in: system call, file system, the way."""
    at_work: AtWork | None = None
    """None if the recording does not tell what they took of the processors."""
    served: bool = False
    """Whether a server writes data behind their backs: they do not think at those writes."""

    @property
    def is_serial(self) -> bool:
        """True if one request is outstanding at a time: time to think is beside the drive's."""
        return self.outstanding == 1

    def thinking(self, flushes: int, *, waits: float | None, work: float) -> float:
        """Give the seconds that a load of so many flushes takes beside its drive.

        `work` is as `Load` has it, `waits` as `Setup`. Clients that do not wait for their commits
        do not wait for each other's, either.
        """
        if waits is None and self.at_work is not None:
            return self.at_work.seconds(0.0, work)
        return self.thinks * work + (self.flushing + (waits or 0.0)) * flushes

    def turn(self, commits: float, work: float) -> float:
        """Give how many commits of a load go by while each client commits once; 1 at least.

        Those that share their flushes are one of `commits`. As recorded each client has its own;
        `work` is as `Load` has it.
        """
        recorded = 0 if self.at_work is None else work * self.at_work.flushes
        return max(1.0, self.commit * commits / recorded) if recorded else self.commit

    def pace(
        self, requests: int, thinking: float, *, waits: bool = True, layered: bool = False
    ) -> dict[str, Any]:
        """Give the pace of a load of so many requests, which thinks for so many seconds.

        Clients that do not wait for their commits send on until the kernel holds no more for them.
        A drive takes writes of data into its cache, where nobody waits for them; layers may write
        them before they answer, and then as many clients as there are wait at a time.
        """
        depth = max(self.outstanding, self.commit) if layered else self.outstanding
        depth = depth if waits else DEPTH
        return {"closed": {"depth": depth, "think": 1e6 * thinking * depth / max(requests, 1)}}


@dataclass(frozen=True)
class Conditions:
    """A drive before a load, how that is sent, and how long it goes on."""

    state: str = "filled"
    """Of the drive, as `profile(...)` has it."""
    capacities_written: float = CAPACITIES_WRITTEN
    """Full drive writes until which the load is played over, of which the second half is measured;
    with 0 it is played once, and all of it is measured, on a drive as small as that of a trial.
    """
    clients: Clients | None = None
    """None for the intervals of the recording."""
    seconds: float = 0.0
    """Time for which clients send a load that is played once: they send it again until then, as a
    drive that is faster gets more of it; 0 to leave it at once."""

    @property
    def is_once(self) -> bool:
        """Whether the load is played once."""
        return not self.capacities_written

    def pace(self, requests: int, thinking: float, *, waits: bool, layered: bool) -> dict[str, Any]:
        """Give the pace of a load of so many requests.

        `thinking`: seconds that it takes beside its drive. `waits`: clients wait for their commits.
        `layered`: there are layers over the drive.
        """
        if self.clients is None:
            return PACE
        return self.clients.pace(requests, thinking, waits=waits, layered=layered)

    def document(self) -> dict[str, Any]:
        """Give them for the key of a result."""
        clients = None if self.clients is None else asdict(self.clients)
        return {**vars(self), "clients": clients, "drive": "emulated" if self.is_once else "slice"}


STEADY = Conditions()
"""What comes of a load that goes on for months."""


@dataclass
class Engine:
    """Simulates setups."""

    folder: Path | None = None
    """Folder in which results are kept from one advice to the next; None keeps none."""
    seconds_each: float = 20.0
    """Most seconds that a run may take by its estimate."""
    seed: int = 1
    conditions: Conditions = STEADY
    _kept: Kept = field(init=False)
    _scratch: tempfile.TemporaryDirectory[str] = field(init=False)
    _found: dict[str, Figures] = field(default_factory=dict)
    _traces: dict[str, tuple[threading.Lock, dict[str, Path]]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        """Make the folder for traces."""
        self._kept = Kept(self.folder)
        self._scratch = tempfile.TemporaryDirectory(prefix="flashwright-advice-")

    def close(self) -> None:
        """Remove the traces."""
        self._scratch.cleanup()

    def key(self, setup: Setup) -> str:
        """Name a setup by all that decides on its figures."""
        return key_of(
            "advice", setup.identity(), self.seed, self.seconds_each, self.conditions.document()
        )

    def knows(self, setup: Setup) -> bool:
        """Tell whether a setup was simulated, now or before."""
        key = self.key(setup)
        return key in self._found or self._kept.has(key)

    def figures(self, setup: Setup, progress: Progress | None = None) -> Figures:
        """Give the figures of a setup: those that are kept, or else new ones.

        Raises:
            InputError: no such drive can be built, or the load does not fit.
            Cancelled: it was asked to stop.
        """
        key = self.key(setup)
        with self._lock:
            if key in self._found:
                return self._found[key]

        def simulate() -> dict[str, Any]:
            with hidden():
                return {**self._simulate(setup, progress or Progress()).document(), "tables": {}}

        found = Figures.of(self._kept.remember(key, simulate))
        with self._lock:
            self._found[key] = found
        return found

    def _simulate(self, setup: Setup, progress: Progress) -> Figures:
        began = time.monotonic()
        parts = self._parts(setup)
        drives = {HERE: setup.drive}
        if setup.log_apart is not None:
            drives[APART] = setup.log_apart
        # Who waits for two drives thinks between all of their requests.
        requests = sum(map(_rows, parts.values()))
        flushes = _flushes(parts[APART] if APART in parts else parts[HERE]) if parts else 0
        waits, clients = setup.waits, self.conditions.clients
        work = setup.load.work
        thinking = 0.0 if clients is None else clients.thinking(flushes, waits=waits, work=work)
        layered = setup.stack is not None

        def play(times: int, thinking: float) -> Figures:
            pace = self.conditions.pace(
                requests, thinking, waits=waits is not None, layered=layered
            )
            played = {
                name: self._play(setup, drives[name], path, pace, progress, times)
                for name, path in parts.items()
            }
            took = time.monotonic() - began
            seconds, busy = _seconds(played, clients, thinking, flushes, waits=waits, work=work)
            return _together(played, took, setup, seconds, busy)

        found = play(1, thinking)
        at_work = None if clients is None or not clients.is_serial else clients.at_work
        if waits is not None and at_work is not None:
            # Beside another drive clients overlap otherwise, and the load has other pauses.
            rest = max(0.0, found.seconds_taken - found.busy_seconds)
            if abs(rest - thinking) > _OTHERWISE * found.seconds_taken:
                thinking = rest
                found = play(1, thinking)
        wanted = self.conditions.seconds / found.seconds_taken if found.seconds_taken else 0.0
        most = MOST_TIMED // max(map(_rows, parts.values()))
        times = min(round(wanted), most)
        if times < 2 or layered:
            return found
        return play(times, thinking)

    def _parts(self, setup: Setup) -> dict[str, Path]:
        """Give the trace of each drive, made once for all setups that send the same."""
        key = key_of(
            *(setup.load.content_hash, setup.trims, setup.merge_seconds, setup.handles),
            setup.log_apart is not None,
        )
        with self._lock:
            lock, paths = self._traces.setdefault(key, (threading.Lock(), {}))
        with lock:
            if not paths:
                for number, (name, requests) in enumerate(traces.of(setup).items()):
                    if not requests.written_bytes:
                        continue
                    path = Path(self._scratch.name) / f"{key}-{number}.parquet"
                    traces.write(requests, path, handles=setup.handles)
                    paths[name] = path
        return paths

    def _play(
        self, setup: Setup, drive: Drive, path: Path, pace: Any, progress: Progress, times: int
    ) -> _Played:
        sized = (
            emulated.sized(drive, path)
            if self.conditions.is_once
            else self._sized(setup, drive, path)
        )
        requests = _rows(Path(sized.source))
        if self.conditions.is_once:
            plays, untimed, timed = times, 0, times * requests
        else:
            plays = sized.plays or _plays_of(sized, path)
            untimed, timed = _halves(requests, plays)
        source = {"of": sized.source, "format": "parquet", "repeat": plays}
        state = self.conditions.state
        common: dict[str, Any] = {"state": state, "seed": self.seed, "pace": pace}
        if drive.capacity_bytes is None:
            common["fold"] = True
        if setup.stack is not None:
            return self._layered(setup.stack, sized, source, common, untimed, timed, progress)
        table = Path(self._scratch.name) / f"requests-{threading.get_ident()}.parquet"
        with _removed(table):
            outcome = drive_runs.run(
                sized.device.toml,
                source,
                progress,
                **common,
                untimed=untimed,
                requests=timed,
                per_request=True,
                requests_to=str(table),
            )
            commits = self._commits(table, Path(sized.source), setup.load, pace)
            took = None
            if setup.log_apart is not None:
                took = two_drives.times_of(table, max(outcome["requests"] / requests, 1e-9))
        return replace(_played(sized, outcome, requests, commits, state), times=took)

    def _commits(self, table: Path, source: Path, load: Load, pace: Any) -> Commits | None:
        """Give the commits of a run, whose requests are in `table`."""
        clients = self.conditions.clients
        if clients is None:
            return _commits(table, source, 0, load.flushes_of_commit)
        loop = pace["closed"]
        thinks = loop["think"] / 1e6 if clients.served and loop["depth"] == 1 else 0.0
        turn = clients.turn(_flushes(source) / load.flushes_of_commit, load.work)
        return _commits(table, source, turn, load.flushes_of_commit, thinks)

    def _sized(self, setup: Setup, drive: Drive, path: Path) -> Sized:
        """Give a slice of the drive at the size and fill of the disk, with its part of the load."""
        own = DriveProfile.load(drive.profile, drive.overrides)
        effort = Effort(
            capacities_written=self.conditions.capacities_written,
            most_seconds=self.seconds_each,
            least_requests=LEAST_REQUESTS,
            room=ROOM_BELOW_LAYERS if setup.stack else 1.0,
        )
        capacity = drive.capacity_bytes
        size = SizeAsked(capacity, None if capacity is None else drive.fill)
        return slices.take(own, str(path), Reading(format="parquet"), size, effort)

    def _layered(
        self,
        stack: str,
        sized: Sized,
        source: Mapping[str, Any],
        common: Mapping[str, Any],
        untimed: int,
        timed: int,
        progress: Progress,
    ) -> _Played:
        """Play through layers, on the clock from the start: they have state of their own."""
        timed = min(timed, MOST_LAYERED if not untimed else MOST_LAYERED // 2)
        warm_up = min(untimed, timed)
        outcome = drive_runs.run(
            sized.device.toml,
            source,
            progress,
            **common,
            stack=[stack],
            warm_up=warm_up,
            requests=warm_up + timed,
        )
        return _of_layers(sized, outcome, timed)


@dataclass(frozen=True)
class _Played:
    """What one drive did, over the time of the whole load."""

    host_bytes: float
    flash_bytes: Interval
    endurance_bytes: float | None
    commits: Commits | None
    seconds: float
    steady: bool | None
    unsteady: str | None
    slices: int
    times: Times | None = None
    """None unless the log is on a drive of its own."""


def _flushes(path: Path) -> int:
    op = pq.read_table(path, columns=["op"])["op"].cast("string")
    return int(pc.sum(pc.equal(op, "flush")).as_py() or 0)


def _rows(path: Path) -> int:
    return int(pq.ParquetFile(path).metadata.num_rows)


@contextlib.contextmanager
def _removed(path: Path) -> Iterator[None]:
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def _plays_of(sized: Sized, path: Path) -> int:
    """Give the number of plays on a drive that has the profile's own size."""
    written = traces.load(path).written_bytes
    wanted = CAPACITIES_WRITTEN * sized.device.capacity_bytes / max(written, 1)
    return 2 * max(1, min(20, round(wanted)) // 2)


def _halves(requests: int, plays: int) -> tuple[int, int]:
    """Give the requests that are played in no time, and those with a clock: whole plays."""
    measured = max(1, plays // 2)
    if requests * measured > MOST_TIMED:
        measured = max(1, MOST_TIMED // max(requests, 1))
    return requests * max(1, plays - measured), requests * measured


def _commits(
    table: Path, source: Path, clients: float, flushes: int, thinks: float = 0.0
) -> Commits | None:
    """Give the commits of a run: writes to stripes that hold the log, and flushes.

    `thinks`: seconds after each request. A drive is played with the same after all of them; those
    after writes of data are taken to be after what clients wait for.
    """
    logs = traces.load(source)
    known = logs.is_log
    stripes = np.unique(logs.offset[known] // STRIPE_BYTES)
    columns = ["submitted_ns", "latency_ns", "op", "offset"]
    found = pq.read_table(table, columns=columns)
    op = found["op"].cast("string")
    is_write, is_flush = (
        pc.equal(op, name).to_numpy(zero_copy_only=False) for name in ("write", "flush")
    )
    offset = found["offset"].to_numpy().astype(np.int64)
    is_log = is_write & np.isin(offset // STRIPE_BYTES, stripes) if known.any() else is_write
    begin_ns = found["submitted_ns"].to_numpy()
    if thinks and known.any():
        begin_ns = thought_elsewhere(begin_ns, is_write & ~is_log, 1e9 * thinks)
    return commits_of(
        begin_ns,
        found["latency_ns"].to_numpy(),
        is_log,
        is_flush,
        clients,
        flushes,
    )


def _played(
    sized: Sized,
    outcome: Mapping[str, Any],
    requests: int,
    commits: Commits | None,
    state: str,
) -> _Played:
    device = sized.device
    page_bytes = int(device.profile["media"]["page_bytes"])
    plays = max(outcome["requests"] / max(requests, 1), 1e-9)
    whole = page_bytes / plays * sized.scale
    host = outcome["written_bytes"] / plays * sized.scale
    flash = sum(int(outcome[key]) for key in _PARTS) * whole
    judged = steady.of_drive(device.profile, device.summary, {**outcome, "state": state})
    amplified = judged["write_amplification"]
    interval = Interval(flash)
    known = outcome["write_amplification"]
    if amplified["low"] is not None and known:
        interval = Interval(
            flash, flash * amplified["low"] / known, flash * amplified["high"] / known
        )
    return _Played(
        host,
        interval,
        device.endurance_bytes,
        commits,
        outcome["seconds"] / plays,
        amplified["steady"],
        amplified["unsteady"],
        device.slices,
    )


def _of_layers(sized: Sized, outcome: Mapping[str, Any], timed: int) -> _Played:
    flash = outcome["layers"]["flash"]
    below = outcome["layers"]["below"]["write"]["bytes"]
    requests = pq.ParquetFile(sized.source).metadata.num_rows
    plays = max(timed / max(requests, 1), 1e-9)
    programmed = flash["page_programs"] * flash["page_bytes"] / plays * sized.scale
    return _Played(
        below / plays * sized.scale,
        Interval(programmed),
        sized.device.endurance_bytes,
        _commits_of_layers(outcome["latency_ns"]),
        outcome["seconds"] / plays,
        None,
        "layers keep a state of their own, which is not judged",
        sized.device.slices,
    )


def _commits_of_layers(latency: Mapping[str, Any]) -> Commits | None:
    """Give the commits of a run through layers, which does not tell each request.

    A commit is a write and the flush after it, each quantile the sum of theirs: at most too long.
    A layer may answer a flush at once, as its writes have waited already.
    """
    flushes, writes = latency.get("flush"), latency.get("write")
    if not flushes or not flushes["count"] or not writes or not writes["count"]:
        return None
    names = ("mean", "p50", "p99", "p999")
    mean, p50, p99, p999 = ((flushes[name] + writes[name]) / 1e9 for name in names)
    return Commits(int(flushes["count"]), mean, p50, p99, p999, flushes["mean"] / 1e9)


def _seconds(
    played: Mapping[str, _Played],
    clients: Clients | None,
    thinking: float,
    flushes: int,
    *,
    waits: float | None,
    work: float,
) -> tuple[float, float]:
    """Give the time of a load, and that in which its drives are busy.

    `thinking`: seconds beside the drives, of which they were played. The drives go one after the
    other, or at the same time if that is known. `waits` is as `Setup` has it, for each of so many
    flushes.
    """
    data, log = (played[one].times if one in played else None for one in (HERE, APART))
    total = sum(one.seconds for one in played.values())
    busy = max(0.0, total - thinking)
    at_work = None if clients is None else clients.at_work
    if clients is not None and clients.is_serial and data is not None and log is not None:
        beside = thinking
        if at_work is not None:
            beside = at_work.seconds(0.0, work, flushes, waits or 0.0)
        return two_drives.seconds_of(data, log, clients.commit, beside), busy
    if at_work is None or waits is None:
        return total, busy
    return at_work.seconds(busy, work, flushes, waits), busy


def _together(
    played: Mapping[str, _Played], took: float, setup: Setup, seconds: float, busy: float
) -> Figures:
    parts = list(played.values())
    if not parts:
        raise InputError("the load writes nothing")
    ends = [
        (one.flash_bytes.low, one.flash_bytes.high)
        if one.flash_bytes.low is not None
        else (one.flash_bytes.value, one.flash_bytes.value)
        for one in parts
    ]
    known = any(one.flash_bytes.low is not None for one in parts)
    total = sum(one.flash_bytes.value for one in parts)
    flash = (
        Interval(total, sum(low for low, _ in ends), sum(high or 0.0 for _, high in ends))
        if known
        else Interval(total)
    )
    of_log = played.get(APART, played.get(HERE))
    states = [one.steady for one in parts]
    return Figures(
        sum(one.host_bytes for one in parts),
        flash,
        {
            name: {
                "host_bytes": one.host_bytes,
                "flash_bytes": one.flash_bytes.value,
                **({} if one.endurance_bytes is None else {"endurance_bytes": one.endurance_bytes}),
            }
            for name, one in played.items()
        },
        None if of_log is None or of_log.commits is None else of_log.commits.waiting(setup.waits),
        seconds,
        busy,
        False if False in states else None if None in states else True,
        "; ".join(dict.fromkeys(one.unsteady for one in parts if one.unsteady)) or None,
        max(one.slices for one in parts),
        took,
    )


def years(figures: Figures, loads_a_day: float) -> Interval | None:
    """Give the life in years at so many loads a day; None if no endurance is known."""
    share = figures.life_share()
    if not share.value > 0 or not loads_a_day:
        return None
    day = 365.25 * loads_a_day
    low, high = share.low, share.high
    return Interval(
        1 / (share.value * day),
        None if not high else 1 / (high * day),
        None if not low else 1 / (low * day),
    )


def loads_a_day(seconds: float) -> float:
    """Give how often a load that took so long goes into a day."""
    return SECONDS_IN_DAY / seconds if seconds else 0.0
