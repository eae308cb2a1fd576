"""`flashwright compare`: policies x over-provisionings x workloads, beside the bound."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flashwright._core import InputError, RunError
from flashwright.cli.drive import DriveOptions, check_patterns, check_use, is_given
from flashwright.cli.drive_comparison import compare_drives
from flashwright.cli.layers import stack_option
from flashwright.cli.options import (
    Flash,
    Life,
    WorkloadReading,
    over_provisionings_option,
    split_names,
    takes,
)
from flashwright.cli.output import Output, print_table, say
from flashwright.cli.stack_comparison import compare_stacks_on_drives

if TYPE_CHECKING:
    from flashwright.runs import Run
    from flashwright.sweeps.comparison import Comparison


@click.command(short_help="All policies, with the bound as a line; or several drives.")
@click.argument("source_names", metavar="SOURCE...", nargs=-1, required=True)
@click.option(
    "--placements", default="all", show_default=True, metavar="a,b|all", help="Placement policies."
)
@click.option(
    "--victims",
    metavar="a,b|all",
    help="Victim policies, each with each placement.  [default: the one of the placement's "
    "authors; all for `none` if --placements is all]",
)
@over_provisionings_option()
@takes(WorkloadReading, "how")
@takes(Flash, "flash")
@takes(Life, "life")
@click.option(
    "--device",
    "profiles",
    multiple=True,
    metavar="PROFILE",
    help="Compare simulated drives instead: a profile of `flashwright list profile`, or a TOML "
    "file. Again for each drive.",
)
@stack_option
@takes(DriveOptions, "drive")
@click.option(
    "--jobs",
    type=click.IntRange(1),
    metavar="N",
    help="Simulations at a time.  [default: one a core]",
)
@takes(Output, "output")
def compare(
    source_names: tuple[str, ...],
    placements: str,
    victims: str | None,
    over_provisionings: tuple[float, ...],
    how: WorkloadReading,
    flash: Flash,
    life: Life,
    drive: DriveOptions,
    output: Output,
    jobs: int | None,
    profiles: tuple[str, ...],
    stacks: tuple[str, ...],
) -> None:
    """Compare placement policies on each SOURCE, at each over-provisioning, with the bound beside
    them.

    The bound (MULTILOG Algorithm 1) is the least for updates that are independent of each other. A
    trace with an order that policies can use, such as that of a write-ahead log, may go below it;
    then this is said.

    \b
    Examples:
      flashwright compare tpcc.parquet
      flashwright compare 'synth:zipf?pages=1M' 'synth:uniform?pages=1M' --op 0.07,0.15,0.3,0.5
      flashwright compare tpcc.parquet --placements multi_log,dac,none --victims greedy,lru --json -
      flashwright compare 'io:random(reads=1)' --device intel-x25e --device intel-x25m
      flashwright compare tpcc.parquet --device nvme-tlc --placements none,multi_log \\
          --op 0.1,0.3 --state aged
      flashwright compare tpcc.parquet --device sd-card --device nvme-tlc \\
          --stack 'scheduler(defer,coalesce)' --fold

    With --device the same requests are played on each drive, and --placements, --victims and --op,
    if they are given, are changes to each profile. Latencies, throughput and what the dies did
    stand side by side. With --stack, too, one trace is played on each stack of layers over each
    drive, one by one if nothing else is said; `flashwright layers` has more options for that.

    Ctrl-C stops it and keeps what is finished.
    """  # noqa: D205
    from flashwright import sources
    from flashwright.cli.progress import StoppedError
    from flashwright.sweeps.comparison import SweepPlan
    from flashwright.sweeps.grid import Device
    from flashwright.sweeps.policies import choose

    twice = next((source for source in source_names if source_names.count(source) > 1), None)
    if twice is not None:
        raise InputError(f"{twice}: it is given twice; name each SOURCE once")
    check_use(with_device=bool(profiles))
    if stacks and not profiles:
        raise InputError("--stack: layers lie on a device, so give --device PROFILE too")
    named = _names(placements, "--placements")
    chosen_victims = None if victims is None else _all_victims(victims)
    if profiles:
        check_patterns(source_names)
        over = over_provisionings if is_given("over_provisionings") else (None,)
        changes = _policy_changes(named, chosen_victims)
        reading = how.reading()
        if stacks:
            compare_stacks_on_drives(
                drive, profiles, source_names, stacks, changes, over, reading, jobs, output
            )
            return
        cycles = life.endurance if is_given("endurance") else None
        compare_drives(
            drive,
            profiles,
            source_names,
            changes,
            over,
            reading,
            cycles,
            life.writes_per_day,
            jobs,
            output,
        )
        return
    policies = choose(named, chosen_victims)
    plan = SweepPlan(
        sources=[sources.check_source(source) for source in source_names],
        policies=policies,
        over_provisionings=list(over_provisionings),
        reading=how.reading(),
        device=Device(**vars(flash), seed=how.seed),
        endurance=life.endurance,
        writes_per_day=life.writes_per_day,
        threads=jobs or os.cpu_count() or 1,
    )
    comparison, stopped = run_plan(plan)
    run = comparison.run("compare")
    if not output.is_only_json:
        print_comparison(comparison, run)
    folder = output.finish(run)
    if stopped is not None:
        kept = f"{len(comparison.rows)} of {comparison.planned} simulations are kept" + (
            f" in {folder}" if folder else ""
        )
        raise StoppedError(stopped.done, stopped.total, f"{stopped.unit}; {kept}", None)
    fail_if_any_failed(comparison)


def run_plan(plan: Any) -> tuple[Comparison, Any]:
    """Load the workloads, simulate, find the bounds.

    Gives what is there, and the stop if Ctrl-C came between.
    """
    from flashwright.cli.progress import StoppedError, follow, work
    from flashwright.sweeps.comparison import Comparison
    from flashwright.sweeps.grid import Grid

    workloads = plan.load(
        lambda source, load: work(f"Reading {Path(source).name}", "page writes", load)
    )
    bounds = work("Finding the bound", "pages", lambda _: plan.bounds(workloads))
    jobs = plan.jobs()
    grid = Grid(workloads, jobs, plan.device, plan.threads)
    stopped = None
    try:
        outcomes = follow(f"Simulating {len(jobs)} runs", "page writes", grid, grid.run)
    except StoppedError as stop:
        stopped, outcomes = stop, stop.result or []
    return Comparison(plan, workloads, bounds, outcomes), stopped


def fail_if_any_failed(comparison: Comparison) -> None:
    """Raise RunError if a policy could not run; the others' results are written by then."""
    failed = comparison.failures
    if failed:
        first = failed[0]
        more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
        raise RunError(
            f"{first['policy']} at over-provisioning {first['over_provisioning']:g} on "
            f"{first['workload']}: {first['error']}{more}"
        )


