"""Stacks of layers side by side.

Each played on a device of its own, and judged against the device alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from flashwright import _core, beyond, replays
from flashwright._core import Cancelled, InputError
from flashwright._text import count
from flashwright.layering.candidates import choice, playable, possible
from flashwright.layering.checkpoints import Checkpoints
from flashwright.layering.conditions import conditions
from flashwright.layering.measure import DIRECT, Measured, measure, measure_on
from flashwright.layering.verdict import verdict
from flashwright.probing.targets import Region
from flashwright.runs import Job, Run, stack, table
from flashwright.slices import Effort
from flashwright.sweeps.kept import Kept, key_of
from flashwright.sweeps.pool import Ended, Pool

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

    from flashwright._core import Device, Progress, ReplayTrace
    from flashwright.layering.facts import Facts
    from flashwright.probing.targets import Target
    from flashwright.replays import ReplayPlan

COMMAND = "layers"
OUTSTANDING = 64
"""Requests that layers may have outstanding on a real device, whatever the pace above them."""
ROOM = 1.25
_MIB = 1 << 20
_PARTS = ("stack", "outcome", "device_info")
"""What of a `Measured` is no table."""


@dataclass(frozen=True)
class Place:
    """A device that stacks are put on, with what is known of it."""

    name: str
    """What the device is called, unlike any other of the comparison."""
    target: Target
    facts: Facts
    device: Device
    """Open: the device itself if it is real; of a simulated drive one that only says what it is,
    as each stack gets a new one.
    """
    region: Region
    trace: ReplayTrace
    """As it falls on this drive."""
    slices: int = 1
    """Of how many slices the drive is one: the trace's clock is so much faster."""


@dataclass(frozen=True)
class LayersPlan:
    """All that goes into a comparison of stacks, but for the trace itself."""

    path: Path
    stacks: tuple[str, ...]
    plan: ReplayPlan
    checkpoints: Checkpoints
    drain: bool = True
    threads: int = 1
    data: str | None = None
    """How a run with data ends before it is opened again: `drained` or `killed`; None without."""
    left_out: Mapping[str, str] | None = None
    """Where the candidates of the registry are tried: those that are not possible on the device,
    and why. None where the stacks were named.
    """


def stacks_of(given: Sequence[str], *, with_direct: bool) -> tuple[str, ...]:
    """Give the stacks in the order in which they are run, the device alone first.

    Raises InputError if one is named twice, or there is none.
    """
    named = [text.strip() or DIRECT for text in given]
    twice = next((text for text in named if named.count(text) > 1), None)
    if twice is not None:
        raise InputError(f"--stack {twice}: it is given twice; name each stack once")
    if with_direct:
        return (DIRECT, *(text for text in named if text != DIRECT))
    if not named:
        raise InputError(
            "--no-direct: no --stack is left; give one, such as --stack 'scheduler(defer)'"
        )
    return tuple(named)


def has_layers(stacks: Sequence[str]) -> bool:
    """Tell whether any of them is more than the device alone."""
    return any(text != DIRECT for text in stacks)


def target_for(target: Target, trace: ReplayTrace, plan: LayersPlan) -> Target:
    """Give the device so that it takes what the stacks send.

    Raises InputError if it is a real one that may only be read, and something would be written.
    """
    found = replays.target_for(target, trace, plan.plan)
    if not found.may_write and has_layers(plan.stacks):
        raise InputError(
            f"{target.given}: layers write to it; add --write if what is on the device may go"
        )
    taking = found.taking(max(found.queue_depth, OUTSTANDING), found.most_bytes)
    return replace(taking, holds_data=plan.data is not None)


def effort_of(stacks: Sequence[str], drives: int, threads: int) -> Effort:
    """Give what a comparison costs, for the slice of each drive that is taken.

    A stack needs space of its own beside what the trace touches.
    """
    # One more drive may be measured for what layers know of it.
    runs = len(stacks) * drives + 1
    return Effort(runs=runs, at_once=threads, room=ROOM if has_layers(stacks) else 1.0)


