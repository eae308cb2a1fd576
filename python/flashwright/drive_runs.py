"""One run of a source on one simulated drive, for whoever compares drives in a way of its own.

Directly, or through a stack of layers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from flashwright import _core

if TYPE_CHECKING:
    from flashwright._core import Progress, Source


def run(
    toml: str, source: str | Mapping[str, Any], progress: Progress | None = None, **settings: Any
) -> dict[str, Any]:
    """Play a source on the drive of a profile's text; `settings` are those of `play`.

    `state` is the drive's before the first request, as `profile(...)` has it. Gives the run as
    `play` does, its figures by name: what only a drive knows that is played directly, and its
    counters, stand beside the others. `tables` are columns by name.

    Raises InputError, RunError, Cancelled.
    """
    said = json.dumps(asked(toml, source, settings)).encode()
    outcome, tables, _ = _core.run_job("play", said, progress)
    [found] = json.loads(outcome)["runs"]
    return {**flat(found), "tables": {name: columns(stream) for name, stream in tables}}


def load(
    toml: str, source: str | Mapping[str, Any], progress: Progress | None = None, **settings: Any
) -> Source:
    """Read what such a run plays. As long as it is held, runs do not read it again.

    Raises InputError, Cancelled.
    """
    said = json.dumps(asked(toml, source, settings)).encode()
    return _core.load_source(said, progress=progress)


def asked(
    toml: str, source: str | Mapping[str, Any], settings: Mapping[str, Any]
) -> dict[str, Any]:
    """Give the settings of `play` that such a run has."""
    rest = dict(settings)
    state, pace = rest.pop("state", "filled"), rest.pop("pace", None)
    drive = {"name": "drive", "state": state, "toml": toml, "label": "drive"}
    paces = {} if pace is None else {"pace": [pace]}
    return {**rest, "source": source, "on": [{"profile": drive}], **paces}


def flat(run: Mapping[str, Any]) -> dict[str, Any]:
    """Give the figures of a run on a simulated drive beside each other."""
    inside = dict(run["simulated"] or {})
    counters = inside.pop("counters", {})
    return {**run, **inside, **counters}


def columns(stream: Any) -> dict[str, Any]:
    """Give the columns of a run's table, by name."""
    import pyarrow as pa

    table = pa.table(stream)
    return {
        name: table[name].to_numpy()
        for name in table.column_names
        if name not in ("device", "stack", "pace")
    }


def preparing(state: str, what: str) -> str | None:
    """Label the time before the first request, which may be most of a run.

    None if the state is made in an instant.
    """
    said = {"aged": f"Aging {what}", "filled": f"Filling {what}", "loaded": f"Loading {what}"}
    return said.get(state)
