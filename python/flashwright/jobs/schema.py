"""The settings of a job as Rust declares them: the fields, and what each of them takes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from flashwright import _core


@dataclass(frozen=True)
class Setting:
    """A setting of a job."""

    name: str
    help: str
    kinds: tuple[str, ...]
    """Types in JSON: boolean, integer, number, string, array; several where text is read as a
    number.
    """
    default: Any
    """The default; empty where one has to be given."""
    is_argument: bool
    choices: tuple[str, ...]
    group: str
    metavar: str | None
    flag: str
    """The option of the command line."""
    is_hidden: bool
    completes: str | None
    """Kind of names that a shell completes: `source`, `device`, `layer`, `buffer`, ..."""
    writes: str | None
    """Kind of output that goes into the folder it names."""


@cache
def settings_of(job: str) -> tuple[Setting, ...]:
    """Give the settings of a job, in the order in which they are declared."""
    schema, _, defaults = map(json.loads, _core.job_schema(job))
    return tuple(
        _setting(name, schema["properties"][name], defaults[name], schema) for name in defaults
    )


@cache
def about(job: str) -> str:
    """Say what a job does."""
    return str(json.loads(_core.job_schema(job)[0])["description"])


def _setting(name: str, field: dict[str, Any], default: Any, schema: dict[str, Any]) -> Setting:
    found = dict(field)
    for part in (*found.pop("anyOf", ()), *found.pop("allOf", ())):
        found = {**part, **found}
    if "$ref" in found:
        found = {**schema["$defs"][found["$ref"].rpartition("/")[2]], **found}
    kinds = found.get("type", [])
    values = [one["const"] for one in found.get("oneOf", ())] or found.get("enum", [])
    return Setting(
        name,
        " ".join(found.get("description", "").split()),
        tuple(kind for kind in ([kinds] if isinstance(kinds, str) else kinds) if kind != "null"),
        "" if found.get("needed") else default,
        bool(found.get("argument")),
        tuple(value for value in values if value is not None),
        found.get("group", "Options"),
        found.get("metavar"),
        found.get("flag", f"--{name.replace('_', '-')}"),
        bool(found.get("hidden")),
        found.get("completes"),
        found.get("writes"),
    )


@dataclass(frozen=True)
class Figure:
    """A figure of an outcome."""

    key: str
    """Its own field, or that of the table by name that it is of and its name there: `a/b`."""
    name: str
    """Name in words, with what it is a part of."""
    help: str


def figures_of(job: str, run: Mapping[str, Any]) -> Iterator[tuple[Figure, Any]]:
    """Give the single figures of a run of a job that are not zero, as Rust declares them.

    Of lists, and of tables by operation, nothing is given: they are tables of their own.
    """
    schema = json.loads(_core.job_schema(job)[1])
    yield from _figures(run, schema["$defs"]["Run"], schema["$defs"], "")


def _figures(
    found: Mapping[str, Any], declared: Mapping[str, Any], defs: Mapping[str, Any], within: str
) -> Iterator[tuple[Figure, Any]]:
    for key, field in declared["properties"].items():
        value = found.get(key)
        name = f"{within}{key.replace('_', ' ')}"
        parts = [field, *field.get("anyOf", ())]
        inner = next((part["$ref"] for part in parts if "$ref" in part), None)
        if isinstance(value, Mapping):
            if inner is not None:
                yield from _figures(value, defs[inner.rpartition("/")[2]], defs, f"{name}: ")
            else:
                for one, number in value.items():
                    if number and not isinstance(number, Mapping | list | tuple):
                        said = f"{name}: {one.replace('_', ' ')}"
                        yield Figure(f"{key}/{one}", said, ""), number
        elif value and not isinstance(value, list | tuple):
            yield Figure(key, name, " ".join(field.get("description", "").split())), value


def plain_of(value: Any) -> Any:
    """Give a value as plain data: paths as text."""
    if isinstance(value, tuple | list):
        return [plain_of(one) for one in value]
    return str(value) if isinstance(value, Path) else value


def given_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """Give keyword arguments of Python as settings: paths as text."""
    return {name: plain_of(value) for name, value in options.items() if value is not None}
