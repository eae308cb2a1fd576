"""Every command of docs: run on small inputs, or at least read by the command line."""

from __future__ import annotations

import gzip
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from flashwright import _core, data
from flashwright.cli import cli as group
from mqsim_files import SYNTHETIC, config, workload
from support import ROOT, Cli

PAGES = [page for page in sorted((ROOT / "docs").rglob("*.md")) if page.parent.name != "reference"]
PLACEHOLDER = re.compile(r"\b(SOURCE|TRACE|DEVICE|PROFILE|STACK|DIR|NAME)\b")

READ_ONLY = {
    r" record | --record ": "root and the kernel's tracer: test_cli_record, test_recording_*",
    r"^flashwright advise --database": "root and the kernel's tracer: test_next",
    r"^flashwright waterfall": "a recording with calls: test_recording_running, test_readme",
    r"^flashwright (advise|compare) runs/tpcc": "the same recording: test_readme",
    r"^flashwright bench .*--(layers|device)": "minutes each: test_cli_benches",
    r"--db '?postgres|^flashwright bench tpcc$": "a server, and minutes: test_cli_bench",
    r"--against runs/": "an earlier run's folder: test_cli_replay",
    r"^flashwright serve ": "servers, which go on: test_volumes",
    r" --staging |^flashwright volume mount": "devices, root: test_volume_staging, test_volumes",
    r"^flashwright volume change /dev/.* --size": "a device that grew: test_volumes",
    r"^flashwright volume change .* --(no|new)-staging": "two devices: test_volume_staging",
    r"^flashwright sweep .*--engine ray": "a cluster: test_sweep_ray",
    r"tpcc_postgres_data.parquet|limit=100k": "minutes: measured for docs/results",
}
"""Commands that are not run here, with what tests them."""
SMALLER = (
    (r"/dev/sdb --write", "disk --write"),
    (r"/dev/sdb", "disk"),
    (r"requests=100k", "requests=2k"),
    (r"--size 8G", "--size 64M"),
    (r"--size 16G", "--size 128M"),
    (r"--warm-up 9M --requests 10M", "--warm-up 9k --requests 10k"),
    (r"--requests 1M", "--requests 10k"),
    (r"--warm-up 20k --transactions 20k", "--warm-up 1k --transactions 1k"),
    (r"--on nvme-tlc", "--on 'profile(nvme-tlc, media.erase_blocks_per_plane=64)'"),
    (r"region=8Gi\+8Gi", "region=64Mi+64Mi"),
    (r"zipf\(pages=1Mi", "zipf(pages=16Ki"),
    (r"^(flashwright play .*my\.parquet((?!--requests).)*)$", r"\1 --requests 500"),
    (r"runs/tpcc", "tpcc"),
    (r"copy\.img", "volume.img"),
    (r"^(flashwright compare my.parquet --op) .*$", r"\1 0.3 --placements none,dac"),
    (r"^flashwright probe intel-x25e", "flashwright probe intel-x25e --only depth_read --fit 0"),
    (r"drives=8", "drives=2"),
    (r"^(flashwright probe 'array[^']*')$", r"\1 --only depth_read --fit 0"),
    (r"^(flashwright transactions 'tpcc\(bytes=)256Mi(.*)$", r"\g<1>32Mi\2 --transactions 1k"),
    (r"--for 10\b", "--for 2"),
)
"""Replacements that make a command quick; the rest of it is as it stands there."""


def commands(page: Path) -> Iterator[str]:
    """Give the commands of a page: of blocks of sh, and those that stand in lines of their own."""
    text = re.sub(r"\\\n\s*", "", page.read_text(encoding="utf-8"))
    blocks = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    lines += [line for line in text.splitlines() if line.startswith("    flashwright ")]
    for line in lines:
        # Text after two spaces or more, or after a #, is a remark.
        command = re.split(r"\s{2,}|\s#\s", line.strip())[0]
        if command.startswith("flashwright ") and not PLACEHOLDER.search(command):
            yield command


