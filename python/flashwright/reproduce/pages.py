"""What the commands of this package share that print a page.

The command that made it, its tables, and how it ends.
"""

from __future__ import annotations

import datetime
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from flashwright import _core
from flashwright._core import FlashwrightError, InputError
from flashwright.cli.progress import StoppedError
from flashwright.runs import git_revision


def command_of(module: str) -> str:
    """Give the command that runs a module of this package as it was run now."""
    return shlex.join(["python", "-m", f"flashwright.reproduce.{module}", *sys.argv[1:]])


def made_with() -> str:
    """Say what made a page, and when."""
    return (
        f"Flashwright {_core.__version__}, revision {git_revision() or 'unknown'}, "
        f"{datetime.date.today().isoformat()}."
    )


@contextmanager
def errors_told(name: str) -> Iterator[None]:
    """Tell an error in one line that begins with a name, and end with the exit code of its kind."""
    try:
        yield
    except (FlashwrightError, StoppedError) as error:
        sys.stderr.write(
            f"{name}: {'stopped' if isinstance(error, StoppedError) else 'error'}: {error}\n"
        )
        sys.exit(
            2 if isinstance(error, InputError) else 130 if isinstance(error, StoppedError) else 1
        )


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
