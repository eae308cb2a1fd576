"""`flashwright replay`: plays a recorded trace on a device."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flashwright._core import RunError
from flashwright.cli import replay_recorded
from flashwright.cli.flow_options import FlowOptions
from flashwright.cli.lists import ANY_DEVICE, Named
from flashwright.cli.options import DriveSize, Size, TraceReading, option, takes
from flashwright.cli.output import Json, Output, print_table, say
from flashwright.cli.outputs import OutFolder
from flashwright.cli.target_options import TargetOptions
from flashwright.cli.trace_options import DEFAULT, OPEN_LOOP, TraceOptions

if TYPE_CHECKING:
    from flashwright.probing.targets import Target
    from flashwright.replays import ReplayPlan
    from flashwright.runs import Run
    from flashwright.sources import Reading


@dataclass(frozen=True)
class ReplayOptions:
    """What is done beside playing."""

    keep_going: bool = option("Count requests that fail, instead of stopping at the first.")
    dry_run: bool = option("Say what would be done, and send nothing.")
    record_to: Path | None = option(
        "Record what the device gets meanwhile, and hold it against the trace: of a block device "
        "as `flashwright record` does, which needs root; of any other by a layer of our own above "
        "it.",
        "--record",
        type=OutFolder(is_recording=True),
        metavar="DIR",
    )
    trace_buffer_bytes: int = option(
        "With --record: the kernel's buffer for events, for each processor.",
        "--trace-buffer",
        type=Size(),
        default="64M",
    )
    against: Path | None = option(
        "Lay another replay beside it, or a recording: its folder.",
        type=click.Path(path_type=Path, file_okay=False),
        metavar="DIR",
    )


@click.command(short_help="Play a recorded trace on any device, and measure its answers.")
@click.argument("trace", type=Named(or_file=True))
@click.option(
    "--device", type=ANY_DEVICE, metavar="DEVICE", required=True, help="What it is played on."
)
@takes(TraceOptions, "playing", DEFAULT[OPEN_LOOP])
@takes(ReplayOptions, "options")
@takes(FlowOptions, "flows")
@takes(TargetOptions, "on")
@takes(DriveSize, "size")
@takes(TraceReading, "how")
@takes(Output, "output")
def replay(
    trace: str,
    *,
    device: str,
    playing: TraceOptions,
    options: ReplayOptions,
    flows: FlowOptions,
    on: TargetOptions,
    size: DriveSize,
    how: TraceReading,
    output: Output,
) -> None:
    """Play TRACE, a trace file or the folder of a recording, on a device, and measure its answers
    and the lateness.

    DEVICE is a block device, an NVMe namespace (/dev/ng0n1: its own commands, past the block
    layer), a file, `memory(bytes=1Gi)`, or a simulated drive: a profile of `flashwright list
    profile` or a TOML file. A device or file is only read unless --write is given. Address 0 of the
    trace is the start of the region.

    \b
    Examples:
      flashwright replay runs/tpcc --device intel-x25e
          at the trace's own pace, on a simulated drive
      flashwright replay my.blktrace.0 --device /dev/sdb --write --depth 32
          as fast as it goes with 32 outstanding
      flashwright replay my.parquet --device /dev/sdb --reads-only --factor 2
          the reads, twice as fast as recorded
      flashwright replay my.parquet --device sd-card --remap dense --one-by-one --waiting
      flashwright replay my.parquet --device intel-x25m --against runs/replay-1f2e3d4c5b6a
      flashwright replay runs/tpcc --device intel-x25m --against runs/tpcc
          beside the device that it was recorded on
      flashwright replay my.parquet --device nvme-tlc \\
          --beside 'io:random(reads=1);depth=8;priority=1'
      flashwright replay my.parquet --device /dev/sdb --write --depth 8 --record runs/again

    How paces are defined, and what is kept of a trace, is in docs/replay.md.
    """  # noqa: D205
    from flashwright import replays
    from flashwright.recording.recorder import check_folder

    if any(flow.handle is not None for flow in flows.beside):
        raise click.UsageError(
            "--beside ;handle=N: only a drive that `simulate` plays on has placement handles"
        )
    plan = replace(playing.plan(OPEN_LOOP, on.region, keep_going=options.keep_going), **vars(flows))
    other = None if options.against is None else replays.read(options.against)
    on.check(device)
    path = replays.trace_path(trace)
    target = on.target(device)
    placed = replays.placed(target, path, how.reading(), plan, size.asked())
    target = placed.target
    asked = AskedReplay(
        placed.path,
        placed.reading,
        placed.plan,
        target,
        on.endurance_tbw,
        options.dry_run,
        output,
        against=options.against,
        given=(path, plan),
    )
    recording = None
    record_to = options.record_to
    if record_to is not None:
        check_folder(record_to, trace=path.parent, run=output.out)
        if replay_recorded.is_recorded_by_us(target):
            asked = replace(asked, record_to=replay_recorded.file_in(record_to))
        else:
            recording = _recording(target, record_to, options, output)
    run, ended = replay_on(asked, recording)
    if run is None:
        return
    if record_to is not None:
        _add_recording(run, asked, record_to)
    if other is not None:
        run = replays.beside(run, other)
    if not output.is_only_json:
        print_run(run)
    output.finish(run)
    if ended is not None:
        raise ended


def _recording(
    target: Target, folder: Path, options: ReplayOptions, output: Output
) -> AbstractContextManager[None] | None:
    if output.is_only_json:
        raise click.UsageError("--record: it prints what it recorded; give --json a path")
    replay_recorded.check()
    if options.dry_run:
        return None
    return replay_recorded.recorded(target, folder, max(1, options.trace_buffer_bytes // 1024))


def _add_recording(run: Run, asked: AskedReplay, folder: Path) -> None:
    """Make the recording's tables, and hold them against the trace."""
    from flashwright import replays, sources
    from flashwright.cli.record import conclude

    shift_bytes = asked.plan.region.offset
    if asked.record_to is None:
        conclude(folder, keep_raw=False, check=False, to=Json())
    recorded = folder / sources.REQUESTS_FILE
    compared = replays.compare(asked.path, asked.reading, run, recorded, shift_bytes)
    run.result["recorded"] = {"folder": str(folder), **compared}


