"""Write amplification, counted: one pair of policies, or many beside each other."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from flashwright import sources
from flashwright._core import RunError, Workload
from flashwright.api.calls import public
from flashwright.api.results import Result
from flashwright.comparing.comparison import Comparison, SweepPlan
from flashwright.comparing.grid import GridSettings
from flashwright.comparing.policies import check_victim, choose, own_victim, resolved
from flashwright.engine.where import Where
from flashwright.lifetime import Wear
from flashwright.placement import Placement
from flashwright.progress import work
from flashwright.simulations import Simulation, simulate_workload
from flashwright.sources import Reading


def _workload(
    given: str | os.PathLike[str] | Workload, reading: Reading
) -> tuple[str, Workload, Reading]:
    """Give a source's name, its page writes, and how they were read."""
    if isinstance(given, Workload):
        return given.name, given, Reading(page_size=given.page_bytes, repeat=given.repeat)
    source = sources.check_source(str(given))
    loaded = work(
        f"Reading {source}", "page writes", lambda progress: sources.load(source, reading, progress)
    )
    return source, loaded, reading


@public
def simulate(
    workload: str | os.PathLike[str] | Workload,
    placement: str | Placement = "none",
    victim: str | None = None,
    over_provisioning: float = 0.2,
    *,
    pages_per_erase_block: int = 64,
    start: str = "filled",
    seed: int = 1,
    audit: bool = False,
    attainable: bool = True,
    progress: bool = True,
) -> Result:
    """Play a workload through a page-mapped FTL, and count what the flash has to write.

    `workload` is a trace file, the folder of a recording, `synth:...`, or what `load_workload`
    gave. `placement` is the name of a policy with its parameters, or a `Placement` of your own;
    `victim` is by default that of the placement's authors. `over_provisioning` is (physical -
    logical) / logical. With `attainable` the frequency bound and the offline minimum are found
    too, which takes about as long again.

    The result has write_amplification over the steady part, its 95 % interval
    (write_amplification_low, _high), whether it is `steady` and else why it is `unsteady`,
    relocated_pages, erases, p_gc and so on; and the tables over_time, streams, p_gc_histogram and
    wear.

    Raises InputError, RunError; KeyboardInterrupt after Ctrl-C.
    """
    source, loaded, reading = _workload(workload, Reading(seed=seed))
    placement = resolved(placement)
    if victim is None:
        victim = own_victim(placement)
    elif victim != "own":
        check_victim(victim)
    settings: dict[str, Any] = {
        "placement": placement,
        "victim": victim,
        "over_provisioning": over_provisioning,
        "pages_per_erase_block": pages_per_erase_block,
        "start": start,
        "seed": seed,
    }
    asked = Simulation(source, loaded, reading, settings, audit=audit)
    return Result(simulate_workload(asked, beside=attainable))


@public
def compare(
    workloads: str | Sequence[str],
    *,
    placements: Sequence[str | Placement] | None = None,
    victims: Sequence[str] | None = None,
    over_provisionings: Sequence[float] = (0.1, 0.2, 0.3),
    page_size: int = 4096,
    repeat: int = 1,
    pages_per_erase_block: int = 64,
    start: str = "filled",
    seed: int = 1,
    endurance: float = 3000,
    writes_per_day: float | str | None = None,
    capacity: int | None = None,
    fill: float = 1.0,
    jobs: int | None = None,
    engine: Literal["local", "ray"] = "local",
    address: str | None = None,
    store: str | None = None,
    progress: bool = True,
) -> Result:
    """Compare placement policies on each workload at each over-provisioning.

    Workloads are trace files, folders of recordings, or `synth:...`. All policies are compared
    unless some are named, or given as a `Placement` of your own; each placement with Greedy,
    Cost-Benefit and its authors' victim policy unless `victims` names some. Beside them stand the
    frequency bound and the offline minimum found. `capacity` (bytes), `fill`, `endurance` (erases)
    and `writes_per_day` are for the life. With a `store` (a folder, or what fsspec takes) each
    simulation is done once and kept, as `flashwright compare` and `sweep` do; `engine` "ray" does
    them on a cluster.

    The rows of the result are the runs; further tables are bounds, over_time and so on.

    Raises InputError; RunError if a run failed, but for a policy that nobody named and that does
    not fit: its row has an `error`. KeyboardInterrupt after Ctrl-C.
    """
    named = [workloads] if isinstance(workloads, str) else list(workloads)
    wear = Wear(endurance, writes_per_day, capacity, fill)
    with TemporaryDirectory() as folder:
        plan = SweepPlan(
            sources=[sources.check_source(source) for source in named],
            policies=choose(placements, victims),
            over_provisionings=list(over_provisionings),
            readings=[Reading(page_size=page_size, seed=seed, repeat=repeat)] * len(named),
            settings=GridSettings(pages_per_erase_block, start, seed),
            wear=wear,
            where=Where(engine, address, jobs, store or folder),
            are_named=placements is not None or victims is not None,
        )
        comparison = run_plan(plan)
    if comparison.failures:
        first = comparison.failures[0]
        raise RunError(f"{first['policy']} on {first['workload']}: {first['error']}")
    return Result(comparison.run("compare"))


def run_plan(plan: SweepPlan) -> Comparison:
    """Load the workloads, simulate, find the bounds. Raises StoppedError."""
    loaded = plan.load(
        lambda source, load: work(f"Reading {Path(source).name}", "page writes", load)
    )
    bounds = work("Finding the frequency bound", "pages", lambda _: plan.bounds(loaded))
    grid = plan.grid(loaded)
    outcomes = grid.done(f"Simulating {len(grid.jobs)} runs")
    return Comparison(plan, loaded, bounds, outcomes)
