"""`play`: a source on one simulated drive, under one stack of layers at most, at one pace."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flashwright.engine.task import Found
from flashwright.jobs.play import run as playing
from flashwright.jobs.play.figures import flat
from flashwright.jobs.play.names import AUTO, DIRECT
from flashwright.jobs.schema import settings_of as declared
from flashwright.outputs import RESULT_FILE
from flashwright.sources import REQUESTS_FILE
from flashwright.sweeps.kinds import drives
from flashwright.written import wrong

if TYPE_CHECKING:
    from flashwright._core import Progress

_ONE = ("on", "stack", "pace")
_NO_PLACE = ("record", "requests_to", "per_request", "timeline", "against", "dry_run")
_OF_THE_MACHINE = (
    "wall_seconds",
    "prepare_seconds",
    "computing_seconds",
    "computing_ns_per_request",
    "peak_rss_bytes",
)
"""Ends of the names of figures that another machine would have others of."""
_SETTINGS = ("device", "stack", "pace", "about_name", "about_model", "state_kind")
"""Figures that repeat the settings; with paths of whoever did the job."""
_sources: list[Any] = []
"""Sources of the last job: as long as somebody holds them, no other job reads them again."""


def settings(asked: Mapping[str, Any]) -> dict[str, Any]:
    """See `SweptKind`."""
    lists = {one.name for one in declared("play") if "array" in one.kinds}
    given = {
        name: [value] if name in lists and not isinstance(value, list | tuple) else value
        for name, value in asked.items()
        if value is not None
    }
    found = playing.settings_of(given)
    for name in _ONE:
        if len(found[name]) > 1:
            raise wrong(name, "a job of a sweep has one; make an axis of it")
    if AUTO in found["stack"]:
        raise wrong("stack", f"{AUTO} tries several; make an axis of those that may be right")
    for name in _NO_PLACE:
        if found.get(name):
            raise wrong(name, "a sweep has no place for it; leave it out")
    [device] = found["on"]
    drives.check(device)
    return {**found, "source": {**found["source"], "of": _whole(found["source"]["of"])}}


def _whole(source: str) -> str:
    """Give the folder of a recording in place of its requests: what lies beside them counts."""
    path = Path(source)
    if path.name == REQUESTS_FILE and path.with_name(RESULT_FILE).is_file():
        return str(path.parent)
    return source


def inputs(settings: Mapping[str, Any]) -> list[str]:
    """See `SweptKind`."""
    given = [settings["source"]["of"], *(flow["source"]["of"] for flow in settings["flow"])]
    given += [settings[name] for name in ("facts", "checkpoints") if settings[name]]
    return drives.files(given, settings["on"][0])


def keyed(settings: Mapping[str, Any], option: str, key: str, value: Any) -> dict[str, Any]:
    """Set a key of the drive, `on.KEY`, or of the source, `source.KEY`. Raises InputError."""
    found = deepcopy(dict(settings))
    if option == "source":
        found["source"][key] = value
    elif option == "on":
        drives.set_key(found["on"][0], key, value)
    else:
        raise wrong(f"{option}.{key}", "keys are of the drive, `on.KEY`, and of `source.KEY`")
    return _with_defaults(found)


def _with_defaults(changed: Mapping[str, Any]) -> dict[str, Any]:
    return settings(changed)


levels = drives.levels


def do(settings: Mapping[str, Any], progress: Progress) -> Found:
    """See `Kind`."""
    plan = playing.plan(dict(settings), 1)
    asked = [text for text in settings["stack"] if text != DIRECT]
    if asked:
        # The device by itself is a job of its own, if it is wanted.
        plan = replace(plan, stacks=tuple(asked))
    # The new ones are held before the old ones go: they may be the same.
    _sources[:] = [one for place in plan.places for one in (place.source, *place.beside)]
    row, tables = playing.Playing(plan).done_alone(progress)
    figures = {
        key: value
        for key, value in flat(row).items()
        if not key.endswith(_OF_THE_MACHINE) and key not in _SETTINGS
    }
    return Found(figures, tables)
