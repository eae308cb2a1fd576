"""Volumes as block devices of the kernel (ublk): all that can be tried without a kernel with it.

The last tests need one, and root.
"""

from __future__ import annotations

import json
import mmap
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from flashwright import _core
from flashwright._core import InputError
from flashwright.volumes import mounting, serving
from support import Cli

MEBIBYTE = 1 << 20
CONTROL = Path("/dev/ublk-control")
has_ublk = pytest.mark.skipif(
    not (CONTROL.exists() and os.geteuid() == 0), reason="needs a kernel with ublk, and root"
)
has_none = pytest.mark.skipif(CONTROL.exists(), reason="this kernel has ublk")


@pytest.fixture
def device(tmp_path: Path) -> str:
    path = tmp_path / "device"
    _core.allocate_file(path, 16 * MEBIBYTE)
    _core.create_volume(str(path), "log_volume(segment=64Ki)")
    return str(path)


@has_none
@pytest.mark.parametrize("words", [["serve"], ["volume", "mount"]])
def test_without_ublk_one_line_says_what_is_missing(
    cli: Cli, tmp_path: Path, device: str, words: list[str]
) -> None:
    where = ["d"] if "mount" in words else []
    if where and os.geteuid() != 0:
        pytest.skip("needs root")
    (tmp_path / "d").mkdir()
    done = cli(*words, device, *where, "--ublk", code=2)
    assert done.stderr == (
        "flashwright: error: /dev/ublk-control is not there: this kernel has no ublk "
        "(CONFIG_BLK_DEV_UBLK, Linux 6.0 or newer; modprobe ublk_drv); use --nbd or --fuse\n"
    )
    about = _core.volume_about(device)
    assert (about["is_clean"], about["openings"]) == (True, 1), "it was not even opened"


@has_none
def test_a_volume_in_python_says_so_and_goes_on(device: str) -> None:
    volume = _core.Volume(device)
    with pytest.raises(InputError, match="this kernel has no ublk"):
        volume.attach_ublk()
    volume.write(0, b"goes on")
    assert volume.read(0, 7) == b"goes on"
    assert volume.broken() is None
    volume.close()
    assert _core.volume_about(device)["is_clean"]


class FakeVolume:
    """Volume with all that `serve_ublk` needs; it is asked to stop as soon as it is there."""

    made: ClassVar[list[FakeVolume]] = []

    def __init__(self, *_words: object, **_settings: object) -> None:
        self.calls: list[str] = []
        self.made.append(self)

    def about(self) -> dict[str, Any]:
        facts = dict.fromkeys(("stack", "openings", "capacity_bytes", "notes"))
        return {"uuid": "none", **facts}

    def keep_control(self, path: Path) -> None:
        # It takes the note beside the socket away when it is closed.
        self.note = path.with_name("served.json")

    def attach_ublk(self, *, read_only: bool) -> str:
        self.calls.append(f"attach {read_only}")
        os.kill(os.getpid(), signal.SIGTERM)
        return "/dev/ublkb7"

    def broken(self) -> None:
        return None

    def close(self) -> None:
        self.calls.append("close")
        self.note.unlink()
        self.note.parent.rmdir()


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[FakeVolume]]:
    kept = {which: signal.getsignal(which) for which in (signal.SIGTERM, signal.SIGINT)}
    monkeypatch.setattr(_core, "check_ublk", lambda: None)
    monkeypatch.setattr(_core, "Volume", FakeVolume)
    monkeypatch.setattr(FakeVolume, "made", [])
    yield FakeVolume.made
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    for which, handler in kept.items():
        signal.signal(which, handler)


def test_the_link_names_the_block_device_as_long_as_it_is_served(
    fake: list[FakeVolume],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    link = tmp_path / "link"
    link.symlink_to("/dev/ublkb3")
    pointed: list[Path] = []
    at_close = FakeVolume.close

    def close(self: FakeVolume) -> None:
        pointed.append(link.readlink())
        at_close(self)

    monkeypatch.setattr(FakeVolume, "close", close)
    serving.serve_ublk(serving.Serving("device"), link, read_only=True)
    assert pointed == [Path("/dev/ublkb7")], "a link that a killed server left is replaced"
    assert not link.is_symlink()
    assert [one.calls for one in fake] == [["attach True", "close"]]
    said = [json.loads(line) for line in capfd.readouterr().err.splitlines()]
    assert [line["event"] for line in said] == ["opened", "attached", "closing", "closed"]
    assert said[1]["block_device"] == "/dev/ublkb7"


def test_nothing_else_is_replaced_by_a_link(fake: list[FakeVolume], tmp_path: Path) -> None:
    (tmp_path / "link").write_text("mine")
    with pytest.raises(InputError, match="something else is there"):
        serving.serve_ublk(serving.Serving("device"), tmp_path / "link", read_only=False)
    assert (tmp_path / "link").read_text() == "mine"
    assert fake == []


# With ublk


@has_ublk
def test_a_volume_is_a_block_device(tmp_path: Path, device: str) -> None:
    link = tmp_path / "link"
    words = [sys.executable, "-m", "flashwright", "serve", device, "--ublk"]
    server = subprocess.Popen([*words, "--link", str(link)])
    while not link.exists():
        assert server.poll() is None
        time.sleep(0.02)
    fd = os.open(link, os.O_RDWR | os.O_DIRECT)
    page = mmap.mmap(-1, 4096)
    page.write(b"x" * 4096)
    assert os.pwrite(fd, page, 8192) == 4096
    os.fsync(fd)
    os.close(fd)
    asked = subprocess.run(
        ["blockdev", "--getss", "--getsize64", link], capture_output=True, text=True, check=True
    ).stdout.split()
    about = _core.volume_about(device)
    assert asked[0] == str(about["sector_bytes"])
    subprocess.run(["blkdiscard", "--offset", "65536", "--length", "65536", link], check=True)
    subprocess.run(["blkdiscard", "--zeroout", "--length", "4096", link], check=True)
    server.send_signal(signal.SIGTERM)
    assert server.wait(60) == 0
    assert not link.is_symlink()
    volume = _core.Volume(device)
    assert volume.read(8192, 4096) == b"x" * 4096
    assert volume.read(0, 4096) == bytes(4096)
    volume.close()


@has_ublk
@pytest.mark.usefixtures("can_mount")
def test_a_file_system_lies_on_it(tmp_path: Path, device: str) -> None:
    directory = tmp_path / "mount"
    directory.mkdir()
    one = mounting.mount(mounting.MountPlan(device, directory, "ext4", is_ublk=True))
    (directory / "kept").write_text("kept")
    os.sync()
    os.kill(one.pid, signal.SIGKILL)
    os.waitpid(one.pid, 0)
    again = mounting.mount(mounting.MountPlan(device, directory, is_ublk=True))
    assert (directory / "kept").read_text() == "kept"
    mounting.unmount(again)
    assert _core.volume_about(device)["is_clean"]
