"""The direction of dependencies between the crates, as ARCHITECTURE.md draws it.

And who may lift the ban on `unsafe`.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from support import ROOT, find_program

# From the bottom up. A crate may depend on those before it, never on one after it, nor on one of
# its own step.
STEPS = (
    {"units", "registry"},
    {"traces", "models", "block"},
    {"placement"},
    {"ssd"},
    {"layers", "devices"},
    {"prober", "replay", "faults"},
    {"servers"},
    {"bindings"},
)
MAY_BE_UNSAFE = {"devices", "servers", "prober"}
# Kinds of I/O, clocks and unseeded randomness that a crate of pure computation has no business
# with.
PURE = {"units", "registry", "block", "models", "placement", "ssd", "layers"}
IMPURE = re.compile(
    r"\b(std::fs|std::net|std::process|SystemTime|thread_rng|rand::rng\(\)|from_os_rng)\b"
)


def _metadata() -> dict[str, Any]:
    cargo = find_program("cargo")
    done = subprocess.run(
        [cargo, "metadata", "--format-version", "1", "--no-deps", "--offline"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    return dict(json.loads(done.stdout))


def _edges(metadata: dict[str, Any]) -> dict[str, set[str]]:
    """Crate -> crates of the workspace that it ships with; what only its tests need is left out."""
    names = {package["name"] for package in metadata["packages"]}
    return {
        _short(package["name"]): {
            _short(needed["name"])
            for needed in package["dependencies"]
            if needed["name"] in names and needed["kind"] != "dev"
        }
        for package in metadata["packages"]
    }


def _short(name: str) -> str:
    return name.removeprefix("flashwright-")


def violations(edges: dict[str, set[str]]) -> list[str]:
    """Every dependency that points up or sideways, and every crate without a place."""
    step = {name: number for number, names in enumerate(STEPS) for name in names}
    found = [f"{name} has no step: add it to STEPS" for name in edges if name not in step]
    for name, needed in edges.items():
        found += [
            f"{name} -> {other}"
            for other in needed
            if step.get(other, -1) >= step.get(name, len(STEPS))
        ]
    return found


def unsafe_violations(sources: dict[str, str]) -> list[str]:
    """Every crate that lifts the lint against `unsafe` and may not."""
    return [
        name
        for name, text in sources.items()
        if name not in MAY_BE_UNSAFE and re.search(r"(allow|expect)\s*\([^)]*unsafe_code", text)
    ]


def impure_violations(sources: dict[str, str]) -> list[str]:
    """Every use of I/O, the clock or unseeded randomness in a crate of pure computation."""
    return [
        f"{name}: {match[0]}"
        for name, text in sources.items()
        if name in PURE
        for match in IMPURE.finditer(text)
    ]


def _sources() -> dict[str, str]:
    folders = [path for path in (ROOT / "crates").iterdir() if path.is_dir()]
    return {
        folder.name: "\n".join(
            path.read_text(encoding="utf-8") for path in sorted((folder / "src").rglob("*.rs"))
        )
        for folder in folders
    }


def test_dependencies_point_down_the_road() -> None:
    assert violations(_edges(_metadata())) == []


def drawn(text: str) -> dict[str, set[str]]:
    """Crate -> crates that it may depend on, as the table of ARCHITECTURE.md has it."""
    table = text.split("## Crates")[1].split("\n## ", maxsplit=1)[0]
    rows = re.findall(r"^\| `(\w+)` \|.*\| ([^|]+) \|$", table, re.MULTILINE)
    everything = {name for name, _ in rows}
    words = {"nothing": set(), "all of the above": everything}
    return {name: words.get(may, set(may.split(", "))) - {name} for name, may in rows}


def test_the_table_of_the_architecture_tells_what_the_manifests_do() -> None:
    table = drawn((ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8"))
    edges = _edges(_metadata())
    assert set(table) == set(edges)
    extra = {name: needed - table[name] for name, needed in edges.items() if needed - table[name]}
    unused = {name: may - edges[name] for name, may in table.items() if may - edges[name]}
    unused.pop("bindings", None)
    assert (extra, unused) == ({}, {})


def test_the_table_is_read_as_it_is_drawn() -> None:
    rows = ("| `a` | x | nothing |", "| `b` | y | a |", "| `c` | z | all of the above |")
    text = "\n".join(["## Crates", *rows, "## Next", "| `d` | x | a |"])
    assert drawn(text) == {"a": set(), "b": {"a"}, "c": {"a", "b"}}


def test_nothing_depends_on_the_bindings() -> None:
    assert [name for name, needed in _edges(_metadata()).items() if "bindings" in needed] == []


def test_units_and_registry_depend_on_nothing_of_ours() -> None:
    edges = _edges(_metadata())
    assert edges["units"] == set()
    assert edges["registry"] <= {"units"}


def test_unsafe_is_denied_everywhere_and_lifted_nowhere_else() -> None:
    manifest = (ROOT / "Cargo.toml").read_text(encoding="utf-8")
    assert 'unsafe_code = "deny"' in manifest
    for crate in (ROOT / "crates").glob("*/Cargo.toml"):
        assert re.search(r"\[lints\]\nworkspace = true", crate.read_text(encoding="utf-8")), (
            f"{crate} does not take the workspace's lints"
        )
    assert unsafe_violations(_sources()) == []


def test_crates_of_computation_do_no_io() -> None:
    assert impure_violations(_sources()) == []


@pytest.mark.parametrize(
    ("edges", "told"),
    [
        ({"units": {"ssd"}, "ssd": set()}, ["units -> ssd"]),
        ({"ssd": {"bindings"}, "bindings": set()}, ["ssd -> bindings"]),
        ({"models": {"traces"}, "traces": set()}, ["models -> traces"]),
        ({"novelty": set()}, ["novelty has no step: add it to STEPS"]),
    ],
)
def test_the_scanner_finds_what_points_up(edges: dict[str, set[str]], told: list[str]) -> None:
    assert violations(edges) == told


def test_the_scanner_finds_unsafe_and_io() -> None:
    assert unsafe_violations(
        {"ssd": "#![allow(unsafe_code)]", "devices": '#[expect(unsafe_code, reason = "")]'}
    ) == ["ssd"]
    assert impure_violations({"ssd": "use std::fs::File;", "traces": "use std::fs::File;"}) == [
        "ssd: std::fs"
    ]


def test_paths_of_this_file_are_right() -> None:
    assert (Path(ROOT) / "crates" / "units").is_dir()
