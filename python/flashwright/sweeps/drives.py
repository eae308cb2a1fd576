"""A comparison of simulated drives: what is planned, and what came of it as rows and tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from flashwright import devices
from flashwright._core import InputError, Progress
from flashwright._text import alpha
from flashwright.devices import Device, Load
from flashwright.runs import Job, Run, peak_rss_bytes, stack, table
from flashwright.sources import Reading
from flashwright.sweeps.pool import Ended, Pool

if TYPE_CHECKING:
    from flashwright._core import Requests

LoadOne: TypeAlias = "Callable[[str, Callable[[Progress], Requests]], Requests]"


@dataclass(frozen=True)
class Variant:
    """A drive with the name that distinguishes it from the others of a comparison."""

    label: str
    device: Device


@dataclass(frozen=True)
class Change:
    """What a variant changes of its profile."""

    placement: str | None = None
    victim: str | None = None
    over_provisioning: float | None = None

    def label(self, name: str) -> str:
        """Name a drive of that name with this change."""
        said = ", ".join(
            [name, *(policy for policy in (self.placement, self.victim) if policy is not None)]
        )
        return (
            said if self.over_provisioning is None else f"{said} at {alpha(self.over_provisioning)}"
        )


def variants(
    profiles: Sequence[str],
    changes: Sequence[Change],
    overrides_of: Callable[[Change], Sequence[str]],
) -> list[Variant]:
    """Give every profile with every change.

    Raises InputError if a profile is wrong, is named twice, or does not go together with a change.
    """
    twice = next((profile for profile in profiles if profiles.count(profile) > 1), None)
    if twice is not None:
        raise InputError(f"--device {twice}: it is given twice; name each profile once")
    found = []
    for profile in profiles:
        for change in changes:
            device = Device.load(profile, overrides_of(change))
            found.append(Variant(change.label(device.name), device))
    given: dict[str, str] = {}
    for variant in found:
        other = given.setdefault(variant.device.name, variant.device.given)
        if other != variant.device.given:
            raise InputError(
                f"--device {variant.device.given}: it calls itself `{variant.device.name}` as "
                f"{other} does; change its `name`"
            )
    return found


@dataclass(frozen=True)
class DrivePlan:
    """All that goes into a comparison of drives."""

    sources: list[str]
    variants: list[Variant]
    load: Load
    reading: Reading
    endurance: float | None
    writes_per_day: float | str | None
    threads: int

    def read(self, load_one: LoadOne) -> dict[str, Requests]:
        """Read every source; `load_one` is given each with its loader, and may follow its progress.

        Raises InputError if one of the drives cannot take one of them.
        """
        found = {}
        for source in map(devices.check_load_source, self.sources):
            found[source] = load_one(source, partial(self._read, source))
            for variant in self.variants:
                devices.check_load(variant.device, found[source], self.load)
                devices.lifetime_of_drive(
                    variant.device, source, found[source], self.endurance, self.writes_per_day
                )
        return found

    def _read(self, source: str, progress: Progress) -> Requests:
        return devices.load_requests(source, self.load, self.reading, progress)

    def jobs(self) -> list[tuple[str, Variant]]:
        """Give all runs."""
        return [(source, variant) for source in self.sources for variant in self.variants]


class DriveComparison:
    """The runs of a plan, and what came of them."""

    def __init__(self, plan: DrivePlan, requests: dict[str, Requests]) -> None:
        self.plan = plan
        self._requests = requests
        self._jobs = plan.jobs()
        tasks = [partial(self._simulate, source, variant) for source, variant in self._jobs]
        self.pool = Pool(tasks, [self._total(source) for source, _ in self._jobs], plan.threads)
        self._ended: list[Ended[dict[str, Any]]] = []
        self.rows: list[dict[str, Any]] = []

    def _total(self, source: str) -> int:
        load, known = self.plan.load, self._requests[source].requests
        if load.most_seconds is not None:
            return 0
        left = None if known is None else known - load.untimed_requests(self._requests[source])
        limits = [limit for limit in (load.most_requests, left) if limit is not None]
        return min(limits) if limits else devices.ENDLESS_REQUESTS

    def _simulate(self, source: str, variant: Variant, progress: Progress) -> dict[str, Any]:
        return devices.run(
            variant.device, self._requests[source], self.plan.load, progress=progress
        )

    @property
    def planned(self) -> int:
        """Runs that there are to be."""
        return len(self._jobs)

    @property
    def failures(self) -> list[dict[str, Any]]:
        """Give the rows whose run failed."""
        return [row for row in self.rows if "error" in row]

    def take(self, ended: list[Ended[dict[str, Any]]]) -> None:
        """Take what came of the runs."""
        self._ended = ended
        self.rows = [self._row(one) for one in ended]

    def _row(self, ended: Ended[dict[str, Any]]) -> dict[str, Any]:
        source, variant = self._jobs[ended.number]
        row = {
            "workload": devices.name_of(source),
            "drive": variant.label,
            "device": variant.device.document(),
        }
        if ended.result is None:
            return {**row, "error": ended.error}
        result = {
            key: value for key, value in ended.result.items() if key not in ("tables", "timeline")
        }
        lifetime = devices.lifetime_of_drive(
            variant.device,
            source,
            self._requests[source],
            self.plan.endurance,
            self.plan.writes_per_day,
        )
        life = devices.life_of(variant.device, result, lifetime)
        load = self.plan.load
        begun = {"state": load.state_document(), "pace": load.pace_document()}
        return {**row, **result, **begun, **life.document(), "lifetime": lifetime.document()}

    def _identity(self) -> Any:
        """Give what decides on the numbers: the same identity, the same numbers."""
        plan = self.plan
        runs = [
            devices.identity(variant.device, self._requests[source], plan.load)
            for source, variant in self._jobs
        ]
        return ["drives", runs, plan.endurance, plan.writes_per_day]

    def run(self) -> Run:
        """Give the run: JSON rows, and tables for Parquet."""
        plan = self.plan
        result = {
            "complete": len(self.rows) == self.planned,
            "drives": [variant.label for variant in plan.variants],
            "results": self.rows,
            "workloads": [
                devices.summary(devices.name_of(source), requests)
                for source, requests in self._requests.items()
            ],
            "pace": plan.load.pace_document(),
            "state": plan.load.state_document(),
            "limits": plan.load.limits_document(),
            "seed": plan.load.seed,
            "peak_rss_bytes": peak_rss_bytes(),
        }
        inputs = [devices.describe(source, requests) for source, requests in self._requests.items()]
        return Job("compare", self._identity(), inputs, plan.load.seed).run(result, self._tables())

    def _tables(self) -> dict[str, Any]:
        rows = [_flat(row) for row in self.rows]
        keys = dict.fromkeys(key for row in rows for key in row)
        tables = {"results": table({key: [row.get(key) for row in rows] for key in keys})}
        stacks: dict[str, list[tuple[dict[str, Any], Any]]] = {}
        for row, ended in zip(self.rows, self._ended, strict=True):
            constants = {"workload": row["workload"], "drive": row["drive"]}
            for name, columns in (ended.result or {}).get("tables", {}).items():
                stacks.setdefault(name, []).append((constants, columns))
        stacked = {name: stack(parts) for name, parts in stacks.items()}
        return tables | {name: found for name, found in stacked.items() if found.num_rows}


def _flat(row: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Give a row's single figures, nested ones with joined names: `latency_ns_read_p99`."""
    flat: dict[str, Any] = {}
    for key, value in row.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{key}_")
        elif not isinstance(value, list):
            flat[prefix + key] = value
    return flat
