"""`flashwright sweep`: a job at many points of its options, here or on a cluster."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from flashwright import _core
from flashwright._core import InputError, RunError
from flashwright.cli.grouped import GroupedCommand
from flashwright.cli.options import Taken, Workers, all_of, argument, option, options
from flashwright.cli.output import Output
from flashwright.progress import StoppedError
from flashwright.terminal import print_table

if TYPE_CHECKING:
    from flashwright.runs import Run
    from flashwright.sweeps.running import How, Sweep


def _span(text: str) -> float:
    found = _core.parse_duration(text)
    if not found:
        raise InputError(f"{text!r}: right would be a time such as 90, 5min or 2h")
    return found


@click.command(
    cls=GroupedCommand,
    groups={
        "Where": ["engine", "address", "jobs", "store", "detach"],
        "Running": ["resume", "within", "dry_run"],
    },
    short_help="A job at many points, here or on a cluster.",
)
@options
def sweep(
    *,
    file: Path = argument(
        type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="SWEEP.toml"
    ),
    workers: Workers = all_of(
        Workers,
        {
            "jobs": " `memory =` in the file may allow fewer.",
            "store": " `store =` in the file goes before.",
        },
    ),
    detach: bool = option(
        "Hand this command to the Ray cluster, and leave: it needs a --store and folders that all "
        "nodes see."
    ),
    resume: bool = option(
        "Go on with a sweep that was begun, and try again what failed. Without it what is "
        "finished is not done again either."
    ),
    within: float | None = option(
        "Begin no more jobs after this time: `2h`.", type=Taken("TIME", _span), metavar="TIME"
    ),
    dry_run: bool = option("Say how many jobs there are, and how long they take."),
    output: Output = all_of(Output),
) -> None:
    """Do a job at many points of its options, as a file says, and show what each option does.

    The file names the job (`count` is what `compare` does, `play` what `play` does), what is fixed,
    and axes over options and keys of a profile, in a grid, a list or a sample.

    The run folder has results/, a Parquet dataset with a row a job, which DuckDB, polars and
    pandas open while it grows, and a report. What was computed before, with the same options,
    contents and version, is taken from the store.

    \b
    Examples:
      flashwright sweep SWEEP.toml --dry-run
      flashwright sweep SWEEP.toml --within 2h
      flashwright sweep SWEEP.toml --engine ray --store s3://bucket/sweeps
    """
    from flashwright.sweeps import file as files
    from flashwright.sweeps.plan import plan
    from flashwright.sweeps.running import How, Sweep, said_of

    how = How(workers.where(), resume, within)
    planned = plan(files.read(file))
    made = Sweep(planned, how, None, output.say)
    if dry_run:
        found = made.estimate()
        output.say(said_of(found))
        output.write(found)
        return
    made.folder = output.folder(made.job)
    if detach:
        _detach(made, how, output)
        return
    stop = made.run()
    output.say_known(made.known, len(planned.unique), "jobs")
    run = made.result()
    if not output.is_only_json:
        _print(run)
    output.finish(run)
    _leave(made, stop)


def _leave(made: Sweep, stop: StoppedError[object] | None) -> None:
    """Raise what ends the command with its exit code; say what is left to do."""
    total = len(made.plan.unique)
    if stop is not None:
        kept = f"jobs; all that is finished is kept in {made.store.url}"
        raise StoppedError(total - made.left, total, kept, None)
    failures = made.failures
    if made.left:
        sys.stderr.write(
            f"flashwright: {made.left} of {total} jobs are left; the same command goes on\n"
        )
    if failures:
        job, first = failures[0]
        at = ", ".join(f"{name} = {value}" for name, value in job.point.items())
        more = f" (and {len(failures) - 1} more)" if len(failures) > 1 else ""
        raise RunError(f"{at}: {first.error}{more}")


def _print(run: Run) -> None:
    """Print the best points, and what each axis does."""
    from flashwright._text import percent, significant

    result = run.result
    if result["goal"] is None:
        return
    if result["best"]:
        names = result["axes"]
        headings = [(name, "left") for name in names]
        headings += [(result["goal"], "right"), ("± 95 %", "right")]
        rows = [
            (
                *(str(one["point"][name]) for name in names),
                significant(one["mean"], 4),
                significant(one["half"], 2),
            )
            for one in result["best"]
        ]
        print_table(headings, rows, "Best points")
    if result["effects"]:
        print_table(
            [("axis", "left"), ("share of the variance", "right")],
            [(one["axis"], percent(one["share"])) for one in result["effects"]],
            "What each axis does",
        )


def _detach(made: Sweep, how: How, output: Output) -> None:
    from flashwright.sweeps.detaching import submit

    if how.where.engine != "ray":
        raise click.UsageError("--detach: it is for a cluster; give --engine ray too")
    if how.where.store is None and made.plan.file.document.store is None:
        raise InputError("--detach: name a --store that all nodes of the cluster see")
    if made.folder is None:
        raise InputError("--detach: name the run folder with --out, which all nodes see")
    for line in submit(made, Path.cwd()):
        # Not wrapped: commands are copied.
        click.echo(line, err=output.is_only_json)
