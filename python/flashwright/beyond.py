"""Addresses that a device does not have: one rule for every command, in the same words.

They are refused, unless the user says where they go: the option that says so is named.
"""

from __future__ import annotations

from flashwright._core import InputError
from flashwright._text import size

_CAPACITY = "--capacity gives a simulated drive another size"
FOLD = f"{_CAPACITY}, --fold lets addresses begin again at the start"
REMAP = (
    f"{_CAPACITY}, --remap fold lets addresses begin again at the start, --remap scale shrinks all "
    "of them onto it, --remap dense moves together what is touched"
)

FOLD_ARGUMENT = "fold=True lets addresses begin again at the start"
REMAP_ARGUMENT = (
    'remap="fold" lets addresses begin again at the start, "scale" shrinks all of them onto it, '
    '"dense" moves together what is touched'
)


def check(trace: str, end_bytes: int, where: str, has_bytes: int, choices: str) -> None:
    """Refuse a trace that needs more bytes than there are.

    `choices`: the options of the command that say where such addresses go; empty if it has none.

    Raises InputError.
    """
    if end_bytes <= has_bytes:
        return
    raise InputError(
        f"{trace} goes up to byte {end_bytes} ({size(end_bytes)}), and {where} has {has_bytes} "
        f"({size(has_bytes)}): take a larger device{f'; or {choices}' if choices else ''}"
    )
