"""Write pages and reports of experiments: what made them, their tables, and how errors end."""

from __future__ import annotations

import datetime
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from experiments.registry import option
from flashwright import _core
from flashwright._core import FlashwrightError, InputError
from flashwright.pages.page import Page, render
from flashwright.progress import StoppedError
from flashwright.runs import dump_json, git_revision

OUT = option("--out", Path("runs"), click.Path(path_type=Path), "Folder of the reports.")
ON = option(
    "--on",
    Path("/var/tmp"),  # noqa: S108
    click.Path(path_type=Path),
    "Where files and loop devices lie.",
)


def page(title: str, command: str, note: str, parts: Iterable[str]) -> str:
    """Give a Markdown page: its command, what made it and when, a note, and its parts.

    Parts without text are left out.
    """
    made = (
        f"Flashwright {_core.__version__}, revision {git_revision() or 'unknown'}, "
        f"{datetime.date.today().isoformat()}. {note}"
    )
    texts = (f"# {title}", f"    {command}", made, *parts)
    return "\n\n".join(text.rstrip() for text in texts if text) + "\n"


def write_report(folder: Path, report: Page, numbers: Mapping[str, Any]) -> None:
    """Write a report with figures into a folder, and the same numbers as JSON beside it.

    Raises InputError if that cannot be done.
    """
    where = writable(folder) / "report.html"
    try:
        where.write_text(render(report), encoding="utf-8")
        (folder / "numbers.json").write_text(dump_json(dict(numbers)), encoding="utf-8")
    except OSError as error:
        raise InputError(f"{folder}: cannot write the report: {error.strerror}") from error
    sys.stderr.write(f"{folder.name}: report in {where}\n")


def writable(folder: Path) -> Path:
    """Make the folder of a report, and give it. Raises InputError if that cannot be done."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot write the report: {error.strerror}") from error
    return folder


def change(ratio: float) -> str:
    """Give a ratio as a change in percent, with its sign."""
    return f"{100 * (ratio - 1):+.0f} %"


@contextmanager
def one_line_errors() -> Iterator[None]:
    """End with one line on standard error, and with the exit code of its kind."""
    try:
        yield
    except (FlashwrightError, StoppedError, OSError) as error:
        stopped = isinstance(error, StoppedError)
        sys.stderr.write(f"experiments: {'stopped' if stopped else 'error'}: {error}\n")
        sys.exit(130 if stopped else 2 if isinstance(error, InputError) else 1)


def markdown_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Give a Markdown table that is readable as it stands.

    Columns without any entry are left out.
    """
    kept = [n for n in range(len(headings)) if any(line[n] for line in rows)]
    lines = [
        [headings[n] for n in kept],
        *([line[n].replace("|", "\\|") for n in kept] for line in rows),
    ]
    widths = [max(3, *(len(line[n]) for line in lines)) for n in range(len(kept))]
    padded = ["| " + " | ".join(map(str.ljust, line, widths)) + " |" for line in lines]
    return "\n".join(
        [padded[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *padded[1:]]
    )
