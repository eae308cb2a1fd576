"""Lines and tables on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

import click
from rich import box
from rich.console import Console
from rich.table import Table

from flashwright.terminal.narrow import GAP, Column, parts_that_fit, width, wrapped


def say(line: str = "", *, err: bool = False) -> None:
    """Print a line for people, broken into lines that fit; `err`: on standard error."""
    click.echo(wrapped(line), err=err)


def print_table(
    columns: Sequence[tuple[str, str]], rows: Sequence[Sequence[str]], title: str | None = None
) -> None:
    """Print a table on standard output: `columns` are (heading, "left" or "right").

    It fits the terminal, or 80 columns where there is none; no cell is cut.
    """
    most = width()
    known = [
        Column(heading, [row[number] for row in rows], is_right=justify == "right")
        for number, (heading, justify) in enumerate(columns)
    ]
    parts = parts_that_fit(known, rows, most)
    widest = max(sum(wide + GAP for _, wide in part) for part in parts)
    console = Console(highlight=False, width=max(most, widest))
    if title is not None:
        console.print(f"\n{wrapped(title, most)}", style="bold", markup=False)
    for part in parts:
        table = Table(
            box=box.SIMPLE_HEAD,
            padding=(0, GAP - 1, 0, 0),
            pad_edge=False,
            show_edge=False,
            header_style="bold",
            show_header=any(heading for heading, _ in columns),
        )
        for number, wide in part:
            table.add_column(
                known[number].heading_in(wide),
                justify="right" if columns[number][1] == "right" else "left",
                width=wide,
            )
        for row in rows:
            table.add_row(*(known[number].cell_in(row[number], wide) for number, wide in part))
        console.print(table)
        console.print()
