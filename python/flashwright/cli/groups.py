"""Commands that have further commands below them."""

from __future__ import annotations

from typing import Any

import click


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
