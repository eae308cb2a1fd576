"""What is refused about volumes: in one line, with what would be right, and exit code 2."""

from __future__ import annotations

import json
import random
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from flashwright import _core, sqlite
from flashwright._core import InputError
from support import Cli, find_program

MEBIBYTE = 1 << 20
PAIRED = "stable_buffer(size=1Mi,page=4Ki)"


def refused(cli: Cli, *words: str | Path) -> str:
    """Call a command that is refused, and give its line."""
    said = cli("volume", *words, code=2).stderr
    assert said.startswith("flashwright: error: ")
    assert said.count("\n") == 1
    return str(said)


@pytest.fixture
def full(tmp_path: Path) -> str:
    """Make a file that holds somebody's data."""
    path = tmp_path / "full"
    path.write_bytes(random.Random(1).randbytes(16 * MEBIBYTE))
    return str(path)


def made(cli: Cli, path: Path, stack: str = "log_volume(segment=64Ki)") -> str:
    """Make a volume on a file of 16 MiB."""
    cli("volume", "create", path, "--size", "16M", "--stack", stack)
    return str(path)


def test_a_staging_device_is_not_destroyed_below_its_volume(cli: Cli, tmp_path: Path) -> None:
    slow, fast = str(tmp_path / "slow"), str(tmp_path / "fast")
    words = ["--size", "16M", "--stack", PAIRED, "--staging", fast, "--staging-size", "8M"]
    cli("volume", "create", slow, *words)
    said = refused(cli, "destroy", fast, "--destroy-data", fast)
    assert f"whose pages lie on {slow}" in said
    assert f"`flashwright volume destroy {slow} --destroy-data {slow}` destroys both" in said
    assert f"`flashwright volume restage {slow} --none`" in said
    _core.Volume(slow).close()
    Path(slow).unlink()
    said = cli("volume", "destroy", fast, "--destroy-data", fast).stdout
    assert "the staging device of volume" in said
    assert "is free" in said
    assert "no volume is there" in refused(cli, "info", fast)
