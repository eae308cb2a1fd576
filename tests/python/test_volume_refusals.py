"""Refusals about volumes: in one line, with what would be right, and exit code 2."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from flashwright import _core, sqlite
from flashwright._core import InputError
from flashwright.volumes import mounting
from support import Cli, find_program

MEBIBYTE = 1 << 20
PAIRED = "stable_buffer(size=1Mi,page=4Ki)"


def refused(cli: Cli, *words: str | Path) -> str:
    """Call a command that is refused, and give its line."""
    said = cli(*words, code=2).stderr
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


@pytest.mark.parametrize(
    "stack", ["log_volume", "stable_buffer", "scheduler|log_volume(segment=256Ki)"]
)
def test_a_device_too_small_for_a_stack_names_the_smallest_size(
    cli: Cli, tmp_path: Path, stack: str
) -> None:
    device = tmp_path / "device"
    for size in ("2M", "4M"):
        said = refused(cli, "volume", "create", device, "--size", size, "--stack", stack)
        least = int(said.rsplit(maxsplit=1)[-1])
        assert "the smallest possible size is" in said
        assert not device.exists()
    cli("volume", "create", device, "--size", str(least), "--stack", stack)
    device.unlink()
    refused(cli, "volume", "create", device, "--size", str(least - MEBIBYTE), "--stack", stack)


def test_data_in_the_way_names_the_option_that_lets_it_go(
    cli: Cli, tmp_path: Path, full: str
) -> None:
    device = tmp_path / "device"
    add = f"add --destroy-data {full} to destroy that, or name another device"
    assert add in refused(cli, "volume", "create", full)
    words = ["--size", "16M", "--stack", PAIRED, "--staging", full]
    assert add in refused(cli, "volume", "create", device, *words)
    made(cli, device, PAIRED)
    assert add in refused(cli, "volume", "change", device, "--new-staging", full)
    log = made(cli, tmp_path / "log")
    volume = _core.Volume(log)
    volume.write(10 * MEBIBYTE, b"beyond")
    volume.close()
    said = refused(cli, "volume", "change", log, "--size", "8M")
    assert f"(add --destroy-data {log} to lose what lies beyond)" in said
    cli("volume", "change", log, "--size", "8M", "--destroy-data", log)
    with_files = made(cli, tmp_path / "files")
    base = sqlite.connect(with_files)
    base.execute("create table t (body)")
    base.execute("insert into t values (zeroblob(8000000))")
    base.commit()
    base.close()
    for more in ([], ["--destroy-data", with_files]):
        said = refused(cli, "volume", "change", with_files, "--size", "8M", *more)
        assert "add --destroy-data" not in said, "files of SQLite are never cut"


def test_a_directory_of_files_is_cleared_for_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before a file system is made: after a crash it would be taken for one again."""
    block = tmp_path / "block"
    block.write_bytes(b"x" * 6 * MEBIBYTE)
    cleared: list[bytes] = []
    monkeypatch.setattr(os, "fsync", lambda _file: cleared.append(block.read_bytes()))
    mounting._clear_files(str(block))
    assert cleared == [bytes(4 * MEBIBYTE) + b"x" * 2 * MEBIBYTE]


def test_hints_beside_another_choice_of_logs_are_said_in_words(cli: Cli, tmp_path: Path) -> None:
    for other in ("placement=sepbit", "summaries=segments"):
        stack = f"log_volume(hints=yes,{other})"
        said = refused(cli, "volume", "create", tmp_path / "x", "--size", "16M", "--stack", stack)
        assert "leave out either hints=yes or the other" in said
        assert "is not no" not in said


def test_a_volume_that_was_just_made_is_closed(cli: Cli, tmp_path: Path) -> None:
    device = tmp_path / "device"
    said = cli("volume", "create", device, "--size", "16M", "--json", "-").stdout
    about = _core.volume_about(str(device))
    for key in ("uuid", "is_clean", "generation", "openings"):
        assert json.loads(said)[key] == about[key], key
    assert about["is_clean"]


def test_a_staging_device_is_not_destroyed_below_its_volume(cli: Cli, tmp_path: Path) -> None:
    slow, fast = str(tmp_path / "slow"), str(tmp_path / "fast")
    words = ["--size", "16M", "--stack", PAIRED, "--staging", fast, "--staging-size", "8M"]
    cli("volume", "create", slow, *words)
    said = refused(cli, "volume", "change", fast, "--destroy", "--destroy-data", fast)
    assert f"whose pages lie on {slow}" in said
    assert (
        f"`flashwright volume change {slow} --destroy --destroy-data {slow}` destroys both" in said
    )
    assert f"`flashwright volume change {slow} --no-staging`" in said
    _core.Volume(slow).close()
    Path(slow).unlink()
    said = cli("volume", "change", fast, "--destroy", "--destroy-data", fast).stdout
    assert "the staging device of volume" in said
    assert "is free" in said
    assert "no volume is there" in refused(cli, "volume", "info", fast)


