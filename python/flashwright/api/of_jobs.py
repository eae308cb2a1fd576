"""Makes the function of a job that is done in Rust alone."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, Signature
from typing import Any

from flashwright.api.calls import public
from flashwright.api.results import Result
from flashwright.jobs.generic import run
from flashwright.jobs.schema import Setting, about, given_of, settings_of


def function(name: str) -> Callable[..., Result]:
    """Make the function of a job; its settings are keyword arguments, but for what it is done to.

    `progress=False` hides its progress.
    """
    known = settings_of(name)
    shown = Parameter("progress", Parameter.KEYWORD_ONLY, default=True, annotation=bool)
    parameters = [*map(_parameter, known), shown]
    parameters.sort(key=lambda one: (one.kind, one.default is not Parameter.empty))
    signature = Signature(parameters, return_annotation=Result)

    def call(*args: Any, **options: Any) -> Result:
        given = signature.bind(*args, **options).arguments
        given.pop("progress", None)
        return Result(run(name, given_of(given)))

    call.__name__ = call.__qualname__ = name
    said = "\n".join(f"{one.name}: {one.help}" for one in known)
    call.__doc__ = f"{about(name)}\n\n{said}"
    vars(call)["__signature__"] = signature
    return public(call)


def _parameter(one: Setting) -> Parameter:
    kind = Parameter.POSITIONAL_OR_KEYWORD if one.is_argument else Parameter.KEYWORD_ONLY
    default = Parameter.empty if one.default == "" else one.default
    return Parameter(one.name, kind, default=default)
