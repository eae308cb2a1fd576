"""`flashwright demo`: the whole road in one command."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path

import click

from flashwright._core import InputError, RunError
from flashwright.cli.options import Duration, over_provisionings_option, takes
from flashwright.cli.output import Json, Output, say
from flashwright.runs import command_line
from flashwright.sweeps.grid import Device

LEAST_SPARE_ERASE_BLOCKS = 40
"""What the policy with the most streams needs, and some."""
LEAST_PASSES_OVER_FOOTPRINT = 4
"""Page writes that a run should have, in footprints: with fewer the source is played more than
once.
"""


@click.command(short_help="From a real database trace to a report, in one go.")
@over_provisionings_option("0.07,0.15,0.28,0.5")
@click.option(
    "--seconds",
    type=Duration(least=1),
    default=60.0,
    show_default=True,
    metavar="S",
    help="How long the database is recorded.",
)
@click.option(
    "--shipped",
    is_flag=True,
    help="Record nothing: take the trace that comes with Flashwright, TPC-C on PostgreSQL for 19 "
    "minutes.",
)
@takes(Output, "output")
def demo(
    over_provisionings: tuple[float, ...], seconds: float, output: Output, *, shipped: bool
) -> None:
    """Record a database at work, and tell what its writes do to flash.

    TPC-C runs on SQLite for a minute, on a volume of its own, while the requests to the device
    below are recorded: this needs root. Where that is not allowed, a trace that was recorded before
    is taken: TPC-C on PostgreSQL.

    Then: look into it, play it through a flash translation layer with every policy, and compare
    each with the bound: first the data pages alone, then with the database's log, whose pages die
    in order. The report tells how much each policy writes to the flash, and how long the drive
    would live.
    """
    from flashwright import sources
    from flashwright._text import count
    from flashwright.cli.compare import fail_if_any_failed, run_plan
    from flashwright.cli.progress import StoppedError, work
    from flashwright.cli.statistics import statistics
    from flashwright.reports.comparison import headline
    from flashwright.reports.comparison_results import Results
    from flashwright.sweeps.comparison import SweepPlan
    from flashwright.sweeps.policies import choose

    source, data_pages, told = _shipped() if shipped else _live_or_shipped(seconds, output)
    scalars, tables = statistics(source, 4096, None, 0, 1)
    played = [data_pages, source]
    once = work(
        "Reading the trace",
        "page writes",
        lambda progress: sources.load(source, sources.Reading(), progress),
    )
    smallest = sources.load(data_pages, sources.Reading())
    repeat = max(1, -(-LEAST_PASSES_OVER_FOOTPRINT * once.logical_pages // once.page_writes))
    plan = SweepPlan(
        sources=played,
        policies=choose(None, None),
        over_provisionings=list(over_provisionings),
        reading=sources.Reading(repeat=repeat),
        device=Device(
            pages_per_erase_block=_erase_block_for(smallest.logical_pages, min(over_provisionings))
        ),
        endurance=3000,
        writes_per_day=1.0,
        threads=os.cpu_count() or 1,
    )
    comparison, stopped = run_plan(plan)
    run = comparison.run("demo")
    run.result["trace"] = scalars
    run.result["about"] = told
    run.tables |= {f"trace_{name}": found for name, found in tables.items()}
    if not output.is_only_json:
        results = Results(run)
        times = f", played {repeat} times over" if repeat > 1 else ""
        if run.result["about"]:
            say(run.result["about"])
        for name, workload in zip(comparison.names, comparison.workloads, strict=True):
            say(
                f"{name}: {count(workload.page_writes // repeat)} page writes to "
                f"{count(workload.logical_pages)} pages{times}."
            )
            say(headline(results, name, lead=False))
    folder = output.finish(run)
    if stopped is not None:
        raise StoppedError(stopped.done, stopped.total, stopped.unit, None)
    if folder is not None:
        output.say(
            f"Next:   flashwright compare {shlex.quote(source)} --op 0.1,0.2,0.3, or a trace of "
            "your own"
        )
    fail_if_any_failed(comparison)


def _erase_block_for(logical_pages: int, over_provisioning: float) -> int:
    """Give the pages of an erase block.

    As a run has by default, fewer for a database that was too small to fill enough of them.
    """
    pages = Device().pages_per_erase_block
    while pages > 4 and logical_pages * over_provisioning / pages < LEAST_SPARE_ERASE_BLOCKS:
        pages //= 2
    return pages


Chosen = tuple[str, str, str]
"""The trace, its part without the database's log, and what it is, in a sentence."""


def _live_or_shipped(seconds: float, to: Json) -> Chosen:
    from flashwright.cli import demo_live

    reason = demo_live.why_not()
    if not reason:
        try:
            folder, told = demo_live.record(seconds, command_line())
            return str(folder / "requests.parquet"), str(demo_live.write_data_pages(folder)), told
        except (InputError, RunError) as error:
            reason = str(error)
    to.say(f"Nothing can be recorded here: {reason}. Taking the trace that was recorded before.")
    return _shipped()


def _shipped() -> Chosen:
    from flashwright import data
    from flashwright.recording.parts import LOGS, write_without

    data_pages = Path("runs") / "sources" / f"{data.TPCC.name}_data_pages.parquet"
    try:
        # Always again, since the recording may be another one than last time: it takes less than a
        # second.
        data_pages.parent.mkdir(parents=True, exist_ok=True)
        write_without(data.TPCC, LOGS, data_pages)
    except OSError as error:
        raise InputError(f"{data_pages}: cannot write the data pages: {error.strerror}") from error
    source, here = data.TPCC_REQUESTS, Path.cwd()
    shown = source.relative_to(here) if source.is_relative_to(here) else source
    return str(shown), str(data_pages), _about(data.TPCC)


def _about(recording: Path) -> str:
    """Say in a sentence what was recorded."""
    about = json.loads((recording / "about.json").read_text())
    server = (
        about["versions"]["postgres"]
        .removeprefix("postgres ")
        .partition(" (Debian")[0]
        .replace("(PostgreSQL)", "PostgreSQL")
    )
    return (
        f"TPC-C on {server}, {about['scale']['warehouses']} warehouses and {about['clients']} "
        f"clients, recorded for {round(about['kept_seconds'] / 60)} minutes below the file system."
    )
