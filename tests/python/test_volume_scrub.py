"""Volumes that are scrubbed, in use and not, and others that ask their servers."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from flashwright import _core
from flashwright._core import InputError, RunError
from flashwright.cli import cli as everything
from flashwright.volumes import control, mounting, places, scrubbing, serving, watching
from support import Cli, find_program

MEBIBYTE = 1 << 20
LOG = "log_volume(segment=256Ki)"
PAGES = {number: bytes([number]) * 4096 for number in (1, 2, 3)}


def made(folder: Path, stack: str = LOG) -> str:
    """Make a volume on a file, with some pages."""
    device = folder / "device"
    _core.allocate_file(device, 32 * MEBIBYTE)
    _core.create_volume(str(device), stack)
    volume = _core.Volume(str(device))
    for number, page in PAGES.items():
        volume.write(number * MEBIBYTE, page)
    volume.close()
    return str(device)


def rot(device: str, page: bytes) -> None:
    """Flip a bit of a page, wherever it lies."""
    held = Path(device).read_bytes()
    assert held.count(page) == 1
    with Path(device).open("r+b", buffering=0) as file:
        file.seek(held.index(page) + 100)
        file.write(bytes([page[100] ^ 1]))
        os.fsync(file.fileno())


@contextmanager
def served(device: str, *words: str) -> Iterator[places.Served]:
    """Serve a volume until the end, and wait until it is noted."""
    command = [sys.executable, "-m", "flashwright", "serve", device, *words]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        end = time.monotonic() + 60
        while (one := places.find_served(device)) is None or not one.place.control.is_socket():
            assert server.poll() is None, server.stderr.read() if server.stderr else ""
            assert time.monotonic() < end
            time.sleep(0.02)
        yield one
    finally:
        server.terminate()
        server.wait(60)


def test_what_rots_is_found_named_and_an_error_of_its_page(cli: Cli, tmp_path: Path) -> None:
    device = made(tmp_path)
    assert "last scrub" in cli("volume", "info", device).stdout
    assert "never" in cli("volume", "info", device).stdout
    good = json.loads(cli("volume", "info", device, "--scrub", "--json", "-").stdout)
    assert (good["is_over"], good["bad_bytes"], good["passes"]) == (True, 0, 1)
    assert good["read_bytes"] == {"log_volume (0)": 3 * 4096}
    about = _core.volume_about(device)
    assert abs(about["scrubbed_unix_s"] - time.time()) < 100
    assert about["is_clean"]
    rot(device, PAGES[2])
    found = cli("volume", "info", device, "--scrub", code=1)
    assert f"log_volume (0): byte {2 * MEBIBYTE}, 4096 bytes" in found.stdout
    assert "4 KiB are bad" in found.stderr
    assert found.stderr.count("\n") == 1
    volume = _core.Volume(device)
    assert volume.read(MEBIBYTE, 4096) == PAGES[1]
    with pytest.raises(RunError, match="lost"):
        volume.read(2 * MEBIBYTE, 4096)
    # Only that page, not the volume.
    assert volume.broken() is None
    volume.write(2 * MEBIBYTE, PAGES[2])
    assert json.loads(volume.scrub())["is_on"]
    end = time.monotonic() + 60
    while json.loads(volume.scrub(begin=False))["is_on"]:
        assert time.monotonic() < end
        time.sleep(0.02)
    assert json.loads(volume.scrub(begin=False))["layers"][0]["bad_pages"] == 0
    volume.close()


def test_without_checksums_there_is_nothing_to_scrub(cli: Cli, tmp_path: Path) -> None:
    device = made(tmp_path, "direct")
    refused = cli("volume", "info", device, "--scrub", code=2)
    assert "no layer of it keeps checksums" in refused.stderr
    assert "volume info --check" in refused.stderr
    refused = cli("volume", "info", device, "--scrub", "--no-wait", code=2)
    assert "nobody serves it" in refused.stderr
    assert (
        "no such"
        in cli("volume", "info", str(tmp_path / "other"), "--scrub", code=2).stderr.lower()
    )


@pytest.mark.usefixtures("can_mount")
@pytest.mark.parametrize("way", ["fuse", "nbd"])
def test_a_volume_in_use_is_scrubbed_by_its_server(cli: Cli, tmp_path: Path, way: str) -> None:
    device, where = made(tmp_path), tmp_path / "where"
    if way == "fuse":
        where.mkdir()
    else:
        find_program("nbdkit")
    rot(device, PAGES[3])
    with served(device, f"--{way}", str(where)) as one:
        assert (one.way, one.where) == (way, str(where))
        assert stat.S_IMODE(one.place.control.stat().st_mode) == 0o600
        assert stat.S_IMODE(one.place.folder.stat().st_mode) == 0o700
        info = cli("volume", "info", device).stdout
        assert f"process {one.pid} serves it ({way}" in " ".join(info.split())
        refused = cli("volume", "info", device, "--check", code=2)
        assert f"process {one.pid} serves it" in refused.stderr
        assert "--scrub" in refused.stderr
        (listed,) = [
            each
            for each in json.loads(cli("volume", "info", "--json", "-").stdout)
            if each["device"] == device
        ]
        assert (listed["way"], listed["where"], listed["pid"]) == (way, str(where), one.pid)
        # By device, by another name of it, by place, by UUID.
        (tmp_path / "link").symlink_to(device)
        began = json.loads(
            cli("volume", "info", device, "--scrub", "--no-wait", "--json", "-").stdout
        )
        assert began["layers"][0]["layer"] == "log_volume"
        for target in (str(tmp_path / "link"), str(where), one.uuid):
            assert one.uuid in cli("volume", "info", target).stdout
            found = cli("volume", "info", target, "--scrub", code=1)
            assert f"byte {3 * MEBIBYTE}, 4096 bytes" in found.stdout
        top = json.loads(
            cli("volume", "info", device, "--live", "--every", "0.1", "--json", "-").stdout
        )
        assert top[0]["uuid"] == one.uuid
        layers = {(each["name"], each["value"]) for each in top[0]["layers"]}
        assert {("bad_pages", 1), ("scrub_pages_left", 0)} <= layers
    assert not one.place.folder.exists()
    assert places.find_served(device) is None


@pytest.mark.usefixtures("can_mount")
def test_a_volume_that_is_served_is_not_mounted_and_nor_is_its_copy(
    cli: Cli, tmp_path: Path
) -> None:
    """The note of its server is left alone."""
    find_program("nbdkit")
    device, copy, directory = made(tmp_path), tmp_path / "copy", tmp_path / "mount"
    directory.mkdir()
    shutil.copyfile(device, copy)
    with served(device, "--nbd", str(tmp_path / "socket")) as one:
        for words in (["mount", device], ["mount", str(copy)]):
            refused = cli("volume", *words, str(directory), code=2)
            assert str(tmp_path / "socket") in refused.stderr
            assert refused.stderr.count("\n") == 1
        for words in (["--nbd", str(tmp_path / "other")], ["--fuse", str(directory)]):
            refused = cli("serve", str(copy), *words, code=2)
            assert f"volume change {copy} --new-uuid" in refused.stderr
        cli("volume", "change", str(copy), "--new-uuid")
        assert json.loads(control.ask(one.place.control, "scrub?"))["passes"] == 0
        with served(str(copy), "--nbd", str(tmp_path / "other")) as two:
            assert two.uuid != one.uuid
            assert {each.pid for each in places.all_served()} >= {one.pid, two.pid}


@pytest.mark.usefixtures("can_mount")
def test_what_a_dead_mount_left_is_taken_away_from_beside_a_living_server(
    cli: Cli, tmp_path: Path
) -> None:
    find_program("nbdkit")
    device, directory = made(tmp_path), tmp_path / "mount"
    directory.mkdir()
    mounted = mounting.mount(mounting.MountPlan(device, directory, "ext4", destroys=True))
    os.kill(mounted.pid, signal.SIGKILL)
    os.waitpid(mounted.pid, 0)
    with served(device, "--nbd", str(tmp_path / "socket")) as one:
        listed = json.loads(cli("volume", "info", "--json", "-").stdout)
        here = {each["pid"]: each["is_served"] for each in listed if each["uuid"] == one.uuid}
        assert here == {mounted.pid: False, one.pid: True}
        refused = cli("volume", "mount", device, str(directory), code=2)
        assert f"process {one.pid} serves it" in refused.stderr
        cli("volume", "umount", str(directory))
        assert places.find_served(device) == one
        assert not one.place.note.exists()
        assert json.loads(cli("volume", "info", device, "--scrub", "--json", "-").stdout)["is_over"]
    assert not one.place.folder.exists()


@pytest.mark.parametrize("mode", [0o750, 0o720, 0o705, 0o755])
def test_notes_of_somebody_else_are_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int
) -> None:
    root = tmp_path / "run"
    monkeypatch.setattr(places, "_root", lambda: root)
    pid = os.getpid()
    one = places.Served("one", "/dev/x", "nbd", "/s", pid, places.process_began(pid))
    one.place.make()
    one.write()
    assert places.all_served() == [one]
    root.chmod(mode)
    assert places.all_served() == []
    with pytest.raises(RunError, match="others may look into it"):
        one.place.make()


@pytest.mark.usefixtures("can_mount")
def test_a_server_without_room_for_its_socket_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The path of a socket has 107 bytes at most."""
    run, where = tmp_path / ("r" * 100), tmp_path / "where"
    where.mkdir()
    run.mkdir(mode=0o700)
    monkeypatch.setattr(places, "_root", lambda: run)
    lines: list[dict[str, object]] = []
    monkeypatch.setattr(serving, "say", lambda event, **facts: lines.append({event: facts}))
    device = made(tmp_path)
    volume = _core.Volume(device)
    served = serving._noted(device, volume.about()["uuid"], "fuse", where)
    assert served is not None
    serving._let_ask(volume, served)
    volume.close()
    assert [list(line) for line in lines] == [["alone"]]
    assert not served.place.folder.exists()


