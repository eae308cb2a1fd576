"""Simulated points beside MULTILOG's models: uniform updates, and two sets of pages.

The counting simulator, 64 pages an erase block, every logical page written once before (MULTILOG
6.1). Devices are of 256 Ki pages, a gigabyte, where the paper has 100 GB: it says that the size has
no influence, and the write frontier and the reserve take 0.1 % of the spare space here at an
over-provisioning of 0.1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from experiments import engine
from flashwright import sources
from flashwright._core import RunError
from flashwright.comparing.grid import Grid, GridJob, GridSettings
from flashwright.comparing.policies import Policy

PAGES_PER_ERASE_BLOCK = 64
"""As in MULTILOG 6.1."""
OVER_PROVISIONING = 0.3
"""Of figures 2 and 3, as in the paper: the middle of what drives have."""
PAGES = "256Ki"
UPDATES = {"uniform": "15x", "sets": "40x"}
"""Updates of each page, on average: pages of the colder of two sets need more of them."""

ALPHAS = (0.05, 0.1, 0.2, 0.27, 0.3, 0.5, 0.7, 1.0)
"""Near 0.27 eq. 4 is furthest from eq. 3."""
WINDOWS = (0.01, 0.05, 0.1, 0.25, 0.5)
"""Shares of all erase blocks; of a window of all of them Window-Greedy is Greedy."""
SIZES = (0.1, 0.5, 0.9)
RATIOS = (0.01, 0.1, 0.5, 1.0, 2.0, 10.0, 100.0)
LRU, GREEDY = Policy("none", "lru"), Policy("none", "greedy")
SEPARATED = Policy("multi_log(estimator=oracle)", "lru")
"""MultiLog that knows the update frequencies: each set in a log of its own."""


@dataclass(frozen=True)
class Point:
    """One simulation in the steady part of its run."""

    p_gc: float
    """Share of valid pages in a victim."""
    cleaning_cost: float
    """Relocation writes for each host write."""
    steady: bool


def windowed(window: float) -> Policy:
    """Give Window-Greedy with this window, a share of all erase blocks."""
    return Policy("none", f"window_greedy(window={window:g})")


@cache
def uniform() -> Mapping[tuple[Policy, float], Point]:
    """Simulate uniform updates by policy and over-provisioning: MULTILOG figure 1."""
    policies = (LRU, GREEDY, *map(windowed, WINDOWS))
    source = f"synth:uniform(pages={PAGES},updates={UPDATES['uniform']})"
    asked = [(0, policy, alpha) for policy in policies for alpha in ALPHAS]
    found = _simulated("MULTILOG figure 1", [source], asked)
    return {(policy, alpha): point for (_, policy, alpha), point in found.items()}


@cache
def two_sets() -> Mapping[tuple[Policy, float, float], Point]:
    """Simulate two sets by policy, size of the first, and frequency ratio: figures 2 and 3."""
    cases = [(size, ratio) for size in SIZES for ratio in RATIOS]
    asked = [
        (number, policy, OVER_PROVISIONING)
        for policy in (LRU, SEPARATED)
        for number in range(len(cases))
    ]
    found = _simulated("MULTILOG figures 2 and 3", [_source(*case) for case in cases], asked)
    return {(policy, *cases[number]): point for (number, policy, _), point in found.items()}


def _source(size: float, ratio: float) -> str:
    share = ratio * size / (ratio * size + 1.0 - size)
    sets = f"{size:g}:{share:.12f},{1.0 - size:g}:{1.0 - share:.12f}"
    return f"synth:kmodal(sets={sets},pages={PAGES},updates={UPDATES['sets']})"


def _simulated(
    label: str, loads: Sequence[str], asked: Sequence[tuple[int, Policy, float]]
) -> dict[tuple[int, Policy, float], Point]:
    """Run what is asked: number of the load, policy and over-provisioning.

    Raises RunError if one of the runs failed.
    """
    readings = [sources.Reading()] * len(loads)
    jobs = [GridJob(*one) for one in asked]
    settings = GridSettings(pages_per_erase_block=PAGES_PER_ERASE_BLOCK)
    outcomes = Grid(loads, readings, jobs, settings, engine.where()).done(label)
    found = {}
    for key, outcome in zip(asked, outcomes, strict=True):
        result = outcome.result
        if result is None:
            raise RunError(f"{label}: {outcome.job.policy.label}: {outcome.error}")
        found[key] = Point(result["p_gc"], result["cleaning_cost"], bool(result["steady"]))
    return found
