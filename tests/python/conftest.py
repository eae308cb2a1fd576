"""Fixtures: the command in a process of its own, and a browser."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, sync_playwright

from browsing import FLAGS
from support import Cli, find_program


@pytest.fixture(scope="session", autouse=True)
def _tracefs() -> Iterator[None]:
    """Tracefs where it usually is.

    Some machines start without, and tests look there for what recordings leave behind.
    """
    root = Path("/sys/kernel/tracing")
    is_ours = os.geteuid() == 0 and root.is_dir() and not (root / "current_tracer").exists()
    if is_ours:
        subprocess.run(["mount", "-t", "tracefs", "nodev", root], check=True)
    yield
    if is_ours:
        subprocess.run(["umount", root], check=False)


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    """Runs `flashwright` in a folder of the test's own."""

    def run(*arguments: str | Path, code: int | None = 0) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "flashwright", *map(str, arguments)]
        done = subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
        )
        if code is not None:
            assert done.returncode == code, done.stderr or done.stdout
        return done

    return run


@pytest.fixture
def cli_json(cli: Cli) -> Callable[..., Any]:
    """Runs `flashwright ... --json -` and reads what it prints."""
    return lambda *arguments: json.loads(cli(*arguments, "--json", "-").stdout)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = find_program("chromium", "chromium-browser", "google-chrome")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield started
        started.close()
