"""Sets whose parts are one table each: what most of them have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import click

from experiments.pages import markdown_table, page
from experiments.registry import Made, Part, Request, Set

Options = Mapping[str, Any]
"""Values of a set's own options."""
Found = tuple[list[list[str]], list[dict[str, Any]]]
"""The rows of a table, and the same numbers for JSON."""


@dataclass(frozen=True)
class TablePart(Part):
    """A table, and what a reader has to know of it."""

    headings: tuple[str, ...]
    make: Callable[[Options], Found]
    remark: str


def table_set(
    name: str,
    title: str,
    needs: str,
    parts: Sequence[TablePart],
    options: Sequence[click.Option] = (),
    note: str = "",
) -> Set[TablePart]:
    """Give tables as a set; the note stands above all of them."""
    return Set(name, title, needs, parts, partial(_make, title, note), options)


def _make(title: str, note: str, request: Request[TablePart]) -> Made:
    texts: list[str] = []
    document: dict[str, Any] = {}
    for part in request.parts:
        rows, document[part.name] = part.make(request.options)
        texts += [section(part, rows)]
    return Made(page(title[0].upper() + title[1:], request.command, note, texts), document)


def section(part: Any, rows: Sequence[Sequence[str]]) -> str:
    """Give the section of a part with a table: its heading, its remark and the rows."""
    table = markdown_table(part.headings, rows)
    return f"## {part.name}: {part.title}\n\n{part.remark}\n\n{table}"
