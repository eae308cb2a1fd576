"""A comparison of simulated drives: what is planned, and what came of it as rows and tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from flashwright import devices, slices
from flashwright._core import InputError, Progress
from flashwright._text import alpha
from flashwright.devices import Device, Load
from flashwright.drive_runs import effort_of, read_sized
from flashwright.runs import Job, Run, peak_rss_bytes, stack, table
from flashwright.slices import SizeAsked
from flashwright.sources import Reading
from flashwright.sweeps.kept import Kept, key_of
from flashwright.sweeps.pool import Ended, Pool

if TYPE_CHECKING:
    from flashwright._core import Requests
    from flashwright.slices import Sized


@dataclass(frozen=True)
class Variant:
    """A drive with the name that distinguishes it from the others of a comparison."""

    label: str
    device: Device
    depth: int | None = None
    """Requests outstanding at it, if that is not as for all."""


@dataclass(frozen=True)
class Change:
    """What a variant changes of its profile."""

    placement: str | None = None
    victim: str | None = None
    over_provisioning: float | None = None
    depth: int | None = None

    def label(self, name: str) -> str:
        """Name a drive of that name with this change."""
        said = ", ".join(
            [name, *(policy for policy in (self.placement, self.victim) if policy is not None)]
        )
        if self.over_provisioning is not None:
            said += f" at {alpha(self.over_provisioning)}"
        return said if self.depth is None else f"{said} at depth {self.depth}"


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
            found.append(Variant(change.label(device.name), device, change.depth))
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
class Played:
    """A drive at its size, and what it gets."""

    sized: Sized
    requests: Requests

    @property
    def device(self) -> Device:
        """The drive."""
        return self.sized.device


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
    size: SizeAsked = field(default_factory=SizeAsked)

    def read(self) -> dict[tuple[str, str], Played]:
        """Read every source for every drive, which has the size of the disk that it is from.

        By source and label. Drives of their profile's own size share the requests.

        Raises InputError if one of the drives cannot take one of them.
        """
        found = {}
        effort = effort_of(self.load, self.reading, len(self.runs()), self.threads)
        for source in map(devices.check_load_source, self.sources):
            shared: Requests | None = None
            for variant in self.variants:
                sized = slices.take(variant.device, source, self.reading, self.size, effort)
                if sized.is_cut:
                    requests = read_sized(sized, source, self.load, self.reading)
                else:
                    shared = shared or read_sized(sized, source, self.load, self.reading)
                    requests = shared
                devices.check_load(sized.device, requests, self.load)
                devices.lifetime_of_drive(
                    sized.device, source, requests, self.endurance, self.writes_per_day
                )
                found[source, variant.label] = Played(sized, requests)
        return found

    def runs(self) -> list[tuple[str, Variant]]:
        """Give all runs."""
        return [(source, variant) for source in self.sources for variant in self.variants]

    def load_of(self, variant: Variant) -> Load:
        """Give how a drive is loaded."""
        return self.load if variant.depth is None else replace(self.load, depth=variant.depth)

    def pace_document(self) -> dict[str, Any]:
        """Tell the pace for a result: with all depths, if drives differ in that."""
        found = self.load.pace_document()
        depths = list(dict.fromkeys(self.load_of(variant).depth for variant in self.variants))
        return found if len(depths) < 2 else {**found, "kind": "closed_loop", "depth": depths}

    def job(self, played: Mapping[tuple[str, str], Played]) -> Job:
        """Give the work that is asked for, by which its run folder is named."""
        runs = [
            devices.identity(one.device, one.requests, self.load_of(variant))
            for variant, one in self._in_turn(played)
        ]
        identity = ["drives", runs, self.endurance, self.writes_per_day]
        inputs = [
            devices.describe(source, requests)
            for source, requests in self.by_source(played).items()
        ]
        return Job("compare", identity, inputs, self.load.seed)

    def by_source(self, played: Mapping[tuple[str, str], Played]) -> dict[str, Requests]:
        """Give what the first drive gets of each source."""
        found: dict[str, Requests] = {}
        for source, variant in self.runs():
            found.setdefault(source, played[source, variant.label].requests)
        return found

    def _in_turn(
        self, played: Mapping[tuple[str, str], Played]
    ) -> Iterator[tuple[Variant, Played]]:
        for source, variant in self.runs():
            yield variant, played[source, variant.label]


class DriveComparison:
    """The runs of a plan, and what came of them."""

    def __init__(
        self,
        plan: DrivePlan,
        played: Mapping[tuple[str, str], Played],
        kept: Kept | None = None,
    ) -> None:
        self.plan = plan
        self._all = played
        self._runs = plan.runs()
        self._played = [played[source, variant.label] for source, variant in self._runs]
        self._kept = kept or Kept(None)
        self._loads = [plan.load_of(variant) for _, variant in self._runs]
        self._keys = [self._key(*run) for run in zip(self._played, self._loads, strict=True)]
        self.known = sum(map(self._kept.has, self._keys))
        """Runs that an earlier comparison has finished."""
        tasks = [
            partial(self._simulate, *run)
            for run in zip(self._played, self._loads, self._keys, strict=True)
        ]
        totals = [
            0 if self._kept.has(key) else self._total(one)
            for one, key in zip(self._played, self._keys, strict=True)
        ]
        self.pool = Pool(tasks, totals, plan.threads)
        self._ended: list[Ended[dict[str, Any]]] = []
        self.rows: list[dict[str, Any]] = []

    def _key(self, played: Played, load: Load) -> str | None:
        if not self._kept.is_on:
            return None
        return key_of(devices.identity(played.device, played.requests, load))

    def _total(self, played: Played) -> int | None:
        load, known = self.plan.load, played.requests.requests
        if load.most_seconds is not None:
            return None
        left = None if known is None else known - load.untimed_requests(played.requests)
        limits = [limit for limit in (load.most_requests, left) if limit is not None]
        return min(limits) if limits else devices.ENDLESS_REQUESTS

    def _simulate(
        self, played: Played, load: Load, key: str | None, progress: Progress
    ) -> dict[str, Any]:
        return self._kept.remember(
            key,
            lambda: devices.run(played.device, played.requests, load, progress=progress),
        )

    @property
    def planned(self) -> int:
        """Runs that there are to be."""
        return len(self._runs)

    @property
    def failures(self) -> list[dict[str, Any]]:
        """Give the rows whose run failed."""
        return [row for row in self.rows if "error" in row]

    def take(self, ended: list[Ended[dict[str, Any]]]) -> None:
        """Take what came of the runs."""
        self._ended = ended
        if len(ended) == self.planned:
            self._kept.drop_all_but(self._keys)
        self.rows = [self._row(one) for one in ended]

    def _row(self, ended: Ended[dict[str, Any]]) -> dict[str, Any]:
        source, variant = self._runs[ended.number]
        played = self._played[ended.number]
        row = {
            "workload": devices.name_of(source),
            "drive": variant.label,
            "device": played.device.document(),
        }
        if ended.result is None:
            return {**row, "error": ended.error}
        result = {
            key: value for key, value in ended.result.items() if key not in ("tables", "timeline")
        }
        lifetime = devices.lifetime_of_drive(
            played.device, source, played.requests, self.plan.endurance, self.plan.writes_per_day
        )
        life = devices.life_of(played.device, result, lifetime)
        load = self.plan.load_of(variant)
        begun = {"state": load.state_document(), "pace": load.pace_document()}
        return {**row, **result, **begun, **life.document(), "lifetime": lifetime.document()}

    def run(self) -> Run:
        """Give the run: JSON rows, and tables for Parquet."""
        plan = self.plan
        result = {
            "complete": len(self.rows) == self.planned,
            "drives": [variant.label for variant in plan.variants],
            "results": self.rows,
            "workloads": [
                devices.summary(devices.name_of(source), requests)
                for source, requests in plan.by_source(self._all).items()
            ],
            "pace": plan.pace_document(),
            "state": plan.load.state_document(),
            "limits": plan.load.limits_document(),
            "seed": plan.load.seed,
            "peak_rss_bytes": peak_rss_bytes(),
        }
        return plan.job(self._all).run(result, self._tables())

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
