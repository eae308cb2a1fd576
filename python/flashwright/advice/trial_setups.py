"""Trials as setups: what is run on an emulated drive, as the simulation of it.

A change of a trial and a change of a setup are the same thing: so a prediction is held against
what was measured, and advice is proven by a run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from flashwright._core import InputError
from flashwright.advice import trials
from flashwright.advice.action import Candidate
from flashwright.advice.case import Case, WhatIfs
from flashwright.advice.engine import Engine
from flashwright.advice.load import Load
from flashwright.advice.proving import Change
from flashwright.advice.setup import Drive, Figures, Setup
from flashwright.advice.trials import OPTIONS, Trial

LEAST_LOG_FILL = 0.02
MOST_PACE = 50.0
"""Most transactions a second over those of the recording that are told apart."""
_PAGE_BYTES = 8192
LOG_SHARE = 0.44
"""Share of the bytes written that is the log's where clients do not wait for their commits.

The disk is never idle then. Fitted to five recordings of TPC-B, TATP and YCSB on `emmc-51` below
the scheduler bfq, which had 0.42 to 0.445: three with 256 KiB of `wal_buffers`, two with 4 MiB.
"""
_HELD_UP = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
"""Times that the background writer waits for a page that are tried, over the disk's own."""
_NEAR = 0.03
"""How near a pace has to be to the one at which a load stays, as a share."""
_TRIES = 6
"""Paces that are looked at, the recorded one among them."""
_OF_DRIVE = 0.1
"""Least share of the recorded 99th percentile of commits that the simulated drive takes."""
_OF_PACE = ("flash_bytes", "throughput")
_ASYNCHRONOUS_SECONDS = 0.2
"""A log that is not waited for is written each `wal_writer_delay`, which is 200 ms."""
_NOT_WAITING = {"synchronous_commit": ("off",), "synchronous": ("normal", "off")}
"""Settings with which commits do not wait for the drive. SQLite's are of a database with a log."""


def setup_of(trial: Trial, before: Trial, case: Case) -> Setup:
    """Give the setup of a trial; `before` is the one that the case was recorded in.

    Raises:
        InputError: the recording does not tell what its settings would do.
    """
    setup = case.base
    if trial.drive != before.drive:
        setup = setup.changed(drive=_drive(trial.drive, setup.drive, before.drive.size_bytes))
    if trial.is_trimmed and not before.is_trimmed and case.load.disk is not None:
        used = case.load.disk.used_share
        if used is not None:
            setup = setup.changed(drive=replace(setup.drive, fill=used))
    if trial.log_drive is not None:
        setup = setup.changed(
            log_apart=_log_drive(trial.log_drive, case, is_trimmed=trial.is_trimmed)
        )
    if trial.stack is not None:
        setup = setup.changed(stack=trial.stack)
    changed = {
        name: value for name, value in trial.settings.items() if before.settings.get(name) != value
    }
    return _with_settings(setup, changed, case)


def _drive(drive: trials.Drive, now: Drive, size_bytes: int) -> Drive:
    fill = 1.0 if now.fill is None else now.fill
    return Drive(
        drive.profile,
        drive.overrides,
        drive.size_bytes,
        min(1.0, fill * size_bytes / drive.size_bytes),
    )


def _log_drive(drive: trials.Drive, case: Case, *, is_trimmed: bool) -> Drive:
    """Give the log's drive, of which the log takes a part that it writes over and over."""
    written = case.load.written_by.get("wal", 0)
    fill = max(LEAST_LOG_FILL, min(1.0, written / drive.size_bytes))
    # One that was written all over does not know that the rest is free.
    is_full = drive.state == "aged" and not is_trimmed
    return Drive(drive.profile, drive.overrides, drive.size_bytes, 1.0 if is_full else fill)


