"""Commands that are proposed next work, on a disk as ordinary machines have it."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flashwright.cli.following import NEXT
from flashwright.recording import fill
from flashwright.recording.tools import tool
from flashwright.workloads.supervisor import Supervisor
from recordings import require
from support import ROOT, Cli, find_program

DISK_BYTES = 256 << 30
MOST_BYTES = 2 << 30
APP = """
import sqlite3, sys
database = sqlite3.connect(sys.argv[1])
database.execute("create table if not exists t (k integer primary key, v blob)")
for number in range(200):
    database.execute("insert or replace into t values (?, ?)", (number % 50, b"x" * 3000))
    database.commit()
"""


@pytest.fixture(scope="module")
def disk() -> Iterator[Path]:
    """Give a folder on a file system of 256 GiB, of which next to nothing is there."""
    tracers = Path("/sys/kernel/tracing/available_tracers")
    is_there = os.geteuid() == 0 and tracers.exists() and "blk" in tracers.read_text()
    require(is_there, "recording needs root, and a kernel with the blk tracer")
    find_program("mkfs.ext4")
    with Supervisor() as supervisor:
        folder = supervisor.folder(Path("/var/tmp"), "flashwright-disk-")  # noqa: S108
        image, place = folder / "image", folder / "mount"
        with image.open("wb") as made:
            made.truncate(DISK_BYTES)
        place.mkdir()
        lazy = "nodiscard,lazy_itable_init=1,lazy_journal_init=1"
        tool("mkfs.ext4", "-q", "-F", "-N", "65536", "-E", lazy, image)
        supervisor.undo("umount", "-l", place)
        tool("mount", "-o", "loop,noinit_itable", image, place)
        yield place


def of_advise(cli: Cli, disk: Path) -> str:
    database = disk / "app.db"
    code = [sys.executable, "-c", APP, str(database)]
    # It has to be there before it is recorded.
    tool(*code)
    return cli("record", "--database", "sqlite", database, "--out", "rec 1", "--", *code).stdout


def of_play(cli: Cli, disk: Path) -> str:
    code = [sys.executable, "-c", APP, str(disk / "other.db")]
    return cli("record", disk, "--out", "rec 1", "--", *code).stdout


def of_compare(cli: Cli, _disk: Path) -> str:
    return cli("demo", "--shipped", "--op", "0.28", "--placements", "none", "--out", "out").stdout


PRINTS: dict[str, Callable[[Cli, Path], str]] = {
    "advise": of_advise,
    "play": of_play,
    "compare": of_compare,
}
"""Functions that print the line, by the command that is proposed."""
QUICK = {"compare": ("--placements", "none")}
"""All policies take a minute or more."""


def proposed(printed: str) -> list[str]:
    """Give the words of the command that is proposed, as a shell reads the line."""
    [line] = re.findall(r"^Next:\s+(.*)$", printed, re.MULTILINE)
    program, *words = shlex.split(line)
    assert program == "flashwright"
    return words


def test_nothing_is_proposed_that_is_not_run_here() -> None:
    assert set(PRINTS) == set(NEXT)
    code = sorted((ROOT / "python" / "flashwright").rglob("*.py"))
    texts = {path.name: path.read_text(encoding="utf-8") for path in code}
    assert [name for name, text in texts.items() if "Next:" in text] == ["following.py"]
    # Those of `record --light` and `trace split` are run in test_recording_running and test_fleet.
    own = [name for name, text in texts.items() if "say_next(" in text]
    assert own == ["following.py", "record_light.py", "trace_split.py"]


@pytest.mark.parametrize("command", NEXT)
def test_what_is_proposed_works_as_it_is_printed(command: str, disk: Path, cli: Cli) -> None:
    words = proposed(PRINTS[command](cli, disk))
    assert words[0] == command
    cli(*words, *QUICK.get(command, ()), "--json", "found.json", "--out", "done")


def test_a_database_that_runs_is_advised_on_with_one_command(
    disk: Path, cli: Cli, tmp_path: Path
) -> None:
    database = disk / "running.db"
    endless = f"{APP}\nwhile True:\n    database.execute('delete from t')\n    database.commit()\n"
    tool(sys.executable, "-c", APP, str(database))
    with subprocess.Popen([sys.executable, "-c", endless, str(database)]) as app:
        try:
            asked = ("advise", "--database", "sqlite", database, "--for", "2")
            printed = cli(*asked, "--out", "advice").stdout
        finally:
            app.kill()
    result = json.loads((tmp_path / "advice" / "result.json").read_text())
    stands = result["as_things_stand"]
    assert "256 GiB (as recorded)" in stands["drive"]
    assert stands["written_by"]["wal"] > 0
    assert stands["recorded_commits"]["count"] > 0
    assert "What it rests on" in printed


@pytest.mark.parametrize("command", ["waterfall", "play"])
def test_a_drive_has_the_size_and_the_fill_of_the_disk(
    command: str, disk: Path, cli: Cli, tmp_path: Path
) -> None:
    words = proposed(PRINTS["play" if command == "play" else "advise"](cli, disk))
    if command == "waterfall":
        words = ["waterfall", words[1], *NEXT["play"]]
    printed = cli(*words, "--json", "found.json", "--out", "done").stdout
    result = json.loads((tmp_path / "found.json").read_text())
    device = result["waterfall"]["device"] if command == "waterfall" else result["devices"][0]
    found = device["slice"]
    assert found["disk_bytes"] == DISK_BYTES
    assert found["fill_from"] == "the file system"
    about = os.statvfs(disk)
    used = (about.f_blocks - about.f_bfree) * about.f_frsize
    assert 0 < found["fill"] < max(0.02, 2 * used / DISK_BYTES)
    assert found["estimate"]["memory_bytes"] <= MOST_BYTES
    assert found["slices"] * found["slice_bytes"] == DISK_BYTES
    assert "256 GiB, from the recording" in printed


def test_the_fill_is_that_of_the_disk_or_of_its_partitions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file system on the whole disk counts, whatever is left of partitions; else these do."""

    def part(name: str, number: str, sectors: int) -> Path:
        folder = tmp_path / "sdx" / name
        folder.mkdir(parents=True)
        (folder / "dev").write_text(f"{number}\n")
        (folder / "size").write_text(f"{sectors}\n")
        (folder / "partition").write_text("1\n") if name else None
        return folder

    part("", "8:0", 1000)
    part("sdx1", "8:1", 300)
    part("sdx2", "8:2", 500)
    disk: Any = SimpleNamespace(sys=tmp_path / "sdx")
    sizes = {"/disk": 1000, "/one": 70, "/gone": None}
    monkeypatch.setattr(fill, "_used", sizes.get)
    for mounted, used in (
        ({}, None),
        ({"8:1": ["/gone", "/one"]}, 70 + 500 * 512),
        ({"8:0": ["/disk"], "8:1": ["/one"]}, 1000),
    ):
        monkeypatch.setattr(fill, "_mounted", lambda found=mounted: found)
        assert fill.used_bytes(disk) == used
