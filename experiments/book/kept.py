"""Results of sets that are kept: found again by what they depend on, and not made twice.

A result is a JSON file, `FOLDER/SET/IDENTITY.json`, of one part of a set. The identity is a hash of
the names of set and part, the options, the files that go in, the version of the core, and the
source of `experiments` that the set imports. Comments, docstrings and formatting of that source are
not in it, as no number depends on them. The Rust core counts by its version alone: whoever changes
the core within a version asks for `--again`. Each result names the revision that made it.
"""

from __future__ import annotations

import ast
import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import click

from experiments.registry import Made, Outcome, Part, Set
from flashwright import _core, outputs
from flashwright._core import InputError
from flashwright.pages.page import Figure
from flashwright.runs import dump_json

FOLDER = Path("runs") / "experiments"
"""Where results are kept if no other place is named."""
ROOT = Path(__file__).resolve().parents[2]
"""Folder that the package `experiments` lies in."""
COMMITTED = ROOT / "docs" / "results" / "kept"
"""Results of sets that the book does not run, which are part of the repository."""
PLACES = frozenset({"out", "folder", "on"})
"""Options that say where files lie: no number depends on them."""
FORMAT = 1
"""Version of these files: one of another version is not read."""


@dataclass(frozen=True)
class Kept:
    """A result of one part of a set."""

    set: str
    part: str
    identity: str
    seconds: float
    """Wall time that it took to make, in seconds."""
    made_on: str
    """Date, as YYYY-MM-DD."""
    provenance: Mapping[str, Any]
    figures: Mapping[str, Any]
    """All numbers, as the set gives them."""
    outcomes: Sequence[Outcome] = ()
    drawn: Sequence[Figure] = field(default=(), repr=False)
    is_complete: bool = True
    is_current: bool = True
    """False if it was made by a source, options or inputs that are others now."""

    @property
    def revision(self) -> str:
        """Revision that made it; empty if that is not known."""
        return str(self.provenance.get("revision") or "")


def values_of(one: Set[Any]) -> dict[str, Any]:
    """Give the defaults of a set's own options, as a command line without any would."""
    command = click.Command(one.name, params=list(one.options))
    return dict(command.make_context(one.name, []).params)


def identity(one: Set[Any], part: Part, values: Mapping[str, Any]) -> str:
    """Give the identity of a result, as 16 letters."""
    return _identity(
        one.name,
        part.name,
        json.dumps(
            {name: str(value) for name, value in values.items() if name not in PLACES},
            sort_keys=True,
        ),
        _inputs(one),
        source_hash(module_of(one)),
    )


def _identity(*facts: str) -> str:
    text = json.dumps([FORMAT, _core.__version__, *facts])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _inputs(one: Set[Any]) -> str:
    hashes = [str(entry.get("sha256") or entry.get("content_hash")) for entry in one.inputs()]
    return " ".join(hashes)


def module_of(one: Set[Any]) -> str:
    """Give the name of the module that a set stands in.

    Raises InputError if none of those that are loaded has it.
    """
    for name, module in list(sys.modules.items()):
        if name.startswith("experiments.") and getattr(module, "SET", None) is one:
            return name
    raise InputError(f"{one.name}: no module of experiments has it as SET")


@cache
def source_hash(module: str) -> str:
    """Give a hash of a module of `experiments` and of all that it imports from there."""
    found: dict[str, str] = {}
    left = [module]
    while left:
        name = left.pop()
        if name in found:
            continue
        path = _path_of(name)
        if path is None:
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        found[name] = ast.dump(_without_words(tree))
        left += [other for other in _imported(tree) if other.startswith("experiments")]
    text = "\n".join(f"{name}: {found[name]}" for name in sorted(found))
    return hashlib.sha256(text.encode()).hexdigest()


def _path_of(module: str) -> Path | None:
    base = ROOT.joinpath(*module.split("."))
    for path in (base.with_suffix(".py"), base / "__init__.py"):
        if path.is_file():
            return path
    return None


def _imported(tree: ast.AST) -> list[str]:
    """Give the names of all modules that are imported; of `from a import b` both a and a.b."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [one.name for one in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found += [node.module, *(f"{node.module}.{one.name}" for one in node.names)]
    return found


def _without_words(tree: ast.Module) -> ast.Module:
    """Take out strings that stand alone: docstrings of modules, functions, classes and fields."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [one for one in body if not _is_words(one)]  # type: ignore[attr-defined]
    return tree


def _is_words(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def path_of(folder: Path, set_name: str, name: str) -> Path:
    """Give the file of a result."""
    return folder / set_name / f"{name}.json"


def write(folder: Path, kept: Kept) -> Path:
    """Write a result, as a whole or not at all, and give its path.

    Raises InputError if the folder cannot be written.
    """
    path = path_of(folder, kept.set, kept.identity)
    document = {**asdict(kept), "format": FORMAT}
    del document["is_current"]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{path.parent}: cannot keep results: {error.strerror}") from error
    outputs.write_text(path, dump_json(document))
    return path


def kept_of(one: Set[Any], part: Part, made: Made, about: Mapping[str, Any]) -> Kept:
    """Give what came of a part as a result to keep; `about` has the rest of its fields."""
    return Kept(
        set=one.name,
        part=part.name,
        figures=made.figures,
        outcomes=made.outcomes,
        drawn=made.drawn,
        is_complete=made.is_complete,
        **about,
    )


def read(path: Path) -> Kept | None:
    """Read a result back; None if there is none, or it is of another format or damaged."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if document.pop("format") != FORMAT:
            return None
        outcomes = [Outcome(**one) for one in document.pop("outcomes")]
        drawn = [Figure(**one) for one in document.pop("drawn")]
        return Kept(**document, outcomes=outcomes, drawn=drawn)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def latest(folder: Path, one: Set[Any], part: Part) -> Kept | None:
    """Give the newest result of a part that some source made, not that of today's."""
    found = [
        kept
        for path in sorted(
            (folder / one.name).glob("*.json"), key=lambda path: path.stat().st_mtime, reverse=True
        )
        if (kept := read(path)) is not None and kept.part == part.name
    ]
    return found[0] if found else None
