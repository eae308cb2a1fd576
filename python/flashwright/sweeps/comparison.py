"""A comparison: what is planned, and what came of it as rows and tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from flashwright import runs, sources
from flashwright.lifetime import lifetime_of
from flashwright.runs import Run, peak_rss_bytes, stack, table
from flashwright.sources import Reading
from flashwright.sweeps.grid import Device, GridJob, GridOutcome
from flashwright.sweeps.policies import Policy

if TYPE_CHECKING:
    from flashwright._core import Progress, Workload

BOUND = "bound"
LoadOne: TypeAlias = "Callable[[str, Callable[[Progress], Workload]], Workload]"


@dataclass(frozen=True)
class SweepPlan:
    """All that goes into a comparison."""

    sources: list[str]
    policies: list[Policy]
    over_provisionings: list[float]
    reading: Reading
    device: Device
    endurance: float
    writes_per_day: float | str
    threads: int

    def load(self, load_one: LoadOne) -> list[Workload]:
        """Load every source.

        `load_one` is given each with its loader, and may follow its progress.
        """
        for source in self.sources:
            sources.check_source(source)

        def loader(source: str) -> Callable[[Progress], Workload]:
            return lambda progress: sources.load(source, self.reading, progress)

        return [load_one(source, loader(source)) for source in self.sources]

    def bounds(self, workloads: Sequence[Workload]) -> list[list[float]]:
        """Give the least write amplification, for each workload at each over-provisioning."""
        return [sources.bounds(workload, self.over_provisionings) for workload in workloads]

    def jobs(self) -> list[GridJob]:
        """Give all simulations, the longest first: those at the least over-provisioning."""
        return [
            GridJob(number, policy, alpha)
            for alpha in self.over_provisionings
            for number in range(len(self.sources))
            for policy in self.policies
        ]

    def identity(self, workloads: Sequence[Workload]) -> Any:
        """Give what decides on the numbers: the same identity, the same numbers."""
        return [
            [workload.content_hash for workload in workloads],
            [asdict(policy) for policy in self.policies],
            self.over_provisionings,
            asdict(self.reading),
            asdict(self.device),
            self.endurance,
            self.writes_per_day,
        ]


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
        self._outcomes = outcomes
        self._lifetimes = [
            lifetime_of(
                name,
                sources.recorded_writes_per_day(workload, plan.reading.repeat),
                plan.endurance,
                plan.writes_per_day,
            )
            for name, workload in zip(self.names, workloads, strict=True)
        ]
        self.rows = [self._row(outcome) for outcome in outcomes]

    @property
    def failures(self) -> list[dict[str, Any]]:
        """Give the rows whose run failed."""
        return [row for row in self.rows if "error" in row]

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
        return {
            **row,
            **scalars,
            "bound_write_amplification": bound,
            "gap_to_bound_percent": (amplification / bound - 1) * 100,
            "life_years": lifetime.years(amplification, job.over_provisioning),
        }

    def _bound_rows(self) -> list[dict[str, Any]]:
        rows = []
        for name, lifetime, bounds in zip(self.names, self._lifetimes, self.bounds, strict=True):
            for alpha, bound in zip(self.plan.over_provisionings, bounds, strict=True):
                years = lifetime.years(bound, alpha)
                rows.append(
                    {
                        "workload": name,
                        "over_provisioning": alpha,
                        "bound_write_amplification": bound,
                        "cleaning_cost": bound - 1,
                        "life_years": years,
                    }
                )
        return rows

    def sorted_rows(self, workload: int) -> list[dict[str, Any]]:
        """Give a workload's rows by over-provisioning, then from least to most written.

        The bound leads, failures trail.
        """
        name = self.names[workload]
        bounds: list[dict[str, Any]] = [
            {
                **row,
                "policy": BOUND,
                "write_amplification": row["bound_write_amplification"],
                "gap_to_bound_percent": 0.0,
                "p_gc": row["cleaning_cost"] / row["bound_write_amplification"],
                "steady": True,
            }
            for row in self._bound_rows()
            if row["workload"] == name
        ]
        own = [
            row
            for row, outcome in zip(self.rows, self._outcomes, strict=True)
            if outcome.job.workload == workload
        ]
        return sorted(
            bounds + own,
            key=lambda row: (
                row["over_provisioning"],
                "error" in row,
                row["policy"] != BOUND,
                row.get("write_amplification", 0),
            ),
        )

    def run(self, command: str) -> Run:
        """Give the run: JSON rows, and tables for Parquet."""
        inputs = [
            sources.describe(source, workload)
            for source, workload in zip(self.plan.sources, self.workloads, strict=True)
        ]
        summaries = [
            {**sources.summary(name, workload, self.plan.reading), "lifetime": lifetime.document()}
            for name, workload, lifetime in zip(
                self.names, self.workloads, self._lifetimes, strict=True
            )
        ]
        result = {
            "complete": len(self.rows) == self.planned,
            "results": self.rows,
            "bounds": self._bound_rows(),
            "workloads": summaries,
            "device": asdict(self.plan.device),
            "repeat": self.plan.reading.repeat,
            "peak_rss_bytes": peak_rss_bytes(),
        }
        job = runs.Job(command, self.plan.identity(self.workloads), inputs, self.plan.reading.seed)
        return job.run(result, self._tables())

    def _tables(self) -> dict[str, Any]:
        keys = dict.fromkeys(key for row in self.rows for key in row)
        tables = {
            "results": table({key: [row.get(key) for row in self.rows] for key in keys}),
            "bounds": table(
                {key: [row[key] for row in self._bound_rows()] for key in self._bound_rows()[0]}
            ),
        }
        # Each table of a run is stacked over all runs, led by what tells them apart.
        stacks: dict[str, list[tuple[dict[str, Any], Any]]] = {}
        for row, outcome in zip(self.rows, self._outcomes, strict=True):
            constants = {key: row[key] for key in ("workload", "policy", "over_provisioning")}
            for name, columns in (outcome.result or {}).get("tables", {}).items():
                stacks.setdefault(name, []).append((constants, columns))
        return tables | {name: stack(parts) for name, parts in stacks.items()}
