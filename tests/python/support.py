"""Common parts of the tests, besides fixtures."""

from __future__ import annotations

import os
import pty
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

ROOT = Path(__file__).resolve().parents[2]
SMALL = "synth:zipf(s=0.99,pages=16Ki,updates=10x)"

Cli = Callable[..., subprocess.CompletedProcess[str]]


_MAY_BE_LONG = re.compile(r"\s*(\w[\w ]*:\s+)?((sudo |\$ )?flashwright |\S+$)|.*`[^`]{60,}`")
"""A command, a path or a URL, which stays whole so that it can be copied."""


def check_width(printed: str, columns: int) -> None:
    """Check that each line fits into so many columns, but for those that have to stay whole."""
    wide = [
        line
        for line in printed.splitlines()
        if cell_len(line.rstrip()) > columns and not _MAY_BE_LONG.match(line)
    ]
    assert wide == [], "\n".join(wide)


def run_experiments(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run `python -m experiments` in a folder of its own."""
    words = [sys.executable, "-m", "experiments", *arguments]
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    return subprocess.run(
        words,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def find_program(*names: str) -> str:
    """Gives the path of a program that a test needs for real.

    Without it the test fails in CI and is skipped elsewhere.
    """
    for name in names:
        path = shutil.which(name)
        if path:
            return path
    message = f"{' or '.join(names)} is not installed (Debian: apt install {names[0]})"
    if os.environ.get("CI"):
        pytest.fail(message)
    pytest.skip(message)


def write_trace(path: Path, count: int = 600, gap_ns: int = 100_000, pages: int = 2048) -> Path:
    """Write reads and writes of pages at random, with a flush now and then.

    Each comes so long after the one before.
    """
    # Heavy, and only needed here.
    import numpy as np  # noqa: PLC0415
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    random = np.random.default_rng(7)
    ops = [
        "flush" if number % 100 == 99 else ("write", "write", "read")[number % 3]
        for number in range(count)
    ]
    offsets = [0 if op == "flush" else int(random.integers(pages)) * 4096 for op in ops]
    lengths = [0 if op == "flush" else 4096 for op in ops]
    columns = {
        "time_ns": [number * gap_ns for number in range(count)],
        "op": ops,
        "offset": offsets,
        "length": lengths,
    }
    pq.write_table(pa.table(columns), path)
    return path


@contextmanager
def on_terminal(command: Sequence[str], cwd: Path) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Start a command whose standard error is a terminal of 160 columns.

    Gives the process and the other end of the terminal.
    """
    main, terminal = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "160"}
    process = subprocess.Popen(
        command, cwd=cwd, stdout=subprocess.PIPE, stderr=terminal, env=environment
    )
    os.close(terminal)
    try:
        yield process, main
    except BaseException:
        process.kill()
        raise
    finally:
        os.close(main)


def drawn_on(main: int, until: str | None = None) -> str:
    """Read what is drawn on a terminal: until a text is there, or to its end."""
    drawn = b""
    while until is None or until.encode() not in drawn:
        try:
            block = os.read(main, 65536)
        except OSError:
            break
        if not block:
            break
        drawn += block
    return drawn.decode(errors="replace")


def wait_until_used(process: subprocess.Popen[Any], cpu_seconds: float) -> None:
    """Wait until the process has worked for that long.

    On a busy machine this takes longer than on an idle one.
    """
    ticks = os.sysconf("SC_CLK_TCK")
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        assert process.poll() is None, "it ended before it was stopped"
        times = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        if (int(times[11]) + int(times[12])) / ticks >= cpu_seconds:
            return
        time.sleep(0.05)
    pytest.fail(f"no {cpu_seconds} s of work in two minutes")


def wait_for(is_so: Callable[[], bool]) -> None:
    """Wait until something is so; a minute is too long."""
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)
