"""The simulated drive that a job of a sweep runs on: what all kinds with one need of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from flashwright import _core, sources
from flashwright._core import InputError
from flashwright.comparing.policies import OFFLINE
from flashwright.probing.targets import Target
from flashwright.written import wrong

_OF_DRIVE = ("state", "op", "placement", "victim", "capacity", "fill", "slices")
"""Keys of `profile(...)` besides those of the profile itself, which have a point."""


def check(device: Mapping[str, Any]) -> None:
    """Raise InputError if there is no such simulated drive."""
    _check(json.dumps(device, sort_keys=True))


@lru_cache(maxsize=1024)
def _check(device: str) -> None:
    found = json.loads(device)
    if "disk" in found:
        path = found["disk"]["path"]
        raise wrong("on", f"{path}: a sweep runs on simulated drives: `flashwright list profile`")
    try:
        Target.of(found, seed=1, access="read_only")
    except InputError as error:
        raise wrong("on", str(error)) from None


def files(given: Iterable[Any], device: Mapping[str, Any]) -> list[str]:
    """Give the paths of files among settings, and that of the drive's profile."""
    inner = device.get("array", {}).get("of", device.get("profile", {}))
    named = [*given, inner.get("name") if isinstance(inner, Mapping) else inner]
    found = (sources.on_disk(Path(one)) for one in named if isinstance(one, str))
    return [str(file) for file in found if file.exists()]


def set_key(device: dict[str, Any], key: str, value: Any) -> None:
    """Set a key of a simulated drive in its settings. Raises InputError."""
    if "profile" not in device:
        raise wrong(f"on.{key}", "keys are of a simulated drive, such as nvme-tlc")
    if "." not in key and key not in _OF_DRIVE:
        known = ", ".join(_OF_DRIVE)
        said = f"there is no such key; known are: {known}, and those such as media.channels"
        raise wrong(f"on.{key}", said)
    device["profile"][key] = value if isinstance(value, str) else json.dumps(value)


def levels(option: str) -> list[str] | None:
    """Give all that an option of the drive may be, where that is a list: None elsewhere."""
    if option == "on":
        return [one["name"] for one in _core.variants("profile")]
    if option in ("on.placement", "on.victim"):
        entries = _core.registry()[option.removeprefix("on.")]
        # A drive has no place for those that choose victims by themselves.
        kept = [one for one in entries if one.get("victim") != "own"]
        return [one["name"] for one in kept if one["name"] != OFFLINE]
    return None
