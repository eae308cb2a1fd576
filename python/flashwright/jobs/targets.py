"""Devices that jobs name: whether they may be written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from flashwright._core import InputError
from flashwright.probing.targets import Target
from flashwright.written import wrong


def check_rights(settings: Mapping[str, Any], devices: Iterable[Mapping[str, Any]]) -> None:
    """Raise InputError if `destroy_data` confirms nothing, or names none of the devices."""
    if settings["destroy_data"] and not settings["write"]:
        raise wrong("destroy_data", "it confirms --write; give both")
    paths = [one["disk"]["path"] for one in devices if "disk" in one]
    for path in settings["destroy_data"]:
        if path not in paths:
            right = ", ".join(paths) or "a block device or file"
            raise wrong("destroy_data", f"{path}: it must repeat a device, {right}")


def target_of(device: Mapping[str, Any], settings: Mapping[str, Any]) -> Target:
    """Give a device as what measures it takes it, with what may be done to it.

    Raises InputError if there is none of that name, or something in it is wrong.
    """
    path = device.get("disk", {}).get("path")
    access = (
        "destroy_data"
        if path in settings["destroy_data"]
        else "write"
        if settings["write"]
        else "read_only"
    )
    array = device.get("array")
    if array is not None and {"capacity", "fill", "slices"} & array["of"].keys():
        raise InputError(
            f"--on {array['kind']}: capacity, fill and slices are for a single simulated drive; "
            "leave them out"
        )
    return Target.of(device, seed=settings["seed"], access=access)
