"""The checks of placement, simulated and judged: each simulation once, whatever needs it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

from experiments import engine
from experiments.validations.placement.checks import (
    PAGES_PER_ERASE_BLOCK,
    Check,
    Model,
    PlayedTrace,
    judge,
    tolerance,
)
from flashwright import sources
from flashwright._core import Workload
from flashwright.comparing.grid import Grid, GridJob, GridOutcome, GridSettings
from flashwright.comparing.policies import Policy


@dataclass(frozen=True)
class Row:
    """A check and what was found.

    `met` is None for what is only shown, and for runs that failed (`error`).
    """

    load: str
    over_provisioning: float | None
    what: str
    measured: float | None
    reference_name: str = ""
    reference: float | None = None
    deviation: float | None = None
    tolerance: str = ""
    met: bool | None = None
    beside_name: str = ""
    beside: float | None = None
    published: str = ""
    steady: bool = True
    error: str | None = None


Measured = dict[tuple[PlayedTrace, Policy, float], GridOutcome]


def simulate(checks: Sequence[Check], label: str) -> tuple[dict[PlayedTrace, Workload], Measured]:
    """Run what the checks need, each simulation once, and give the loads and what was found.

    Raises InputError for a load that cannot be read.
    """
    loads = list(dict.fromkeys(check.load for check in checks))
    readings = [sources.Reading(page_size=load.page_size, repeat=load.repeat) for load in loads]
    workloads = {
        load: sources.load(load.source, reading)
        for load, reading in zip(loads, readings, strict=True)
    }
    jobs: dict[GridJob, tuple[PlayedTrace, Policy, float]] = {}
    for check in checks:
        for policy in (check.policy, check.reference, check.beside):
            if isinstance(policy, Policy):
                job = GridJob(loads.index(check.load), policy, check.over_provisioning)
                jobs[job] = (check.load, policy, check.over_provisioning)
    settings = GridSettings(pages_per_erase_block=PAGES_PER_ERASE_BLOCK)
    named = [load.source for load in loads]
    grid = Grid(named, readings, list(jobs), settings, engine.where(), list(workloads.values()))
    tell(f"{label}: {len(jobs)} simulations")
    return workloads, {jobs[outcome.job]: outcome for outcome in grid.done(label)}


def measure(checks: Sequence[Check], label: str) -> list[Row]:
    """Run what the checks need, each simulation once, and judge them.

    Raises InputError for a load that cannot be read.
    """
    workloads, measured = simulate(checks, label)
    return [row(check, workloads[check.load], measured) for check in checks]


def _value(
    of: Model | Policy | None, check: Check, workload: Workload, measured: Measured
) -> tuple[str, float | None, bool, str | None]:
    """Give name, value, whether it is a steady one, and why there is none."""
    if of is None:
        return "", None, True, None
    if isinstance(of, Model):
        return of.name, of.value(workload, check.over_provisioning), True, None
    outcome = measured[check.load, of, check.over_provisioning]
    if outcome.result is None:
        return of.label, None, True, outcome.error
    return of.label, float(outcome.result[check.quantity]), bool(outcome.result["steady"]), None


def row(check: Check, workload: Workload, measured: Measured) -> Row:
    """Judge a check by what was measured."""
    name, value, steady, error = _value(check.policy, check, workload, measured)
    other, reference, other_steady, other_error = _value(check.reference, check, workload, measured)
    beside_name, beside, _, _ = _value(check.beside, check, workload, measured)
    deviation = value / reference - 1 if value is not None and reference else None
    return Row(
        load=check.load.name,
        over_provisioning=check.over_provisioning,
        what=f"{name}: {check.quantity}",
        measured=value,
        reference_name=other,
        reference=reference,
        deviation=deviation,
        tolerance=tolerance(check.least, check.most),
        met=None
        if deviation is None or not tolerance(check.least, check.most)
        else judge(deviation, check.least, check.most),
        beside_name=beside_name,
        beside=beside,
        published=check.published,
        steady=steady and other_steady,
        error=error or other_error,
    )


def greatest_reduction(rows: Sequence[Row], least: float, most: float, published: str) -> Row:
    """Judge how far below the others a policy came at best: the row of the lowest deviation.

    `least` and `most` are the tolerance of that deviation.
    """
    best = min(
        (one for one in rows if one.deviation is not None), key=lambda one: one.deviation or 0.0
    )
    return replace(
        best,
        what=f"{best.what}, greatest reduction of all",
        tolerance=tolerance(least, most),
        met=judge(best.deviation or 0.0, least, most),
        published=published,
    )


def across(
    measured: Measured,
    loads: tuple[PlayedTrace, PlayedTrace],
    policy: Policy,
    over_provisioning: float,
    limits: tuple[float, float],
    published: str,
) -> Row:
    """Judge a policy's cleaning cost on the first load against that on the second."""
    found = [measured[load, policy, over_provisioning] for load in loads]
    costs = [None if one.result is None else float(one.result["cleaning_cost"]) for one in found]
    deviation = costs[0] / costs[1] - 1 if costs[0] is not None and costs[1] else None
    return Row(
        load=loads[0].name,
        over_provisioning=over_provisioning,
        what=f"{policy.label}: cleaning_cost",
        measured=costs[0],
        reference_name=f"on {loads[1].name}",
        reference=costs[1],
        deviation=deviation,
        tolerance=tolerance(*limits),
        met=None if deviation is None else judge(deviation, *limits),
        published=published,
        steady=all(one.result is None or bool(one.result["steady"]) for one in found),
        error=next((one.error for one in found if one.error is not None), None),
    )


def compared(
    load: str,
    what: str,
    value: float,
    reference: tuple[str, float],
    limits: tuple[float, float],
    *,
    over_provisioning: float | None = None,
    published: str = "",
) -> Row:
    """Judge a number that nothing was simulated for against a reference with its name."""
    deviation = value / reference[1] - 1
    return Row(
        load,
        over_provisioning,
        what,
        value,
        *reference,
        deviation,
        tolerance(*limits),
        judge(deviation, *limits),
        published=published,
    )


def tell(line: str) -> None:
    """Say on standard error how far it is."""
    sys.stderr.write(f"validate-placement: {line}\n")
    sys.stderr.flush()
