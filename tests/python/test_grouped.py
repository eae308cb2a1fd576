"""Options in groups in the help of commands."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest

from flashwright.cli import cli as group
from flashwright.cli.grouped import GroupedCommand
from support import Cli


def _grouped(command: click.Command, words: tuple[str, ...]) -> Iterator[click.Command]:
    if isinstance(command, click.Group):
        for name, below in command.commands.items():
            yield from _grouped(below, (*words, name))
    if isinstance(command, GroupedCommand):
        command.name = " ".join(words)
        yield command


@pytest.mark.parametrize("command", list(_grouped(group, ())), ids=lambda one: str(one.name))
def test_a_group_has_options_that_there_are(command: GroupedCommand) -> None:
    assert set(command.groups) <= {one.name for one in command.params}


def test_each_option_is_shown_once_and_help_last(cli: Cli) -> None:
    shown = cli("serve", "--help").stdout
    for word in ("--nbd SOCKET", "--staging", "--depth", "--unit", "--help"):
        assert shown.count(f"  {word}") + shown.count(f", {word}") == 1, word
    titles = ["How it is reached:", "What is served:", "Its server:", "Other options:"]
    places = [shown.index(title) for title in titles]
    assert places == sorted(places)
    assert shown.index("--help  Show") > places[-1]
