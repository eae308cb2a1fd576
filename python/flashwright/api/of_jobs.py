"""Makes the function of a job that is done in Rust alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flashwright.api.calls import public
from flashwright.api.results import Result
from flashwright.jobs.generic import run
from flashwright.jobs.schema import about, given_of, settings_of


def function(name: str) -> Callable[..., Result]:
    """Make the function of a job; its settings are keyword arguments."""

    def call(**options: Any) -> Result:
        return Result(run(name, given_of(options)))

    call.__name__ = name
    said = "\n".join(f"{one.name}: {one.help}" for one in settings_of(name))
    call.__doc__ = f"{about(name)}\n\n{said}"
    return public(call)
