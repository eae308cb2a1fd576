"""Writes the manual pages, of what `--help` says. `make readme` calls it.

A folder may be given; otherwise they go to where wheels take them from.
"""

from __future__ import annotations

import copy
import inspect
import re
import sys
from pathlib import Path

import click
from click_man.core import write_man_pages

from flashwright import __version__
from flashwright.cli import cli

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "packaging" / "data" / "share" / "man" / "man1"
DATE = "2026-11-23"
"""Of the text, so that pages of the same text are the same; changed by whoever changes much."""


def _escaped(text: str) -> str:
    """Keep troff from reading text as its own commands."""
    text = text.replace("\\", "\\e")
    return re.sub(r"^([.'])", r"\\&\1", text, flags=re.MULTILINE)


def _described(text: str) -> str:
    """Give a help text for troff: what click does not wrap keeps its lines."""
    blocks = []
    for block in inspect.cleandoc(text).split("\n\n"):
        if block.startswith("\b"):
            blocks.append(f".nf\n{_escaped(block[1:].strip(chr(10)))}\n.fi")
        else:
            blocks.append(_escaped(block))
    return "\n\n".join(blocks)


def _for_troff(command: click.Command) -> click.Command:
    """Give a copy of a command, and of all below it, with texts for troff."""
    made = copy.copy(command)
    made.help = _described(command.help or "")
    made.short_help = _escaped(command.get_short_help_str(120))
    made.params = []
    for option in command.params:
        changed = copy.copy(option)
        if isinstance(changed, click.Option) and changed.help:
            changed.help = _escaped(changed.help)
        made.params.append(changed)
    if isinstance(made, click.Group) and isinstance(command, click.Group):
        made.commands = {name: _for_troff(one) for name, one in command.commands.items()}
    return made


def write(folder: Path) -> None:
    """Write all pages into a folder, and remove those of commands that are gone."""
    folder.mkdir(parents=True, exist_ok=True)
    for stale in folder.glob("*.1"):
        stale.unlink()
    write_man_pages(
        "flashwright", _for_troff(cli), version=__version__, target_dir=str(folder), date=DATE
    )


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else PAGES)
