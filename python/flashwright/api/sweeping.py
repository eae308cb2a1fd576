"""Sweeps: a job at many points of its options."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flashwright._core import RunError
from flashwright.api.calls import public
from flashwright.api.results import Result
from flashwright.engine.where import Where
from flashwright.sweeps import file as files
from flashwright.sweeps.plan import plan
from flashwright.sweeps.running import How, Sweep


@public
def sweep(
    file: str | os.PathLike[str] | Mapping[str, Any],
    *,
    engine: str = "local",
    address: str | None = None,
    jobs: int | None = None,
    within: float | None = None,
    resume: bool = False,
    store: str | None = None,
    out: str | os.PathLike[str] | None = None,
    progress: bool = True,
) -> Result:
    """Do a job at many points of its options: what `flashwright sweep` does.

    `file` is a sweep file, or what such a file holds as a dict. `engine` is "local" or "ray", at an
    `address`; so many `jobs` at a time. Nothing is begun after `within` seconds. `resume` tries
    again what failed. The `store` keeps results by their content. With `out` the dataset grows
    there.

    The rows of the result are the points, the best one first; the table jobs has a row a job.

    Raises InputError; RunError if no job has a result; KeyboardInterrupt after Ctrl-C, when all
    that is finished is kept.
    """
    found = files.of(file) if isinstance(file, Mapping) else files.read(Path(file))
    how = How(Where(engine, address, jobs, store), resume, within)
    made = Sweep(plan(found), how, None if out is None else Path(out))
    stop = made.run()
    if stop is not None:
        raise stop
    failures = made.failures
    if failures and len(failures) == len(made.outcomes):
        raise RunError(f"no job has a result: {failures[0][1].error}")
    return Result(made.result(with_rows=True))
