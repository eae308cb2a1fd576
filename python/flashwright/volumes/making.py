"""Files that a command makes for a volume, and what becomes of them when it fails."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from flashwright import _core
from flashwright._core import FlashwrightError

_STEP_BYTES = 4096


@contextlib.contextmanager
def made_files(wanted: Sequence[tuple[str | None, int | None]]) -> Iterator[None]:
    """Make files of these sizes, each with room for all of it; a pair without either is no file.

    If what is done with them fails, those that nothing durable names go again. What names them is
    in headers on devices: they are asked, as whoever fails cannot know how far it came. A file that
    is needed by what they say, or of which they cannot be asked, stays, and the error says so.

    Raises InputError if there is one already, or no room.
    """
    mine: list[Path] = []
    try:
        for name, size in wanted:
            if name is not None and size is not None:
                _core.allocate_file(Path(name), -(-size // _STEP_BYTES) * _STEP_BYTES)
                mine.append(Path(name))
        yield
    except FlashwrightError as error:
        kept = [why for path in reversed(mine) if (why := _removed(path)) is not None]
        if kept:
            raise type(error)("; ".join((str(error), *kept))) from error
        raise


def _removed(path: Path) -> str | None:
    """Remove a file that nothing needs; say why it stays if it does."""
    why = _core.device_needed(os.fspath(path))
    if why is not None:
        return f"{path} stays: {why}"
    path.unlink(missing_ok=True)
    return None
