"""A grid of counting simulations in a pool of threads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from flashwright import _core
from flashwright._core import Progress
from flashwright.sweeps.policies import Policy
from flashwright.sweeps.pool import Pool

if TYPE_CHECKING:
    from flashwright._core import Workload


@dataclass(frozen=True)
class Device:
    """What all runs of a grid share."""

    pages_per_erase_block: int = 64
    start: str = "filled"
    seed: int = 1
    audit: bool = False


@dataclass(frozen=True)
class GridJob:
    """One simulation."""

    workload: int
    policy: Policy
    over_provisioning: float


@dataclass(frozen=True)
class GridOutcome:
    """What came of a job: its result, or the reason why it failed."""

    job: GridJob
    result: dict[str, Any] | None
    error: str | None = None


class Grid:
    """Runs all jobs; reports how far it is.

    Stops at once when it is cancelled, and gives what is finished.
    """

    def __init__(
        self, workloads: Sequence[Workload], jobs: Sequence[GridJob], device: Device, threads: int
    ) -> None:
        self._workloads = workloads
        self._jobs = list(jobs)
        self._device = device
        tasks = [partial(self._simulate, job) for job in self._jobs]
        self._pool = Pool(
            tasks, [workloads[job.workload].page_writes for job in self._jobs], threads
        )

    def state(self) -> tuple[int, int]:
        """Give the page writes that are done, and all that there are."""
        return self._pool.state()

    def preparation(self) -> tuple[int, int]:
        """Give what is prepared of all runs begun, and the total."""
        return self._pool.preparation()

    def cancel(self) -> None:
        """Stop every run at its next clean point, and start no more."""
        self._pool.cancel()

    def run(self) -> list[GridOutcome]:
        """Run the jobs and give their outcomes in the jobs' order.

        Those that a cancel cut off are left out.
        """
        return [
            GridOutcome(self._jobs[ended.number], ended.result, ended.error)
            for ended in self._pool.run()
        ]

    def _simulate(self, job: GridJob, progress: Progress) -> dict[str, Any]:
        return _core.simulate(
            self._workloads[job.workload],
            placement=job.policy.placement,
            victim=job.policy.victim,
            over_provisioning=job.over_provisioning,
            pages_per_erase_block=self._device.pages_per_erase_block,
            start=self._device.start,
            seed=self._device.seed,
            audit=self._device.audit,
            progress=progress,
        )