def print_comparison(comparison: Comparison, run: Run) -> None:
    """Print one table for each workload, and the answer below it.

    The bound comes first, and then the policies from least to most written.
    """
    from flashwright._text import alpha, percent, significant
    from flashwright.reports.comparison import headline
    from flashwright.reports.comparison_results import Results
    from flashwright.sources import caveat
    from flashwright.sweeps.comparison import BOUND

    results = Results(run)
    for number, name in enumerate(comparison.names):
        rows = []
        for row in comparison.sorted_rows(number):
            if row.get("error"):
                rows.append((alpha(row["over_provisioning"]), row["policy"], "failed", "", "", ""))
                continue
            rows.append(
                (
                    alpha(row["over_provisioning"]),
                    row["policy"] + ("" if row["steady"] else " *"),
                    significant(row["write_amplification"], 4),
                    "" if row["policy"] == BOUND else f"{row['gap_to_bound_percent']:+.1f} %",
                    percent(row["p_gc"]),
                    significant(row["life_years"]),
                )
            )
        headings = [
            ("over-provisioning", "right"),
            ("policy", "left"),
            ("write amplification", "right"),
            ("to bound", "right"),
            ("p_gc", "right"),
            ("life in years", "right"),
        ]
        print_table(headings, rows, name)
        if any(row.get("gap_to_bound_percent", 0) < 0 for row in comparison.sorted_rows(number)):
            say(f"Below the bound: {caveat(comparison.workloads[number].page_trims)}.")
        if any(row.get("steady") is False for row in comparison.sorted_rows(number)):
            say("* did not become steady: the figure is of the last half of the run")
        say(headline(results, name, lead=len(comparison.names) > 1))


def _policy_changes(
    placements: list[str] | None, victims: list[str] | None
) -> list[tuple[str | None, str | None]]:
    """Give the placement and the victim of each variant of a drive.

    None leaves what the profile has.
    """
    from flashwright.sweeps.policies import choose, own_victim

    if not is_given("placements"):
        return [(None, None)] if victims is None else [(None, victim) for victim in victims]
    pairs = [(policy.placement, policy.victim) for policy in choose(placements, victims)]
    # Where it follows from the placement it is not named, so that labels stay short.
    return [
        (placement, None if victims is None and victim == own_victim(placement) else victim)
        for placement, victim in pairs
    ]


def _names(text: str, option: str) -> list[str] | None:
    if text.strip() == "all":
        return None
    names = split_names(text)
    if not names:
        raise InputError(f"{option}: no name is given; write a,b or all")
    return names


def _all_victims(text: str) -> list[str]:
    from flashwright._core import registry

    names = _names(text, "--victims")
    return [entry["name"] for entry in registry()["victim"]] if names is None else names
