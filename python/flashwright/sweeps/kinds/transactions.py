"""`transactions`: transactions on one simulated drive, under one stack of layers at most."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import msgspec

from flashwright import _core
from flashwright.engine.task import Found
from flashwright.jobs.play.figures import flat
from flashwright.jobs.play.names import DIRECT
from flashwright.jobs.transactions import run
from flashwright.sweeps.kinds import drives
from flashwright.written import wrong

if TYPE_CHECKING:
    from flashwright._core import Progress

GOAL = ("transactions_per_second", "more")
_SETTINGS = ("database_name", "source_sha256", "about_name", "about_model", "ended", "error")
"""Figures that repeat the settings, or are empty at the end of a job that was done."""


def settings(asked: Mapping[str, Any]) -> dict[str, Any]:
    """See `SweptKind`."""
    found = run.JOB.settings({name: value for name, value in asked.items() if value is not None})
    drives.check(found["on"])
    if found["stack"] != DIRECT:
        _core.check_stack(found["stack"])
    return found


def inputs(settings: Mapping[str, Any]) -> list[str]:
    """See `SweptKind`."""
    return drives.files([settings["source"], settings["facts"]], settings["on"])


def keyed(given: Mapping[str, Any], option: str, key: str, value: Any) -> dict[str, Any]:
    """Set a key of the drive, `on.KEY`. Raises InputError."""
    found = deepcopy(dict(given))
    if option != "on":
        raise wrong(f"{option}.{key}", "keys are of the drive, `on.KEY`")
    drives.set_key(found["on"], key, value)
    return settings(found)


def levels(option: str) -> list[str] | None:
    """Give all that an option may be, where that is a list: None elsewhere."""
    if option in ("buffer", "lock_rule"):
        return [one["name"] for one in _core.variants(option)]
    return drives.levels(option)


def do(settings: Mapping[str, Any], progress: Progress) -> Found:
    """See `Kind`."""
    done = run.plan(settings).whole(progress)
    found = msgspec.to_builtins(done.outcome)
    figures = flat({**found, "counters": found["layers"]})
    return Found(
        {key: value for key, value in figures.items() if key not in _SETTINGS}, done.tables
    )
