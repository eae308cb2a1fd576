"""Volumes whose layers have an area on a second device: two files as devices."""

from __future__ import annotations

import json
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import stamped_pages
from flashwright import _core
from flashwright._core import InputError
from flashwright.volumes import units
from flashwright.volumes.mounting import MountPlan
from flashwright.volumes.serving import Serving
from support import Cli, find_program

MEBIBYTE = 1 << 20
STACK = "stable_buffer(size=1Mi,page=4Ki)"


@pytest.fixture
def pair(cli: Cli, tmp_path: Path) -> tuple[str, str]:
    """Make a volume over two files, by the command line."""
    slow, fast = str(tmp_path / "slow"), str(tmp_path / "fast")
    made = cli(
        *("volume", "create", slow, "--size", "32M", "--stack", STACK),
        *("--staging", fast, "--staging-size", "8M"),
    )
    assert f"staging device {fast}" in made.stdout
    return slow, fast


def fails(cli: Cli, *words: str) -> str:
    """Call a command that is wrong use, and give its one line."""
    done = cli(*words, code=2)
    assert done.stderr.startswith("flashwright: error: ")
    assert done.stderr.count("\n") == 1
    return done.stderr


def test_both_devices_say_what_they_are(cli: Cli, pair: tuple[str, str]) -> None:
    slow, fast = pair
    about = json.loads(cli("volume", "info", slow, "--json", "-").stdout)
    assert (about["role"], about["other_device"], about["notes"]) == ("homes", fast, [])
    assert about["staging"] == {
        "device": fast,
        "device_bytes": 8 * MEBIBYTE,
        "data_bytes": 6 * MEBIBYTE,
        "problem": None,
    }
    told = cli("volume", "info", slow).stdout
    assert "staging device" in told
    assert f"{fast}, 8" in told
    told = cli("volume", "info", fast).stdout
    assert about["uuid"] in told
    assert f"the pages lie on {slow}" in told
    found = json.loads(cli("volume", "info", slow, "--check", "--json", "-").stdout)
    assert (found["bad_bytes"], found["read_bytes"]) == (0, 30 * MEBIBYTE - 65536)


def test_a_missing_wrong_or_older_staging_device_is_one_line(
    cli: Cli, pair: tuple[str, str], tmp_path: Path
) -> None:
    slow, fast = pair
    uuid = _core.volume_about(slow)["uuid"]
    older = tmp_path / "older"
    shutil.copy(fast, older)
    _core.Volume(slow).close()
    socket = str(tmp_path / "socket")
    for words in (
        ["volume", "info", slow, "--check"],
        ["serve", slow, "--nbd", socket],
        ["volume", "info", fast, "--check"],
    ):
        more = [] if fast in words else ["--staging", str(older)]
        told = fails(cli, *words, *more)
        assert uuid in told
        assert "whose pages lie on" in told if fast in words else "is an older copy" in told
    other = str(tmp_path / "other")
    _core.allocate_file(Path(other), 8 * MEBIBYTE)
    assert "at byte 0: zeros" in fails(cli, "volume", "info", slow, "--check", "--staging", other)
    _core.create_volume(other, "direct", destroy=True)
    told = fails(cli, "volume", "info", slow, "--check", "--staging", other)
    assert uuid in told
    assert _core.volume_about(other)["uuid"] in told
    moved = tmp_path / "moved"
    Path(fast).rename(moved)
    told = fails(cli, "serve", slow, "--nbd", socket)
    assert "--staging" in told
    assert uuid in told
    assert "It cannot be opened: " in cli("volume", "info", slow).stdout
    with pytest.raises(InputError, match="needs its staging device"):
        _core.Volume(slow)
    volume = _core.Volume(slow, staging=str(moved))
    volume.close()
    _core.Volume(slow).close()
    told = fails(cli, "volume", "create", str(tmp_path / "n"), "--size", "8M", "--staging", fast)
    assert "no such file" in told
    assert not (tmp_path / "n").exists(), "a file that was made for it is taken away"
    for words, said in (
        (["create", "x", "--staging-size", "8M"], "--staging-size is for --staging"),
        (
            ["change", slow, "--new-staging", fast, "--lose-staged", fast],
            "repeat the path of DEVICE",
        ),
        (["change", other, "--new-staging", str(moved)], f"staging device of volume {uuid}, whose"),
        (["change", other, "--no-staging"], "all of it lies on the device itself"),
        (["change", slow, "--staging", fast], "give one of --size, --new-staging"),
        (["change", slow, "--new-uuid", "--size", "9M"], "each is a command of its own"),
        (["change", slow, "--new-staging", fast, "--staging", fast], "is for --no-staging or"),
        (["change", slow, "--no-staging", "--destroy-data", slow], "or --destroy"),
        (["change", slow, "--no-staging", "--staging-size", "8M"], "is for --new-staging"),
        (["change", slow, "--no-staging", "--staging", other], "a volume of one device"),
    ):
        assert said in fails(cli, "volume", *words)


