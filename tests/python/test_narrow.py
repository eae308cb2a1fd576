"""Output of commands fits: tables and lines, on a terminal of 80 columns and in a pipe."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import shlex
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from flashwright.terminal.narrow import GAP, Column, parts_that_fit, width, wrapped
from support import ROOT, Cli, check_width, drawn_on
from test_readme import README

HEADINGS = ["layer", "op", "requests", "bytes", "mean size"]
ROWS = [["calls", "read", "1 000", "1 GiB", "4 KiB"], ["calls", "write", "2 000", "2 GiB", "8 KiB"]]


def columns(headings: list[str], rows: list[list[str]]) -> list[Column]:
    return [
        Column(heading, [row[number] for row in rows], is_right=number > 1)
        for number, heading in enumerate(headings)
    ]


@pytest.mark.parametrize("most", range(20, 60))
def test_a_table_is_parted_so_that_no_word_is_cut(most: int) -> None:
    found = columns(HEADINGS, ROWS)
    parts = parts_that_fit(found, ROWS, most)
    # Each part has the columns that tell the rows apart.
    assert all([number for number, _ in part][:2] == [0, 1] for part in parts)
    assert [number for part in parts for number, _ in part[2:]] == [2, 3, 4]
    narrowest = 5 + GAP + 5 + GAP + 8
    for part in parts:
        total = sum(wide for _, wide in part) + GAP * (len(part) - 1)
        assert total <= most or most < narrowest
        assert all(wide >= found[number].least for number, wide in part)
    # "mean size" in two lines is the first to give way.
    assert (len(parts) == 1) == (most >= 5 + 5 + 8 + 5 + 5 + 4 * GAP)


def test_text_is_broken_before_a_table_is_parted() -> None:
    rows = [["greedy", " ".join(["words"] * 16)]]
    [part] = parts_that_fit(columns(["name", "what it does"], rows), rows, 40)
    assert part == [(0, 6), (1, 32)]
    assert Column("over-provisioning", ["10 %"], is_right=True).heading_in(12) == (
        "over-\nprovisioning"
    )


def test_a_table_of_one_column_or_of_no_row_is_whole() -> None:
    def numbers(headings: list[str], rows: list[list[str]]) -> list[list[int]]:
        parts = parts_that_fit(columns(headings, rows), rows, 80)
        return [[number for number, _ in part] for part in parts]

    assert numbers(["name"], [["a" * 90]]) == [[0]]
    assert numbers(HEADINGS, []) == [[0, 1, 2, 3, 4]]
    assert numbers(["", ""], [["a", "b" * 90]]) == [[0, 1]]


@pytest.mark.parametrize(
    ("text", "broken"),
    [
        ("one two three", "one two\nthree"),
        ("  one two three", "  one two\n  three"),
        ("one\n\ntwo three four", "one\n\ntwo three\nfour"),
        ("run `a b c d e f` now", "run\n`a b c d e f`\nnow"),
        ("Next: flashwright a b c", "Next: flashwright a b c"),
        ("Report: /a/long/path", "Report: /a/long/path"),
        ("3\u202f000\u202f000 bytes", "3\u202f000\u202f000\nbytes"),
    ],
)
def test_lines_are_broken_between_words(text: str, broken: str) -> None:
    assert wrapped(text, 10) == broken


def test_a_pipe_has_80_columns_unless_said_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setattr(os, "get_terminal_size", lambda _: (_ for _ in ()).throw(OSError()))
    assert width() == 80
    monkeypatch.setenv("COLUMNS", "120")
    assert width() == 120


def _first_commands() -> list[list[str]]:
    part = README.partition("<!-- first commands -->")[2].partition("<!-- end")[0]
    block = re.search(r"```sh\n(.*?)```", part, re.DOTALL)
    assert block is not None
    lines = [line.partition("  #")[0] for line in block[1].splitlines()]
    shorter = (
        ("--shipped", "--shipped --op 0.2"),
        ("2k", "1k"),
    )
    for what, instead in shorter:
        lines = [line.replace(what, instead) for line in lines]
    return [shlex.split(line)[1:] for line in lines]


def test_the_commands_of_the_readme_fit_a_pipe_of_80_columns(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    commands = _first_commands()
    assert len(commands) == 2
    for words in commands:
        check_width(cli(*words).stdout, 80)


@pytest.mark.parametrize(
    "words",
    [
        ("list",),
        ("list", "profile"),
        ("trace", "stats", "synth:zipf(pages=16Ki,updates=10x)"),
        (
            "compare",
            "synth:zipf(pages=16Ki,updates=10x)",
            "--placements",
            "multi_log",
            "--op",
            "0.1",
        ),
        ("play", "io:random", "--on", "profile(nvme-tlc, state=fresh)", "--requests", "2k"),
        ("model", "--op", "0.1,0.2"),
        ("transactions", "tpcb(bytes=32Mi)", "--on", "intel-x25e", "--transactions", "500"),
    ],
    ids=" ".join,
)
def test_other_commands_fit_too(
    words: tuple[str, ...], cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    check_width(cli(*words).stdout, 80)


def test_a_table_fits_a_terminal_of_80_columns(tmp_path: Path) -> None:
    main, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    command = [sys.executable, "-m", "flashwright", "play", "io:random", "--requests", "100"]
    process = subprocess.Popen(
        [*command, "--on", "usb-stick,intel-x25e"],
        cwd=tmp_path,
        stdin=terminal,
        stdout=terminal,
        stderr=subprocess.DEVNULL,
        env={**environment, "TERM": "xterm", "PYTHONPATH": str(ROOT / "python")},
    )
    os.close(terminal)
    drawn = drawn_on(main)
    os.close(main)
    assert process.wait() == 0
    printed = re.sub(r"\x1b\[[0-9;]*m", "", drawn).replace("\r", "")
    assert "intel-x25e" in printed
    check_width(printed, 80)
