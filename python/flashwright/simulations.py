"""One simulation that counts: a workload through one pair of policies, and what is attainable."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from flashwright import _core, sources
from flashwright._core import InputError
from flashwright.comparing import python_policies
from flashwright.comparing.policies import OFFLINE, own_victim
from flashwright.lifetime import Wear
from flashwright.progress import work
from flashwright.runs import Job, Run, peak_rss_bytes, table

if TYPE_CHECKING:
    from flashwright._core import Progress, Workload
    from flashwright.sources import Reading

COMMAND = "compare"


@dataclass(frozen=True)
class Simulation:
    """All that goes into a simulation."""

    source: str
    """As it was given: a trace file or `synth:...`."""
    workload: Workload
    reading: Reading
    settings: dict[str, Any]
    """As `_core.simulate` takes them."""
    wear: Wear = field(default_factory=Wear)
    audit: bool = False

    @property
    def said(self) -> dict[str, Any]:
        """The settings by names, for a result: a policy in Python is what it calls itself."""
        placement = self.settings["placement"]
        name = placement if isinstance(placement, str) else placement.name
        return {**self.settings, "placement": name}


def simulate_workload(asked: Simulation, *, beside: bool = True) -> Run:
    """Simulate, and find beside it the frequency bound and the offline minimum.

    Without `beside` both are None.

    Raises InputError, RunError, Cancelled as `_core.simulate`; InputError if the workload has no
    rate for the life that is asked for.
    """
    workload, settings = asked.workload, asked.settings
    [name] = sources.names([asked.source])
    lifetime = sources.lifetime(name, asked.source, workload, asked.reading, asked.wear)
    said = asked.said

    def simulate(progress: Progress) -> dict[str, Any]:
        with python_policies.prints_aside():
            return _core.simulate(workload, **settings, audit=asked.audit, progress=progress)

    label = f"Simulating {said['placement']} with {said['victim']}"
    outcome = work(label, "page writes", simulate)
    bound, least = _attainable(asked, outcome["write_amplification"]) if beside else (None, None)
    tables = {key: table(columns) for key, columns in outcome.pop("tables").items()}
    result = {
        **outcome,
        **said,
        "frequency_bound": bound,
        "offline_minimum": least,
        **lifetime.life(
            outcome["write_amplification"],
            said["over_provisioning"],
            erases=outcome["erases"],
            steady=outcome["steady"],
        ).document(),
        "lifetime": lifetime.document(),
        "workload": sources.summary(name, workload, asked.reading),
        "repeat": asked.reading.repeat,
        "peak_rss_bytes": peak_rss_bytes(),
    }
    identity = [said, asked.reading, lifetime.document(), workload.content_hash]
    inputs = [sources.describe(asked.source, workload)]
    return Job(COMMAND, identity, inputs, said["seed"]).run(result, tables)


def _attainable(asked: Simulation, found: float) -> tuple[float, float]:
    """Give the frequency bound, and the offline minimum that is known.

    That is what the offline placement writes, or `found` if that is less.
    """
    workload = asked.workload
    [bound] = work(
        "Finding the frequency bound",
        "pages",
        lambda _: sources.frequency_bounds(workload, [asked.settings["over_provisioning"]]),
    )
    offline = {**asked.settings, "placement": OFFLINE, "victim": own_victim(OFFLINE)}
    try:
        outcome = work(
            "Placing with the future known",
            "page writes",
            lambda progress: _core.simulate(workload, **offline, progress=progress),
        )
    except InputError:
        # The spare space of a very small device does not hold its streams.
        return bound, found
    return bound, min(float(outcome["write_amplification"]), found)
