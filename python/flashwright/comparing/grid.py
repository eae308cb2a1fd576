"""A grid of counting simulations in a pool of threads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from flashwright import _core
from flashwright._core import FlashwrightError, Progress, RunError
from flashwright.comparing.policies import Policy
from flashwright.comparing.python_policies import copy_of, raised_by
from flashwright.kept import Kept, key_of
from flashwright.pool import Pool

if TYPE_CHECKING:
    from flashwright._core import Workload
    from flashwright.placement import Placement


@dataclass(frozen=True)
class GridSettings:
    """Settings that all runs of a grid share."""

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
    """Outcome of a job: its result, or the reason why it failed."""

    job: GridJob
    result: dict[str, Any] | None
    error: str | None = None


class Grid:
    """Runs all jobs; reports how far it is.

    Stops at once when it is cancelled, and gives what is finished.
    """

    def __init__(
        self,
        workloads: Sequence[Workload],
        jobs: Sequence[GridJob],
        settings: GridSettings,
        threads: int,
        kept: Kept | None = None,
    ) -> None:
        self._workloads = workloads
        self._jobs = list(jobs)
        self._settings = settings
        self._kept = kept or Kept(None)
        self.keys = [self._key(job) for job in self._jobs]
        self.known = sum(map(self._kept.has, self.keys))
        tasks = [partial(self._simulate, *pair) for pair in zip(self._jobs, self.keys, strict=True)]
        self._pool = Pool(
            tasks,
            [
                0 if self._kept.has(key) else workloads[job.workload].page_writes
                for job, key in zip(self._jobs, self.keys, strict=True)
            ],
            threads,
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
        ended = self._pool.run()
        if len(ended) == len(self._jobs):
            self._kept.drop_all_but(self.keys)
        return [GridOutcome(self._jobs[one.number], one.result, one.error) for one in ended]

    def _key(self, job: GridJob) -> str | None:
        """Name a simulation.

        None if none is kept, or of a policy in Python that is from no file: it may be another one.
        """
        policy = job.policy
        if not self._kept.is_on or (policy.python is not None and policy.python.content is None):
            return None
        workload = self._workloads[job.workload]
        played = (workload.content_hash, workload.repeat, workload.page_bytes)
        return key_of(played, policy.identity(), job.over_provisioning, asdict(self._settings))

    def _simulate(self, job: GridJob, key: str | None, progress: Progress) -> dict[str, Any]:
        return self._kept.remember(key, lambda: self._simulated(job, progress))

    def _simulated(self, job: GridJob, progress: Progress) -> dict[str, Any]:
        policy = job.policy
        if policy.python is None:
            return self._play(job, policy.placement, progress)
        own = copy_of(policy.python)
        try:
            return self._play(job, own, progress)
        except (FlashwrightError, MemoryError):
            raise
        except Exception as error:
            # It shall not cost the others their results.
            raise RunError(raised_by(error)) from error

    def _play(self, job: GridJob, placement: str | Placement, progress: Progress) -> dict[str, Any]:
        return _core.simulate(
            self._workloads[job.workload],
            placement=placement,
            victim=job.policy.victim,
            over_provisioning=job.over_provisioning,
            pages_per_erase_block=self._settings.pages_per_erase_block,
            start=self._settings.start,
            seed=self._settings.seed,
            audit=self._settings.audit,
            progress=progress,
        )