@pytest.mark.usefixtures("can_mount")
def test_a_server_that_was_killed_is_asked_nothing(cli: Cli, tmp_path: Path) -> None:
    device, where = made(tmp_path), tmp_path / "where"
    where.mkdir()
    with served(device, "--fuse", str(where)) as one:
        os.kill(one.pid, signal.SIGKILL)
        end = time.monotonic() + 20
        while places.find_served(device) is not None and time.monotonic() < end:
            time.sleep(0.02)
        assert places.find_served(device) is None
        with pytest.raises(RunError, match="does not answer"):
            control.ask(one.place.control, "scrub?")
        info = cli("volume", "info", device).stdout
        assert "it was left open, and will be recovered" in " ".join(info.split())
        subprocess.run(["umount", "--lazy", str(where)], check=False)
        assert json.loads(cli("volume", "info", device, "--scrub", "--json", "-").stdout)["is_over"]
    # The next server takes its place.
    with served(device, "--fuse", str(where)) as again:
        answer = control.ask(again.place.control, "scrub?", lambda: again.is_served)
        assert json.loads(answer)["passes"] == 0


@pytest.mark.usefixtures("can_mount")
def test_a_mounted_volume_is_named_by_its_directory(cli: Cli, tmp_path: Path) -> None:
    device, directory = made(tmp_path), tmp_path / "mount"
    directory.mkdir()
    mounted = mounting.mount(
        mounting.MountPlan(device, directory, "ext4", destroys=True, scrub_days=0.5)
    )
    try:
        found = json.loads(cli("volume", "info", str(directory), "--scrub", "--json", "-").stdout)
        assert found["is_over"]
        (one,) = watching.find(str(directory))
        assert one.name == f"{device} at {directory}"
    finally:
        mounting.unmount(mounted)
    assert not mounted.place.folder.exists()