def describing(target: Target) -> Target:
    """Give the same device for asking what it is: a simulated drive that takes no time to make."""
    return replace(target, state="fresh", overwrites=None) if target.is_simulated else target


def place(
    name: str,
    target: Target,
    facts: Facts,
    device: Device,
    trace: ReplayTrace,
    plan: LayersPlan,
    slices: int = 1,
) -> Place:
    """Find out where stacks lie on a device.

    Raises InputError if the region is none of the device, or the trace does not fit.
    """
    region = replays.region_of(trace, device, plan.plan)
    return Place(name, target, facts, device, region, trace, slices)


def capacity_bytes(place: Place, text: str) -> int:
    """Give the bytes that a stack offers there.

    Raises InputError if it cannot be made.
    """
    region: dict[str, Any] = {}
    if place.region.offset or place.region.length != place.device.info["capacity_bytes"]:
        region = {"region_offset": place.region.offset, "region_bytes": place.region.length}
    return _core.stack_capacity_bytes(
        place.device, text, facts=place.facts.values, seed=place.target.seed, **region
    )


def with_candidates(plan: LayersPlan, trace: ReplayTrace, place: Place) -> LayersPlan:
    """Give the plan with the stacks of the registry that are possible on a device."""
    moves = plan.plan.remap in ("fold", "scale")
    kept, left_out = possible(
        playable(place.facts, with_data=plan.data is not None),
        partial(capacity_bytes, place),
        0 if moves else trace.totals["end_bytes"],
    )
    return replace(plan, stacks=(DIRECT, *kept), left_out=left_out)