def _with_settings(setup: Setup, changed: Mapping[str, str], case: Case) -> Setup:
    # The least number of siblings makes every commit wait its delay, as a what-if has it.
    changed = {name: value for name, value in changed.items() if name != "commit_siblings"}
    if not changed:
        return setup
    if any(changed.get(name) in values for name, values in _NOT_WAITING.items()):
        setup = setup.changed(waits=None)
    elif "commit_delay" in changed and setup.waits is not None:
        # Whoever flushes for others holds the log meanwhile.
        setup = setup.changed(waits=float(changed["commit_delay"]) / 1e6)
    if case.what_ifs is not None and case.what_ifs.refused is None:
        return case.with_settings(setup, changed)
    rest = dict(changed)
    if rest.pop("synchronous_commit", None) == "off":
        setup = setup.changed(merge_seconds=_ASYNCHRONOUS_SECONDS)
    delay = rest.pop("commit_delay", None)
    if delay is not None:
        setup = setup.changed(merge_seconds=float(delay) / 1e6)
    return case.with_settings(setup, rest) if rest else setup


def change_of(candidate: Candidate, base: Setup) -> Change:
    """Give what a trial does otherwise, if it takes a candidate's advice."""
    after = candidate.changed(base)

    def of(trial: Trial) -> Trial:
        made = trial
        if after.drive != base.drive:
            made = replace(made, drive=_trial_drive(after.drive, base.drive, made.drive))
        if after.stack != base.stack:
            made = replace(made, stack=after.stack)
        if after.log_apart is not None and base.log_apart is None:
            apart = replace(made.drive, profile=after.log_apart.profile)
            made = replace(made, log_drive=apart)
        if after.trims and not base.trims:
            made = replace(made, is_trimmed=True, mount_options=f"{OPTIONS},discard")
        return replace(made, settings={**made.settings, **candidate.settings})

    return Change(candidate.name, of)


def _trial_drive(after: Drive, before: Drive, drive: trials.Drive) -> trials.Drive:
    """Give an emulated drive with as much more spare space as a setup's has."""
    overrides = list(after.overrides)
    full, less = before.fill or 1.0, after.fill or 1.0
    if less < full and not any(one.startswith("ftl.over_provisioning") for one in overrides):
        overrides.append(f"ftl.over_provisioning={_spare(after.profile, full / less):.6g}")
    return replace(drive, profile=after.profile, overrides=tuple(overrides))


def _spare(profile: str, times: float) -> float:
    from flashwright.devices import DriveProfile  # noqa: PLC0415  (reads a file)

    return (1 + DriveProfile.load(profile).over_provisioning) * times - 1


def predicted(case: Case, engine: Engine, trial: Trial, before: Trial) -> dict[str, float]:
    """Give the ratios that a trial is predicted to have to the one before.

    `flash_bytes` for a transaction; `throughput` and `p99` where waits of clients were recorded.

    Raises:
        InputError: it cannot be told, with the reason.
    """
    setup = setup_of(trial, before, case)
    base = case.base
    if setup.settings and case.what_ifs is not None:
        base = base.changed(load=case.what_ifs.as_recorded)
    if setup.stack is not None:
        # As much at a time goes through layers that do nothing.
        base = base.changed(stack=trials.WITHOUT_LAYERS)
    now = engine.figures(base)
    after = engine.figures(setup)
    found = _ratios(now, after)
    if not _is_slow_by_drive(case, engine):
        found.pop("p99", None)
    if engine.conditions.clients is None:
        return {"flash_bytes": found["flash_bytes"]}
    what_ifs = case.what_ifs
    if what_ifs is None or not what_ifs.HAS_CLOCK or what_ifs.refused is not None:
        return found
    return _at_its_pace(found, what_ifs, engine, setup, _disk_time(engine, setup, base))


def _is_slow_by_drive(case: Case, engine: Engine) -> bool:
    """Tell whether the drive makes the slowest commits slow.

    Where it does not, processors or other work do, and nothing is known of those.
    """
    recorded, there = case.load.commits, engine.figures(case.base).commits
    return recorded is None or there is None or there.p99 >= _OF_DRIVE * recorded.p99


def _ratios(now: Figures, after: Figures, work: float = 1.0) -> dict[str, float]:
    """Give figures over those of now, for a transaction; `work` is of those after."""
    found = {"flash_bytes": after.flash_bytes.over(now.flash_bytes).value / work}
    if after.seconds_taken > 0:
        found["throughput"] = work * now.seconds_taken / after.seconds_taken
    turns = [0.0 if one.commits is None else one.commits.turn_p99 for one in (now, after)]
    if all(turns):
        found["p99"] = turns[1] / turns[0]
    return found


