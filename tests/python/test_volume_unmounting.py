"""Volumes that are unmounted by two at once, while they are in use, or whose server is killed."""

from __future__ import annotations

import fcntl
import mmap
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from flashwright import _core
from flashwright._core import RunError
from flashwright.volumes import mounting, places
from processes import until
from support import Cli

MEBIBYTE = 1 << 20


@pytest.fixture
def mounted(tmp_path: Path, can_mount: None) -> Iterator[places.Mounted]:
    """Mount a volume; it is unmounted afterwards, if it is still mounted."""
    device, directory = tmp_path / "device", tmp_path / "mount"
    _core.allocate_file(device, 32 * MEBIBYTE)
    _core.create_volume(str(device), "log_volume(segment=256Ki)")
    directory.mkdir()
    one = mounting.mount(mounting.MountPlan(str(device), directory, "ext4"))
    yield one
    mounting.unmount(one)


def test_two_who_unmount_at_once_both_find_it_unmounted(
    mounted: places.Mounted, monkeypatch: pytest.MonkeyPatch
) -> None:
    detach = mounting._detach

    def slowly(one: places.Mounted) -> None:
        time.sleep(0.3)
        detach(one)
        time.sleep(0.3)

    monkeypatch.setattr(mounting, "_detach", slowly)
    said: list[str] = []

    def unmount() -> None:
        try:
            mounting.unmount(mounted)
        except Exception as error:
            said.append(repr(error))

    threads = [threading.Thread(target=unmount) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert said == []
    assert not os.path.ismount(mounted.directory)
    assert not mounted.place.folder.exists()
    assert _core.volume_about(mounted.device)["is_clean"]


def test_commands_at_once_end_well_or_find_nothing_mounted(mounted: places.Mounted) -> None:
    words = [sys.executable, "-m", "flashwright", "volume", "umount", mounted.directory]
    both = [subprocess.Popen(words, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    said = [one.communicate(timeout=60)[1] for one in both]
    assert sorted(one.returncode for one in both) in ([0, 0], [0, 2]), said
    for text in said:
        assert text == "" or "no mounted volume has this directory" in text


def test_who_waits_in_vain_for_another_says_so(mounted: places.Mounted) -> None:
    with (
        mounted.place.alone(1),
        pytest.raises(RunError, match="another mount or umount of it is under way"),
    ):
        mounting.unmount(mounted, 0.1)


def test_a_note_that_goes_while_it_is_read_is_no_error(
    mounted: places.Mounted, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(_path: Path) -> str:
        raise FileNotFoundError

    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_text", gone)
        assert places.all_mounted() == []


def test_a_server_that_is_killed_while_it_closes_is_said_in_words(
    mounted: places.Mounted, monkeypatch: pytest.MonkeyPatch
) -> None:
    kill = os.kill
    monkeypatch.setattr(os, "kill", lambda pid, _number: kill(pid, signal.SIGKILL))
    with pytest.raises(RunError) as raised:
        mounting.unmount(mounted)
    said = str(raised.value)
    assert f"process {mounted.pid}) ended before it had closed the volume, by SIGKILL" in said
    assert "the next mount recovers" in said
    assert "{" not in said
    assert not mounted.place.folder.exists()
    monkeypatch.undo()
    again = mounting.mount(mounting.MountPlan(mounted.device, Path(mounted.directory)))
    mounting.unmount(again)


def test_a_busy_directory_names_who_uses_it(cli: Cli, mounted: places.Mounted) -> None:
    directory = Path(mounted.directory)
    sleeper = subprocess.Popen(["sleep", "60"], cwd=directory)
    try:
        with (directory / "open").open("w+b") as file:
            done = cli("volume", "umount", mounted.directory, code=1)
            file.truncate(4096)
            assert f"process {sleeper.pid} (sleep: its current folder)" in done.stderr
            assert f"process {os.getpid()} (" in done.stderr
            assert ": open files)" in done.stderr
            assert done.stderr.count("\n") == 1
            mapped = mmap.mmap(file.fileno(), 4096)
    finally:
        sleeper.kill()
        sleeper.wait()
    # A map keeps the file open by a descriptor of its own, in Python.
    assert f"process {os.getpid()}" in cli("volume", "umount", mounted.directory, code=1).stderr
    mapped.close()
    below = directory / "below"
    below.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "none", below], check=True)
    try:
        done = cli("volume", "umount", mounted.directory, code=1)
        assert f"the mount {below}" in done.stderr
    finally:
        subprocess.run(["umount", below], check=True)
    assert mounted.is_served
    cli("volume", "umount", mounted.directory)


def test_the_device_is_free_when_it_is_unmounted(mounted: places.Mounted) -> None:
    """Who else holds the lock stands in for a kernel that lets go of a device late."""
    ended = threading.Event()
    wait = mounting._wait_until_free
    with Path(mounted.device).open("rb") as holder, pytest.MonkeyPatch.context() as patch:

        def let_go() -> None:
            ended.set()
            holder.close()

        def locked(device: str) -> None:
            fcntl.flock(holder, fcntl.LOCK_EX)
            threading.Timer(0.5, let_go).start()
            wait(device)
            assert ended.is_set()

        patch.setattr(mounting, "_wait_until_free", locked)
        mounting.unmount(mounted)
    resized = _core.resize_volume(mounted.device, 32 * MEBIBYTE)
    assert resized["before_bytes"] == resized["capacity_bytes"]


def test_a_server_that_is_ended_under_a_file_system_waits_for_its_end(
    mounted: places.Mounted,
) -> None:
    directory = Path(mounted.directory)
    (directory / "before").write_text("before")
    os.kill(mounted.pid, signal.SIGTERM)
    while '"in use"' not in mounted.place.log.read_text():
        assert mounted.is_served
        time.sleep(0.01)
    (directory / "during").write_text("during")
    mounting.unmount(mounted)
    assert _core.volume_about(mounted.device)["is_clean"]
    again = mounting.mount(mounting.MountPlan(mounted.device, directory))
    assert [(directory / name).read_text() for name in ("before", "during")] == ["before", "during"]
    mounting.unmount(again)


def test_a_volume_is_mounted_within_the_memory_that_was_given(
    cli: Cli, tmp_path: Path, can_mount: None
) -> None:
    device, directory, figures = tmp_path / "device", tmp_path / "mount", tmp_path / "figures"
    _core.allocate_file(device, 32 * MEBIBYTE)
    _core.create_volume(str(device), "log_volume(segment=256Ki)")
    directory.mkdir()
    refused = cli("volume", "mount", device, directory, "--memory", "8M", code=2)
    assert "a memory of 8388608 bytes is too little" in refused.stderr
    more = ("--mkfs", "ext4", "--memory", "41M", "--metrics", figures, "--metrics-every", "0.1")
    cli("volume", "mount", device, directory, *more)
    try:
        assert until(lambda: "memory_most" in figures.read_text())
        (most,) = [
            int(line.split()[-1])
            for line in figures.read_text().splitlines()
            if line.startswith("flashwright_volume_memory_most_bytes{")
        ]
        # Without, requests under way may take more.
        assert most == 41 * MEBIBYTE
    finally:
        cli("volume", "umount", directory)


def test_a_block_device_is_the_same_by_any_node(mounted: places.Mounted, tmp_path: Path) -> None:
    """As `/dev/sdb` and a node of it in a container."""
    number = Path(mounted.loop).stat().st_rdev
    nodes = [tmp_path / "node", tmp_path / "other"]
    for node, device in zip(nodes, (number, number + 1), strict=True):
        os.mknod(node, 0o600 | stat.S_IFBLK, device)
    assert places.is_same(str(nodes[0]), mounted.loop)
    assert not places.is_same(str(nodes[1]), mounted.loop)


def test_what_has_no_server_yet_is_not_served() -> None:
    assert not places.Mounted("uuid", "device", "directory", "", 0, 0).is_served
