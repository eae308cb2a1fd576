"""What the pages of this package share: what made them, tables, and how errors end."""

from __future__ import annotations

import datetime
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from flashwright import _core
from flashwright._core import FlashwrightError, InputError
from flashwright.progress import StoppedError
from flashwright.runs import git_revision


def made_with() -> str:
    """Say what made a page, and when."""
    return (
        f"Flashwright {_core.__version__}, revision {git_revision() or 'unknown'}, "
        f"{datetime.date.today().isoformat()}."
    )


@contextmanager
def one_line_errors() -> Iterator[None]:
    """End with one line on standard error, and with the exit code of its kind."""
    try:
        yield
    except (FlashwrightError, StoppedError, OSError) as error:
        stopped = isinstance(error, StoppedError)
        sys.stderr.write(f"reproduce: {'stopped' if stopped else 'error'}: {error}\n")
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