def _at_its_pace(
    found: dict[str, float], what_ifs: WhatIfs, engine: Engine, setup: Setup, disk_time: float
) -> dict[str, float]:
    """Give ratios at the pace that comes of them.

    Checkpoints and the kernel write by a clock: clients that are faster change a page more often
    before it is written. So each transaction writes less of it, which makes them faster still.
    What a load at another pace does differently is the log's model beside itself. The 99th
    percentile of commits stays: a few merges make it, and each further load has others.
    `disk_time` is as the what-ifs have it. Where clients do not wait the disk is never idle.
    """
    settings = dict(setup.settings)
    told: list[tuple[Load, Figures]] = []

    def take(pace: float, disk_time: float) -> None:
        told_at = partial(what_ifs.load, settings, pace, disk_time)
        load = told_at()
        if told and setup.waits is None and _is_never_idle(told[-1][1]):
            load = _in_turn(load, told_at, _page_us(told[-1][1]))
        if not load.work:
            raise InputError(f"no transaction commits in the recording's first {pace:.3g}")
        told.append((load, engine.figures(setup.changed(load=load))))

    def reached(pace: float) -> dict[str, float]:
        if not told:
            take(1.0, 1.0)
        take(pace, disk_time)
        load, after = told[-1]
        more = _ratios(told[0][1], after, load.work)
        return found | {name: found[name] * more[name] for name in _OF_PACE}

    return _where_it_stays(found, reached)


def _is_never_idle(figures: Figures) -> bool:
    """Tell whether clients who do not wait have to wait for the disk, and not for processors.

    What they compute, which is left out of `busy_seconds`, they compute while the disk is busy.
    """
    return figures.busy_seconds > figures.seconds_taken / 2


def _page_us(figures: Figures) -> float:
    """Give the microseconds that a disk which is never idle takes for a page."""
    return 1e6 * figures.seconds_taken * _PAGE_BYTES / max(figures.host_bytes, 1.0)


def _in_turn(load: Load, held_up: Callable[..., Load], page_us: float) -> Load:
    """Give a load on a disk that is never idle, which takes the log in turn with other writes.

    The background writer is held up until the log has its share. What it does not come to is
    written by backends: the kernel puts that together.
    """
    tried = [(0.0, load)]
    for times in _HELD_UP:
        if tried[-1][1].share("wal") >= LOG_SHARE:
            break
        tried.append((times, held_up(busy_page_us=times * page_us)))
    shares = [one.share("wal") for _, one in tried[-2:]]
    if len(tried) == 1 or shares[-1] < LOG_SHARE:
        return tried[-1][1]
    between = float(np.interp(LOG_SHARE, shares, [times for times, _ in tried[-2:]]))
    return held_up(busy_page_us=page_us * between)


def _disk_time(engine: Engine, setup: Setup, base: Setup) -> float:
    """Give the time that the disk of a setup takes for the base's load, over that of the base's.

    It stands for how long a busy disk holds up the background writer. Other settings send other
    loads, but a page of data takes their disk as long as before.
    """
    there = setup.changed(
        load=base.load,
        settings=base.settings,
        waits=base.waits,
        merge_seconds=base.merge_seconds,
    )
    if there.identity() == base.identity():
        return 1.0
    before, after = (engine.figures(one).busy_seconds for one in (base, there))
    return after / before if before > 0 else 1.0


def _where_it_stays(
    found: dict[str, float], reached: Callable[[float], dict[str, float]]
) -> dict[str, float]:
    """Find the pace at which a load runs at the pace that it was taken to have.

    By the secant method, on logarithms. `found`: the ratios at a pace of 1.
    """
    most = math.log(MOST_PACE)
    before, at, now = (0.0, 0.0), 0.0, found
    tried: list[tuple[float, dict[str, float]]] = []
    while True:
        off = math.log(now.get("throughput") or 1.0) - at
        tried.append((abs(off), now))
        slope = (off - before[1]) / (at - before[0]) if at != before[0] else -1.0
        # Where it would run away the next pace is the one that came of the last.
        step = off if slope >= 0 else min(max(-off / slope, -most), most)
        following = min(max(at + step, -most), most)
        if abs(following - at) <= _NEAR or len(tried) == _TRIES:
            break
        before, at = (at, off), following
        try:
            now = reached(math.exp(at))
        except InputError:
            # No load can be told, or held by the drive, at that pace.
            break
    return min(reversed(tried), key=lambda one: one[0])[1]