class LayersComparison:
    """The runs of a plan, and what came of them."""

    def __init__(self, plan: LayersPlan, places: Sequence[Place]) -> None:
        self.plan, self.places = plan, list(places)
        self._above = [self._above_bytes(place) for place in self.places]
        self._jobs = [(number, text) for number in range(len(self.places)) for text in plan.stacks]
        self._kept = Kept(None)
        self._ended: list[Ended[Measured]] = []
        self.rows: list[dict[str, Any]] = []

    def keep_in(self, run_folder: Path | None) -> None:
        """Keep each stack in the run folder as it ends, and take those that are finished there.

        On a real device none is: its answers are not the same again.
        """
        if all(place.target.is_simulated for place in self.places):
            self._kept = Kept(run_folder)

    @cached_property
    def pool(self) -> Pool[Measured]:
        """The runs; stacks on a real device come one after another."""
        keys = [self._key(*job) for job in self._jobs]
        tasks = [
            partial(self._measure, *job, key) for job, key in zip(self._jobs, keys, strict=True)
        ]
        totals = [
            0 if self._kept.has(key) else self.places[number].trace.totals["requests"]
            for key, (number, _) in zip(keys, self._jobs, strict=True)
        ]
        is_real = any(not place.target.is_simulated for place in self.places)
        return Pool(tasks, totals, 1 if is_real else self.plan.threads)

    @property
    def known(self) -> int:
        """Runs that an earlier one has finished."""
        return sum(self._kept.has(self._key(*job)) for job in self._jobs)

    def _key(self, number: int, text: str) -> str | None:
        if not self._kept.is_on:
            return None
        one = replace(self.plan, stacks=(text,))
        return key_of(self._identity_of(one, [self.places[number]]), self._above[number])

    @property
    def planned(self) -> int:
        """Runs that there are to be."""
        return len(self._jobs)

    @property
    def failures(self) -> list[dict[str, Any]]:
        """Give the rows whose run failed."""
        return [row for row in self.rows if row["error"] is not None]

    def _above_bytes(self, place: Place) -> int | None:
        """Give the bytes that all stacks have in common, if addresses depend on them.

        Raises InputError if a stack cannot be made, or the trace does not fit it.
        """
        offered = {text: capacity_bytes(place, text) for text in self.plan.stacks}
        least = min(offered, key=lambda text: offered[text])
        if self.plan.plan.remap in ("fold", "scale"):
            return offered[least] // _MIB * _MIB or offered[least]
        end = place.trace.totals["end_bytes"]
        choices = "" if self.plan.plan.remap == "dense" else self.plan.plan.choices
        beyond.check("the trace", end, f"{place.name} below {least}", offered[least], choices)
        return None

    def _measure(self, number: int, text: str, key: str | None, progress: Progress) -> Measured:
        def measured() -> dict[str, Any]:
            found = self._play(number, text, progress)
            return {name: getattr(found, name) for name in _PARTS} | {
                "tables": {name: dict(_columns(one)) for name, one in found.tables.items()}
            }

        found = self._kept.remember(key, measured)
        tables = {name: table(columns) for name, columns in found["tables"].items()}
        return Measured(**{name: found[name] for name in _PARTS}, tables=tables)

    def _play(self, number: int, text: str, progress: Progress) -> Measured:
        place, plan = self.places[number], self.plan
        more: dict[str, Any] = {
            "facts": place.facts.values,
            "pace": plan.plan.pace,
            "checkpoints": plan.checkpoints.on_slice(place.slices),
            "remap": plan.plan.remap,
            "region": None
            if place.region.length == place.device.info["capacity_bytes"]
            else place.region,
            "above_bytes": self._above[number],
            "drain": plan.drain,
            "data": plan.data,
            "progress": progress,
        }
        if place.target.is_simulated:
            found = measure(place.target, place.trace, text, **more)
        else:
            found = measure_on(place.device, place.trace, text, seed=place.target.seed, **more)
        if found.outcome["ended"] == "cancelled":
            # A part of a trace beside the whole of it would be compared as if they were the same.
            raise Cancelled("stopped")
        return found

    def take(self, ended: Sequence[Ended[Measured]]) -> None:
        """Take what came of the runs, and judge each against the device alone."""
        self._ended = list(ended)
        if len(ended) == self.planned:
            self._kept.drop_all_but([self._key(*job) for job in self._jobs])
        self.rows = [self._row(one) for one in ended]
        direct = {
            row["drive"]: row
            for row in self.rows
            if row["stack"] == DIRECT and row["error"] is None
        }
        for row in self.rows:
            alone = direct.get(row["drive"])
            row["verdict"] = None
            if row["error"] is None and alone is not None and row is not alone:
                place = next(place for place in self.places if place.name == row["drive"])
                state = place.target.document(place.device.info).get("state")
                holds = conditions(row, alone, self.plan.plan.part.ops, state)
                row["verdict"] = verdict(row, alone, place.facts.document(), holds)

    def _row(self, ended: Ended[Measured]) -> dict[str, Any]:
        number, text = self._jobs[ended.number]
        row: dict[str, Any] = {"drive": self.places[number].name, "stack": text}
        if ended.result is None:
            return {**row, "error": ended.error}
        found = ended.result
        outcome = {
            key: value
            for key, value in found.outcome.items()
            if key not in ("layers", "ended", "error")
        }
        layers = found.outcome["layers"]
        return {
            **row,
            "error": found.outcome["error"],
            "capacity_bytes": layers["capacity_bytes"],
            **found.figures,
            **outcome,
            "seconds_with_drain": outcome["seconds"] + layers["drain_seconds"],
            "counters": layers["counters"],
            "flash": layers["flash"],
            "kept": layers["kept"],
        }

    def _identity_of(self, plan: LayersPlan, places: Sequence[Place]) -> list[Any]:
        """Give what goes into a comparison."""
        devices = [place.target.document(place.device.info) for place in places]
        facts = [place.facts.values for place in places]
        regions = [place.region.document() for place in places]
        # The content of a trace, and not the path, decides on the figures.
        return [
            [place.trace.sources for place in self.places],
            devices,
            facts,
            regions,
            asdict(plan.plan),
            list(plan.stacks),
            asdict(plan.checkpoints),
            plan.drain,
            *([plan.data] if plan.data else []),
        ]

    def job(self, command: str = COMMAND) -> Job:
        """Give the work that is asked for, by which its run folder is named."""
        inputs = replays.inputs(self.plan.path, self.places[0].trace)
        identity = self._identity_of(self.plan, self.places)
        return Job(command, identity, inputs, self.places[0].target.seed)

    def run(self, command: str = COMMAND) -> Run:
        """Give the run: JSON rows, and tables for Parquet."""
        plan = self.plan
        result = {
            "complete": len(self.rows) == self.planned and not self.failures,
            "trace": replays.trace_document(plan.path, self.places[0].trace, plan.plan),
            "devices": [
                {
                    **place.target.document(place.device.info),
                    "label": place.name,
                    "region": place.region.document(),
                    "above_bytes": above,
                    "facts": place.facts.document(),
                }
                for place, above in zip(self.places, self._above, strict=True)
            ],
            "stacks": list(plan.stacks),
            "pace": plan.plan.pace.document(),
            "remap": plan.plan.remap,
            "checkpoints": plan.checkpoints.document(),
            "drain": plan.drain,
            "data": plan.data,
            "results": self.rows,
            "choices": self._choices(),
            "remarks": self._remarks(),
        }
        return self.job(command).run(result, self._tables())

    def _choices(self) -> dict[str, Any] | None:
        """Say which stack is right for each device, where the candidates were tried."""
        if self.plan.left_out is None:
            return None
        return {
            place.name: choice(
                [row for row in self.rows if row["drive"] == place.name and row["error"] is None],
                place.facts.document(),
            )
            for place in self.places
        }

    def _remarks(self) -> list[str]:
        said = [
            f"{text} was left out: {reason}." for text, reason in (self.plan.left_out or {}).items()
        ]
        if len(self.rows) < self.planned:
            said.append(
                f"Stopped: {count(self.planned - len(self.rows))} of {count(self.planned)} runs "
                "are missing."
            )
        if len(self.plan.stacks) > 1:
            said += [
                f"{place.name}: the stacks ran one after another, in this order, on the same "
                "device: what the earlier ones wrote was on it."
                for place in self.places
                if place.target.is_real
            ]
        return said

    def _tables(self) -> dict[str, Any]:
        parts: dict[str, list[tuple[Mapping[str, Any], Any]]] = {}
        for row, ended in zip(self.rows, self._ended, strict=True):
            constants = {"drive": row["drive"], "stack": row["stack"]}
            for name, found in (ended.result.tables if ended.result else {}).items():
                parts.setdefault(name, []).append((constants, found.to_pydict()))
        rows = [flat(row) for row in self.rows]
        keys = dict.fromkeys(key for row in rows for key in row)
        tables = {"stacks": table({key: [row.get(key) for row in rows] for key in keys})}
        return tables | {name: stack(found) for name, found in parts.items()}


def _columns(found: pa.Table) -> Iterator[tuple[str, pa.ChunkedArray]]:
    yield from zip(found.column_names, found.columns, strict=True)


def flat(row: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Give a row's single figures, nested ones with joined names: `latency_ns_read_p99`."""
    found: dict[str, Any] = {}
    for key, value in row.items():
        if key == "verdict":
            found["times_faster"] = None if value is None else value["times_faster"]
        elif key == "counters":
            for level, one in enumerate(value):
                found |= {
                    f"{level}_{one['layer']}_{name}": number
                    for name, number in one["counters"].items()
                }
        elif isinstance(value, Mapping):
            found |= flat(value, f"{prefix}{key}_")
        elif not isinstance(value, list):
            found[prefix + key] = value
    return found