def test_a_volume_that_somebody_else_holds_is_not_checked(cli: Cli, tmp_path: Path) -> None:
    device = made(tmp_path)
    volume = _core.Volume(device)
    for words in (
        ["volume", "info", device, "--check"],
        ["serve", device, "--nbd", str(tmp_path / "s")],
    ):
        refused = cli(*words, code=2)
        assert re.search("locked|open in process", refused.stderr)
        assert refused.stderr.count("\n") == 1
    info = " ".join(cli("volume", "info", device).stdout.split())
    assert re.search("no: .*(locked|open in process)", info)
    volume.close()
    cli("volume", "info", device, "--check")


def test_what_a_server_says_is_wrong_is_an_error(tmp_path: Path) -> None:
    place = tmp_path / "control.sock"
    volume = _core.Volume(made(tmp_path))
    volume.keep_control(place)
    with pytest.raises(RunError, match="known are `scrub`"):
        control.ask(place, "reboot")
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(place))
        client.sendall(b"metrics\n" * 1000)
    assert "flashwright_volume_scrubs_total" in control.ask(place, "metrics")
    volume.close()
    assert not place.exists()


def test_a_pass_ends_with_its_volume() -> None:
    answer = {"is_on": True, "passes": 0, "last_unix_s": 0, "broken": None}
    layer = {"level": 0, "layer": "log_volume", "pages_left": 9, "pages_read": 0}
    layers = [{**layer, "page_bytes": 4096, "bad_pages": 0, "unread_pages": 0, "bad": [[0, 4096]]}]
    answers = [{**answer, "layers": layers}, {**answer, "layers": layers, "broken": "it is gone"}]
    one = scrubbing.Pass("here", lambda _begins: json.dumps(answers.pop(0)))
    assert one.state() == (0, 9 * 4096)
    assert one.first.layers[0].bad == [(0, 4096)]
    with pytest.raises(RunError, match="here: it is gone"):
        one.run()
    with pytest.raises(InputError, match="keeps checksums"):
        scrubbing.Pass("here", lambda _begins: json.dumps({**answer, "layers": []}))


