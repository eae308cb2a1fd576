"""What the tests share besides fixtures."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SMALL = "synth:zipf?s=0.99&pages=16Ki&updates=10x"

Cli = Callable[..., subprocess.CompletedProcess[str]]


def find_program(*names: str) -> str:
    """Gives the path of a program that a test needs for real; without it the test fails in CI and is skipped elsewhere."""
    for name in names:
        path = shutil.which(name)
        if path:
            return path
    message = f"{' or '.join(names)} is not installed (Debian: apt install {names[0]})"
    if os.environ.get("CI"):
        pytest.fail(message)
    pytest.skip(message)
