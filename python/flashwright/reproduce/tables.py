"""Sets whose parts are one table each: what most of them have in common."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flashwright.reproduce.pages import made_with, markdown_table
from flashwright.reproduce.registry import Made, Part, Request

Found = tuple[list[list[str]], list[dict[str, Any]]]
"""The rows of a table, and the same numbers for JSON."""


@dataclass(frozen=True)
class TablePart(Part):
    """A table, and what a reader has to know of it."""

    headings: tuple[str, ...]
    make: Callable[[], Found]
    remark: str


def make_tables(title: str, request: Request[TablePart]) -> Made:
    """Make the parts that are asked for, as a page of this title."""
    lines = [f"# {title}", "", f"Made by `{request.command}`.", ""]
    document: dict[str, Any] = {}
    for part in request.parts:
        rows, documents = part.make()
        table = markdown_table(part.headings, rows)
        lines += [f"## {part.name}: {part.title}", "", part.remark, "", table, ""]
        document[part.name] = documents
    lines += [made_with(), ""]
    return Made("\n".join(lines), document)
