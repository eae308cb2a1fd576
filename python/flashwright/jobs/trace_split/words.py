"""What is said of a split: what is in the store, what is not, and what to heed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from flashwright import reading_words
from flashwright._core import InputError
from flashwright._text import count, several, size, span
from flashwright.written import wrong

ALWAYS: dict[str, tuple[str, Callable[[Any], str]]] = {
    "format": ("format", lambda name: name or "not known"),
    "volumes": ("volumes", count),
    "requests": ("requests", count),
    "read_bytes": ("read", size),
    "written_bytes": ("written", size),
    "traced_seconds": ("time traced", span),
    "parts": ("files", count),
}
IF_ANY: dict[str, tuple[str, Callable[[Any], str]]] = {
    "trimmed_bytes": ("trimmed", size),
    "skipped": ("malformed records skipped", count),
    "clamped_times": ("times before the first request, set to 0", count),
}
"""Figures that are said only if they are not zero."""


def label(asked: Mapping[str, Any]) -> str:
    """Say what is being done."""
    return f"Splitting {several(len(asked['sources']), 'file')}"


def rows(result: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Give what is in the store, and what was left out of it."""
    said = ALWAYS | {key: how for key, how in IF_ANY.items() if result[key]}
    left_out = [row for row in reading_words.rows(result) if not row[0].startswith("malformed")]
    return [*((name, write(result[key])) for key, (name, write) in said.items()), *left_out]


def lines(result: Mapping[str, Any]) -> list[str]:
    """Give what to know besides: what was there before, and what to heed."""
    warned = reading_words.lines({"warnings": result["warnings"]})
    before, requests = result["resumed_requests"], result["requests"]
    if not before:
        return warned
    if before == requests:
        return [*warned, f"All {count(requests)} requests were there from before."]
    return [*warned, f"{count(before)} of {count(requests)} requests were there from before."]


def in_words(error: InputError, out: str) -> InputError:
    """Give an error of reading or of the store with what it is of: Rust names the sources alone."""
    if getattr(error, "option", None) != "sources":
        return error
    said = str(error).removeprefix("sources: ").replace("(by_stream)", "(--by-stream)")
    return wrong("out", said) if said.startswith(f"{out}: ") else InputError(said)