HUGE = (1 << 64, 1 << 200)


def test_numbers_that_no_volume_has_are_wrong_input(cli: Cli, tmp_path: Path) -> None:
    device = made(cli, tmp_path / "device")
    volume = _core.Volume(device)
    for number in (-1, *HUGE):
        calls: list[tuple[str, Any]] = [
            ("offset", lambda number=number: volume.read(number, 1)),
            ("length", lambda number=number: volume.read(0, number)),
            ("offset", lambda number=number: volume.write(number, b"x")),
            ("offset", lambda number=number: volume.zero(number, 1)),
            ("length", lambda number=number: volume.zero(0, number)),
            ("offset", lambda number=number: volume.trim(number, 1)),
            ("length", lambda number=number: volume.trim(0, number)),
            ("queue_depth", lambda number=number: _core.Volume("x", queue_depth=number)),
            ("scrub_every_s", lambda number=number: _core.Volume("x", scrub_every_s=number)),
            ("memory", lambda number=number: _core.Volume("x", memory=number)),
            ("memory", lambda number=number: _core.check_volume_memory("x", number)),
            ("size", lambda number=number: _core.resize_volume("x", number)),
            ("seed", lambda number=number: _core.create_volume("x", "direct", seed=number)),
            ("bytes", lambda number=number: _core.allocate_file(tmp_path / "x", number)),
            ("number", lambda number=number: _core.remove_left_ublk(number, 1)),
        ]
        for name, call in calls:
            with pytest.raises(InputError) as raised:
                call()
            said = str(raised.value)
            assert re.fullmatch(rf"{name} {number}: it must be a whole number from 0 to \d+", said)
    with pytest.raises(InputError, match=r"length 4294967296: .* from 0 to 4294967295"):
        volume.read(0, 1 << 32)
    for beyond in (volume.about()["capacity_bytes"], (1 << 64) - 1):
        with pytest.raises(_core.FlashwrightError):
            volume.write(beyond, b"xx")
    for seconds in (float("inf"), 1e300):
        with pytest.raises(InputError, match="it must be a number of seconds"):
            volume.keep_metrics(tmp_path / "metrics", seconds)
    with pytest.raises(TypeError):
        volume.read("0", 1)
    volume.close()


@pytest.mark.parametrize("name", ["", "/", ":memory:"])
def test_a_database_without_a_name_of_its_own_is_refused(
    cli: Cli, tmp_path: Path, name: str
) -> None:
    device = made(cli, tmp_path / "device")
    with pytest.raises(InputError, match="a database on a volume has a name of its own"):
        sqlite.connect(device, name)
    with pytest.raises(InputError, match="name the device or file of a volume"):
        sqlite.connect("")
    assert _core.check_volume(device)["files"] is None


def test_a_socket_takes_the_place_of_nothing(cli: Cli, tmp_path: Path) -> None:
    find_program("nbdkit")
    device, held = str(tmp_path / "device"), tmp_path / "held"
    cli("volume", "create", device, "--size", "64M")
    held.write_text("all that there is")
    refused = cli("serve", device, "--nbd", str(held), code=2)
    assert "something else is there; name a path for a socket" in refused.stderr
    assert held.read_text() == "all that there is"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["device", "held"]


def test_what_nbdkit_would_refuse_is_said_in_one_line(cli: Cli, tmp_path: Path) -> None:
    find_program("nbdkit")
    socket = tmp_path / "socket"
    for inner, said in (
        ("nvme-tlk", "nvme-tlc"),
        ("sd-card,size=100T", "cannot be made larger"),
        (f"sd-card,data={tmp_path / 'none' / 'data'}", "No such file or directory"),
    ):
        done = cli("serve", f"emulated({inner})", "--nbd", socket, code=2)
        assert said in done.stderr
        assert done.stderr.startswith("flashwright: error: ")
        assert done.stderr.count("\n") == 1
    slow, fast = str(tmp_path / "slow"), str(tmp_path / "fast")
    words = ["--size", "16M", "--stack", PAIRED, "--staging", fast, "--staging-size", "8M"]
    cli("volume", "create", slow, *words)
    shutil.copy(slow, tmp_path / "moved")
    volume = _core.Volume(slow)
    assert "in use" in (said := refused(cli, "serve", slow, "--nbd", socket)) or "locked" in said
    volume.close()
    Path(slow).unlink()
    assert not socket.exists()
