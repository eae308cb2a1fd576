"""A grid of simulations in a pool of threads: each releases the GIL, so they run side by side."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flashwright import _core
from flashwright._core import Cancelled, FlashwrightError, Progress
from flashwright.sweeps.policies import Policy

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
class Job:
    """One simulation."""

    workload: int
    policy: Policy
    over_provisioning: float


@dataclass(frozen=True)
class Outcome:
    """What came of a job: its result, or the reason why it failed."""

    job: Job
    result: dict[str, Any] | None
    error: str | None = None


class Grid:
    """Runs all jobs; tells how far it is; stops at once when it is cancelled, and gives what is finished."""

    def __init__(self, workloads: Sequence[Workload], jobs: Sequence[Job], device: Device, threads: int) -> None:
        self._workloads = workloads
        self._jobs = list(jobs)
        self._device = device
        self._threads = threads
        self._progress = [Progress() for _ in self._jobs]
        self._cancelled = threading.Event()

    def state(self) -> tuple[int, int]:
        """Give the page writes that are done, and all that there are."""
        return (
            sum(progress.state()[0] for progress in self._progress),
            sum(self._workloads[job.workload].page_writes for job in self._jobs),
        )

    def cancel(self) -> None:
        """Stop every run at its next clean point, and start no more."""
        self._cancelled.set()
        for progress in self._progress:
            progress.cancel()

    def run(self) -> list[Outcome]:
        """Run the jobs and give their outcomes in the jobs' order; those that a cancel cut off are left out."""
        with ThreadPoolExecutor(self._threads, thread_name_prefix="simulate") as pool:
            outcomes = list(pool.map(self._one, range(len(self._jobs))))
        return [outcome for outcome in outcomes if outcome is not None]

    def _one(self, number: int) -> Outcome | None:
        job = self._jobs[number]
        if self._cancelled.is_set():
            return None
        try:
            result = _core.simulate(
                self._workloads[job.workload],
                placement=job.policy.placement,
                victim=job.policy.victim,
                over_provisioning=job.over_provisioning,
                pages_per_erase_block=self._device.pages_per_erase_block,
                start=self._device.start,
                seed=self._device.seed,
                audit=self._device.audit,
                progress=self._progress[number],
            )
        except Cancelled:
            return None
        except FlashwrightError as error:
            # One policy that cannot work on this device shall not cost the others their results.
            return Outcome(job, None, str(error))
        return Outcome(job, result)
