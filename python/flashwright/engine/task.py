"""A job as it is sent to a worker, and what came of it."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import flashwright
from flashwright import _core
from flashwright._core import InputError
from flashwright.runs import files_of, sha256_of, sha256_of_file

if TYPE_CHECKING:
    import pyarrow as pa

    from flashwright._core import Progress

Scalar: TypeAlias = "float | int | str | bool | None"
_NOT_OF_RESULTS = ("api", "cli", "pages", "reports", "terminal", "engine")
"""Packages of ours on which no figure depends."""


@dataclass(frozen=True)
class Found:
    """Outcome of a job."""

    figures: dict[str, Scalar]
    """The same on any machine: no times of the machine itself."""
    tables: dict[str, pa.Table] = field(default_factory=dict)


class Kind(Protocol):
    """A kind of job: a module that has this.

    It may also have VERSION, which names the code in place of all of ours, for what is measured and
    stays true; and ASIDE, names of settings that no figure depends on.
    """

    def do(self, settings: Mapping[str, Any], progress: Progress) -> Found:
        """Do the job. Raises InputError, RunError, Cancelled."""


@dataclass(frozen=True)
class Input:
    """A file or folder that a job reads."""

    path: str
    """As it stands in the settings."""
    sha256: str
    """Of its content; of a folder of the names and contents of its files."""
    size_bytes: int


@dataclass(frozen=True)
class Limits:
    """What a job may take; None is without a limit."""

    memory_bytes: int | None = None
    seconds: float | None = None


@dataclass(frozen=True)
class Task:
    """A job that can be sent, and named by all that decides on its result."""

    kind: str
    """The module that does it."""
    settings: dict[str, Any]
    inputs: tuple[Input, ...]
    tables: tuple[str, ...]
    """Tables that are kept of it."""
    key: str

    @property
    def named(self) -> str:
        """Name of the kind; with that of the job, where one module does several."""
        job = self.settings.get("job")
        return f"{self.kind}.{job}" if isinstance(job, str) else self.kind


@dataclass
class Outcome:
    """What came of a task."""

    key: str
    ended: str
    """`done`, or else how: `refused` as its settings or inputs are wrong, by an `error` of its own,
    over its `memory` or `time`, `stopped` as it was told to, or `died` with its worker.
    """
    figures: dict[str, Scalar]
    tables: tuple[str, ...] = ()
    error: str | None = None
    seconds: float = 0.0
    """Time that it took."""
    peak_bytes: int = 0
    """Most memory that its worker held meanwhile."""
    attempt: str = ""
    """The order that it came of."""

    @property
    def is_final(self) -> bool:
        """True if the same would come of it again: what died or was too slow may do better."""
        return self.ended in ("done", "refused", "error")

    def document(self) -> dict[str, Any]:
        """Give it as JSON holds it."""
        return {**vars(self), "tables": list(self.tables)}

    @staticmethod
    def of(document: Mapping[str, Any]) -> Outcome:
        """Read it. Raises KeyError, TypeError if it is none."""
        found = Outcome(**document)
        found.tables = tuple(found.tables)
        return found


@cache
def version_hash() -> str:
    """Name the code that results depend on: the core, and our modules that take part in jobs."""
    digest = hashlib.sha256(sha256_of_file(Path(_core.__file__)).encode())
    root = Path(flashwright.__file__).parent
    for path in sorted(root.rglob("*.py")):
        name = path.relative_to(root)
        is_of_sweeps_alone = name.parts[0] == "sweeps" and name.parts[1] != "kinds"
        if name.parts[0] not in _NOT_OF_RESULTS and not is_of_sweeps_alone:
            digest.update(f"{name}\0".encode() + path.read_bytes())
    return digest.hexdigest()


@cache
def _hash_of_own(kind: str) -> str | None:
    """Name the code of a kind of job that is none of ours."""
    if kind.startswith(f"{flashwright.__name__}."):
        return None
    found = importlib.util.find_spec(kind)
    path = None if found is None else found.origin
    return None if path is None else sha256_of_file(Path(path))


_hashes: dict[tuple[str, int, int], str] = {}
"""Of files by path, size and time: one trace is an input of many jobs."""


def _hash_of_file(path: Path) -> str:
    found = path.stat()
    stamp = (str(path.resolve()), found.st_size, found.st_mtime_ns)
    if stamp not in _hashes:
        _hashes[stamp] = sha256_of_file(path)
    return _hashes[stamp]


def input_of(given: str) -> Input:
    """Describe a file or folder. Raises InputError if it cannot be read."""
    path = Path(given)
    try:
        # Of one that is not there: a search below it finds nothing, and says nothing.
        path.stat()
        size = sum(one.stat().st_size for one in files_of(path))
        return Input(given, sha256_of(path, _hash_of_file), size)
    except OSError as error:
        raise InputError(f"{given}: cannot read it: {error.strerror}") from error


def replaced(value: Any, names: Mapping[str, str]) -> Any:
    """Give settings with each text that is one of `names` replaced."""
    if isinstance(value, str):
        return names.get(value, value)
    if isinstance(value, Mapping):
        return {key: replaced(one, names) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [replaced(one, names) for one in value]
    return value


def task_of(
    kind: str, settings: dict[str, Any], inputs: Iterable[str], tables: Iterable[str] = ()
) -> Task:
    """Name a job by its settings, with contents in place of paths, and by the code.

    `settings` are canonical: equal work has equal ones, in JSON.
    """
    found = tuple(input_of(path) for path in dict.fromkeys(inputs))
    module = importlib.import_module(kind)
    aside = getattr(module, "ASIDE", ())
    named = {name: value for name, value in settings.items() if name not in aside}
    contents = replaced(named, {one.path: f"sha256:{one.sha256}" for one in found})
    code = getattr(module, "VERSION", None) or [version_hash(), _hash_of_own(kind)]
    said = json.dumps([kind, contents, code], sort_keys=True)
    key = hashlib.sha256(said.encode()).hexdigest()[:40]
    return Task(kind, settings, found, tuple(sorted(tables)), key)
