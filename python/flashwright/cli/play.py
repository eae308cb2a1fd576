"""`flashwright play`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flashwright._core import InputError, RunError
from flashwright.cli.of_jobs import command_of, json_option, out_option
from flashwright.cli.output import Json, Output, kept_of
from flashwright.terminal import say

if TYPE_CHECKING:
    from flashwright.jobs.play.run import Playing
    from flashwright.runs import Run

EXAMPLES = """\
Examples:
  flashwright play my.blktrace.0 --on nvme-tlc
  flashwright play 'io:random(reads=1)' --on intel-x25e,intel-x25m --pace 1,8,32
  flashwright play runs/tpcc --on 'profile(nvme-tlc, state=aged, op=28%)' --untimed 85%
  flashwright play runs/tpcc --on sd-card --stack auto
  flashwright play my.parquet --on /dev/sdb --write --pace open --against runs/tpcc
  flashwright play my.parquet --on /dev/sdb --write --stack log_volume --data killed
"""


def do(
    asked: Mapping[str, Any],
    *,
    jobs: int | None,
    again: bool,
    json_path: str | None,
    out: Path | None,
) -> None:
    """Plan, play, print what came of it, and write the run folder."""
    from flashwright.jobs.play import beside, words
    from flashwright.jobs.play import run as playing

    output = Output(json_path, out)
    plan = playing.plan(playing.settings_of(asked), jobs)
    runs = playing.Playing(plan)
    settings = plan.settings
    if output.is_only_json and out is None:
        for name in ("timeline", "per_request"):
            if settings[name]:
                flag = f"--{name.replace('_', '-')}"
                raise InputError(
                    f"{flag}: it is a file of the run folder; with --json - give --out DIR"
                )
    for place in plan.places:
        if place.target.is_real and place.target.may_write and place.source.writes:
            # Standard output may belong to the JSON alone.
            say(words.warning(plan, place), err=True)
    if settings["dry_run"]:
        say(f"{words.planned(plan)}: not played, as asked.")
        return
    folder = output.folder(runs.known_as)
    if not again and folder is not None and runs.known_as.is_complete_in(folder):
        show_finished(folder, output)
        return
    runs.keep_in(folder)
    if not again:
        output.say_known(runs.known, runs.planned, "runs")
    with beside.request_file(runs, folder):
        with recording(runs, output):
            run = played(runs)
        beside.lay(runs, run)
        if not output.is_only_json:
            words.show(run)
        written = output.finish(run)
    conclude(runs, written)


def show_finished(folder: Path, output: Output) -> None:
    """Show the result of the same work that is there."""
    from flashwright.jobs.play import words
    from flashwright.runs import Run

    run = Run.read(folder)
    if not output.is_only_json:
        say(f"{folder} holds the complete result of this work; --again does it again.")
        words.show(run)
    output.tell_finished(run, folder)


def played(runs: Playing) -> Run:
    """Do the runs; a stop keeps those that are done."""
    from flashwright.progress import StoppedError, follow

    left = runs.planned - runs.known
    label = (
        f"Playing on {runs.plan.places[0].label}" if runs.planned == 1 else f"Playing {left} runs"
    )
    try:
        ended = follow(label, "requests", runs.pool, runs.pool.run, preparing="Making drives")
    except StoppedError as stop:
        if not stop.result:
            raise
        runs.stopped, ended = stop, stop.result
    runs.take(ended)
    return runs.run()


def conclude(runs: Playing, folder: Path | None) -> None:
    """Raise StoppedError or RunError if not all runs came to their end."""
    from flashwright.progress import StoppedError

    stop = runs.stopped
    if stop is not None:
        kept = kept_of(len(runs.rows), runs.planned, "runs", folder)
        raise StoppedError(stop.done, stop.total, f"{stop.unit}; {kept}", None)
    failed = [
        row for row in runs.rows if row["error"] is not None and row.get("ended") != "worn_out"
    ]
    if failed:
        first = failed[0]
        more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
        through = "" if first["stack"] in (None, "direct") else f"{first['stack']} on "
        raise RunError(f"{through}{first['device']}: {first['error']}{more}")


@contextmanager
def recording(runs: Playing, output: Output) -> Iterator[None]:
    """Record what the device gets, if that is asked for, and say what was recorded."""
    from flashwright.jobs.play import beside

    asked = runs.plan.settings["record"]
    is_of_kernel = asked is not None and beside.is_of_kernel(runs)
    if is_of_kernel and output.is_only_json:
        raise InputError("--record: it prints what it recorded; give --json a path")
    with beside.recording(runs, output.out):
        yield
    if is_of_kernel:
        from flashwright.cli.recorded import conclude

        conclude(Path(asked), keep_raw=False, check=False, to=Json())


play = command_of(
    "play",
    do,
    short_help="Play a trace, or requests, on any devices under any layers.",
    examples=EXAMPLES,
    more=[
        click.Option(
            ["--jobs"],
            type=click.IntRange(1),
            metavar="N",
            help="Runs at a time, on simulated drives.  [default: one a core]",
        ),
        click.Option(["--again"], is_flag=True, help="Do it again, though it is done."),
        json_option(),
        out_option("play"),
    ],
)
