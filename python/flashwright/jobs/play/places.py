"""The devices of a `play`, each at its size, with the source as it falls on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import msgspec

from flashwright import _core, devices, slices, sources
from flashwright._core import InputError
from flashwright.devices import DriveProfile
from flashwright.jobs.play.names import DIRECT
from flashwright.jobs.targets import target_of
from flashwright.progress import work
from flashwright.slices import Effort, Part, SizeAsked
from flashwright.sources import Reading

if TYPE_CHECKING:
    from flashwright._core import Source
    from flashwright.layering.facts import Facts
    from flashwright.probing.targets import Target
    from flashwright.slices import Sized

ROOM = 1.25
"""Space that a stack of layers needs, as a multiple of the size of its data."""


@dataclass(frozen=True)
class Place:
    """A device, and the source as it falls on it."""

    label: str
    settings: dict[str, Any]
    """Settings of the job on this device alone; those that were to be found out are settled."""
    target: Target
    drive: DriveProfile | None
    """The simulated drive; None of an array or a real device."""
    source: Source
    beside: tuple[Source, ...]
    """The sources of the flows beside it."""
    given: str
    """The source as it was named: a path or a spec."""
    sized: Sized | None = None
    facts: Facts | None = None

    @property
    def slices(self) -> int:
        """Number of slices of the drive, by which the trace's clock is faster on one of them."""
        return 1 if self.sized is None else self.sized.slices

    @cached_property
    def info(self) -> dict[str, Any]:
        """Description that the device gives of itself."""
        target = self.target
        if target.is_simulated:
            # A fresh drive opens at once.
            target = replace(target, state="fresh", overwrites=None)
        elif target.is_real:
            target = replace(target, access="read_only")
        return dict(work(*target.opening, target.open).info)

    def run(self, stack: str | None, pace: str | None, **more: Any) -> dict[str, Any]:
        """Give the settings of one run."""
        return {
            **self.settings,
            "stack": [] if stack is None else [stack],
            "pace": [] if pace is None else [pace],
            **more,
        }

    def document(self) -> dict[str, Any]:
        """Describe the device for a result."""
        found: dict[str, Any] = {"label": self.label, **self.target.document(self.info)}
        if self.drive is not None:
            found |= self.drive.document()
            found["name"] = self.label
        found["region"] = self.target.region.document()
        if self.facts is not None:
            found["facts"] = self.facts.document()
        return found


def label_of(device: Mapping[str, Any]) -> str:
    """Name a device in the words that tell it from others."""
    return _core.device_label(msgspec.json.encode(device))


def places_of(settings: Mapping[str, Any], at_once: int) -> list[Place]:
    """Find each device of a job, give it its size, and read the source for it.

    `at_once`: how many runs go on at the same time.

    Raises InputError with the `option` that is wrong; StoppedError.
    """
    part = _found(settings["source"])
    flows = [{**flow, "source": _found(flow["source"])} for flow in settings["flow"]]
    effort = _effort(settings, at_once)
    labels = [label_of(device) for device in settings["on"]]
    twice = next((label for label in labels if labels.count(label) > 1), None)
    if twice is not None:
        raise InputError(f"--on {twice}: it is given twice; name each device once")
    return [
        _place({**settings, "source": part, "flow": flows}, device, label, effort)
        for device, label in zip(settings["on"], labels, strict=True)
    ]


def _found(part: Mapping[str, Any]) -> dict[str, Any]:
    return {**part, "of": source_of(part["of"])}


def source_of(given: str) -> str:
    """Give the source that a name means: of the folder of a recording its requests.

    Raises InputError if it names a file that is not there, or one that can be read only once.
    """
    if given == sources.STANDARD_INPUT:
        raise InputError("-: a trace is read more than once here; write it to a file first")
    return devices.check_load_source(given)


def _effort(settings: Mapping[str, Any], at_once: int) -> Effort:
    """Give what the runs cost, for the slice of each drive that is taken."""
    stacks = settings["stack"]
    runs = len(settings["on"]) * max(1, len(stacks)) * max(1, len(settings["pace"]))
    has_layers = any(stack != DIRECT for stack in stacks)
    return Effort(
        repeat=settings["source"].get("repeat", 1),
        # One more drive may be measured for what layers know of it.
        runs=runs + has_layers,
        at_once=at_once,
        most_requests=settings["requests"],
        room=ROOM if has_layers else 1.0,
    )


def _place(settings: dict[str, Any], device: dict[str, Any], label: str, effort: Effort) -> Place:
    target = target_of(device, settings)
    sized, given = None, settings["source"]["of"]
    if "profile" in device and target.drive is not None:
        profile = device["profile"]
        asked = SizeAsked(profile.get("capacity"), profile.get("fill"), profile.get("slices"))
        sized = _sized(target.drive, settings, asked, replace(effort, **_state(profile["state"])))
        if sized.is_cut:
            settings = {**settings, "source": _of_slice(settings["source"], sized.source)}
        target = replace(target, drive=sized.device)
        toml = sized.device.toml
        kept = {"name": profile["name"], "state": profile["state"], "toml": toml, "label": label}
        device = {"profile": kept}
    one = {**settings, "on": [device]}
    encoded = msgspec.json.encode(one)
    source, *beside = (
        work(
            f"Reading {sources.name_of(name)}",
            "bytes",
            partial(_core.load_source, encoded, None if number == 0 else number - 1),
        )
        for number, name in enumerate((given, *(flow["source"]["of"] for flow in one["flow"])))
    )
    drive = target.drive if target.array is None else None
    return Place(label, one, target, drive, source, tuple(beside), given, sized)


def _sized(
    own: DriveProfile, settings: Mapping[str, Any], asked: SizeAsked, effort: Effort
) -> Sized:
    part = settings["source"]
    # Of a source that is played over the repetitions are those of the slice.
    chosen = Part(part.get("skip") or 0.0, part.get("for"), part.get("limit"))
    reading = Reading(
        settings["page_size"],
        part.get("format"),
        part.get("skip_bad", 0),
        settings["seed"],
        part.get("repeat", 1),
    )
    return slices.take(own, part["of"], reading, asked, effort, chosen)


def _of_slice(part: Mapping[str, Any], path: str) -> dict[str, Any]:
    """Give the part of a slice's trace, of which time and number are chosen already."""
    kept = {key: part[key] for key in ("ops", "fit", "repeat", "priority", "handle") if key in part}
    return {"of": path, **kept}


def _state(state: str | Mapping[str, Any]) -> dict[str, Any]:
    """Give the state of a drive by its name, and how often it was overwritten."""
    if isinstance(state, str):
        return {"state": state, "overwrites": None}
    return {"state": "aged", "overwrites": state["aged"]["overwrites"]}
