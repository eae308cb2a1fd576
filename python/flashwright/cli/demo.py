"""`flashwright demo`: the whole road in one command."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from flashwright._core import InputError, RunError
from flashwright.cli.following import propose
from flashwright.cli.options import (
    LIFE,
    PLACEMENTS,
    all_of,
    duration,
    option,
    options,
    over_provisionings_option,
    split_policies,
    wear_of,
)
from flashwright.cli.output import Json, Output
from flashwright.comparing.grid import GridSettings
from flashwright.engine.where import Where
from flashwright.terminal import say

if TYPE_CHECKING:
    from flashwright.comparing.comparison import SweepPlan
    from flashwright.lifetime import Wear
    from flashwright.runs import Run

LEAST_SPARE_ERASE_BLOCKS = 40
"""Fewest spare erase blocks: some more than the policy with the most streams needs."""
LEAST_PASSES_OVER_FOOTPRINT = 4
"""Page writes that a run should have, in footprints: with fewer the source is played more than
once.
"""
LEAST_STEADY_SHARE = 0.5
MOST_ATTEMPTS = 3
"""Most plays, each twice as long as the one before: nobody would watch for longer."""
SHIPPED_TIMES = 4
"""Times that the shipped trace is played at first, which makes half of the runs steady."""
CAPACITY_BYTES = 256_000_000_000
"""The drive whose life is computed, if no other is asked for."""


@click.command(short_help="From a real database trace to a report, in one go.")
@options
def demo(
    *,
    over_provisionings: tuple[float, ...] = over_provisionings_option("0.07,0.15,0.28,0.5"),
    placements: str = PLACEMENTS,
    seconds: float = option(
        "How long the database is recorded.", "--for", type=duration(least=1), default=60.0
    ),
    shipped: bool = option(
        "Record nothing: take the trace that comes with Flashwright, TPC-C on PostgreSQL for 19 "
        "minutes."
    ),
    life: str | None = LIFE,
    output: Output = all_of(Output),
) -> None:
    """Record a database at work, and show what its writes do to flash.

    TPC-C runs on SQLite for a minute, on a volume of its own, while the requests to the device
    below are recorded: this needs root. Where that is not allowed, a trace that was recorded before
    is taken: TPC-C on PostgreSQL.

    Then the trace is played through a flash translation layer with every policy: as a whole, and
    its data pages alone, without the database's log. The report shows how much each policy writes
    to the flash, and what is attainable. A benchmark at full speed is no day of an application:
    how long a drive of 256 GB lives (or another, by --life) is said for --life 'life(40G)', or for
    the recorded rate if that was recorded for ten minutes or more. If less than half of the runs
    become steady it is played twice as often, and once more.
    """
    from flashwright.cli.compare import fail_if_any_failed, run_plan
    from flashwright.trace_statistics import statistics

    named = split_policies(placements, "--placements")
    asked = wear_of(life)
    wear = replace(asked, capacity=asked.capacity or CAPACITY_BYTES)
    chosen = _shipped() if shipped else _live_or_shipped(seconds, output)
    scalars, tables = statistics(chosen.source)
    plan = _plan(chosen, over_provisionings, named, wear)
    for attempt in range(1, MOST_ATTEMPTS + 1):
        comparison, stopped = run_plan(plan, output)
        run = comparison.run("demo")
        share = _steady_share(run)
        if stopped is not None or share >= LEAST_STEADY_SHARE or attempt == MOST_ATTEMPTS:
            break
        output.say(f"{share:.0%} of the runs are steady: playing the trace twice as often.")
        plan = replace(
            plan, readings=[replace(one, repeat=2 * one.repeat) for one in plan.readings]
        )
    run.result["trace"] = scalars
    run.result["about"] = chosen.about
    run.tables |= {f"trace_{name}": found for name, found in tables.items()}
    if not output.is_only_json:
        _print(run, chosen)
    folder = output.finish(run)
    if stopped is not None:
        raise stopped
    if folder is not None:
        propose(output, "compare", chosen.source)
        output.say("Or the same with a trace of your own.")
    fail_if_any_failed(comparison)


@dataclass(frozen=True)
class Chosen:
    """A trace for the demo."""

    source: str
    data_pages: str
    """Its part without the database's log."""
    about: str
    """Description in a sentence."""
    times: int
    """Least number of times that it is played at first."""


def _plan(
    chosen: Chosen,
    over_provisionings: tuple[float, ...],
    named: list[str] | None,
    wear: Wear,
) -> SweepPlan:
    """Give all that is played of a trace, each at first as often as it needs."""
    from flashwright import sources
    from flashwright.comparing.comparison import SweepPlan
    from flashwright.comparing.policies import choose
    from flashwright.progress import work

    once = work(
        "Reading the trace",
        "page writes",
        lambda progress: sources.load(chosen.source, sources.Reading(), progress),
    )
    smallest = sources.load(chosen.data_pages, sources.Reading())
    needed = -(-LEAST_PASSES_OVER_FOOTPRINT * once.logical_pages // once.page_writes)
    return SweepPlan(
        sources=[chosen.source, chosen.data_pages],
        policies=choose(named, None),
        over_provisionings=list(over_provisionings),
        readings=[sources.Reading(repeat=chosen.times * max(1, needed))] * 2,
        settings=GridSettings(
            pages_per_erase_block=_erase_block_for(smallest.logical_pages, min(over_provisionings))
        ),
        wear=wear,
        where=Where(),
        are_named=named is not None,
    )


def _steady_share(run: Run) -> float:
    rows = [row for row in run.result["results"] if "error" not in row]
    return sum(row["steady"] for row in rows) / len(rows) if rows else 0.0


def _print(run: Run, chosen: Chosen) -> None:
    from flashwright._text import count
    from flashwright.reports.comparison import headline, remarks
    from flashwright.reports.comparison_results import Results
    from flashwright.reports.demo import headline as answer

    results = Results(run)
    repeat = run.result["workloads"][0]["repeat"]
    times = f", played {repeat} times over" if repeat > 1 else ""
    say(chosen.about)
    say(answer(results))
    for workload in results.workloads:
        say(
            f"{workload['name']}: {count(workload['page_writes'] // repeat)} page writes to "
            f"{count(workload['logical_pages'])} pages{times}."
        )
        say(headline(results, workload["name"], lead=False))
    for remark in remarks(results):
        say(remark)


def _erase_block_for(logical_pages: int, over_provisioning: float) -> int:
    """Give the pages of an erase block.

    As a run has by default, fewer for a database that was too small to fill enough of them.
    """
    pages = GridSettings().pages_per_erase_block
    while pages > 4 and logical_pages * over_provisioning / pages < LEAST_SPARE_ERASE_BLOCKS:
        pages //= 2
    return pages


def _live_or_shipped(seconds: float, to: Json) -> Chosen:
    from flashwright.cli import demo_live

    reason = demo_live.why_not()
    if not reason:
        try:
            folder, about = demo_live.record(seconds)
            data_pages = str(demo_live.write_data_pages(folder))
            return Chosen(str(folder / "requests.parquet"), data_pages, about, 1)
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
    return Chosen(str(shown), str(data_pages), _about(data.TPCC), SHIPPED_TIMES)


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
