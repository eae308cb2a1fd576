"""A workload through a pair of policies: a kind of job, see `engine.task`; of sweeps `count`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import msgspec

from flashwright import _core, sources
from flashwright._core import FlashwrightError, InputError, RunError
from flashwright.comparing import python_policies
from flashwright.comparing.policies import OFFLINE, Policy, check_victim, own_victim, resolved
from flashwright.engine.task import Found
from flashwright.runs import table
from flashwright.sources import SYNTHETIC, Reading
from flashwright.written import wrong

if TYPE_CHECKING:
    from flashwright._core import Progress, Workload
    from flashwright.placement import Placement

Given = TypeVar("Given")
Known = TypeVar("Known")
GOAL = ("write_amplification", "less")
TABLES = ("over_time", "streams", "p_gc_histogram", "wear")
"""Tables of a simulation."""
OF_THE_MACHINE = ("wall_seconds", "flash_page_programs_per_second")
"""Figures that another machine would have others of."""
_ASKED = ("over_provisioning", "pages_per_erase_block", "start", "seed")
"""Settings that go to the simulator as they are, beside the policies."""


class Settings(msgspec.Struct, forbid_unknown_fields=True):
    """Settings of a simulation that counts."""

    source: str
    placement: str = "none"
    victim: str | None = None
    """None is that of the placement's authors."""
    over_provisioning: float | str = 0.2
    pages_per_erase_block: int = 64
    start: Literal["filled", "fresh"] = "filled"
    seed: int = 1
    page_size: int | str = 4096
    repeat: int = 1


def settings(asked: Mapping[str, Any]) -> dict[str, Any]:
    """See `SweptKind`."""
    try:
        found = msgspec.convert(dict(asked), Settings)
    except msgspec.ValidationError as error:
        raise _said(error) from None
    source, reading = sources.part_of(found.source, page_size=_bytes(found.page_size))
    if reading.repeat == 1:
        reading = replace(reading, repeat=found.repeat)
    return canonical(
        source,
        replace(reading, seed=found.seed),
        _policy(found.placement, found.victim),
        over_provisioning=_share(found.over_provisioning),
        pages_per_erase_block=found.pages_per_erase_block,
        start=found.start,
        seed=found.seed,
    )


def canonical(source: str, reading: Reading, policy: Policy, **asked: Any) -> dict[str, Any]:
    """Give settings as a job takes them; `asked` are those of the simulator."""
    return {
        **asked,
        "source": source,
        "placement": policy.placement if policy.python is None else type(policy.python).__name__,
        "policy_file": None if policy.python is None else policy.python.file,
        "victim": policy.victim,
        "page_size": reading.page_size,
        "format": reading.format,
        "skip_bad": reading.skip_bad,
        "repeat": reading.repeat,
        "sample": reading.sample,
    }


def _policy(given: str, victim: str | None) -> Policy:
    placement = _known("placement", resolved, given)
    own = _known("placement", own_victim, placement)
    if victim not in (None, own):
        _known("victim", check_victim, victim)
    if isinstance(placement, str):
        return Policy(placement, victim or own)
    return Policy(placement.name, victim or own, placement)


def _known(option: str, check: Callable[[Given], Known], given: Given) -> Known:
    try:
        return check(given)
    except InputError as error:
        raise wrong(option, str(error)) from None


def _said(error: msgspec.ValidationError) -> Exception:
    said, _, where = str(error).partition(" - at `$.")
    if "unknown field" in said:
        name = said.split("`")[1]
        known = ", ".join(Settings.__struct_fields__)
        return wrong(name, f"there is no such option; known are: {known}")
    return wrong(where.rstrip("`") or "source", said)


def _share(given: float | str) -> float:
    text = str(given).strip()
    try:
        found = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        found = 0.0
    if not 0 < found <= 100:
        raise wrong("over_provisioning", f"{given}: right would be such as 0.2 or 20%")
    return found


def _bytes(given: int | str) -> int:
    found = _core.parse_bytes(str(given))
    if not found:
        raise wrong("page_size", f"{given}: right would be bytes, such as 4096 or 16Ki")
    return found


def inputs(settings: Mapping[str, Any]) -> list[str]:
    """See `SweptKind`."""
    source, policy_file = settings["source"], settings["policy_file"]
    found = [] if source.startswith(SYNTHETIC) else [str(sources.on_disk(Path(source)))]
    return found if policy_file is None else [*found, policy_file]


def levels(option: str) -> list[str] | None:
    """Give all that an option may be, where that is a list: None elsewhere."""
    if option not in ("placement", "victim"):
        return None
    return [one["name"] for one in _core.registry()[option] if one["name"] != OFFLINE]


_held: dict[tuple[str, Reading], Workload] = {}
_lock = threading.Lock()


@contextmanager
def holding(workloads: Iterable[tuple[str, Reading, Workload]]) -> Iterator[None]:
    """Let jobs of this process take these workloads, as they are read already."""
    found = {(source, _as_read(source, reading)): one for source, reading, one in workloads}
    _held.update(found)
    try:
        yield
    finally:
        for key in found:
            _held.pop(key, None)


def _as_read(source: str, reading: Reading) -> Reading:
    # A trace is the same with any seed, and is not read again for each.
    return reading if source.startswith(SYNTHETIC) else replace(reading, seed=1)


@lru_cache(maxsize=1)
def _loaded(source: str, reading: Reading) -> Workload:
    return sources.load(source, reading)


def _workload(source: str, reading: Reading) -> Workload:
    """Read a source, once for all jobs of it that come one after another."""
    found = _as_read(source, reading)
    held = _held.get((source, found))
    if held is not None:
        return held
    with _lock:
        return _loaded(source, found)


def do(settings: Mapping[str, Any], progress: Progress) -> Found:
    """See `Kind`."""
    reading = Reading(
        settings["page_size"],
        settings["format"],
        settings["skip_bad"],
        settings["seed"],
        settings["repeat"],
        settings["sample"],
    )
    workload = _workload(settings["source"], reading)
    placement = settings["placement"]
    if settings["policy_file"] is not None:
        placement = python_policies.load(f"{settings['policy_file']}:{placement}")
    figures = simulated(workload, placement, settings, progress)
    tables = {name: table(columns) for name, columns in figures.pop("tables").items()}
    kept = {key: one for key, one in figures.items() if key not in OF_THE_MACHINE}
    for name in (*_ASKED, "victim", "placement"):
        kept.pop(name, None)
    return Found({**kept, "spare_share": figures["over_provisioning"]}, tables)


def simulated(
    workload: Workload,
    placement: str | Placement,
    settings: Mapping[str, Any],
    progress: Progress,
) -> dict[str, Any]:
    """Simulate, as `_core.simulate` does; a policy in Python is copied before.

    Raises InputError; RunError, also for what a policy in Python raises; Cancelled.
    """
    asked = {name: settings[name] for name in ("victim", *_ASKED)}
    if isinstance(placement, str):
        return _core.simulate(workload, placement=placement, **asked, progress=progress)
    own = python_policies.copy_of(placement)
    try:
        with python_policies.prints_aside():
            return _core.simulate(workload, placement=own, **asked, progress=progress)
    except (FlashwrightError, MemoryError):
        raise
    except Exception as error:
        # It shall not cost the others their results.
        raise RunError(python_policies.raised_by(error)) from error
