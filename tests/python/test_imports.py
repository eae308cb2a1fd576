"""No circle in what imports what: between Python packages, within each, and within each crate."""

from __future__ import annotations

from pathlib import Path

import pytest

from import_circles import circles, crate_graph, crates, edges_on, packages, said
from support import ROOT

GRAPHS = {
    **packages(ROOT / "python" / "flashwright"),
    **packages(ROOT / "experiments"),
    **{f"crate {crate.name}": crate_graph(crate) for crate in crates()},
}


@pytest.mark.parametrize("name", GRAPHS)
def test_there_is_no_circle(name: str) -> None:
    found = circles(GRAPHS[name])
    lines = "\n".join(said(GRAPHS[name], circle) for circle in found)
    assert not found, f"imports in a circle:\n{lines}"


def package(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / "made" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root / "made"


@pytest.mark.parametrize(
    ("text", "is_circle"),
    [
        ("import made.b", True),
        ("from made import b", True),
        ("from made.b import thing", True),
        ("from . import b", True),
        ("from .b import thing", True),
        ("def late():\n    from made.b import thing", True),
        ("if TYPE_CHECKING:\n    from made.b import thing", False),
        ("if typing.TYPE_CHECKING:\n    pass\nelse:\n    from made.b import thing", True),
        ("from made import _core", False),
        ("from made import of_core", False),
        ("from made._core import of_core", False),
        ("import other.b", False),
    ],
)
def test_imports_of_every_form_are_found(text: str, is_circle: bool, tmp_path: Path) -> None:
    files = {"__init__.py": "from made._core import of_core", "a.py": text, "b.py": "import made.a"}
    graph = packages(package(tmp_path, files))["made"]
    assert circles(graph) == ([("a", "b")] if is_circle else [])


def test_a_circle_is_said_with_the_line_of_each_import(tmp_path: Path) -> None:
    files = {
        "__init__.py": "",
        "a/__init__.py": "",
        "a/one.py": "\nfrom made.b import thing",
        "a/two.py": "from made.a.one import thing",
        "b.py": "import made.c",
        "c.py": "import sys\n\ndef late():\n    from made.a.two import thing",
    }
    graphs = packages(package(tmp_path, files))
    [circle] = circles(graphs["made"])
    assert said(graphs["made"], circle) == (
        "  a -> b -> c -> a\n    a -> b: made/a/one.py:2\n    b -> c: made/b.py:1\n"
        "    c -> a: made/c.py:4"
    )
    # Both ends lie in one package: nothing of the one above it.
    assert circles(graphs["made.a"]) == []


def test_a_package_that_its_own_module_takes_from_is_a_circle(tmp_path: Path) -> None:
    files = {
        "__init__.py": "",
        "a/__init__.py": "from made.a.one import thing",
        "a/one.py": "from made.a import thing",
    }
    assert circles(packages(package(tmp_path, files))["made.a"]) == [("__init__", "one")]


def test_each_import_on_a_circle_is_in_one_that_is_said() -> None:
    graph = {"a": {"b": "", "c": ""}, "b": {"a": ""}, "c": {"b": "", "d": ""}, "d": {}}
    assert circles(graph) == [("a", "b"), ("a", "c", "b")]
    assert edges_on(circles(graph)) == {"a -> b", "b -> a", "a -> c", "c -> b"}


@pytest.mark.parametrize(
    ("text", "is_circle"),
    [
        ("use crate::b::Thing;", True),
        ("use crate::{c, b::{Thing, Other}};", True),
        ("use super::b;", True),
        ("fn f() { crate::b::thing() }", True),
        ("use crate::Thing;", True),
        ("use crate::Unrelated;", False),
        ("// use crate::b::Thing;", False),
        ("#[cfg(test)]\nuse crate::b::Thing;", False),
        ("#[cfg(test)]\nmod tests { use crate::b::Thing; }", False),
        ("#[cfg(test)]\nmod tests;", False),
        ("use other::b::Thing;", False),
    ],
)
def test_paths_of_every_form_are_found(text: str, is_circle: bool, tmp_path: Path) -> None:
    files = {
        "src/lib.rs": "mod a;\nmod b;\nmod c;\npub use b::Thing;\nuse c::Unrelated;\n",
        "src/a.rs": text,
        "src/b.rs": "use crate::a::Other;\npub struct Thing;",
        "src/c.rs": "pub struct Unrelated;",
    }
    if text.endswith("mod tests;"):
        files["src/a/tests.rs"] = "use crate::b::Thing;"
    found = circles(crate_graph(package(tmp_path, files)))
    assert (("a", "b") in found) == is_circle
