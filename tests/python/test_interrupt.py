"""Ctrl-C, and progress on a terminal."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support import drawn_on, on_terminal, wait_until_used

LONG = "synth:uniform(pages=1M,updates=4000x)"
ALONE = ("--placements", "none", "--op", "0.2")
"""One policy: its whole report."""


def _start(arguments: list[str], folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "flashwright", *arguments]
    return subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ["compare", LONG, *ALONE, "--json", "-"],
        ["trace", "convert", LONG, "long.parquet"],
        ["trace", "stats", LONG],
    ],
)
def test_ctrl_c_ends_long_work_with_130_and_one_line(arguments: list[str], tmp_path: Path) -> None:
    process = _start(arguments, tmp_path)
    wait_until_used(process, 2.5)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=20)
    assert process.returncode == 130, stderr
    assert stdout == ""
    assert stderr.startswith("flashwright: stopped")
    assert stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == [], "half a file was left behind"


def test_ctrl_c_keeps_what_a_comparison_has_finished(tmp_path: Path) -> None:
    short = "synth:uniform(pages=16Ki,updates=4x)"
    arguments = [
        "compare",
        short,
        LONG,
        "--op",
        "0.2",
        "--placements",
        "none",
        "--jobs",
        "1",
        "--out",
        "run",
    ]
    process = _start(arguments, tmp_path)
    wait_until_used(process, 4)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=20)
    assert process.returncode == 130, stderr
    assert "Traceback" not in stderr
    kept = re.search(r"stopped after (\d+) of (\d+) .* simulations; all that is", stderr)
    assert kept is not None
    assert 0 < int(kept[1]) < int(kept[2])
    assert "bound" in stdout
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["complete"] is False
    assert {row["workload"] for row in result["results"]} == {short}
    assert "stopped before its end" in (tmp_path / "run" / "report.html").read_text()


def test_progress_has_rate_and_time_left_on_a_terminal_only(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "flashwright", "compare", LONG, *ALONE, "--json", "-"]
    with on_terminal(command, tmp_path) as (process, main):
        wait_until_used(process, 3)
        process.send_signal(signal.SIGINT)
        text = drawn_on(main)
    assert process.wait(timeout=20) == 130
    assert "page writes/s" in text
    assert " left" in text
    assert process.stdout is not None
    assert process.stdout.read() == b""
