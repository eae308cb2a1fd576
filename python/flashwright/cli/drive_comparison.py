"""What `compare` does with `--device`: the same requests on several simulated drives."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from flashwright._core import RunError
from flashwright.cli.drive import DriveOptions, policy_overrides
from flashwright.cli.output import Output, kept_of, print_table, say

if TYPE_CHECKING:
    from flashwright.slices import SizeAsked
    from flashwright.sources import Reading


def compare_drives(
    options: DriveOptions,
    profiles: Sequence[str],
    source_names: Sequence[str],
    policies: Sequence[tuple[str | None, str | None]],
    over_provisionings: Sequence[float | None],
    reading: Reading,
    endurance: float | None,
    writes_per_day: float | str | None,
    size: SizeAsked,
    jobs: int | None,
    output: Output,
) -> None:
    """Play each source on each drive, print the figures side by side, and write the run folder."""
    from flashwright import devices
    from flashwright.drive_runs import preparing
    from flashwright.progress import StoppedError, follow
    from flashwright.sweeps.drives import Change, DriveComparison, DrivePlan, variants
    from flashwright.sweeps.kept import Kept

    def overrides_of(change: Change) -> tuple[str, ...]:
        return policy_overrides(
            change.placement, change.victim, change.over_provisioning, options.overrides
        )

    changes = [
        Change(*policy, over, depth)
        for depth in options.depths
        for over in over_provisionings
        for policy in policies
    ]
    plan = DrivePlan(
        sources=[devices.check_load_source(source) for source in source_names],
        variants=variants(profiles, changes, overrides_of),
        load=options.load(reading.seed),
        reading=reading,
        endurance=endurance,
        writes_per_day=writes_per_day,
        threads=jobs or os.cpu_count() or 1,
        size=size,
    )
    played = plan.read()
    folder = output.folder(plan.job(played))
    comparison = DriveComparison(plan, played, Kept(folder))
    output.say_known(comparison.known, comparison.planned, "simulations")
    stopped = None
    try:
        ended = follow(
            f"Simulating {comparison.planned - comparison.known} runs",
            "requests",
            comparison.pool,
            comparison.pool.run,
            preparing=preparing(plan.load, "drives"),
        )
    except StoppedError as stop:
        if not stop.result:
            raise
        stopped, ended = stop, stop.result
    comparison.take(ended)
    run = comparison.run()
    if not output.is_only_json:
        print_drives(run.result)
    folder = output.finish(run)
    if stopped is not None:
        kept = kept_of(len(comparison.rows), comparison.planned, "simulations", folder)
        raise StoppedError(stopped.done, stopped.total, f"{stopped.unit}; {kept}", None)
    _fail_if_any_failed(comparison.failures)


def _fail_if_any_failed(failed: Sequence[dict[str, Any]]) -> None:
    if failed:
        first = failed[0]
        more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
        raise RunError(f"{first['workload']} on {first['drive']}: {first['error']}{more}")


def print_drives(result: dict[str, Any]) -> None:
    """Print what each drive did with each source, and below it its latencies.

    Two tables, since one is wider than a terminal.
    """
    from flashwright.reports import drive_words as words
    from flashwright.reports.drive_comparison import (
        COLUMNS,
        LATENCY_COLUMNS,
        cells,
        headline,
        latencies,
        remarks,
    )

    for workload in result["workloads"]:
        rows = [row for row in result["results"] if row["workload"] == workload["name"]]
        of_drives, of_operations = (
            [cells(row) for row in rows],
            [line for row in rows for line in latencies(row)],
        )
        title = f"{workload['name']}: {words.pace(result)}, {words.state(result)}"
        print_table(COLUMNS, of_drives, title)
        print_table(LATENCY_COLUMNS, of_operations)
        if rows:
            say(headline(rows))
    for line in remarks(result):
        say(line)
