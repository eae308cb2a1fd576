"""Every placement policy side by side, with its authors' victim policy and the usual ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from statistics import geometric_mean
from typing import Any

import click

from experiments import engine
from experiments.pages import markdown_table, page
from experiments.registry import Made, Part, Request, Set, option
from flashwright import registry, sources
from flashwright.comparing.grid import Grid, GridJob, GridSettings
from flashwright.comparing.policies import Policy, choose

LOADS = (
    ("Zipf 0.99", "synth:zipf(s=0.99,"),
    ("80/20", "synth:kmodal(sets=0.2:0.8,0.8:0.2,"),
    ("uniform", "synth:uniform("),
)
"""Names, and sources up to their size, which `_sources` writes."""
SPARE = (0.1, 0.2, 0.3)
"""Over-provisionings."""
SETTINGS = ("dac(regions=6,threshold=1e6,sinking=all)",)
"""Placements that others compare with, beside those of the registry: DAC as SepBIT's authors do."""
_STEADY_MARK = "*"
_KEPT = (
    "write_amplification",
    "write_amplification_low",
    "write_amplification_high",
    "steady",
    "streams_left_out",
)


@dataclass(frozen=True)
class EraseBlocks(Part):
    """All policies with one size of erase blocks."""

    pages: int


PARTS = tuple(
    EraseBlocks(f"side-by-side-{pages}", "", f"erase blocks of {pages:,} pages", pages)
    for pages in (1024, 64)
)
Found = Mapping[tuple[Policy, int, float], Mapping[str, Any]]
"""Results by policy, number of the load, and over-provisioning."""


def _policies() -> list[Policy]:
    """Give all online placements, each with its authors' victim policy and the usual ones."""
    online = [entry["name"] for entry in registry()["placement"] if not entry["oracle"]]
    return choose([*online, *SETTINGS], None)


def _sources(pages: str, updates: int) -> list[str]:
    return [f"{source}pages={pages},updates={updates}x)" for _, source in LOADS]


def _measure(part: EraseBlocks, request: Request[EraseBlocks]) -> Found:
    options = request.options
    loads = _sources(options["pages"], options["updates"])
    jobs = [
        GridJob(load, policy, spare)
        for spare in SPARE
        for load in range(len(LOADS))
        for policy in _policies()
    ]
    readings = [sources.Reading()] * len(loads)
    settings = GridSettings(pages_per_erase_block=part.pages)
    outcomes = Grid(loads, readings, jobs, settings, engine.where()).done(part.name)
    return {
        (one.job.policy, one.job.workload, one.job.over_provisioning): one.result
        for one in outcomes
        if one.result is not None
    }


def _cell(found: Found, policy: Policy, load: int) -> str:
    results = [found.get((policy, load, spare)) for spare in SPARE]
    return " / ".join(
        "–"  # noqa: RUF001
        if result is None
        else f"{result['write_amplification']:.3f}{'' if result['steady'] else _STEADY_MARK}"
        for result in results
    )


def _mean(found: Found, policy: Policy, load: int) -> float:
    """Give what policies are put in order by: the geometric mean over all spare space."""
    results = [found.get((policy, load, spare)) for spare in SPARE]
    if any(result is None for result in results):
        return float("inf")
    return geometric_mean(result["write_amplification"] for result in results if result)


def _rows(found: Found, key: Callable[[Policy], float]) -> list[list[str]]:
    policies = sorted({policy for policy, _, _ in found}, key=lambda one: (key(one), one.label))
    return [
        [f"`{policy.placement}`", f"`{policy.victim}`"]
        + [_cell(found, policy, load) for load in range(len(LOADS))]
        for policy in policies
    ]


def _make(request: Request[EraseBlocks]) -> Made:
    pages, updates = request.options["pages"], request.options["updates"]
    note = (
        f"Write amplification in the steady part of {updates} updates a page, {pages} pages, "
        f"filled in order before, at an over-provisioning of {' / '.join(map(str, SPARE))}. "
        f"One seed. {_STEADY_MARK}: not steady at its end. No clock. Each online placement policy "
        "with the victim policy of its authors, and with the usual ones; in the order of the "
        f"geometric mean on {LOADS[0][0]}."
    )
    named = zip((name for name, _ in LOADS), _sources(pages, updates), strict=True)
    parts = ["\n".join(f"- {name}: `{source}`" for name, source in named)]
    document: dict[str, Any] = {}
    for part in request.parts:
        found = _measure(part, request)
        headings = ["placement", "victim", *(name for name, _ in LOADS)]
        rows = _rows(found, lambda policy, found=found: _mean(found, policy, 0))  # type: ignore[misc]
        parts += [f"## {part.name}: {part.title}", markdown_table(headings, rows)]
        document[part.name] = [
            {
                **asdict(policy),
                "load": LOADS[load][0],
                "over_provisioning": spare,
                **{name: result[name] for name in _KEPT},
            }
            for (policy, load, spare), result in found.items()
        ]
    title = "Placement policies side by side"
    return Made(page(title, request.command, note, parts), document)


SET: Set[EraseBlocks] = Set(
    "compare-placement",
    "placement policies side by side",
    "half an hour on two processors",
    PARTS,
    _make,
    (
        option("--pages", "1Mi", click.STRING, "Logical pages."),
        option("--updates", 15, click.IntRange(1), "Updates of each page, on average."),
    ),
)
