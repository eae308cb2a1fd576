"""Limits on what there is to know: commands, options, and a help of one screen."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from flashwright.cli import cli as flashwright

MOST_COMMANDS = 23
MOST_OPTIONS = 260
MOST_OF_ONE = 30
MOST_LINES = 45


def _leaves(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    """Give each command that does something, by its whole name."""
    if not isinstance(command, click.Group):
        yield name, command
        return
    for below, inner in command.commands.items():
        yield from _leaves(inner, f"{name} {below}")


LEAVES = dict(_leaves(flashwright, "flashwright"))


def _options(command: click.Command) -> list[click.Option]:
    return [one for one in command.params if isinstance(one, click.Option) and not one.hidden]


def test_there_are_few_commands() -> None:
    assert len(LEAVES) <= MOST_COMMANDS, sorted(LEAVES)


def test_there_are_few_options() -> None:
    counts = {name: len(_options(command)) for name, command in LEAVES.items()}
    assert sum(counts.values()) <= MOST_OPTIONS, counts


@pytest.mark.parametrize("name", LEAVES)
def test_no_command_has_too_many_options_and_each_has_a_help(name: str) -> None:
    options = _options(LEAVES[name])
    assert len(options) <= MOST_OF_ONE
    assert [one.name for one in options if not one.help] == []


def test_the_first_help_is_one_screen_and_the_list() -> None:
    lines = CliRunner().invoke(flashwright, ["--help"], terminal_width=80).output.splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) <= MOST_LINES
    assert lines.index("Options:") <= 24


def test_the_first_help_begins_with_what_people_come_for() -> None:
    said = CliRunner().invoke(flashwright, ["--help"]).output.partition("Options:")[0]
    at = [
        said.find(f"flashwright {name}")
        for name in ("record", "waterfall", "play", "compare", "probe", "bench", "volume")
    ]
    assert -1 not in at
    assert at == sorted(at)
