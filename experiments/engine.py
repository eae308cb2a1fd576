"""Jobs of experiments as tasks of the engine: each done once, here or on Ray, and kept.

It is a kind of job, see `flashwright.engine.task`, of what the core is asked and answers in JSON.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from flashwright import _core, drive_runs, sources
from flashwright._core import RunError
from flashwright.engine.doing import do as do_all
from flashwright.engine.task import Found, Task, task_of
from flashwright.engine.where import LOCAL, Where

if TYPE_CHECKING:
    from flashwright._core import Progress

ENGINE, ADDRESS = "FLASHWRIGHT_ENGINE", "FLASHWRIGHT_RAY_ADDRESS"
"""Variables of the environment that say where: parts of a book run in processes of their own."""
TABLES: Mapping[str, tuple[str, ...]] = {
    "play": ("samples", "windows", "latency", "latency_histogram"),
    "transactions": ("windows", "response"),
}
"""Tables that are kept of a job; empty if it has none."""


def where() -> Where:
    """Give who does jobs, and where results are kept."""
    return Where(os.environ.get(ENGINE, LOCAL), os.environ.get(ADDRESS))


def use(engine: str, address: str | None) -> None:
    """Let jobs of this process, and of those that it starts, be done there."""
    os.environ[ENGINE] = engine
    os.environ.pop(ADDRESS, None)
    if address is not None:
        os.environ[ADDRESS] = address


def task(job: str, asked: Mapping[str, Any], attempt: int = 0) -> Task:
    """Give the task of a job; `attempt` tells equal ones apart whose processor time is measured."""
    settings = {"job": job, "asked": dict(asked), "attempt": attempt}
    return task_of(__name__, settings, _inputs(asked), TABLES[job])


def _inputs(asked: Mapping[str, Any]) -> list[str]:
    source = asked["source"]
    path = Path(source["of"] if isinstance(source, Mapping) else source)
    found = sources.on_disk(path)
    return [str(found)] if found.exists() else []


def do(settings: Mapping[str, Any], progress: Progress) -> Found:
    """See `Kind`."""
    job = settings["job"]
    outcome, tables, _ = _core.run_job(job, json.dumps(settings["asked"]).encode(), progress)
    found = {name: pa.table(stream) for name, stream in tables}
    return Found(json.loads(outcome), {name: found.get(name, pa.table({})) for name in TABLES[job]})


def play_task(
    toml: str, source: str | Mapping[str, Any], attempt: int = 0, **settings: Any
) -> Task:
    """Give the task of a run on the drive of a profile's text, asked for as `drive_runs.run` is."""
    return task("play", drive_runs.asked(toml, source, settings), attempt)


def plays(tasks: Sequence[Task], label: str) -> list[dict[str, Any]]:
    """Do runs on drives, and give each as `drive_runs.run` does.

    Raises RunError if one fails.
    """
    found = []
    for one in done(tasks, label):
        [run] = one["runs"]
        if run["error"] is not None:
            raise RunError(run["error"])
        tables = {name: drive_runs.columns(table) for name, table in one["tables"].items()}
        found.append({**drive_runs.flat(run), "tables": tables})
    return found


def play(toml: str, source: str | Mapping[str, Any], **settings: Any) -> dict[str, Any]:
    """Do one such run."""
    [found] = plays([play_task(toml, source, **settings)], "Playing")
    return found


def done(tasks: Sequence[Task], label: str) -> list[dict[str, Any]]:
    """Do all that is not kept, and give what came of each: the outcome, and `tables` of Arrow.

    Raises RunError if one fails; StoppedError after Ctrl-C.
    """
    if not tasks:
        return []
    asked = where()
    made = do_all(tasks, label, "plays", asked, asked.shared)
    if made.left:
        raise made.stopped()
    found = []
    for one in tasks:
        outcome = made.outcomes[one.key]
        if outcome.ended != "done":
            raise RunError(outcome.error or outcome.ended)
        tables = {name: made.store.table(one.key, name) for name in one.tables}
        found.append({**outcome.figures, "tables": tables})
    return found
