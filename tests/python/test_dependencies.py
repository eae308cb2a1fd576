"""The direction of dependencies between crates, who may do I/O, and who may be `unsafe`.

That nothing within a crate goes round in a circle is held by test_imports.
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
    {"traces", "models", "block", "wal"},
    {"placement", "player"},
    {"ftl"},
    {"ssd"},
    {"layers", "devices"},
    {"prober", "replay", "transactions", "faults"},
    {"servers"},
    {"jobs", "nbdkit", "sqlite"},
    {"bindings"},
)
PLUGINS = ("nbdkit", "sqlite")
MAY_BE_UNSAFE = {"devices", "sqlite"}
# Kinds of I/O, clocks and unseeded randomness that a crate of pure computation has no business
# with.
PURE = {"units", "registry", "block", "models", "placement", "player", "ftl", "ssd", "layers"}
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


def listed(text: str) -> list[list[str]]:
    """Give the crates of each line of the list in ARCHITECTURE.md, from the bottom up."""
    part = text.split("    crates/\n")[1].split("    python/", maxsplit=1)[0]
    return [re.split(r"\s{3,}", line.strip())[0].split() for line in part.splitlines()]


def against(lines: list[list[str]], edges: dict[str, set[str]]) -> list[str]:
    """Name every dependency that goes up the list; those of one line may know each other."""
    place = {name: number for number, names in enumerate(lines) for name in names}
    return [
        f"{name} -> {other}"
        for name, needed in edges.items()
        for other in needed
        if place[other] > place[name]
    ]


def test_dependencies_go_down_the_list_of_the_architecture() -> None:
    lines = listed((ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8"))
    edges = _edges(_metadata())
    assert sorted(name for names in lines for name in names) == sorted(edges)
    assert against(lines, edges) == []


def test_the_list_is_read_as_it_is_drawn() -> None:
    rows = ("    crates/", "      a  b     x y", "      c        z (of z)", "    python/x/")
    text = "\n".join(rows)
    assert listed(text) == [["a", "b"], ["c"]]
    assert against([["a", "b"], ["c"]], {"a": {"b", "c"}, "c": {"a"}}) == ["a -> c"]


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
    ("edges", "found"),
    [
        ({"units": {"ssd"}, "ssd": set()}, ["units -> ssd"]),
        ({"ssd": {"bindings"}, "bindings": set()}, ["ssd -> bindings"]),
        ({"models": {"traces"}, "traces": set()}, ["models -> traces"]),
        ({"novelty": set()}, ["novelty has no step: add it to STEPS"]),
    ],
)
def test_the_scanner_finds_what_points_up(edges: dict[str, set[str]], found: list[str]) -> None:
    assert violations(edges) == found


def test_the_scanner_finds_unsafe_and_io() -> None:
    assert unsafe_violations(
        {"ssd": "#![allow(unsafe_code)]", "devices": '#[expect(unsafe_code, reason = "")]'}
    ) == ["ssd"]
    assert impure_violations({"ssd": "use std::fs::File;", "traces": "use std::fs::File;"}) == [
        "ssd: std::fs"
    ]


def test_paths_of_this_file_are_right() -> None:
    assert (Path(ROOT) / "crates" / "units").is_dir()


def _features(crate: str) -> dict[str, set[str]]:
    """Give the features of all that a crate is built of: others for what runs while it is built."""
    cargo = find_program("cargo")
    command = [cargo, "tree", "--offline", "-p", crate, "-e", "no-dev", "--prefix", "none"]
    done = subprocess.run(
        [*command, "--format", "{p} [{f}]"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    found: dict[str, set[str]] = {}
    for line in filter(None, done.stdout.splitlines()):
        package, _, features = line.removesuffix(" (*)").partition(" [")
        found.setdefault(package, set()).add(features)
    return found


def test_plugins_share_what_the_extension_is_built_of() -> None:
    """With other features the simulators would be compiled a second time, which takes minutes."""
    extension = _features("flashwright-bindings")
    for plugin in PLUGINS:
        differ = {
            package: (features, extension[package])
            for package, features in _features(f"flashwright-{plugin}").items()
            if package in extension and not features <= extension[package]
        }
        assert not differ, f"{plugin}: add these features to crates/{plugin}/Cargo.toml: {differ}"
