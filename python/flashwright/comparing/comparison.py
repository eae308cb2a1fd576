"""A comparison: what is planned, and what came of it as rows and tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from flashwright import sources
from flashwright.comparing.grid import Grid, GridJob, GridOutcome, GridSettings
from flashwright.comparing.policies import OFFLINE, Policy, own_victim
from flashwright.engine.where import Where
from flashwright.lifetime import Wear
from flashwright.runs import Job, Run, peak_rss_bytes, stack, table
from flashwright.sources import Reading

if TYPE_CHECKING:
    from flashwright._core import Progress, Workload

BOUND = "frequency bound"
MINIMUM = "offline minimum found"
LoadOne: TypeAlias = "Callable[[str, Callable[[Progress], Workload]], Workload]"


@dataclass(frozen=True)
class SweepPlan:
    """All that goes into a comparison."""

    sources: list[str]
    policies: list[Policy]
    over_provisionings: list[float]
    readings: list[Reading]
    """As each source is read."""
    settings: GridSettings
    wear: Wear
    where: Where
    are_named: bool = True
    """Whether somebody named policies: of all that there are, some may not fit a small load."""

    def load(self, load_one: LoadOne) -> list[Workload]:
        """Load every source.

        `load_one` is given each with its loader, and may follow its progress.
        """
        for source in self.sources:
            sources.check_source(source)

        def loader(source: str, reading: Reading) -> Callable[[Progress], Workload]:
            return lambda progress: sources.load(source, reading, progress)

        return [
            load_one(source, loader(source, reading))
            for source, reading in zip(self.sources, self.readings, strict=True)
        ]

    def bounds(self, workloads: Sequence[Workload]) -> list[list[float]]:
        """Give the frequency bound, for each workload at each over-provisioning."""
        return [
            sources.frequency_bounds(workload, self.over_provisionings) for workload in workloads
        ]

    def jobs(self) -> list[GridJob]:
        """Give all simulations, the longest first: those at the least over-provisioning.

        Beside the policies runs the offline placement, for what is attainable.
        """
        return [
            GridJob(number, policy, alpha)
            for alpha in self.over_provisionings
            for number in range(len(self.sources))
            for policy in dict.fromkeys([*self.policies, OFFLINE_POLICY])
        ]

    def grid(self, workloads: Sequence[Workload]) -> Grid:
        """Give the simulations, of sources that were read."""
        return Grid(self.sources, self.readings, self.jobs(), self.settings, self.where, workloads)

    def identity(self, workloads: Sequence[Workload]) -> Any:
        """Give what decides on the numbers: the same identity, the same numbers."""
        return [
            [workload.content_hash for workload in workloads],
            [policy.identity() for policy in self.policies],
            self.over_provisionings,
            [asdict(reading) for reading in self.readings],
            asdict(self.settings),
            asdict(self.wear),
        ]

    def job(self, command: str, workloads: Sequence[Workload]) -> Job:
        """Give the work that is asked for, by which its run folder is named."""
        inputs = [
            sources.describe(source, workload)
            for source, workload in zip(self.sources, workloads, strict=True)
        ]
        return Job(command, self.identity(workloads), inputs, self.settings.seed)


OFFLINE_POLICY = Policy(OFFLINE, own_victim(OFFLINE))


def _minima(outcomes: Sequence[GridOutcome]) -> dict[tuple[int, float], float]:
    """Give the least write amplification that any run has, offline or not.

    For each workload and over-provisioning.
    """
    found: dict[tuple[int, float], float] = {}
    for outcome in outcomes:
        if outcome.result is not None:
            place = (outcome.job.workload, outcome.job.over_provisioning)
            amplification = outcome.result["write_amplification"]
            found[place] = min(found.get(place, amplification), amplification)
    return found


class Comparison:
    """The outcomes of a plan, as rows."""

    def __init__(
        self,
        plan: SweepPlan,
        workloads: Sequence[Workload],
        bounds: list[list[float]],
        outcomes: list[GridOutcome],
    ) -> None:
        self.plan = plan
        self.workloads = list(workloads)
        self.names = sources.names(plan.sources)
        self.bounds = bounds
        self.planned = len(plan.jobs())
        self.finished = len(outcomes)
        # The offline placement is a row only if it was asked for by name.
        self._outcomes = [
            outcome for outcome in outcomes if outcome.job.policy in set(plan.policies)
        ]
        self._minima = _minima(outcomes)
        self._lifetimes = [
            sources.lifetime(name, source, workload, reading, plan.wear)
            for name, source, workload, reading in zip(
                self.names, plan.sources, workloads, plan.readings, strict=True
            )
        ]
        self.rows = [self._row(outcome) for outcome in self._outcomes]

    @property
    def failures(self) -> list[dict[str, Any]]:
        """Give the rows whose run failed.

        That a policy was refused is none if nobody named it, and others ran on the same load.
        """
        places = [(row["workload"], row["over_provisioning"]) for row in self.rows]
        ran = {at for at, row in zip(places, self.rows, strict=True) if "error" not in row}
        return [
            row
            for at, row, outcome in zip(places, self.rows, self._outcomes, strict=True)
            if outcome.result is None
            and not (outcome.is_refused and not self.plan.are_named and at in ran)
        ]

    def _bound(self, job: GridJob) -> float:
        return self.bounds[job.workload][self.plan.over_provisionings.index(job.over_provisioning)]

    def _row(self, outcome: GridOutcome) -> dict[str, Any]:
        job = outcome.job
        lifetime = self._lifetimes[job.workload]
        row: dict[str, Any] = {
            "workload": self.names[job.workload],
            "policy": job.policy.label,
            "placement": job.policy.placement,
            "victim": job.policy.victim,
            "oracle": job.policy.oracle,
            "over_provisioning": job.over_provisioning,
        }
        if outcome.result is None:
            return {**row, "error": outcome.error}
        scalars = {
            key: value
            for key, value in outcome.result.items()
            if key != "tables" and key not in row
        }
        amplification, bound = outcome.result["write_amplification"], self._bound(job)
        least = self._minima[job.workload, job.over_provisioning]
        return {
            **row,
            **scalars,
            "frequency_bound": bound,
            "gap_to_frequency_bound_percent": (amplification / bound - 1) * 100,
            "offline_minimum": least,
            "gap_to_offline_minimum_percent": (amplification / least - 1) * 100,
            **lifetime.life(
                amplification,
                job.over_provisioning,
                erases=outcome.result["erases"],
                steady=outcome.result["steady"],
            ).document(),
        }

    def _bound_rows(self) -> list[dict[str, Any]]:
        rows = []
        parts = zip(self.names, self._lifetimes, self.bounds, strict=True)
        for number, (name, lifetime, bounds) in enumerate(parts):
            for alpha, bound in zip(self.plan.over_provisionings, bounds, strict=True):
                least = self._minima.get((number, alpha))
                rows.append(
                    {
                        "workload": name,
                        "over_provisioning": alpha,
                        "frequency_bound": bound,
                        "cleaning_cost": bound - 1,
                        "life_years": lifetime.life(bound, alpha).years,
                        "offline_minimum": least,
                    }
                )
        return rows

    def run(self, command: str) -> Run:
        """Give the run: JSON rows, and tables for Parquet."""
        summaries = [
            {
                **sources.summary(name, workload, reading),
                "repeat": reading.repeat,
                "lifetime": lifetime.document(),
            }
            for name, workload, reading, lifetime in zip(
                self.names, self.workloads, self.plan.readings, self._lifetimes, strict=True
            )
        ]
        result = {
            "complete": self.finished == self.planned,
            "results": self.rows,
            "bounds": self._bound_rows(),
            "workloads": summaries,
            "device": asdict(self.plan.settings),
            "peak_rss_bytes": peak_rss_bytes(),
        }
        return self.plan.job(command, self.workloads).run(result, self._tables())

    def _tables(self) -> dict[str, Any]:
        keys = dict.fromkeys(key for row in self.rows for key in row)
        tables = {
            "results": table({key: [row.get(key) for row in self.rows] for key in keys}),
            "bounds": table(
                {key: [row[key] for row in self._bound_rows()] for key in self._bound_rows()[0]}
            ),
        }
        # Each table of a run is stacked over all runs, led by what distinguishes them.
        stacks: dict[str, list[tuple[dict[str, Any], Any]]] = {}
        for row, outcome in zip(self.rows, self._outcomes, strict=True):
            constants = {key: row[key] for key in ("workload", "policy", "over_provisioning")}
            for name, columns in (outcome.result or {}).get("tables", {}).items():
                stacks.setdefault(name, []).append((constants, columns))
        return tables | {name: stack(parts) for name, parts in stacks.items()}