def sweeps() -> Iterator[tuple[str, str]]:
    """Give the sweep files of docs by their names, with fewer points and seeds."""
    text = (ROOT / "docs" / "sweep.md").read_text(encoding="utf-8")
    for name, example in re.findall(r"```toml\n# (\S+)\n(.*?)```", text, re.DOTALL):
        few = re.sub(r"(points|replications) = \d+", r"\1 = 2", example)
        yield name, few.replace('"all"', '["none", "dac"]').replace('"20k"', '"2k"')


ALL = list(dict.fromkeys(command for page in PAGES for command in commands(page)))


def reason(command: str) -> str | None:
    return next((why for what, why in READ_ONLY.items() if re.search(what, command)), None)


@pytest.mark.parametrize("command", ALL)
def test_a_command_of_docs_is_one(command: str) -> None:
    """Its options are there, and their values are read."""
    words = shlex.split(command)[1:]
    context = click.Context(group, info_name="flashwright")
    found: click.Command = group
    while isinstance(found, click.Group):
        name, below, words = found.resolve_command(context, words)
        assert below is not None, name
        found = below
    known = {word for option in found.params for word in (*option.opts, *option.secondary_opts)}
    # Of the command that a recording starts the options are its own.
    own = words[: words.index("--")] if "--" in words else words
    for word in own:
        if word.startswith("--"):
            assert word.partition("=")[0] in known, f"{word} of {command}"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Give a folder with what docs name: a trace, a recording, a policy, a device."""
    excerpt = ROOT / "tests" / "data" / "tpcc_postgres_excerpt.blktrace.zst"
    _core.convert_trace(excerpt, tmp_path / "whole.parquet")
    shutil.copy(excerpt, tmp_path / "my.blktrace.0")
    shutil.copy(tmp_path / "whole.parquet", tmp_path / "my.parquet")
    guide = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    own = re.search(r"```python\n(import numpy.*?)\n\n\nfw\.", guide, re.DOTALL)
    assert own is not None
    (tmp_path / "hot.py").write_text(own[1] + "\n")
    for name, example in sweeps():
        (tmp_path / name).write_text(example)
    (tmp_path / "tpcc").mkdir()
    shutil.copy(data.TPCC_REQUESTS, tmp_path / "tpcc" / "requests.parquet")
    table = ["ts,rw,lba,blocks", *(f"{n},W,{8 * n},8" for n in range(100))]
    rows = "".join(f"{n} {4096 * n} 4096 1\n" for n in range(100))
    (tmp_path / "mine.txt").write_text(rows)
    (tmp_path / "mine.csv").write_text("\n".join(table) + "\n")
    lines = [
        f"{128166372000000000 + 1000 * n},prxy,0,Write,{n * 4096},4096,100" for n in range(100)
    ]
    (tmp_path / "prxy_0.csv.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    rows = "".join(
        f"{16 + n % 3},W,{n * 7919 % 20_000 * 4096},4096,{1577808000000000 + n}\n"
        for n in range(60_000)
    )
    (tmp_path / "io_traces.csv.gz").write_bytes(gzip.compress(rows.encode()))
    config(tmp_path, "ssdconfig.xml")
    workload(tmp_path, SYNTHETIC).rename(tmp_path / "workload.xml")
    with (tmp_path / "disk").open("wb") as disk:
        disk.truncate(4 << 30)
    return tmp_path


def test_commands_of_docs_run(place: Path, cli: Cli) -> None:
    ran = 0
    for command in ALL:
        if reason(command) is not None:
            continue
        small = command
        for what, instead in SMALLER:
            small = re.sub(what, instead, small)
        if "disk" in small and not _takes_direct(place):
            continue
        cli(*shlex.split(small)[1:])
        ran += 1
    assert ran >= 10


def _takes_direct(place: Path) -> bool:
    try:
        _core.open_device(str(place / "disk"))
    except _core.InputError:
        return False
    return True


def test_nothing_is_left_out_for_a_reason_that_is_gone() -> None:
    for what in READ_ONLY:
        assert any(re.search(what, command) for command in ALL), what