@pytest.mark.parametrize("is_on", [False, True])
def test_a_pass_that_is_under_way_is_not_called_over(*, is_on: bool) -> None:
    layer = {"level": 0, "layer": "log_volume", "pages_left": 9, "page_bytes": 4096}
    more = {"bad_pages": 2, "unread_pages": 1, "bad": []}
    answers = [
        {
            **{"is_on": is_on, "passes": 0, "last_unix_s": 0, "broken": None},
            "layers": [{**layer, **more, "pages_read": pages}],
        }
        for pages in (3, 5)
    ]
    one = scrubbing.Pass("here", lambda _begins: json.dumps(answers.pop(0)))
    one.now = one._look(begins=False)
    found = one.document()
    assert found["is_over"] is not is_on
    assert found["read_bytes"] == {"log_volume (0)": 2 * 4096}
    assert (found["bad_bytes"], found["unread_bytes"]) == (2 * 4096, 4096)


def test_the_folder_of_a_volume_can_be_entered_whatever_the_umask_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "_root", lambda: tmp_path / "run")
    place = places.Place("one")
    before = os.umask(0o177)
    try:
        place.make()
    finally:
        os.umask(before)
    assert {stat.S_IMODE(each.stat().st_mode) for each in (place.folder.parent, place.folder)} == {
        0o700
    }


def test_a_part_of_a_day_is_whole_seconds() -> None:
    assert serving.Serving("d", scrub_days=0).scrub_seconds == 0
    assert serving.Serving("d", scrub_days=1e-9).scrub_seconds == 1
    assert serving.Serving("d").scrub_seconds == 7 * 86_400


class Cut:
    """A volume on a loop device whose file ends before its pages as long as it is open: EIO."""

    opened = _core.Volume
    file: Path

    def __init__(self, device: str, **more: Any) -> None:
        held = self.file.read_bytes()
        self._bytes = len(held)
        self._volume = self.opened(device, **more)
        os.truncate(self.file, min(held.index(page) for page in PAGES.values()))

    def scrub(self, *, begin: bool = True) -> str:
        """Do as the true one."""
        return self._volume.scrub(begin=begin)

    def close(self) -> None:
        """Let the file be as long as it was, for the headers."""
        os.truncate(self.file, self._bytes)
        self._volume.close()


@pytest.mark.usefixtures("can_mount")
def test_pages_that_cannot_be_read_are_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Cut, "file", Path(made(tmp_path)), raising=False)
    monkeypatch.setattr(_core, "Volume", Cut)
    attach = ["losetup", "--find", "--show", "--direct-io=on", str(Cut.file)]
    device = subprocess.run(attach, capture_output=True, text=True, check=True).stdout.strip()
    try:
        with pytest.raises(RunError, match="12 KiB could not be read: look at the device"):
            everything.main(["volume", "info", device, "--scrub"], standalone_mode=False)
    finally:
        subprocess.run(["losetup", "--detach", device], check=True)
    said = capsys.readouterr().out
    for number in PAGES:
        assert f"byte {number * MEBIBYTE}, 4096 bytes: not what was written" in said
