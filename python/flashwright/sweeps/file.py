"""The file of a sweep: which job, what is fixed, which axes, and in which design."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec

from flashwright import _core
from flashwright._core import InputError
from flashwright.engine.task import Limits
from flashwright.sweeps.kinds import right

Value: TypeAlias = "float | int | str | bool"
ALL = "all"
_ENDS = {"low", "high"}
GRID, LIST = "grid", "list"
OF_RANGES = ("latin_hypercube", "sobol", "saltelli")


class Range(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """An axis between two ends."""

    low: float
    high: float
    log: bool = False
    integer: bool = False
    levels: int | None = None
    """How many of it are in a grid."""


class Design(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """How points are chosen."""

    kind: Literal["grid", "list", "latin_hypercube", "sobol", "saltelli"] = "grid"
    points: int | None = None
    seed: int = 1
    second_order: bool = False
    """Of saltelli: whether indices of pairs are found too, which takes twice the points."""


Axis: TypeAlias = "Range | list[float | int | str | bool] | str"


class Document(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A sweep as its file says it."""

    job: str
    goal: str | None = None
    better: Literal["less", "more"] | None = None
    fixed: dict[str, Any] = {}
    axes: dict[str, Range | list[float | int | str | bool] | str] = {}
    design: Design = msgspec.field(default_factory=Design)
    points: list[dict[str, float | int | str | bool]] = []
    replications: int = 1
    memory: int | str | None = None
    time: float | str | None = None
    tables: list[str] = []
    partition_by: list[str] | str | None = None
    store: str | None = None


@dataclass(frozen=True)
class SweepFile:
    """A sweep as its file says it, and where that is."""

    name: str
    document: Document

    @property
    def axes(self) -> tuple[str, ...]:
        """Names of the axes, in order: those of a list are what its points name."""
        if self.document.design.kind == LIST:
            return tuple(self.document.points[0])
        return tuple(self.document.axes)

    def limits(self) -> Limits:
        """Give what a job may take. Raises InputError if it cannot be read."""
        memory, time = self.document.memory, self.document.time
        most = None if memory is None else _core.parse_bytes(str(memory))
        if memory is not None and not most:
            raise self.wrong("memory", f"{memory}: right would be bytes, such as 2Gi")
        seconds = None if time is None else _core.parse_duration(str(time))
        if time is not None and not seconds:
            raise self.wrong("time", f"{time}: right would be seconds, such as 90 or 5min")
        return Limits(most, seconds)

    def wrong(self, key: str, said: str) -> InputError:
        """Give the error of a key of the file."""
        return InputError(f"{self.name}: {key}: {said}")


def read(path: Path) -> SweepFile:
    """Read the file of a sweep. Raises InputError, in a line, for what is wrong in it."""
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: cannot read it: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not TOML: {error}") from error
    return of(found, str(path))


def of(found: Mapping[str, Any], name: str = "sweep") -> SweepFile:
    """Give a sweep of what a file holds. Raises InputError for what is wrong in it."""
    given = dict(found)
    if isinstance(given.get("axes"), Mapping):
        given["axes"] = _joined(given["axes"])
    if isinstance(given.get("points"), list):
        given["points"] = [
            _joined(one) if isinstance(one, Mapping) else one for one in given["points"]
        ]
    try:
        document = msgspec.convert(given, Document)
    except msgspec.ValidationError as error:
        raise InputError(f"{name}: {_said(error)}") from None
    made = SweepFile(name, document)
    _check(made)
    return made


def _joined(found: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Give axes with dotted names, also where TOML took the dots for tables."""
    joined: dict[str, Any] = {}
    for key, value in found.items():
        if isinstance(value, Mapping) and not _ENDS & value.keys():
            joined |= _joined(value, f"{prefix}{key}.")
        else:
            joined[prefix + key] = value
    return joined


_PLACES: dict[str, type[msgspec.Struct]] = {"": Document, "design": Design, "axes": Range}


def _said(error: msgspec.ValidationError) -> str:
    said, _, place = str(error).partition(" - at `$")
    where = place.rstrip("`").strip(".").replace("[...]", "")
    if "unknown field" in said:
        name = said.split("`")[1]
        known = _PLACES[where.partition(".")[0]].__struct_fields__
        return f"{f'{where}.' * bool(where)}{name}: there is no such key; {right(name, known)}"
    return f"{where}: {said}" if where else said


def _check(file: SweepFile) -> None:
    document, design = file.document, file.document.design
    if document.replications < 1:
        raise file.wrong("replications", "right would be 1 or more")
    if (design.kind == LIST) != bool(document.points):
        said = "they are of design.kind = 'list', and of that alone"
        raise file.wrong("points", said)
    if design.kind == LIST and document.axes:
        raise file.wrong("axes", "a list names them in its points; leave them out")
    if design.kind != LIST and not document.axes:
        raise file.wrong("axes", "there is none; right would be such as seed = [1, 2]")
    if (design.kind in OF_RANGES) != (design.points is not None):
        said = f"right would be a number with {', '.join(OF_RANGES)}, and with those alone"
        raise file.wrong("design.points", said)
    for number, point in enumerate(document.points):
        if point.keys() != document.points[0].keys():
            raise file.wrong(f"points[{number}]", "each point has to name the same options")
    for name in file.axes:
        if name in document.fixed:
            raise file.wrong(f"axes.{name}", "it is fixed too; leave one of them out")
        if name == "seed" and document.replications > 1:
            raise file.wrong("axes.seed", "replications go over seeds already; leave one out")
    _check_partitions(file)


def _check_partitions(file: SweepFile) -> None:
    for name in partitions(file):
        if name not in (*file.axes, "seed"):
            raise file.wrong("partition_by", f"{name} is no axis; {right(name, file.axes)}")


def partitions(file: SweepFile) -> tuple[str, ...]:
    """Give the axes by which results are divided: by default the first that has names."""
    asked = file.document.partition_by
    if asked is not None:
        return (asked,) if isinstance(asked, str) else tuple(asked)
    named = (
        name
        for name, axis in file.document.axes.items()
        if isinstance(axis, str) or (isinstance(axis, list) and axis and isinstance(axis[0], str))
    )
    return tuple(name for number, name in enumerate(named) if number == 0)
