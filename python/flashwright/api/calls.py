"""Common parts of all public functions: progress, Ctrl-C, and the call that a result records."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from flashwright import runs
from flashwright._core import Workload
from flashwright.placement import Placement
from flashwright.progress import StoppedError, hidden

P = ParamSpec("P")
R = TypeVar("R")


def public(function: Callable[P, R]) -> Callable[P, R]:
    """Make a function a public one.

    Its result says the call that made it, `progress=False` hides its progress, and Ctrl-C stops it
    at its next clean point and raises KeyboardInterrupt.
    """
    known = signature(function)

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        given = dict(known.bind(*args, **kwargs).arguments)
        is_shown = given.get("progress", True) is not False
        with runs.called(_call(function, given)), nullcontext() if is_shown else hidden():
            try:
                return function(*args, **kwargs)
            except StoppedError as stop:
                raise KeyboardInterrupt(str(stop)) from None

    return call


def _call(function: Callable[..., Any], given: dict[str, Any]) -> str:
    name = f"flashwright.{function.__name__}"
    if "self" in given:
        name = f"{given.pop('self')!r}.{function.__name__}"
    kinds = signature(function).parameters
    said = [
        _said(value)
        if kinds[key].kind is kinds[key].POSITIONAL_OR_KEYWORD
        else f"{key}={_said(value)}"
        for key, value in given.items()
        if key != "progress"
    ]
    return f"{name}({', '.join(said)})"


def _said(value: Any) -> str:
    if isinstance(value, Workload):
        return f"flashwright.load_workload({value.name!r})"
    if isinstance(value, Placement):
        return f"{value.name}()"
    return repr(str(value)) if isinstance(value, Path) else repr(value)
