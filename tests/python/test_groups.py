"""A command with further ones below it: each is as it would be alone."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from flashwright.cli.groups import CommandWithMore


@click.command(cls=CommandWithMore)
@click.argument("profile")
@click.option("--set", "changes", multiple=True)
def device(profile: str, changes: tuple[str, ...]) -> None:
    """Tell PROFILE."""
    click.echo(f"profile {profile} {','.join(changes)}")


@device.command()
@click.argument("file")
def fit(file: str) -> None:
    """Fit FILE."""
    click.echo(f"fit {file}")


@click.group()
def cli() -> None:
    """Stand for the program."""


cli.add_command(device)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("device x", "profile x \n"),
        ("device x --set a --set b", "profile x a,b\n"),
        ("device --set a x", "profile x a\n"),
        ("device ./fit", "profile ./fit \n"),
        ("device fit y", "fit y\n"),
    ],
)
def test_the_first_word_says_which_command_it_is(words: str, said: str) -> None:
    done = CliRunner().invoke(cli, words.split())
    assert (done.exit_code, done.output) == (0, said)


@pytest.mark.parametrize(
    ("words", "usage", "error"),
    [
        ("device", "Usage: cli device [OPTIONS] PROFILE", "Missing argument 'PROFILE'."),
        ("device x fit", "Usage: cli device [OPTIONS] PROFILE", "unexpected extra argument (fit)"),
        ("device fit", "Usage: cli device fit [OPTIONS] FILE", "Missing argument 'FILE'."),
    ],
)
def test_wrong_use_is_told_of_the_command_that_was_meant(
    words: str, usage: str, error: str
) -> None:
    done = CliRunner().invoke(cli, words.split())
    assert done.exit_code == 2
    assert usage in done.output
    assert error in done.output


def test_help_tells_the_command_and_those_below() -> None:
    text = CliRunner().invoke(cli, ["device", "--help"]).output
    assert "Usage: cli device [OPTIONS] PROFILE" in text
    assert "--set TEXT" in text
    assert "fit  Fit FILE." in text
    assert "Fit FILE." in CliRunner().invoke(cli, ["device", "fit", "--help"]).output
