"""`flashwright simulate`: one policy at one over-provisioning."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

from flashwright.cli.drive import (
    DriveOptions,
    check_patterns,
    check_use,
    is_given,
    policy_overrides,
    simulate_drive,
    size_asked,
)
from flashwright.cli.flow_options import FlowOptions
from flashwright.cli.lists import Listed, Named
from flashwright.cli.options import Count, Flash, Fraction, Life, WorkloadReading, takes
from flashwright.cli.output import Output, print_table, say


def _one_device(
    context: click.Context, _option: click.Parameter, value: tuple[str, ...]
) -> str | None:
    """Give the one drive; several are a comparison, and not a last one that wins."""
    if len(value) > 1:
        said = " ".join(f"--device {name}" for name in value)
        raise click.UsageError(
            f"{said}: give one drive, or compare them with `flashwright compare SOURCE {said}`",
            context,
        )
    return value[0] if value else None


@click.command(short_help="Write amplification of one policy, or latencies on a drive.")
@click.argument("source", type=Named(or_file=True))
@click.option(
    "--placement",
    default="none",
    show_default=True,
    type=Named("placement"),
    metavar="NAME",
    help="Which stream a page goes to; FILE.py:CLASS for one of your own (docs/python.md).",
)
@click.option(
    "--victim",
    type=Named("victim"),
    metavar="NAME",
    help="Which erase block is cleaned.  [default: the one that the placement's authors use]",
)
@click.option(
    "--op",
    "over_provisioning",
    type=Fraction(),
    default=0.2,
    show_default=True,
    help="Over-provisioning: (physical - logical) / logical.",
)
@takes(WorkloadReading, "how")
@takes(Flash, "flash")
@takes(Life, "life")
@click.option(
    "--device",
    cls=Listed,
    type=Named("profile", or_file=True),
    callback=_one_device,
    metavar="PROFILE",
    help="Play SOURCE on a simulated drive with a clock: a profile of `flashwright list profile`, "
    "or the path of a TOML file.",
)
@takes(DriveOptions, "drive")
@takes(FlowOptions, "flows")
@click.option(
    "--timeline",
    "timeline_spans",
    type=Count(),
    default=0,
    metavar="N",
    help="With --device: write down the first N activities of the dies, for ui.perfetto.dev.",
)
@click.option(
    "--per-request",
    is_flag=True,
    help="With --device: write the table `requests` too, with a row for each request: when it was "
    "sent and done, its place, and what its latency consists of.",
)
@click.option(
    "--audit",
    is_flag=True,
    help="Check the simulator's tables against each other all along: slow, for finding bugs.",
)
@takes(Output, "output")
def simulate(
    source: str,
    placement: str,
    victim: str | None,
    over_provisioning: float,
    how: WorkloadReading,
    flash: Flash,
    life: Life,
    drive: DriveOptions,
    flows: FlowOptions,
    output: Output,
    *,
    device: str | None,
    timeline_spans: int,
    per_request: bool,
    audit: bool,
) -> None:
    """Play SOURCE through a flash translation layer and count what the flash has to write.

    With --device, play it on a simulated drive that has a clock: latencies, throughput, what the
    dies do. SOURCE may then also be a pattern, such as `io:random(reads=1)`, and --placement,
    --victim and --op change the profile.

    \b
    Examples:
      flashwright simulate 'synth:uniform?pages=1M' --op 0.2
      flashwright simulate tpcc.parquet --placement multi_log --op 0.1 --repeat 5
      flashwright simulate tpcc.parquet --victim 'window_greedy(window=0.1)' --json -
      flashwright simulate 'io:random(reads=1)' --device intel-x25e --depth 32
      flashwright simulate tpcc.parquet --device intel-x25e --open-loop \\
          --beside 'io:sequential(size=256Ki);region=8Gi'
      flashwright simulate my.blktrace.0 --device nvme-tlc --open-loop --state aged --timeline 100k
      flashwright simulate 'io:random(reads=0.7)' --device nvme-tlc --requests 100k --per-request

    `flashwright list` names policies, profiles, schemes and patterns, with their parameters.
    """
    check_use(with_device=device is not None)
    from flashwright import sources
    from flashwright.drive_runs import DriveRun
    from flashwright.progress import work
    from flashwright.simulations import Simulation, simulate_workload
    from flashwright.sweeps.policies import check_victim, own_victim, resolved

    reading = how.reading()
    if device is not None:
        drive.one_depth(
            "a run has one; compare several with `flashwright compare SOURCE --device "
            f"{device} --depth ...`"
        )
        overrides = policy_overrides(
            placement if is_given("placement") else None,
            victim,
            over_provisioning if is_given("over_provisioning") else None,
            drive.overrides,
        )
        known_endurance = life.endurance if is_given("endurance") else None
        load = replace(drive.load(how.seed), **vars(flows))
        asked = DriveRun(
            source,
            reading,
            load,
            timeline_spans,
            audit,
            known_endurance,
            life.writes_per_day,
            size_asked(drive, life),
        )
        check_patterns([source])
        simulate_drive(device, overrides, asked, output, per_request=per_request)
        return
    policy = resolved(placement)
    own = own_victim(policy)
    settings: dict[str, Any] = {
        "placement": policy,
        "victim": own if victim in (None, own) else check_victim(str(victim)),
        "over_provisioning": over_provisioning,
        **vars(flash),
        "seed": how.seed,
    }
    source = sources.check_source(source)
    workload = work(
        f"Reading {source}", "page writes", lambda progress: sources.load(source, reading, progress)
    )
    simulation = Simulation(source, workload, reading, settings, life.wear(), audit)
    run = simulate_workload(simulation)
    if not output.is_only_json:
        _print(run.result)
    output.finish(run)


def _print(result: dict[str, Any]) -> None:
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
    if not result["steady"]:
        say(unsteady(result))
