"""`flashwright compare`: policies x over-provisionings x workloads, beside what is attainable."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from flashwright._core import InputError, RunError
from flashwright.cli.grouped import GroupedCommand
from flashwright.cli.lists import Named
from flashwright.cli.options import (
    LIFE,
    PAGE_SIZE,
    PLACEMENTS,
    Flash,
    Workers,
    all_of,
    argument,
    option,
    options,
    over_provisionings_option,
    seed_option,
    split_policies,
    wear_of,
)
from flashwright.cli.output import Json, Output
from flashwright.terminal import print_table, say

if TYPE_CHECKING:
    from flashwright.comparing.comparison import Comparison, SweepPlan
    from flashwright.comparing.policies import Policy
    from flashwright.progress import StoppedError
    from flashwright.runs import Run
    from flashwright.sources import Reading


@click.command(
    cls=GroupedCommand,
    groups={
        "Policies": ["placements", "victims", "over_provisionings"],
        "Flash": ["pages_per_erase_block", "start", "page_size", "life"],
        "Running": ["seed", "jobs", "engine", "address", "store", "audit"],
    },
    short_help="All placement policies beside what is attainable.",
)
@options
def compare(
    *,
    source_names: tuple[str, ...] = argument(
        type=Named(or_file=True), metavar="SOURCE...", nargs=-1, required=True
    ),
    placements: str = PLACEMENTS,
    victims: str | None = option(
        "Victim policies, each with each placement.  [default: greedy, "
        "cost_benefit(age=closed) and the one of the placement's authors; all for `none` if "
        "--placements is all; only the authors' of a single placement]",
        type=Named("victim", others=["all"]),
        metavar="a,b|all",
    ),
    over_provisionings: tuple[float, ...] = over_provisionings_option(),
    flash: Flash = all_of(Flash),
    page_size: int = option(
        "Bytes in a logical page of the SOURCE.", type=PAGE_SIZE, default="4096"
    ),
    life: str | None = LIFE,
    seed: int = seed_option("Seed of all that is random."),
    workers: Workers = all_of(Workers),
    audit: bool = option(
        "Of a single policy: check the simulator's tables against each other all along: slow, for "
        "finding bugs."
    ),
    output: Output = all_of(Output),
) -> None:
    """Compare placement policies on each SOURCE, at each over-provisioning, by what the flash has
    to write.

    Each placement policy runs with several victim policies, as the best is often not that of its
    authors; the table shows the best of each, the report all. One policy alone, on one SOURCE at
    one over-provisioning, gives its whole report.

    Beside them stand two figures. The offline minimum found is the least that any run wrote, one of
    which places each page by the time at which it will be written again: what is attainable. The
    frequency bound (MULTILOG Algorithm 1) is the least for updates that are independent of each
    other; a write-ahead log is not like that, and policies can go below it.

    \b
    Examples:
      flashwright compare tpcc.parquet
      flashwright compare 'synth:zipf(pages=1M)' 'synth:uniform(pages=1M)' --op 0.07,0.15,0.3
      flashwright compare tpcc.parquet --placements multi_log,dac,none --victims greedy,lru
      flashwright compare tpcc.parquet --placements multi_log --op 0.1
      flashwright compare 'part(tpcc.parquet, repeat=5)' --life 'life(40G, capacity=256Gi)'
      flashwright compare 'part(big.parquet, sample=8)'     one page in eight, as docs/scale.md says
      flashwright compare STORE --op 0.07,0.15,0.28         each volume of `trace split`, and all

    Each simulation is a job that is done once and kept in --store, whoever asked for it: `sweep`
    takes them, too. Ctrl-C stops it and keeps what is finished. Latencies are what `flashwright
    play` measures.
    """  # noqa: D205
    from flashwright import sources
    from flashwright.cli import fleet
    from flashwright.comparing.comparison import SweepPlan
    from flashwright.comparing.grid import GridSettings
    from flashwright.comparing.policies import choose
    from flashwright.fleet.saving import Asked

    named = split_policies(placements, "--placements")
    chosen_victims = None if victims is None else _all_victims(victims)
    found = [
        sources.part_of(text, page_size=page_size, seed=seed, takes_fleets=len(source_names) == 1)
        for text in source_names
    ]
    names, readings = [name for name, _ in found], [reading for _, reading in found]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"{twice}: it is given twice; name each SOURCE once")
    if sources.is_fleet(names[0]):
        if life is not None or audit:
            raise click.UsageError(
                "--life, --audit: they are of one trace; `advise STORE` says how many drives wear "
                "out"
            )
        is_default = click.get_current_context().get_parameter_source("placements")
        few = fleet.PLACEMENTS if is_default is ParameterSource.DEFAULT else named
        pairs = fleet.policies_of(few, chosen_victims)
        sample = fleet.sample_of(source_names[0])
        shared = {**vars(flash), "page_size": page_size, "seed": seed}
        asked = Asked(pairs, over_provisionings, sample=sample, **shared)
        fleet.savings(names[0], asked, workers.where(), output, "compare")
        return
    wear = wear_of(life)
    is_one = len(names) == len(named or ()) == len(over_provisionings) == 1
    if is_one and len(chosen_victims or [""]) == 1:
        workers.check_local("it is of several simulations, and this is one")
        [policy] = choose(named, chosen_victims, only_own=True)
        settings = {**vars(flash), "over_provisioning": over_provisionings[0], "seed": seed}
        _simulate(names[0], readings[0], policy, settings, wear, output, audit=audit)
        return
    if audit:
        raise click.UsageError(
            "--audit: it is of one policy on one SOURCE at one over-provisioning; name them"
        )
    plan = SweepPlan(
        sources=names,
        policies=choose(named, chosen_victims),
        over_provisionings=list(over_provisionings),
        readings=readings,
        settings=GridSettings(**vars(flash), seed=seed),
        wear=wear,
        where=workers.where(),
        are_named=named is not None or chosen_victims is not None,
    )
    comparison, stopped = run_plan(plan, output)
    run = comparison.run("compare")
    if not output.is_only_json:
        print_comparison(comparison, run)
    output.finish(run)
    if stopped is not None:
        raise stopped
    fail_if_any_failed(comparison)


def _simulate(
    source: str,
    reading: Reading,
    policy: Policy,
    settings: dict[str, Any],
    wear: Any,
    output: Output,
    *,
    audit: bool,
) -> None:
    """Simulate one policy, and print and write its whole report."""
    from flashwright import sources
    from flashwright.progress import work
    from flashwright.simulations import Simulation, simulate_workload

    workload = work(
        f"Reading {source}", "page writes", lambda progress: sources.load(source, reading, progress)
    )
    given = {"placement": policy.python or policy.placement, "victim": policy.victim, **settings}
    run = simulate_workload(Simulation(source, workload, reading, given, wear, audit))
    if not output.is_only_json:
        _print(run.result)
    output.finish(run)


def run_plan(plan: SweepPlan, to: Json) -> tuple[Comparison, StoppedError[Any] | None]:
    """Load the workloads, simulate what is not kept, find the bounds.

    Gives what is there, and the stop if Ctrl-C came between.
    """
    from flashwright.comparing.comparison import Comparison
    from flashwright.progress import StoppedError, work

    workloads = plan.load(
        lambda source, load: work(f"Reading {Path(source).name}", "page writes", load)
    )
    bounds = work("Finding the frequency bound", "pages", lambda _: plan.bounds(workloads))
    grid = plan.grid(workloads)
    outcomes = grid.run(f"Simulating {len(grid.jobs)} runs")
    to.say_known(grid.known, len(grid.jobs), "simulations")
    comparison = Comparison(plan, workloads, bounds, outcomes)
    if grid.stop is None:
        return comparison, None
    kept = f"simulations; all that is finished is kept in {plan.where.results().url}"
    return comparison, StoppedError(comparison.finished, comparison.planned, kept, None)


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
    from flashwright.comparing.comparison import BOUND, MINIMUM
    from flashwright.reports.comparison import headline, remarks
    from flashwright.reports.comparison_results import Results, amplification

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
                (alpha(at), row["label"], "could not run", "", "", "")
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


def _print(result: dict[str, Any]) -> None:
    from flashwright import reading_words
    from flashwright._text import alpha, count, percent, significant
    from flashwright.reports.comparison_results import amplification, life
    from flashwright.reports.simulation import unsteady

    rows = [
        ("write amplification", amplification(result)),
        ("offline minimum found", significant(result["offline_minimum"], 4)),
        ("frequency bound", significant(result["frequency_bound"], 4)),
        ("cleaning cost", significant(result["cleaning_cost"], 4)),
        ("valid pages in a victim (p_gc)", percent(result["p_gc"])),
        ("life", life(result)),
        ("host page writes", count(result["host_page_writes"])),
        ("relocated pages", count(result["relocated_pages"])),
        ("erases", count(result["erases"])),
        ("counted from page write", count(result["steady_from_update"])),
    ]
    policy = f"{result['placement']} with {result['victim']}"
    title = (
        f"{result['workload']['name']}: {policy}, over-provisioning "
        f"{alpha(result['over_provisioning'])}"
    )
    print_table([("", "left"), ("", "right")], rows, title)
    for line in reading_words.lines(result["workload"]):
        say(line)
    if not result["steady"]:
        say(unsteady(result))


def _all_victims(text: str) -> list[str]:
    from flashwright._core import registry

    names = split_policies(text, "--victims")
    return [entry["name"] for entry in registry()["victim"]] if names is None else names