def test_a_staging_device_is_replaced(cli: Cli, pair: tuple[str, str], tmp_path: Path) -> None:
    slow, fast = pair
    new = str(tmp_path / "new")
    volume = _core.Volume(slow)
    volume.write(4096, b"home")
    volume.close()
    words = ["change", slow, "--new-staging", new, "--staging-size", "8M"]
    assert f"is {new} now" in cli("volume", *words).stdout
    volume = _core.Volume(slow)
    assert volume.read(4096, 4) == b"home"
    volume.close()
    assert "is an older copy" in fails(cli, "volume", "info", slow, "--check", "--staging", fast)
    gone = cli("volume", "change", slow, "--destroy", "--destroy-data", slow)
    assert f"{new}: its staging device is free, too" in gone.stdout
    assert "no volume is there" in fails(cli, "volume", "info", new)


@pytest.mark.parametrize("stack", [STACK, "log_volume(segment=256Ki)"])
def test_a_staging_device_is_given_and_taken_away(cli: Cli, tmp_path: Path, stack: str) -> None:
    slow, fast = str(tmp_path / "slow"), str(tmp_path / "fast")
    cli("volume", "create", slow, "--size", "32M", "--stack", stack)
    volume = _core.Volume(slow)
    size = volume.about()["capacity_bytes"]
    volume.write(4096, b"home")
    volume.close()
    words = ["change", slow, "--new-staging", fast, "--staging-size", "8M"]
    assert f"is {fast} now" in cli("volume", *words).stdout
    volume = _core.Volume(slow)
    assert (volume.read(4096, 4), volume.about()["capacity_bytes"]) == (b"home", size)
    volume.write(8192, b"staged" * 1000, fua=True)
    volume.close()
    said = cli("volume", "change", slow, "--no-staging").stdout
    assert "has no staging device any more" in said
    assert f"{fast}: it belongs to no volume any more" in said
    Path(fast).unlink()
    volume = _core.Volume(slow)
    assert volume.read(8192, 6000) == b"staged" * 1000
    assert (volume.read(4096, 4), volume.about()["capacity_bytes"]) == (b"home", size)
    volume.close()
    assert json.loads(cli("volume", "info", slow, "--json", "-").stdout)["role"] is None


def test_units_of_systemd_reach_both_devices() -> None:
    text = units.of_nbd(Serving("/dev/sdb", staging="/dev/nvme0n1p3"), Path("/run/db/nbd.sock"))
    assert "DeviceAllow=/dev/sdb rw\nDeviceAllow=/dev/nvme0n1p3 rw\n" in text
    assert "--staging /dev/nvme0n1p3" in text
    text = units.of_nbd(Serving("/srv/slow", staging="/dev/nvme0n1p3"), Path("/run/db/nbd.sock"))
    assert "ReadWritePaths=/run/db /srv/slow\n" in text
    assert "--staging /dev/fast" in units.of_mount(
        MountPlan("/dev/sdb", Path("/mnt/db"), staging="/dev/fast")
    )


def test_what_a_served_volume_has_acknowledged_outlives_a_kill(
    pair: tuple[str, str], tmp_path: Path
) -> None:
    slow, fast = pair
    find_program("nbdkit")
    qemu, socket = find_program("qemu-io"), tmp_path / "nbd.sock"
    words = [sys.executable, "-m", "flashwright", "serve", slow, "--nbd", str(socket)]
    server = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    try:
        end = time.monotonic() + 60
        while not socket.exists():
            assert server.poll() is None, server.stderr.read() if server.stderr else ""
            assert time.monotonic() < end
            time.sleep(0.02)
        script = ["write -P 7 64k 4k", "write -P 9 1M 300k", "write -f -P 8 64k 4k", "flush"]
        script += ["read -P 8 64k 4k"]
        lines = [word for line in script for word in ("-c", line)]
        uri = f"nbd+unix:///?socket={socket}"
        done = subprocess.run(
            [qemu, "-f", "raw", *lines, uri], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
    finally:
        server.send_signal(signal.SIGKILL)
        server.wait(60)
    with Path(slow).open("rb") as file:
        file.seek(MEBIBYTE + 64 * 1024)
        assert file.read(4096) != b"\x08" * 4096, "it is not at home yet"
    # Two headers lie in a slot, with some of the page's bytes beside the other.
    assert b"\x08" * 4000 in Path(fast).read_bytes(), "it is staged"
    assert _core.check_volume(slow)["recovery_sectors"] == 0
    volume = _core.Volume(slow)
    assert volume.read(64 * 1024, 4096) == b"\x08" * 4096
    assert volume.read(MEBIBYTE, 300 * 1024) == b"\x09" * 300 * 1024
    volume.close()
    with Path(slow).open("rb") as file:
        file.seek(MEBIBYTE + 64 * 1024)
        assert file.read(4096) == b"\x08" * 4096, "closed, all is at home"


def test_a_killed_process_loses_nothing_that_was_flushed(pair: tuple[str, str]) -> None:
    slow, _ = pair
    draw = random.Random(1)
    durable: dict[int, int] = {}
    for life in range(4):
        durable |= stamped_pages.live(slow, life, draw.randrange(3, 40))
        # After the others the next process recovers it, and is killed, too.
        if life % 2:
            volume = _core.Volume(slow)
            stamped_pages.check(volume, durable, life)
            volume.close()
    assert len(durable) > 500
