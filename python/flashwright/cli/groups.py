"""Commands that have further commands below them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from importlib import import_module
from typing import Any

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
        """Add a command."""
        self._found[name] = command

    def __delitem__(self, name: str) -> None:
        """Take a command out."""
        del self._found[name]

    def __iter__(self) -> Iterator[str]:
        """Go through the names."""
        return iter(self._found)

    def __len__(self) -> int:
        """Count them."""
        return len(self._found)


class CommandWithMore(click.Group):
    """A command of its own that also has commands below it.

    `device PROFILE` tells a profile, `device import-mqsim FILE` makes one. A first word that is the
    name of a command below is that command; with any other the command is as if it were alone.
    """

    allow_extra_args = False
    allow_interspersed_args = True

    def __init__(self, *args: Any, **settings: Any) -> None:
        # Without words it is a command without its argument, and no group that shows its help.
        super().__init__(*args, **{"no_args_is_help": False, **settings})

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        """Parse the words as those of the command itself, or of a group of those below."""
        if args and args[0] in self.commands:
            below = click.Group(self.name, self.commands, help=self.help)
            return below.make_context(info_name, args, parent, **extra)
        return super().make_context(info_name, args, parent, **extra)

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Give the options and arguments of the command: none of them is of a command below.

        Click asks for them to name that, as it would stand behind them.
        """
        return super().get_params(ctx) if ctx.command is self else []

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse as a command does: without a word for a command below."""
        return click.Command.parse_args(self, ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Do what the command itself does."""
        return click.Command.invoke(self, ctx)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Give the words of the command itself: those below are listed at the end of its help."""
        return click.Command.collect_usage_pieces(self, ctx)
