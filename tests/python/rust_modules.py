"""Reads which modules of a Rust crate name which, from their source."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ModulePath = tuple[str, ...]
_PATH = re.compile(r"(?<![\w:])(?:crate|(?:self::)?super(?:::super)*)::")


def module_of(file: str) -> ModulePath:
    """Give the path of a module below `src`: `drive/media/die.rs` is drive, media, die."""
    parts = tuple(file.removesuffix(".rs").split("/"))
    return parts[:-1] if parts[-1] in {"mod", "lib"} else parts


def shipped(text: str) -> str:
    """Give source without comments, visibilities and what is compiled for tests alone.

    Lines stay where they are.
    """
    text = re.sub(r"//[^\n]*", "", text)
    text = re.sub(r"\bpub\s*\(in [^)]*\)", "", text)
    text = re.sub(r"#\[cfg\(test\)\]\s*(pub(\([^)]*\))?\s+)?use [^;]*;", _blank, text)
    return re.split(r"#\[cfg\(test\)\]\s*mod \w+ \{", text)[0]


def _blank(found: re.Match[str]) -> str:
    return "\n" * found[0].count("\n")


def _names(text: str, at: int) -> tuple[list[ModulePath], int]:
    """Give the paths of a use tree that begins at `at`, and where it ends."""
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


def references(file: str, text: str) -> Iterator[tuple[ModulePath, int]]:
    """Give every path that shipped code names through `crate` or `super`, each with its line."""
    text = shipped(text)
    module = module_of(file)
    for start in _PATH.finditer(text):
        ups = start[0].count("super")
        base = module[: len(module) - ups] if ups else ()
        line = text.count("\n", 0, start.start()) + 1
        for path in _names(text, start.end())[0]:
            yield (*base, *path), line


def sources(crate: Path) -> dict[str, str]:
    """Give the files below `src` that are shipped, without those of modules for tests."""
    folder = crate / "src"
    texts = {
        str(path.relative_to(folder)): path.read_text(encoding="utf-8")
        for path in sorted(folder.rglob("*.rs"))
    }
    tests = {
        (*module_of(file), name)
        for file, text in texts.items()
        for name in re.findall(r"#\[cfg\(test\)\]\s*(?:pub(?:\([^)]*\))? )?mod (\w+);", text)
    }
    return {
        file: text
        for file, text in texts.items()
        if not any(module_of(file)[: len(test)] == test for test in tests)
    }
