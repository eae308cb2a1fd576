"""`flashwright layers`.

A trace played on stacks of layers over a device, beside the device alone.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flashwright._core import RunError
from flashwright.cli.lists import ANY_DEVICE, Listed, Named
from flashwright.cli.options import DriveSize, Duration, TraceReading, option, takes
from flashwright.cli.output import Output, kept_of, print_table, say
from flashwright.cli.target_options import TargetOptions
from flashwright.cli.trace_options import DEFAULT, ONE_BY_ONE, TraceOptions

if TYPE_CHECKING:
    from flashwright._core import ReplayTrace
    from flashwright.layering.checkpoints import Checkpoints
    from flashwright.layering.comparison import LayersComparison, LayersPlan, Place
    from flashwright.probing.targets import Target
    from flashwright.replays import Placed, ReplayPlan
    from flashwright.runs import Run
    from flashwright.slices import Effort, SizeAsked
    from flashwright.sources import Reading

stack_option = click.option(
    "--stack",
    "stacks",
    cls=Listed,
    type=Named("layer"),
    metavar="STACK",
    help="Layers from the top to the bottom with | between them, such as "
    "'stable_buffer(size=4MiB)'; `flashwright list layer` has them. a,b or again for each.  "
    "[default of `layers`: those that may be right for the device]",
)


@dataclass(frozen=True)
class Layering:
    """How stacks of layers are played beside each other."""

    no_direct: bool = option("Leave out the device alone, which else is the first of the stacks.")
    facts_given: str | None = option(
        "What layers know of the device: the run folder of a probe; measured on a second simulated "
        "drive of the same profile, once; or nothing.  [default: measure if it is simulated, else "
        "none]",
        "--facts",
        metavar="DIR|measure|none",
    )
    checkpoint_every: float | None = option(
        "Let a checkpoint of the database end each so many seconds of the trace.",
        type=Duration(least_open=True),
        metavar="S",
    )
    checkpoints: str | None = option(
        "Let checkpoints begin and end where the recording marked them.",
        type=click.Choice(["marks"]),
    )
    checkpoints_as: str = option(
        "How a checkpoint's end is told: by a flush among the requests, or to the layers alone.",
        type=click.Choice(["flush", "signal"]),
        default="flush",
    )
    drop_flushes: bool = option(
        "Leave out the flushes of the trace, as the papers do: what was acknowledged may then be "
        "lost with the power.  [default: keep]",
        "--drop-flushes/--keep-flushes",
    )
    no_drain: bool = option(
        "Do not let layers write back what they hold at the end, after the last request."
    )
    data: str | None = option(
        "Format the stack on the device, give each write bytes, check each read; at the end write "
        "back and flush, or drop what layers hold as a killed process would; then open the stack "
        "again, let it recover, and check all that was written.  [default: no data]",
        type=click.Choice(["drained", "killed"]),
    )
    threads: int | None = option(
        "Stacks at a time, on simulated drives.  [default: one a core]", type=click.IntRange(1)
    )


@click.command(short_help="Play a trace on layers over any device, beside the device alone.")
@click.argument("trace", type=Named(or_file=True))
@click.option(
    "--device", type=ANY_DEVICE, metavar="DEVICE", required=True, help="What the layers lie on."
)
@stack_option
@takes(Layering, "layering")
@takes(TraceOptions, "playing", DEFAULT[ONE_BY_ONE])
@takes(TargetOptions, "on")
@takes(DriveSize, "size")
@takes(TraceReading, "how")
@takes(Output, "output")
def layers(
    trace: str,
    *,
    device: str,
    stacks: tuple[str, ...],
    layering: Layering,
    playing: TraceOptions,
    on: TargetOptions,
    size: DriveSize,
    how: TraceReading,
    output: Output,
) -> None:
    """Play TRACE on each STACK of layers over a device, and tell what is gained and lost against
    the device alone.

    TRACE is a trace file or the folder of a recording; DEVICE is a simulated drive (a profile of
    `flashwright list profile` or a TOML file), a block device, a file, or `memory(bytes=1Gi)`. A
    block device or file needs --write: layers write to it.

    \b
    Examples:
      flashwright layers my.blktrace.0 --device sd-card
      flashwright layers my.blktrace.0 --device mtron-sata7035 --stack 'stable_buffer(size=4MiB)'
      flashwright layers my.blktrace.0 --device mtron-pro-7500 --drop-flushes \\
          --checkpoint-every 60 --stack 'scheduler(defer)' --stack 'scheduler(defer,coalesce)' \\
          --stack 'scheduler(defer,coalesce,convert,align)'
      flashwright layers runs/tpcc --device nvme-tlc --checkpoints marks \\
          --stack 'scheduler(defer,coalesce)'
      flashwright layers my.parquet --device usb-stick --remap fold \\
          --stack 'stable_buffer(patterns=incremental)' --depth 8
      flashwright layers my.parquet --device /dev/sdb --write --data killed \\
          --stack log_volume
      flashwright layers my.parquet --device /dev/sdb --write \\
          --facts runs/probe-1f2e3d4c5b6a --stack 'stable_buffer'

    Without --stack those of the registry are tried that may make the device faster, in the forms
    that suit what is known of it, and the right one for TRACE is said, with its gain, cost and
    risk.

    Each stack gets a new simulated drive in the same state; on a real device stacks run one after
    another. Parameters that are `auto` are taken from what is known of the device (--facts).
    Requests are sent one by one unless another pace is chosen, as both papers measure. Ctrl-C keeps
    the stacks that are done. What layers are and do is in docs/layers.md.
    """  # noqa: D205
    from flashwright import replays
    from flashwright.layering.candidates import CANDIDATES
    from flashwright.layering.comparison import stacks_of

    if layering.data is not None and layering.no_drain:
        raise click.UsageError("--no-drain: --data says how a run ends; leave one of them out")
    if layering.checkpoint_every is not None and layering.checkpoints is not None:
        raise click.UsageError(
            "--checkpoint-every and --checkpoints: both say when checkpoints end; give one of them"
        )
    tried = not stacks and not layering.no_direct
    named = [one.stack for one in CANDIDATES] if tried else stacks
    played = stacks_of(named, with_direct=not layering.no_direct)
    plan = playing.plan(ONE_BY_ONE, on.region, drop_flushes=layering.drop_flushes)
    asked = AskedStacks(
        played, plan, how.reading(), layering, on.endurance_tbw, size.asked(), are_tried=tried
    )
    on.check(device)
    path = replays.trace_path(trace)
    target = on.target(device)
    compare_stacks(asked, path, [(target.name, target)], "layers", output)


@dataclass(frozen=True)
class AskedStacks:
    """Stacks that are to be compared, and how."""

    stacks: tuple[str, ...]
    plan: ReplayPlan
    reading: Reading
    layering: Layering
    endurance_tbw: float | None = None
    size: SizeAsked | None = None
    are_tried: bool = False
    """Whether they are the candidates of the registry, to be chosen from."""


def compare_stacks(
    asked: AskedStacks,
    path: Path,
    targets: Sequence[tuple[str, Target]],
    command: str,
    output: Output,
) -> None:
    """Play the trace on each stack over each device (label, device).

    Prints what came of it, and writes the run folder.
    """
    from flashwright import _core
    from flashwright.layering.comparison import (
        LayersComparison,
        LayersPlan,
        effort_of,
        with_candidates,
    )
    from flashwright.progress import StoppedError, follow

    for text in asked.stacks:
        # Before a trace is read, which may take long.
        _core.check_stack(text)
    threads = asked.layering.threads or os.cpu_count() or 1
    effort = effort_of(asked.stacks, len(targets), threads)
    read = [_read(target, asked, path, effort) for _, target in targets]
    checkpoints = _checkpoints(asked, path, *read[0])
    checkpoints.check(asked.stacks)
    how = asked.layering
    plan = LayersPlan(
        path, asked.stacks, asked.plan, checkpoints, not how.no_drain, threads, how.data
    )
    places = [
        _place(label, asked, placed, trace, plan)
        for (label, _), (placed, trace) in zip(targets, read, strict=True)
    ]
    if asked.are_tried:
        plan = with_candidates(plan, places[0].trace, places[0])
    comparison = LayersComparison(plan, places)
    comparison.keep_in(output.folder(comparison.job(command)))
    output.say_known(comparison.known, comparison.planned, "stacks")
    stopped: StoppedError[Any] | None = None
    try:
        ended = follow(
            f"Playing {comparison.planned - comparison.known} stacks",
            "requests",
            comparison.pool,
            comparison.pool.run,
            preparing="Making drives",
        )
    except StoppedError as stop:
        if not stop.result:
            raise
        stopped, ended = stop, stop.result
    comparison.take(ended)
    run = comparison.run(command)
    if not output.is_only_json:
        print_run(run)
    folder = output.finish(run)
    if stopped is not None:
        kept = kept_of(len(comparison.rows), comparison.planned, "stacks", folder)
        raise StoppedError(stopped.done, stopped.total, f"{stopped.unit}; {kept}", None)
    _fail_if_any_failed(comparison)


def _read(
    target: Target, asked: AskedStacks, path: Path, effort: Effort
) -> tuple[Placed, ReplayTrace]:
    """Read the trace as it falls on a device."""
    from flashwright import replays
    from flashwright.progress import work

    placed = replays.placed(target, path, asked.reading, asked.plan, asked.size, effort)
    return placed, work(
        f"Reading {path}",
        "bytes",
        lambda progress: replays.load(placed.path, placed.reading, placed.plan, progress),
    )


def _checkpoints(asked: AskedStacks, path: Path, placed: Placed, trace: ReplayTrace) -> Checkpoints:
    from flashwright.layering import checkpoints

    how = asked.layering
    if how.checkpoint_every is not None:
        return checkpoints.every(how.checkpoint_every, trace, how.checkpoints_as, placed.slices)
    if how.checkpoints is not None:
        return checkpoints.marked(path, asked.plan.part, how.checkpoints_as)
    return checkpoints.Checkpoints(told_as=how.checkpoints_as)


def _place(
    label: str, asked: AskedStacks, placed: Placed, trace: ReplayTrace, plan: LayersPlan
) -> Place:
    from flashwright.layering import comparison
    from flashwright.layering.known import facts_for
    from flashwright.progress import work

    target = comparison.target_for(placed.target, trace, plan)
    device = work(*target.opening, comparison.describing(target).open)
    known = facts_for(
        target, asked.layering.facts_given, needed=comparison.has_layers(asked.stacks)
    )
    found = comparison.place(label, target, known, device, trace, plan, placed.slices)
    if target.is_real and target.may_write:
        # Standard output may belong to the JSON alone.
        say(_warning(target, trace, found, asked), err=True)
    return found


def _warning(target: Target, trace: ReplayTrace, found: Place, asked: AskedStacks) -> str:
    """Say what is going to be written to a real device."""
    from flashwright import replays

    number = len(asked.stacks)
    if not replays.changes(trace):
        return (
            f"{target.given}: the trace writes nothing; what layers write overwrites data of the "
            "region."
        )
    said = replays.warning(target, trace, found.region, asked.endurance_tbw, found.device.info)
    return (
        f"{said} That is for each of {number} stacks; layers may write more or less."
        if number > 1
        else said
    )


def _fail_if_any_failed(comparison: LayersComparison) -> None:
    failed = comparison.failures
    if failed:
        first = failed[0]
        more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
        raise RunError(f"{first['stack']} on {first['drive']}: {first['error']}{more}")


def print_run(run: Run) -> None:
    """Print what each stack did, and what it gains and loses."""
    from flashwright.reports import layer_words as words

    result = run.result
    for drive in words.drives(result):
        rows = words.rows_of(result, drive)
        print_table(
            words.COLUMNS, [words.cells(row, rows) for row in rows], words.title(result, drive)
        )
        print_table(words.LATENCY_COLUMNS, [line for row in rows for line in words.latencies(row)])
        counters = [line for row in rows for line in words.counters(row)]
        if counters:
            print_table(words.COUNTER_COLUMNS, counters)
        for row in rows:
            line = words.verdict_line(row)
            if line:
                say(line)
    for line in words.choices(result):
        say(line)
    if len(words.drives(result)) > 1:
        print_table(*words.by_drive(result), words.BY_DRIVE)
    for line in words.remarks(result):
        say(line)
