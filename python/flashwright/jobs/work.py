"""Doing a job in Rust: settings in; a typed outcome, tables and texts out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from flashwright import _core

if TYPE_CHECKING:
    import pyarrow as pa

    from flashwright._core import Progress

Outcome = TypeVar("Outcome")


@dataclass(frozen=True)
class Done(Generic[Outcome]):
    """Outcome of a job, with its tables and texts."""

    outcome: Outcome
    tables: dict[str, pa.Table] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Job(Generic[Outcome]):
    """A kind of work: its name, and the type of its outcome."""

    name: str
    outcome: type[Outcome]
    _decoder: msgspec.json.Decoder[Outcome] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Made at once: two threads that looked into the type at the same time would crash.
        object.__setattr__(self, "_decoder", msgspec.json.Decoder(self.outcome))

    def settings(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Give settings with all defaults, values as they are meant: equal work is equal.

        Raises InputError with the `option` that is wrong.
        """
        said = _core.job_settings(self.name, msgspec.json.encode(asked))
        found: dict[str, Any] = json.loads(said)
        return found

    def do(self, asked: Mapping[str, Any], progress: Progress | None = None) -> Done[Outcome]:
        """Do it. Raises InputError with the `option` that is wrong; RunError; Cancelled."""
        import pyarrow as pa

        found, streams, texts = _core.run_job(self.name, msgspec.json.encode(asked), progress)
        return Done(
            self.read(found), {name: pa.table(stream) for name, stream in streams}, dict(texts)
        )

    def read(self, outcome: bytes) -> Outcome:
        """Read an outcome from JSON."""
        return self._decoder.decode(outcome)
