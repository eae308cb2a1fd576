"""Promises of README and the docs: their length, commands that record, links."""

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from recordings import require
from support import ROOT, Cli, check_width

README = (ROOT / "README.md").read_text(encoding="utf-8")
MOST_LINES, MOST_WORDS = 100, 900
MOST_WORDS_OF_ARCHITECTURE = 1_500
SHELL = re.compile(r"```sh\n(.*?)```", re.DOTALL)


def commands(page: str, name: str) -> list[list[str]]:
    """Give the commands of a page between the markers of a name, without their comments."""
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    part = page.partition(begin)[2].partition(end)[0]
    block = SHELL.search(part)
    assert block is not None, name
    lines = [line.partition("  #")[0].strip() for line in block.group(1).splitlines()]
    return [shlex.split(line) for line in lines if line]


def test_readme_is_short() -> None:
    assert len(README.splitlines()) <= MOST_LINES
    assert len(README.split()) <= MOST_WORDS


def test_architecture_is_short() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    assert len(text.split()) <= MOST_WORDS_OF_ARCHITECTURE


def test_every_command_of_readme_is_in_a_block_that_is_run() -> None:
    """Those of the first block are run by test_wheel.py, in an installed wheel.

    The one question is asked by test_next.py, of a database that runs.
    """
    named = README
    for name in ("one question", "first commands"):
        named = re.sub(f"<!-- {name} -->.*?<!-- end of {name} -->", "", named, flags=re.DOTALL)
    left = [line for block in SHELL.findall(named) for line in block.splitlines()]
    assert [line for line in left if line.startswith("flashwright")] == []


def test_the_commands_that_record_work(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracers = Path("/sys/kernel/tracing/available_tracers")
    is_there = os.geteuid() == 0 and tracers.exists() and "blk" in tracers.read_text()
    require(is_there, "recording needs root, and a kernel with the blk tracer")
    page = (ROOT / "docs" / "recording.md").read_text(encoding="utf-8")
    asked = commands(page, "recording commands")
    assert [words[1] for words in asked] == ["bench", "advise", "waterfall", "compare"]
    # A folder of its own: other tests attach and detach loop devices meanwhile. And a short form.
    asked[0] += ["--on", f"volume(size=2G,folder={tmp_path})", "--for", "8"]
    monkeypatch.setenv("COLUMNS", "80")
    for words in asked:
        check_width(cli(*words[1:]).stdout, 80)
    loops = subprocess.run(["losetup", "--list"], capture_output=True, text=True, check=True).stdout
    assert str(tmp_path) not in loops, "no loop device is left"
    assert (tmp_path / "runs" / "tpcc" / "report.html").is_file()


@pytest.mark.parametrize(
    "path",
    [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_links_lead_to_files(path: Path) -> None:
    targets = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8"))
    missing = [target for target in targets if not (path.parent / target).exists()]
    assert missing == []
