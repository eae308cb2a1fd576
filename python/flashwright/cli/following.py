"""Commands that a command proposes to run next.

All such lines stand here: `tests/python/test_next.py` runs each of them.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from flashwright.cli.output import Json

_DRIVE = ("--on", "samsung-pm9a3")
"""A drive that was fitted to measurements: no modern drive is known better."""
NEXT: dict[str, tuple[str, ...]] = {
    "advise": (),
    "play": _DRIVE,
    "compare": ("--op", "0.1,0.2,0.3"),
}
"""The commands that are proposed, each with its options."""


def propose(to: Json, command: str, source: str | Path) -> None:
    """Print a command that goes on with what is there now."""
    words = ("flashwright", command, str(source), *NEXT[command])
    say_next(to, shlex.join(words))


def say_next(to: Json, command: str) -> None:
    """Print a command as it is to be typed; whoever makes it up himself has a test that runs it."""
    to.say(f"Next:   {command}")
