"""Kinds of jobs that a sweep may be of, each a module as `SweptKind` says.

A module may also have `keyed`, which sets a key within an option, `levels`, which says what `all`
of an option are, and `GOAL`, the figure that most look for and what of it is better.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import Any, Protocol

from flashwright import _core
from flashwright._core import InputError
from flashwright.engine.task import Kind


class SweptKind(Kind, Protocol):
    """A kind of job whose options are written in a file: a module that has these, too."""

    def settings(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Give settings with all defaults, as JSON holds them: equal work is equal.

        Raises InputError with the `option` that is wrong.
        """

    def inputs(self, settings: Mapping[str, Any]) -> list[str]:
        """Give the paths of files and folders among the settings, as they stand there."""


_OURS = {
    "play": f"{__name__}.play",
    "transactions": f"{__name__}.transactions",
    "count": "flashwright.comparing.counting",
}
"""Modules of kinds that are more than a job of Rust."""
_OWN = "python:"
"""Before the name of a module of the user's own."""


def names() -> list[str]:
    """Give the names of all kinds of ours."""
    return list(dict.fromkeys((*_OURS, *_core.job_names())))


def module_of(job: str) -> str:
    """Name the module of a kind of job. Raises InputError for one that is not known."""
    if job.startswith(_OWN):
        return job.removeprefix(_OWN)
    if job in _OURS:
        return _OURS[job]
    if job in _core.job_names():
        return f"{__name__}.rust"
    raise InputError(f"job: there is no `{job}`; {right(job, names())}")


def load(job: str) -> ModuleType:
    """Import the module of a kind of job. Raises InputError if there is none."""
    name = module_of(job)
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise InputError(f"job: cannot import `{name}`: {error}") from error


def right(given: str, known: Iterable[str]) -> str:
    """Say what would be right instead of a name: the nearest ones, or all."""
    all_names = list(known)
    near = difflib.get_close_matches(given, all_names, 3)
    return f"right would be {' or '.join(near)}" if near else f"known are: {', '.join(all_names)}"
