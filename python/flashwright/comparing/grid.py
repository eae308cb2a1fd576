"""A grid of counting simulations, each a task of the engine that is done once and kept."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from flashwright._core import FlashwrightError, InputError
from flashwright.comparing import counting
from flashwright.comparing.policies import Policy
from flashwright.engine.doing import Done, do
from flashwright.engine.task import Task, task_of
from flashwright.progress import StoppedError, work
from flashwright.runs import table
from flashwright.sources import STANDARD_INPUT, Reading

if TYPE_CHECKING:
    from flashwright._core import Progress, Workload
    from flashwright.engine.where import Where

KIND = counting.__name__


@dataclass(frozen=True)
class GridSettings:
    """Settings that all runs of a grid share."""

    pages_per_erase_block: int = 64
    start: str = "filled"
    seed: int = 1


@dataclass(frozen=True)
class GridJob:
    """One simulation."""

    workload: int
    policy: Policy
    over_provisioning: float


@dataclass(frozen=True)
class GridOutcome:
    """Outcome of a job: its result, or the reason why it failed."""

    job: GridJob
    result: dict[str, Any] | None
    """Figures, and `tables` by name."""
    error: str | None = None
    is_refused: bool = False
    """Whether its settings or inputs were wrong, such as a policy on too few erase blocks."""


@dataclass
class Grid:
    """All jobs on some workloads, and what came of those that have ended."""

    sources: Sequence[str]
    readings: Sequence[Reading]
    """As each source is read."""
    jobs: Sequence[GridJob]
    settings: GridSettings
    where: Where
    workloads: Sequence[Workload] = ()
    """The sources, if they are read already."""
    known: int = 0
    """Simulations that were kept from before."""
    stop: StoppedError[Any] | None = None
    """The stop, if Ctrl-C came before the end."""
    _outcomes: dict[GridJob, GridOutcome] = field(default_factory=dict)

    def run(self, label: str) -> list[GridOutcome]:
        """Run the jobs and give their outcomes in the jobs' order; after a stop those that ended.

        Raises InputError if a source cannot be read; RunError if nothing can be kept.
        """
        tasks = {job: self._task(job) for job in self.jobs if self._is_sent(job)}
        with self._holding():
            if tasks:
                done = do(list(tasks.values()), label, "simulations", self.where, self.where.shared)
                self.known, self.stop = done.known, done.stop
                self._take(tasks, done)
            for job in self.jobs:
                if job not in tasks and self.stop is None:
                    self._alone(job)
        return [self._outcomes[job] for job in self.jobs if job in self._outcomes]

    def done(self, label: str) -> list[GridOutcome]:
        """Run the jobs to their end. Raises as `run`, and StoppedError."""
        outcomes = self.run(label)
        if self.stop is not None:
            raise self.stop
        return outcomes

    def _holding(self) -> ExitStack:
        stack = ExitStack()
        if self.workloads:
            held = zip(self.sources, self.readings, self.workloads, strict=True)
            stack.enter_context(counting.holding(held))
        return stack

    def _is_sent(self, job: GridJob) -> bool:
        """Tell whether a job has a name: not of what was typed, nor of a policy from no file."""
        python = job.policy.python
        is_of_file = python is None or python.file is not None
        return is_of_file and self.sources[job.workload] != STANDARD_INPUT

    def _settings(self, job: GridJob) -> dict[str, Any]:
        return counting.canonical(
            self.sources[job.workload],
            self.readings[job.workload],
            job.policy,
            over_provisioning=job.over_provisioning,
            **asdict(self.settings),
        )

    def _task(self, job: GridJob) -> Task:
        settings = self._settings(job)
        return task_of(KIND, settings, counting.inputs(settings), counting.TABLES)

    def _take(self, tasks: dict[GridJob, Task], done: Done) -> None:
        for job, task in tasks.items():
            outcome = done.outcomes.get(task.key)
            if outcome is None:
                continue
            if outcome.ended != "done":
                self._outcomes[job] = GridOutcome(
                    job, None, outcome.error, outcome.ended == "refused"
                )
                continue
            found = {name: done.store.table(task.key, name) for name in task.tables}
            self._outcomes[job] = GridOutcome(job, {**outcome.figures, "tables": found})

    def _alone(self, job: GridJob) -> None:
        """Simulate in this process, and keep nothing."""

        def simulate(progress: Progress) -> dict[str, Any]:
            workload = self.workloads[job.workload]
            placement = job.policy.python or job.policy.placement
            return counting.simulated(workload, placement, self._settings(job), progress)

        try:
            found = work(f"Simulating {job.policy.label}", "page writes", simulate)
        except StoppedError as stop:
            self.stop = stop
            return
        except FlashwrightError as error:
            # One that cannot work shall not cost the others their results.
            self._outcomes[job] = GridOutcome(job, None, str(error), isinstance(error, InputError))
            return
        found["tables"] = {name: table(columns) for name, columns in found["tables"].items()}
        figures = {key: one for key, one in found.items() if key not in counting.OF_THE_MACHINE}
        self._outcomes[job] = GridOutcome(job, figures)
