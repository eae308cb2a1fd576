"""What commands print and where: JSON, tables, run folders."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table

from flashwright._core import InputError
from flashwright.runs import REPORT_FILE, Run, default_folder, dump_json

_PADDING = 2
"""Between two columns."""


def command_line() -> list[str]:
    """Give the command as it was typed, the program by its plain name."""
    return ["flashwright", *sys.argv[1:]]


def prints_only_json(json_path: str | None) -> bool:
    """Tell whether standard output belongs to the JSON alone."""
    return json_path == "-"


def say(line: str = "", *, json_path: str | None = None) -> None:
    """Print a line for people, unless standard output belongs to the JSON."""
    if not prints_only_json(json_path):
        click.echo(line)


def write_json(document: Any, json_path: str | None) -> None:
    """Write the document where `--json` says, if it was given.

    Raises InputError if the file cannot be written.
    """
    if json_path is None:
        return
    if prints_only_json(json_path):
        sys.stdout.write(dump_json(document))
        sys.stdout.flush()
        return
    try:
        Path(json_path).write_text(dump_json(document), encoding="utf-8")
    except OSError as error:
        raise InputError(f"{json_path}: cannot write the JSON: {error.strerror}") from error


def finish(run: Run, *, out: Path | None, json_path: str | None, identity: Any) -> Path | None:
    """Write the run folder with its report, and the JSON; give the folder, if one was written."""
    folder = keep(run, out=out, json_path=json_path, identity=identity)
    tell_finished(run, folder, json_path=json_path)
    return folder


def keep(run: Run, *, out: Path | None, json_path: str | None, identity: Any) -> Path | None:
    """Write the run folder with its report; give it, if one was written."""
    from flashwright.reports import write_report

    if out is None and prints_only_json(json_path):
        return None
    folder = out or default_folder(run.command, identity)
    run.write(folder)
    write_report(folder)
    return folder


def tell_finished(run: Run, folder: Path | None, *, json_path: str | None) -> None:
    """Write the JSON, and say where the report is."""
    write_json(run.document(), json_path)
    if folder is not None:
        say(f"\nReport: {folder / REPORT_FILE}", json_path=json_path)


def print_table(
    columns: Sequence[tuple[str, str]], rows: Sequence[Sequence[str]], title: str | None = None
) -> None:
    """Print a table on standard output: `columns` are (heading, "left" or "right").

    Without a terminal nothing is cut to its width, so that a pipe gets everything.
    """
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=10_000, color_system=None)
    if title is not None:
        console.print(f"\n{title}", style="bold", markup=False)
    headed = any(heading for heading, _ in columns)
    for part in parts_that_fit([heading for heading, _ in columns], rows, console.width):
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold", show_header=headed)
        for number in part:
            heading, justify = columns[number]
            table.add_column(
                heading,
                justify="right" if justify == "right" else "left",
                no_wrap=not console.is_terminal,
            )
        for row in rows:
            table.add_row(*(row[number] for number in part))
        console.print(table)


def parts_that_fit(
    headings: Sequence[str], rows: Sequence[Sequence[str]], width: int
) -> list[list[int]]:
    """Tell which columns of a table to print together.

    No cell of it wraps in so many characters then. Columns that name the rows (all on the left
    without which two rows would look the same) stand in every part. What does not fit even so is
    left to wrap.
    """
    widths = [
        max(cell_len(row[number]) for row in (headings, *rows)) + _PADDING
        for number in range(len(headings))
    ]
    if sum(widths) <= width or len(headings) == 1:
        return [list(range(len(headings)))]
    keys = next(
        (n for n in range(1, len(headings)) if len({tuple(row[:n]) for row in rows}) == len(rows)),
        1,
    )
    room = width - sum(widths[:keys])
    parts: list[list[int]] = []
    left = 0
    for number in range(keys, len(headings)):
        if not parts or widths[number] > left:
            parts.append(list(range(keys)))
            left = room
        parts[-1].append(number)
        left -= widths[number]
    return parts