@dataclass(frozen=True)
class AskedReplay:
    """A replay that is to be made."""

    path: Path
    reading: Reading
    plan: ReplayPlan
    target: Target
    endurance_tbw: float | None = None
    dry_run: bool = False
    output: Json = Json()
    is_silent: bool = False
    """Whether it is known already what is going to be written."""
    record_to: Path | None = None
    """Where a layer of ours writes what the device is sent."""
    against: Path | None = None
    """What it is to be laid beside."""
    given: tuple[Path, ReplayPlan] | None = None
    """The trace and the plan as they were asked for, if a slice of them is played."""


def replay_on(
    asked: AskedReplay, recording: AbstractContextManager[object] | None = None
) -> tuple[Run | None, Exception | None]:
    """Read the trace, open the device, tell what is going to be written, and play.

    Within `recording` if one is given. Gives the run (None if nothing was to be sent), and what
    ended it early.
    """
    from flashwright import flows, replays
    from flashwright.progress import StoppedError, work
    from flashwright.runs import Job

    plan = asked.plan
    given = asked.given or (asked.path, plan)
    trace = work(
        f"Reading {given[0]}",
        "bytes",
        lambda progress: replays.load(asked.path, asked.reading, plan, progress),
    )
    target = replays.target_for(asked.target, trace, plan)
    device = work(*target.opening, target.open)
    region = replays.region_of(trace, device, plan)
    about_trace, about_device = (
        replays.trace_document(given[0], trace, given[1]),
        target.document(device.info),
    )
    if target.is_real and replays.changes(trace) and not asked.is_silent:
        # Standard output may belong to the JSON alone.
        say(replays.warning(target, trace, region, asked.endurance_tbw, device.info), err=True)
    if asked.dry_run:
        _tell_dry(
            {
                "trace": about_trace,
                "device": about_device,
                "region": region.document(),
                "pace": plan.pace.document(),
            },
            asked,
        )
        return None, None
    ended: Exception | None = None
    beside = work(
        "Reading what is played beside it",
        "bytes",
        lambda progress: flows.load(
            plan.beside, replace(asked.reading, seed=target.seed), progress
        ),
    )
    with recording or nullcontext():
        try:
            outcome = work(
                f"Replaying {given[0].name} on {target.name}",
                "requests",
                lambda progress: replays.play(
                    device, trace, region, plan, progress, asked.record_to, beside
                ),
            )
        except StoppedError as stop:
            if stop.result is None:
                raise
            outcome, ended = stop.result, stop
    if outcome["ended"] == "failed":
        ended = RunError(
            f"{outcome['error']}; {sum(outcome['requests'].values())} requests before it are kept"
        )
    # What a real device does is never the same again: no two replays on it share a folder.
    when_ns = [time.time_ns()] if target.is_real else []
    identity = [*replays.identity(about_trace, about_device, region, plan), *when_ns]
    job = Job(
        replays.COMMAND,
        [identity, str(asked.against)],
        replays.inputs(given[0], trace),
        target.seed,
    )
    return replays.make_run(about_trace, about_device, region, plan, outcome, job), ended


def _tell_dry(found: dict[str, Any], asked: AskedReplay) -> None:
    from flashwright.reports import replay_words as words

    line = (
        f"{words.trace_line(found['trace'])}, on {found['device']['name']}, "
        f"{words.pace(found['pace'])}"
    )
    asked.output.say(f"{line}: not played, as asked.")
    asked.output.write(found)


def print_run(run: Run) -> None:
    """Print the tables of a replay."""
    from flashwright.reports import drive_words
    from flashwright.reports import replay_words as words

    result = run.result
    print_table([("", "left"), ("", "right")], words.figures(result), words.title(result))
    print_table(words.LATENCY_HEADINGS, words.latency_rows(result))
    if result["beside"]:
        print_table(drive_words.FLOW_HEADINGS, drive_words.flow_rows(result["flows"]), "Flows")
    if "against" in result:
        print_table(
            words.comparison_headings(),
            words.comparison_rows(result, words.COMPARED),
            words.comparison_title(result),
        )
    for line in words.remarks(result):
        say(line)
