"""The command `python -m experiments book`: runs what is missing, judges, and writes the pages."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from experiments.book.chapters import CHAPTERS
from experiments.book.kept import COMMITTED, FOLDER
from experiments.book.pages import INDEX, chapter_page, index_page, write
from experiments.book.running import Runs, Shelf, Wanted
from experiments.book.verdicts import Library, all_wanted, judged
from experiments.registry import Set
from flashwright._text import several
from flashwright.progress import StoppedError, follow
from flashwright.runs import provenance

NAME = "book"
AGAIN = click.Option(
    ["--again"], is_flag=True, help="book: Run all parts that the book runs by itself, kept or not."
)
HELP = (
    "`book` writes the book of the five papers into OUT/book: each of their claims beside ours, "
    "with a verdict. It takes results that are kept in runs/experiments and runs what is missing; "
    "with --quick only what takes seconds. After Ctrl-C it goes on from there."
)


def _missing(wanted: Sequence[Wanted], shelf: Shelf, *, again: bool, quick: bool) -> list[Wanted]:
    """Give the parts that are run: those that the book runs, of which nothing is kept."""
    own = [one for one in wanted if one.is_run and (one.is_quick or not quick)]
    return [one for one in own if again or shelf.current(one) is None]


def _run(missing: Sequence[Wanted], shelf: Shelf) -> dict[str, str]:
    """Run parts, and give why sets failed. Raises StoppedError after Ctrl-C."""
    lines = not sys.stderr.isatty()
    runs = Runs(missing, shelf, _tell if lines else None)
    _tell(f"{several(len(missing), 'part')} to run: about {runs.estimate()}, if alone")
    try:
        follow(runs.label, "", runs, runs.run)
    except StoppedError:
        _tell(f"what ended is kept in {shelf.folder}; the same command goes on from there")
        raise
    return runs.failed


def _tell(line: str) -> None:
    sys.stderr.write(f"book: {line}\n")
    sys.stderr.flush()


def make(
    sets: Sequence[Set[Any]],
    out: Path,
    *,
    again: bool = False,
    quick: bool = False,
    kept: Path = FOLDER,
) -> bool:
    """Make the book, and say whether every part that was run gave a result.

    Raises:
        StoppedError: the user stopped it.
        InputError: a folder cannot be written.
    """
    shelf = Shelf(kept, COMMITTED)
    wanted = all_wanted(CHAPTERS, Library(sets, shelf))
    missing = _missing(wanted, shelf, again=again, quick=quick)
    failed = _run(missing, shelf) if missing else {}
    # Another one: it remembers what it found.
    library = Library(sets, shelf)
    found = {chapter: list(judged(chapter, library)) for chapter in CHAPTERS}
    results = [result for one in wanted if (result := library.kept(one)) is not None]
    made_by = provenance(["python", "-m", "experiments", *sys.argv[1:]], [], None)
    links = [("Count", INDEX), *((chapter.paper, chapter.file) for chapter in CHAPTERS)]
    problems = [f"{name} failed: {why}" for name, why in failed.items()]
    pages = {INDEX: index_page(found, results, made_by, links, problems)}
    for chapter, claims in found.items():
        pages[chapter.file] = chapter_page(chapter, claims, library, made_by, links)
    first = write(out / NAME, pages, [one for claims in found.values() for one in claims])
    click.echo(f"{pages[INDEX].headline} {first}")
    return not failed
