"""An earlier run of `play`, or a recording, laid beside a run."""

from __future__ import annotations

from pathlib import Path

from flashwright._core import InputError
from flashwright.jobs.play.view import AGAINST
from flashwright.outputs import RECORDING
from flashwright.runs import Run

COMMAND = "play"
_KEPT = ("source", "devices", "runs", "checkpoints")
_TABLES = ("latency", "latency_histogram", "windows", "over_time")


def beside(run: Run, folder: Path) -> None:
    """Lay the run of a folder, or the recording in it, beside a run.

    It is in `result["against"]` then, and its tables are named `against_...`.

    Raises InputError if the folder is neither.
    """
    other = read(folder)
    run.result[AGAINST] = {key: other.result[key] for key in _KEPT if key in other.result}
    for name in _TABLES:
        if name in other.tables:
            run.tables[f"{AGAINST}_{name}"] = other.tables[name]


def read(folder: Path) -> Run:
    """Read a run that was made, or a recording in the words of one.

    Raises InputError if the folder is neither.
    """
    found = Run.read_result(folder)
    if found.command == RECORDING:
        from flashwright.jobs.play.as_played import as_played

        return as_played(found, folder)
    if found.command != COMMAND:
        raise InputError(
            f"{folder}: a run of `{found.command}`, and not of `{COMMAND}` or `{RECORDING}`"
        )
    return Run.read(folder)
