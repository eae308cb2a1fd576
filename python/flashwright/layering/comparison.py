"""Stacks of layers side by side.

Each played on a device of its own, and judged against the device alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from flashwright import _core, beyond, replays
from flashwright._core import Cancelled, InputError
from flashwright._text import count
from flashwright.layering.checkpoints import Checkpoints
from flashwright.layering.conditions import conditions
from flashwright.layering.measure import DIRECT, Measured, measure, measure_on
from flashwright.layering.verdict import verdict
from flashwright.probing.targets import Region
from flashwright.runs import Job, Run, stack, table
from flashwright.sweeps.pool import Ended, Pool

if TYPE_CHECKING:
    from pathlib import Path

    from flashwright._core import Device, Progress, ReplayTrace
    from flashwright.layering.facts import Facts
    from flashwright.probing.targets import Target
    from flashwright.replays import ReplayPlan

COMMAND = "layers"
OUTSTANDING = 64
"""Requests that layers may have outstanding on a real device, whatever the pace above them."""
_MIB = 1 << 20


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


def describing(target: Target) -> Target:
    """Give the same device for asking what it is: a simulated drive that takes no time to make."""
    return replace(target, state="fresh", overwrites=None) if target.is_simulated else target


def place(
    name: str, target: Target, facts: Facts, device: Device, trace: ReplayTrace, plan: LayersPlan
) -> Place:
    """Find out where stacks lie on a device.

    Raises InputError if the region is none of the device, or the trace does not fit.
    """
    return Place(name, target, facts, device, replays.region_of(trace, device, plan.plan))


class LayersComparison:
    """The runs of a plan, and what came of them."""

    def __init__(self, plan: LayersPlan, trace: ReplayTrace, places: Sequence[Place]) -> None:
        self.plan, self._trace, self.places = plan, trace, list(places)
        self._above = [self._above_bytes(place) for place in self.places]
        self._jobs = [(number, text) for number in range(len(self.places)) for text in plan.stacks]
        tasks = [partial(self._measure, number, text) for number, text in self._jobs]
        # Stacks on a real device come one after another.
        threads = 1 if any(not place.target.is_simulated for place in self.places) else plan.threads
        self.pool: Pool[Measured] = Pool(tasks, [trace.totals["requests"]] * len(tasks), threads)
        self._ended: list[Ended[Measured]] = []
        self.rows: list[dict[str, Any]] = []

    @property
    def planned(self) -> int:
        """Runs that there are to be."""
        return len(self._jobs)

    @property
    def failures(self) -> list[dict[str, Any]]:
        """Give the rows whose run failed."""
        return [row for row in self.rows if row["error"] is not None]

    def _capacity_bytes(self, place: Place, text: str) -> int:
        region: dict[str, Any] = {}
        if place.region.offset or place.region.length != place.device.info["capacity_bytes"]:
            region = {"region_offset": place.region.offset, "region_bytes": place.region.length}
        return _core.stack_capacity_bytes(
            place.device, text, facts=place.facts.values, seed=place.target.seed, **region
        )

    def _above_bytes(self, place: Place) -> int | None:
        """Give the bytes that all stacks have in common, if addresses depend on them.

        Raises InputError if a stack cannot be made, or the trace does not fit it.
        """
        offered = {text: self._capacity_bytes(place, text) for text in self.plan.stacks}
        least = min(offered, key=lambda text: offered[text])
        if self.plan.plan.remap in ("fold", "scale"):
            return offered[least] // _MIB * _MIB or offered[least]
        end = self._trace.totals["end_bytes"]
        choices = "" if self.plan.plan.remap == "dense" else self.plan.plan.choices
        beyond.check("the trace", end, f"{place.name} below {least}", offered[least], choices)
        return None

    def _measure(self, number: int, text: str, progress: Progress) -> Measured:
        place, plan = self.places[number], self.plan
        more: dict[str, Any] = {
            "facts": place.facts.values,
            "pace": plan.plan.pace,
            "checkpoints": plan.checkpoints,
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
            found = measure(place.target, self._trace, text, **more)
        else:
            found = measure_on(place.device, self._trace, text, seed=place.target.seed, **more)
        if found.outcome["ended"] == "cancelled":
            # A part of a trace beside the whole of it would be compared as if they were the same.
            raise Cancelled("stopped")
        return found

    def take(self, ended: Sequence[Ended[Measured]]) -> None:
        """Take what came of the runs, and judge each against the device alone."""
        self._ended = list(ended)
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

    def _identity(self) -> list[Any]:
        """Give what goes into the comparison."""
        plan = self.plan
        devices = [place.target.document(place.device.info) for place in self.places]
        facts = [place.facts.values for place in self.places]
        regions = [place.region.document() for place in self.places]
        # The content of a trace, and not the path, decides on the figures.
        return [
            self._trace.sources,
            devices,
            facts,
            regions,
            asdict(plan.plan),
            list(plan.stacks),
            asdict(plan.checkpoints),
            plan.drain,
            *([plan.data] if plan.data else []),
        ]

    def run(self, command: str = COMMAND) -> Run:
        """Give the run: JSON rows, and tables for Parquet."""
        plan = self.plan
        result = {
            "complete": len(self.rows) == self.planned and not self.failures,
            "trace": replays.trace_document(plan.path, self._trace, plan.plan),
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
            "remarks": self._remarks(),
        }
        inputs = replays.inputs(plan.path, self._trace)
        return Job(command, self._identity(), inputs, self.places[0].target.seed).run(
            result, self._tables()
        )

    def _remarks(self) -> list[str]:
        said = []
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
