"""`flashwright compare`: policies x over-provisionings x workloads, beside what is attainable."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flashwright._core import InputError, RunError
from flashwright.cli.drive import DriveOptions, check_patterns, check_use, is_given, size_asked
from flashwright.cli.drive_comparison import compare_drives
from flashwright.cli.layers import stack_option
from flashwright.cli.lists import Listed, Named
from flashwright.cli.options import (
    Flash,
    Life,
    WorkloadReading,
    over_provisionings_option,
    placements_option,
    split_policies,
    takes,
)
from flashwright.cli.output import Output, kept_of, print_table, say
from flashwright.cli.stack_comparison import compare_stacks_on_drives

if TYPE_CHECKING:
    from flashwright.runs import Run
    from flashwright.sweeps.comparison import Comparison, SweepPlan


@click.command(short_help="All policies beside what is attainable; or several drives.")
@click.argument(
    "source_names", type=Named(or_file=True), metavar="SOURCE...", nargs=-1, required=True
)
@placements_option()
@click.option(
    "--victims",
    type=Named("victim", others=["all"]),
    metavar="a,b|all",
    help="Victim policies, each with each placement.  [default: greedy, "
    "cost_benefit(age=closed) and the one of the placement's authors; all for `none` if "
    "--placements is all; with --device only the authors']",
)
@over_provisionings_option()
@takes(WorkloadReading, "how")
@takes(Flash, "flash")
@takes(Life, "life")
@click.option(
    "--device",
    "profiles",
    cls=Listed,
    type=Named("profile", or_file=True),
    metavar="PROFILE",
    help="Compare simulated drives instead: a profile of `flashwright list profile`, or a TOML "
    "file. a,b or again for each drive.",
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
    """Compare placement policies on each SOURCE, at each over-provisioning.

    Each placement policy runs with several victim policies, as the best is often not that of its
    authors; the table shows the best of each, the report all.

    Beside them stand two figures. The offline minimum found is the least that any run wrote, one of
    which places each page by the time at which it will be written again: what is attainable. The
    frequency bound (MULTILOG Algorithm 1) is the least for updates that are independent of each
    other; a write-ahead log is not like that, and policies can go below it.

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
    """
    from flashwright import sources
    from flashwright.progress import StoppedError
    from flashwright.sweeps.comparison import SweepPlan
    from flashwright.sweeps.grid import Device
    from flashwright.sweeps.policies import choose

    twice = next((source for source in source_names if source_names.count(source) > 1), None)
    if twice is not None:
        raise InputError(f"{twice}: it is given twice; name each SOURCE once")
    check_use(with_device=bool(profiles))
    if stacks and not profiles:
        raise InputError("--stack: layers lie on a device, so give --device PROFILE too")
    named = split_policies(placements, "--placements")
    chosen_victims = None if victims is None else _all_victims(victims)
    if profiles:
        check_patterns(source_names)
        over = over_provisionings if is_given("over_provisionings") else (None,)
        changes = _policy_changes(named, chosen_victims)
        reading, asked = how.reading(), size_asked(drive, life)
        if stacks:
            compare_stacks_on_drives(
                drive, profiles, source_names, stacks, changes, over, reading, asked, jobs, output
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
            asked,
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
        wear=life.wear(),
        threads=jobs or os.cpu_count() or 1,
    )
    comparison, stopped = run_plan(plan, output)
    run = comparison.run("compare")
    if not output.is_only_json:
        print_comparison(comparison, run)
    folder = output.finish(run)
    if stopped is not None:
        kept = kept_of(comparison.finished, comparison.planned, "simulations", folder)
        raise StoppedError(stopped.done, stopped.total, f"{stopped.unit}; {kept}", None)
    fail_if_any_failed(comparison)


def run_plan(plan: SweepPlan, output: Output | None = None) -> tuple[Comparison, Any]:
    """Load the workloads, simulate, find the bounds.

    Gives what is there, and the stop if Ctrl-C came between. What an earlier run has finished in
    the run folder of the `output` is not simulated again.
    """
    from flashwright.progress import StoppedError, follow, work
    from flashwright.sweeps.comparison import Comparison
    from flashwright.sweeps.grid import Grid
    from flashwright.sweeps.kept import Kept

    workloads = plan.load(
        lambda source, load: work(f"Reading {Path(source).name}", "page writes", load)
    )
    bounds = work("Finding the frequency bound", "pages", lambda _: plan.bounds(workloads))
    jobs = plan.jobs()
    folder = None if output is None else output.folder(plan.job("compare", workloads))
    grid = Grid(workloads, jobs, plan.device, plan.threads, Kept(folder))
    if output is not None:
        output.say_known(grid.known, len(jobs), "simulations")
    stopped = None
    try:
        left = len(jobs) - grid.known
        outcomes = follow(f"Simulating {left} runs", "page writes", grid, grid.run)
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

    What is attainable comes first, then the policies from least to most written, each placement
    with its best victim policy.
    """
    from flashwright._text import alpha, percent, significant
    from flashwright.reports.comparison import headline, remarks
    from flashwright.reports.comparison_results import Results, amplification
    from flashwright.sweeps.comparison import BOUND, MINIMUM

    results = Results(run)
    headings = [
        ("over-provisioning", "right"),
        ("policy", "left"),
        ("write amplification", "right"),
        ("to minimum", "right"),
        ("p_gc", "right"),
        ("life in years", "right"),
    ]
    for name in comparison.names:
        rows: list[tuple[str, ...]] = []
        for bound in results.bounds(name):
            at = bound["over_provisioning"]
            least = significant(bound["offline_minimum"], 4)
            rows.append((alpha(at), MINIMUM, least, "", "", ""))
            known = significant(bound["frequency_bound"], 4)
            rows.append((alpha(at), BOUND, known, "", "", ""))
            best = sorted(results.of(name, op=at), key=lambda row: row["write_amplification"])
            rows += [
                (
                    alpha(at),
                    row["label"],
                    amplification(row),
                    f"{row['gap_to_offline_minimum_percent']:+.1f} %",
                    percent(row["p_gc"]),
                    significant(row["life_years"]),
                )
                for row in best
            ]
            rows += [
                (alpha(at), row["label"], "failed", "", "", "")
                for row in results.failed
                if (row["workload"], row["over_provisioning"]) == (name, at)
            ]
        print_table(headings, rows, name)
        shown = sum(len(results.of(name, op=op)) for op in results.alphas)
        more = len(results.all_of(name)) - shown
        if more:
            pairs = "1 more pair is" if more == 1 else f"{more} more pairs are"
            say(f"Each placement with its best victim policy; {pairs} in the report.")
        say(headline(results, name, lead=len(comparison.names) > 1))
    for remark in remarks(results):
        say(remark)


def _policy_changes(
    placements: list[str] | None, victims: list[str] | None
) -> list[tuple[str | None, str | None]]:
    """Give the placement and the victim of each variant of a drive.

    None leaves what the profile has.
    """
    from flashwright.sweeps.policies import choose, own_victim
    from flashwright.sweeps.python_policies import is_file

    in_python = next((policy for policy in placements or [] if is_file(policy)), None)
    if in_python is not None:
        raise InputError(f"{in_python}: a policy in Python is for runs without --device")

    if not is_given("placements"):
        return [(None, None)] if victims is None else [(None, victim) for victim in victims]
    pairs = [
        (policy.placement, policy.victim) for policy in choose(placements, victims, only_own=True)
    ]
    # Where it follows from the placement it is not named, so that labels stay short.
    return [
        (placement, None if victims is None and victim == own_victim(placement) else victim)
        for placement, victim in pairs
    ]


def _all_victims(text: str) -> list[str]:
    from flashwright._core import registry

    names = split_policies(text, "--victims")
    return [entry["name"] for entry in registry()["victim"]] if names is None else names
