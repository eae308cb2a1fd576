"""Options that may be given again, or hold several values with commas between them."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import click
from click.shell_completion import CompletionItem

_OPENING = "([{"
_CLOSING = ")]}"


def split_names(text: str) -> list[str]:
    """Split `a,b(x=1,y=2),c` at the commas outside of brackets and quotes."""
    return [part for part in (part.strip() for part in _parts(text)) if part]


def split_assignments(text: str) -> list[str]:
    """Split `a=1,b=x,y,c=2` before each `name=`: what follows another comma belongs to the value.

    Commas within brackets and quotes belong to values, too.
    """
    joined: list[str] = []
    for part in _parts(text):
        name, equals, _ = part.partition("=")
        if joined and not (equals and _is_name(name.strip())):
            joined[-1] += f",{part}"
        else:
            joined.append(part)
    return [part for part in (part.strip() for part in joined) if part]


def _is_name(text: str) -> bool:
    return bool(text) and all(letter.isalnum() or letter in "._-" for letter in text)


def _parts(text: str) -> list[str]:
    """Split at the outer commas."""
    parts, depth, quote = [""], 0, ""
    for letter in text:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        else:
            depth += (letter in _OPENING) - (letter in _CLOSING)
        if letter == "," and depth <= 0 and not quote:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


class Listed(click.Option):
    """An option whose values are given again, or as `a,b`, or both.

    What names a file or a device that is there is one value, commas or not.
    """

    def __init__(
        self,
        *names: Any,
        split: Callable[[str], list[str]] = split_names,
        **how: Any,
    ) -> None:
        super().__init__(*names, **{**how, "multiple": True})
        self._split = split

    def type_cast_value(self, ctx: click.Context, value: Any) -> Any:
        """Give the values one by one, each as its type reads it."""
        return super().type_cast_value(ctx, None if value is None else self._all_of(ctx, value))

    def _all_of(self, ctx: click.Context, given: Sequence[Any]) -> tuple[Any, ...]:
        found: list[Any] = []
        for one in given:
            if not isinstance(one, str) or os.path.lexists(one):
                found.append(one)
                continue
            parts = self._split(one)
            if not parts:
                raise click.BadParameter(f"{one!r} names nothing", ctx, self)
            found += parts
        return tuple(found)


class Named(click.types.StringParamType):
    """A name of `flashwright list`, or more of it: a shell completes it.

    The value is taken as it is; whoever uses it knows what may stand there.
    """

    name = "name"

    def __init__(self, *kinds: str, others: Sequence[str] = (), or_file: bool = False) -> None:
        """Complete names of these kinds, these `others`, and files where one may be named."""
        self._kinds, self._others, self._or_file = kinds, others, or_file

    def shell_complete(
        self, _ctx: click.Context, _param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Give the names that begin as the last of the names typed does."""
        from flashwright.cli.named import everything

        begun = _parts(incomplete)[-1]
        before = incomplete[: len(incomplete) - len(begun)]
        known = everything()
        entries = [
            (entry["name"], entry.get("summary", ""))
            for kind in self._kinds
            for entry in known[kind]
        ]
        entries += [(name, "") for name in self._others]
        found = [
            CompletionItem(before + name, help=about)
            for name, about in entries
            if name.startswith(begun)
        ]
        if self._or_file and not before and (not found or "/" in begun):
            found.append(CompletionItem(incomplete, type="file"))
        return found


ANY_DEVICE = Named("profile", or_file=True)
"""Of what is a device of any kind: a profile, a file, a block device."""
