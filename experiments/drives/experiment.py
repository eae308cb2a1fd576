"""Experiments on simulated drives: published points, and our figures beside them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from experiments import engine
from flashwright import _core
from flashwright.jobs.transactions.run import JOB as TRANSACTIONS

if TYPE_CHECKING:
    from flashwright.engine.task import Task

SEED = 1


@dataclass(frozen=True)
class SimulatedDrive:
    """A simulated drive, for any number of runs."""

    profile: str
    """TOML."""
    state: str = "filled"

    @property
    def capacity_bytes(self) -> int:
        """Bytes that the host can address."""
        return int(_core.profile_summary(self.profile)["capacity_bytes"])

    def run(self, patterns: Sequence[str], requests: int, warm_up: int = 0) -> dict[str, Any]:
        """Play patterns side by side, each by a flow with one request outstanding.

        As PARALLELISM's "jobs" are.
        """
        first, *beside = (f"io:{pattern}" for pattern in patterns)
        return engine.play(
            self.profile,
            first,
            flow=beside,
            pace="closed(1)",
            state=self.state,
            seed=SEED,
            requests=requests + warm_up,
            warm_up=warm_up,
        )


def of_profile(toml: str, state: str, overwrites: float = 2.0) -> dict[str, Any]:
    """Give the simulated drive of a profile (TOML) in a state, as a job's settings have it."""
    known = {"aged": {"overwrites": overwrites}} if state == "aged" else state
    name = _core.profile_summary(toml)["name"]
    return {"name": "", "toml": toml, "state": known, "label": name}


def transactions(source: str, on: Mapping[str, Any], **settings: object) -> dict[str, Any]:
    """Play transactions on a device: figures as the job `transactions` gives them, and tables."""
    [found] = engine.done([transactions_task(source, on, **settings)], source)
    if found["ended"] is not None:
        raise _core.RunError(f"{source}: {found['error'] or found['ended']}")
    return found


def transactions_task(source: str, on: Mapping[str, Any], **settings: object) -> Task:
    """Give the task of transactions on a device."""
    asked = {"source": source, "on": on, "seed": SEED, **settings}
    return engine.task("transactions", TRANSACTIONS.settings(asked))


def drive(name: str, overrides: Sequence[str] = ()) -> SimulatedDrive:
    """Give the drive of a built-in profile."""
    return SimulatedDrive(_core.check_profile(_core.profile_toml(name), name, list(overrides)))


def megabytes_per_second(found: Mapping[str, Any]) -> float:
    """Give the bandwidth of a run in 10^6 bytes a second."""
    return float(found["bytes_per_second"]) / 1e6


def mean_ms(found: Mapping[str, Any]) -> float:
    """Give the mean response time of a run in milliseconds."""
    return float(found["latency_ns"]["all"]["mean"]) / 1e6


@dataclass(frozen=True)
class Point:
    """A published figure, and how ours is found."""

    what: str
    where: str
    """Paper and section."""
    published: float
    unit: str
    ours: Callable[[], float]
    tolerance: float | None
    """Greatest deviation from the published figure, as a fraction; None if it is not judged."""
    fitted: bool = False
    """True if the profile was fitted to this point, which then shows only that the fit worked."""
    follows: str = ""
    """Points that this one is derived from, such as two fitted ones whose ratio it is: then it
    shows nothing of its own either.
    """
    remark: str = ""

    @property
    def is_independent(self) -> bool:
        """True if it is a prediction: neither fitted, nor derived from points that are."""
        return not self.fitted and not self.follows


@dataclass(frozen=True)
class Found:
    """A point and what came of it."""

    point: Point
    ours: float

    @property
    def deviation(self) -> float:
        """Ours / published - 1."""
        return self.ours / self.point.published - 1

    @property
    def met(self) -> bool | None:
        """True if it lies within the tolerance; None if there is none."""
        return None if self.point.tolerance is None else abs(self.deviation) <= self.point.tolerance


def measure(points: Sequence[Point]) -> list[Found]:
    """Find our figure for each point."""
    return [Found(point, point.ours()) for point in points]
