"""Imports commands when they are asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from importlib import import_module

import click

from flashwright.cli.outputs import guarded


class CommandsLater(MutableMapping[str, click.Command]):
    """Commands by name, imported when they are asked for: most words ask for one of many.

    All are imported for help and for the completion of a shell.
    """

    def __init__(self, modules: Mapping[str, str]) -> None:
        """Take the module of each name; in it the command has the module's own name."""
        self._found: dict[str, str | click.Command] = dict(modules)

    def __getitem__(self, name: str) -> click.Command:
        """Give a command, imported if it was not."""
        found = self._found[name]
        if isinstance(found, str):
            found = guarded(getattr(import_module(found), found.rpartition(".")[2]))
            self._found[name] = found
        return found

    def __setitem__(self, name: str, command: click.Command) -> None:
        """Add a command, which may not write over what it reads either."""
        self._found[name] = guarded(command)

    def __delitem__(self, name: str) -> None:
        """Take a command out."""
        del self._found[name]

    def __contains__(self, name: object) -> bool:
        """Tell whether there is a command of that name, without importing it."""
        return name in self._found

    def __iter__(self) -> Iterator[str]:
        """Go through the names."""
        return iter(self._found)

    def __len__(self) -> int:
        """Count them."""
        return len(self._found)
