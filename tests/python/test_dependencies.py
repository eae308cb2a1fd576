"""The direction of dependencies between crates and between the folders of `ssd`.

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
    {"placement", "player"},
    {"ftl"},
    {"ssd"},
    {"layers", "devices"},
    {"prober", "replay", "transactions", "faults"},
    {"servers"},
    {"bindings", "nbdkit", "sqlite"},
)
PLUGINS = ("nbdkit", "sqlite")
MAY_BE_UNSAFE = {"devices", "servers", "prober", "sqlite"}
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


ModulePath = tuple[str, ...]


def _module_of(file: str) -> ModulePath:
    """The path of a module below `crates/ssd/src`: `drive/media/die.rs` is drive, media, die."""
    parts = tuple(file.removesuffix(".rs").split("/"))
    return parts[:-1] if parts[-1] in {"mod", "lib"} else parts


def _part_of(path: ModulePath) -> str:
    """The row of the table that a module or an item belongs to."""
    return path[1] if path[0] == "drive" and len(path) > 1 and path[1] in MAY_KNOW else path[0]


def _shipped(text: str) -> str:
    """Source without comments, visibilities and the module of tests at its end."""
    text = re.sub(r"//[^\n]*", "", text)
    text = re.sub(r"\bpub\s*\(in [^)]*\)", "", text)
    return re.split(r"#\[cfg\(test\)\]\s*mod \w+ \{", text)[0]


def _names(text: str, at: int) -> tuple[list[ModulePath], int]:
    """The paths of a use tree that begins at `at`, and where it ends."""
    while text[at].isspace():
        at += 1
    if text[at] == "{":
        found: list[ModulePath] = []
        at += 1
        while True:
            while text[at].isspace() or text[at] == ",":
                at += 1
            if text[at] == "}":
                return found, at + 1
            inner, at = _names(text, at)
            found += inner
            if renamed := re.compile(r"\s+as\s+\w+").match(text, at):
                at = renamed.end()
    name = re.compile(r"\w+|\*").match(text, at)
    if name is None:
        return [], at
    at = name.end()
    if text[at : at + 2] != "::":
        return [(name[0],)], at
    inner, at = _names(text, at + 2)
    return [(name[0], *rest) for rest in inner] or [(name[0],)], at


def references(file: str, text: str) -> list[ModulePath]:
    """Every path that the shipped code of a file of `ssd` names through `crate` or `super`."""
    text = _shipped(text)
    found = []
    for start in re.finditer(r"(?<![\w:])(?:crate|(?:self::)?super(?:::super)*)::", text):
        ups = start[0].count("super")
        module = _module_of(file)
        base = module[: len(module) - ups] if ups else ()
        found += [(*base, *path) for path in _names(text, start.end())[0]]
    return found


def folder_violations(sources: dict[str, str], may_know: dict[str, set[str]]) -> list[str]:
    """Every name that a part of `ssd` uses of one it may not know; every part without a row."""
    found = set()
    for file, text in sources.items():
        module = _module_of(file)
        if not module or "tests" in module[-1]:
            continue
        part = _part_of(module)
        if part not in may_know:
            if module != ("drive",):
                found.add(f"{file} has no row in the table of ARCHITECTURE.md")
            continue
        for path in references(file, text):
            other = _part_of(path)
            item = (
                f"{other}::{path[2 if path[0] == 'drive' else 1]}"
                if len(path) > 1 + (path[0] == "drive")
                else ""
            )
            if other != part and not {other, item} & may_know[part]:
                found.add(f"{file} -> {item or other}")
    return sorted(found)


def _table_of_folders() -> dict[str, set[str]]:
    """Part of `ssd` -> what it may know: the last column of the table in ARCHITECTURE.md."""
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    table = text.split("## The crate `ssd`, by folder", 1)[1].split("\n## ", 1)[0]
    rows = [line.split("|")[1:-1] for line in table.splitlines() if line.startswith("| `")]
    word = re.compile(r"`([^`]+)`")
    return {
        part.removesuffix("/").removesuffix(".rs"): set(word.findall(row[-1]))
        for row in rows
        for part in word.findall(row[0])
    }


MAY_KNOW = _table_of_folders()


def _ssd_sources() -> dict[str, str]:
    source = ROOT / "crates" / "ssd" / "src"
    return {
        str(path.relative_to(source)): path.read_text(encoding="utf-8")
        for path in sorted(source.rglob("*.rs"))
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


def test_folders_of_ssd_know_what_the_table_says() -> None:
    assert folder_violations(_ssd_sources(), MAY_KNOW) == []


def test_the_table_of_folders_has_no_leave_that_nobody_takes() -> None:
    sources = _ssd_sources()
    unused = [
        f"{part} -> {other}"
        for part, others in MAY_KNOW.items()
        for other in others
        if not folder_violations(sources, {**MAY_KNOW, part: others - {other}})
    ]
    assert unused == []


def test_the_table_of_folders_goes_round_in_no_circle() -> None:
    """A single name, such as `schemes::SCHEMES`, is an exception: a whole part is not."""
    left = {
        part: {other for other in others if "::" not in other} for part, others in MAY_KNOW.items()
    }
    while free := [part for part, others in left.items() if not others & left.keys()]:
        for part in free:
            del left[part]
    assert left == {}


@pytest.mark.parametrize(
    ("file", "text", "found"),
    [
        ("drive/media/die.rs", "use crate::drive::schemes::Scheme;", ["schemes::Scheme"]),
        ("drive/media/die.rs", "use super::super::schemes::Scheme;", ["schemes::Scheme"]),
        (
            "drive/media/mod.rs",
            "use super::schemes::{Scheme, WornOut as Worn};",
            ["schemes::Scheme", "schemes::WornOut"],
        ),
        (
            "drive/media/die.rs",
            "use crate::{drive::{time::Picos, dram}, counting::Wear};",
            ["counting::Wear", "dram"],
        ),
        ("drive/media/die.rs", "fn f(run: &crate::drive::run::Outcome) {}", ["run::Outcome"]),
        ("drive/media/die.rs", "use crate::drive::*;", ["drive"]),
        (
            "drive/profile/check.rs",
            "use crate::drive::schemes::{SCHEMES, Scheme};",
            ["schemes::Scheme"],
        ),
        ("drive/media/die.rs", "// crate::drive::schemes\nuse super::command::Cause;", []),
        (
            "drive/media/die.rs",
            "pub(in crate::drive) struct A;\n#[cfg(test)]\nmod tests { use crate::drive::run; }",
            [],
        ),
        ("drive/media/tests.rs", "use crate::drive::run;", []),
        (
            "steady.rs",
            "use crate::counting::Wear; use crate::drive::media::Media;",
            ["counting::Wear", "media::Media"],
        ),
        (
            "counting/run.rs",
            "use crate::steady::Stretch; use crate::drive::time::Picos;",
            ["time::Picos"],
        ),
    ],
)
def test_the_scanner_finds_what_a_folder_may_not_know(
    file: str, text: str, found: list[str]
) -> None:
    assert folder_violations({file: text}, MAY_KNOW) == [f"{file} -> {name}" for name in found]


def test_the_scanner_finds_a_folder_without_a_row() -> None:
    assert folder_violations({"drive/novelty/mod.rs": "", "drive/media/die.rs": ""}, MAY_KNOW) == [
        "drive/novelty/mod.rs has no row in the table of ARCHITECTURE.md"
    ]


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
