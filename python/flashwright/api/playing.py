"""Any device, real or simulated: probed, a trace replayed on it, layers put on it."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

from flashwright import beyond, replays
from flashwright._core import InputError, RunError
from flashwright.api.calls import public
from flashwright.api.drives import Drive
from flashwright.api.results import Result
from flashwright.layering import checkpoints
from flashwright.layering.comparison import (
    LayersComparison,
    LayersPlan,
    describing,
    effort_of,
    has_layers,
    stacks_of,
    target_for,
)
from flashwright.layering.comparison import place as place_on
from flashwright.layering.known import facts_for
from flashwright.probing import plan as plans
from flashwright.probing import profile as profiles
from flashwright.probing import result as probes
from flashwright.probing.session import Session
from flashwright.probing.targets import Region, Target
from flashwright.progress import follow, work
from flashwright.replays import OPERATIONS, Pace, ReplayPlan, TracePart
from flashwright.runs import PROFILE_FILE, Job
from flashwright.slices import SizeAsked
from flashwright.sources import Reading

Where = str | os.PathLike[str] | Drive
"""A `Drive`, a profile, the path of a block device or a file, or `memory(bytes=1Gi)`."""


def _target(
    device: Where,
    *,
    state: str | None,
    overwrites: float | None,
    write: bool,
    destroy_data: bool,
    region: tuple[int, int] | None,
    seed: int,
) -> Target:
    if destroy_data and not write:
        raise InputError("destroy_data: it confirms write; give both")
    if isinstance(device, Drive):
        chosen = state or "filled"
        aged = 2.0 if overwrites is None else overwrites
        target = Target(
            device.device.given, device.device, chosen, aged if chosen == "aged" else None
        )
    else:
        target = Target.find(str(device), state=state, overwrites=overwrites)
    access = "destroy_data" if destroy_data else "write" if write else "read_only"
    return target.opened_by(access, seed, region=Region(*(region or ())))


@public
def probe(
    device: Where,
    *,
    only: Sequence[str] = (),
    full: bool = False,
    minutes: float | None = None,
    fit: int = 240,
    write: bool = False,
    destroy_data: bool = False,
    region: tuple[int, int] | None = None,
    state: str | None = None,
    overwrites: float | None = None,
    seed: int = 1,
    progress: bool = True,
) -> Result:
    """Measure a device from outside, and find out how it is made.

    The quick set of experiments, the `full` one, or `only` those named with their parameters, in
    `minutes` of the device's time. A block device or file is only read unless `write` is given;
    `region` is (first byte, length). `destroy_data` confirms that what such a device holds may go.
    By `fit` simulations a profile is searched that behaves as the device does; 0 for none.

    The rows of the result are what was found, each with its verdict; the table curves has what was
    measured. Findings are kept in memory alone: `flashwright probe` goes on where it was stopped.

    Raises InputError; RunError if the device fails; KeyboardInterrupt after Ctrl-C.
    """
    target = _target(
        device,
        state=state,
        overwrites=overwrites,
        write=write,
        destroy_data=destroy_data,
        region=region,
        seed=seed,
    )
    chosen = plans.FULL if full else plans.QUICK
    plan = plans.make(chosen, only, minutes, may_write=target.may_write)
    opened = work(*target.opening, target.open)
    about = target.document(opened.info)
    part = target.region.on(opened.info)
    content = None if target.drive is None else target.drive.profile_hash
    inputs = [{"source": target.given, "sha256": None, "content_hash": content}]
    job = Job(probes.COMMAND, probes.identity(about, part, seed), inputs, seed)
    session = Session(opened, part, plan, seed=seed, may_write=target.may_write, store=None)
    outcome = follow(session.label, "", session, session.run)
    if outcome.error is not None:
        raise InputError(outcome.error) if outcome.is_wrong_use else RunError(outcome.error)
    run = probes.make_run(about, part, plan, outcome, job=job, may_write=target.may_write)
    reason = profiles.why_not(outcome.findings) or (None if fit else "fit is 0")
    if reason is not None:
        run.result["profile"] = {"why_not": reason}
        return Result(run)
    said, toml = work(
        f"Fitting a profile to {about['name']}",
        "cells",
        lambda following: profiles.make(
            outcome.findings, about, seed=seed, effort=fit, progress=following
        ),
    )
    run.result["profile"] = said
    run.texts.update({} if toml is None else {PROFILE_FILE: toml})
    return Result(run)


def _plan(
    *,
    pace: str,
    depth: int,
    factor: float,
    waiting: bool,
    remap: str,
    limit: int | None,
    seconds: float | None,
    ops: Sequence[str],
    region: tuple[int, int] | None,
) -> ReplayPlan:
    if pace not in ("open", "closed"):
        raise InputError(f"pace is {pace!r}: it must be open or closed")
    if remap not in replays.REMAPS:
        raise InputError(f"remap is {remap!r}: it must be one of {', '.join(replays.REMAPS)}")
    unknown = [op for op in ops if op not in OPERATIONS]
    if unknown:
        raise InputError(f"ops: {unknown[0]!r} is none of {', '.join(OPERATIONS)}")
    kind = "open_loop" if pace == "open" else "one_by_one" if depth == 1 else "closed_loop"
    return ReplayPlan(
        Pace(kind, 1 if pace == "open" else depth, factor, waiting),
        TracePart(seconds=seconds, limit=limit, ops=tuple(ops)),
        remap,
        Region(*(region or ())),
        choices=beyond.REMAP_ARGUMENT,
    )


@public
def replay(
    trace: str | os.PathLike[str],
    device: Where,
    *,
    pace: str = "open",
    depth: int = 1,
    factor: float = 1.0,
    waiting: bool = False,
    remap: str = "refuse",
    limit: int | None = None,
    seconds: float | None = None,
    ops: Sequence[str] = OPERATIONS,
    write: bool = False,
    destroy_data: bool = False,
    region: tuple[int, int] | None = None,
    state: str | None = None,
    overwrites: float | None = None,
    capacity: int | str | None = None,
    fill: float | None = None,
    slices: int | None = None,
    seed: int = 1,
    progress: bool = True,
) -> Result:
    """Play a trace, a file or the folder of a recording, on a device, and measure its answers.

    `pace` is open (at the trace's times, `factor` times as fast) or closed (`depth` outstanding;
    `waiting` keeps the trace's intervals). `remap` says what becomes of addresses that the device
    does not have: refuse, fold, scale or dense. `limit` requests, `seconds` of the trace and `ops`
    choose a part. A block device or file is only read unless `write` is given. A simulated drive
    has the size of the disk of a recording, or `capacity` bytes ("own" for its profile's); of it
    the share `fill` holds data, and one of `slices` is simulated, as few as time and memory allow.

    The result has throughput, latency_ns by operation with percentiles, and lateness.

    Raises InputError; RunError if the device fails; KeyboardInterrupt after Ctrl-C.
    """
    target = _target(
        device,
        state=state,
        overwrites=overwrites,
        write=write,
        destroy_data=destroy_data,
        region=region,
        seed=seed,
    )
    plan = _plan(
        pace=pace,
        depth=depth,
        factor=factor,
        waiting=waiting,
        remap=remap,
        limit=limit,
        seconds=seconds,
        ops=ops,
        region=region,
    )
    path = replays.trace_path(str(trace))
    placed = replays.placed(
        target, path, Reading(seed=seed), plan, SizeAsked(capacity, fill, slices)
    )
    loaded = work(
        f"Reading {path}",
        "bytes",
        lambda following: replays.load(placed.path, placed.reading, placed.plan, following),
    )
    target = replays.target_for(placed.target, loaded, plan)
    opened = work(*target.opening, target.open)
    part = replays.region_of(loaded, opened, plan)
    about_trace = replays.trace_document(path, loaded, plan)
    about_device = target.document(opened.info)
    outcome = work(
        f"Replaying {path.name} on {target.name}",
        "requests",
        lambda following: replays.play(opened, loaded, part, plan, following),
    )
    if outcome["ended"] == "failed":
        raise RunError(str(outcome["error"]))
    # What a real device does is never the same again.
    when_ns = [time.time_ns()] if target.is_real else []
    identity = [*replays.identity(about_trace, about_device, part, plan), *when_ns]
    job = Job(replays.COMMAND, [identity, "None"], replays.inputs(path, loaded), seed)
    return Result(replays.make_run(about_trace, about_device, part, plan, outcome, job))


@public
def layers(
    trace: str | os.PathLike[str],
    device: Where,
    stacks: Sequence[str],
    *,
    facts: str | os.PathLike[str] | None = None,
    checkpoint_every: float | None = None,
    drain: bool = True,
    data: str | None = None,
    pace: str = "closed",
    depth: int = 1,
    factor: float = 1.0,
    waiting: bool = False,
    remap: str = "refuse",
    limit: int | None = None,
    seconds: float | None = None,
    ops: Sequence[str] = OPERATIONS,
    write: bool = False,
    destroy_data: bool = False,
    region: tuple[int, int] | None = None,
    state: str | None = None,
    overwrites: float | None = None,
    capacity: int | str | None = None,
    fill: float | None = None,
    slices: int | None = None,
    threads: int | None = None,
    seed: int = 1,
    progress: bool = True,
) -> Result:
    """Play a trace on each stack of layers over a device, beside the device alone.

    A stack is layers from the top to the bottom with | between them, such as
    `scheduler(defer,coalesce)`. `facts` is what layers know of the device: the run folder of a
    probe, `measure` (a second simulated drive; the default for simulated ones) or `none`. A
    checkpoint may be assumed `checkpoint_every` so many seconds of the trace. With `drain` layers
    write back what they hold at the end. `data`, drained or killed, writes real bytes, recovers the
    stack and checks them. The rest is as in `replay`.

    The rows of the result are the stacks, each with times_faster against the device alone; what a
    gain depends on is in the verdict of `results`.

    Raises InputError; RunError if a run failed; KeyboardInterrupt after Ctrl-C.
    """
    target = _target(
        device,
        state=state,
        overwrites=overwrites,
        write=write,
        destroy_data=destroy_data,
        region=region,
        seed=seed,
    )
    replayed = _plan(
        pace=pace,
        depth=depth,
        factor=factor,
        waiting=waiting,
        remap=remap,
        limit=limit,
        seconds=seconds,
        ops=ops,
        region=region,
    )
    path = replays.trace_path(str(trace))
    played = stacks_of(stacks, with_direct=True)
    at_once = threads or os.cpu_count() or 1
    placed = replays.placed(
        target,
        path,
        Reading(seed=seed),
        replayed,
        SizeAsked(capacity, fill, slices),
        effort_of(played, 1, at_once),
    )
    loaded = work(
        f"Reading {path}",
        "bytes",
        lambda following: replays.load(placed.path, placed.reading, placed.plan, following),
    )
    due = (
        checkpoints.Checkpoints()
        if checkpoint_every is None
        else checkpoints.every(checkpoint_every, loaded, slices=placed.slices)
    )
    due.check(played)
    plan = LayersPlan(path, played, replayed, due, drain, at_once, data)
    target = target_for(placed.target, loaded, plan)
    opened = work(*target.opening, describing(target).open)
    known = facts_for(target, None if facts is None else str(facts), needed=has_layers(played))
    found = place_on(target.name, target, known, opened, loaded, plan, placed.slices)
    comparison = LayersComparison(plan, [found])
    ended = follow(
        f"Playing {comparison.planned} stacks",
        "requests",
        comparison.pool,
        comparison.pool.run,
        preparing="Making drives",
    )
    comparison.take(ended)
    if comparison.failures:
        first = comparison.failures[0]
        raise RunError(f"{first['stack']} on {first['drive']}: {first['error']}")
    return Result(comparison.run())
