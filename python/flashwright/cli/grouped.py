"""Commands whose help has its options in groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click


class GroupedCommand(click.Command):
    """A command whose help has its options in groups, in the order of their first options.

    Those that are in no group come last.
    """

    def __init__(
        self, *args: Any, groups: Mapping[str, Sequence[str]] | None = None, **settings: Any
    ) -> None:
        """Take the names of the parameters of each group, by its title."""
        super().__init__(*args, **settings)
        self.groups = {name: title for title, names in (groups or {}).items() for name in names}

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write each group of options under its title."""
        sections: dict[str, list[tuple[str, str]]] = {}
        others: list[tuple[str, str]] = []
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and not isinstance(parameter, click.Argument):
                title = self.groups.get(parameter.name or "")
                (others if title is None else sections.setdefault(title, [])).append(record)
        for title, records in (*sections.items(), ("Other options", others)):
            with formatter.section(title):
                formatter.write_dl(records)
