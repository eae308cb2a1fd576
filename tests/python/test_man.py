"""The manual pages that the wheel brings along."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
import pytest

from flashwright.cli import cli
from support import ROOT, find_program

PAGES = ROOT / "packaging" / "data" / "share" / "man" / "man1"
ALL = sorted(PAGES.glob("*.1"))


def _names(command: click.Command, name: str) -> list[str]:
    below = command.commands if isinstance(command, click.Group) else {}
    return [name, *(one for key, sub in below.items() for one in _names(sub, f"{name}-{key}"))]


def test_every_command_has_a_page() -> None:
    assert sorted(page.stem for page in ALL) == sorted(_names(cli, "flashwright"))


def test_the_pages_say_what_the_help_says(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "scripts" / "setup" / "man.py"), str(tmp_path)]
    subprocess.run(command, check=True)
    for page in ALL:
        made = (tmp_path / page.name).read_text()
        assert made == page.read_text(), f"{page.name} is out of date: run `make readme`"


@pytest.mark.parametrize("page", ALL, ids=lambda page: page.stem)
def test_a_page_is_good_troff(page: Path) -> None:
    groff = find_program("groff")
    done = subprocess.run(
        [groff, "-man", "-Tutf8", "-ww", "-rLL=160n", page],
        capture_output=True,
        text=True,
        check=True,
    )
    assert not done.stderr
    assert "\\b" not in done.stdout
    # Of a name such as import-mqsim the hyphen is its own.
    assert page.stem.replace("-", " ").upper() in done.stdout.replace("-", " ")
