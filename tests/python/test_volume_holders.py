"""Who holds a mounted file system keeps its device: `umount` names them, and changes nothing."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import holding
from flashwright import RunError, _core
from flashwright.volumes import mounting, places
from holding import ALONE, HOLDINGS, UNSEEN
from support import Cli, find_program

pytestmark = pytest.mark.usefixtures("can_mount_alone")
MEBIBYTE = 1 << 20


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a volume with ext4 on it."""
    path = tmp_path_factory.mktemp("volume") / "device"
    _core.allocate_file(path, 32 * MEBIBYTE)
    _core.create_volume(str(path), "log_volume(segment=256Ki)")
    return path


@pytest.fixture
def mounted(device: Path, tmp_path: Path) -> Iterator[places.Mounted]:
    """Mount it; it is unmounted afterwards, if it is still mounted."""
    one = _mount(device, tmp_path / "mount")
    yield one
    mounting.unmount(one)


def _mount(device: Path, directory: Path, kind: str | None = "ext4") -> places.Mounted:
    directory.mkdir(exist_ok=True)
    return mounting.mount(mounting.MountPlan(str(device), directory, kind))


def _read(device: Path, directory: Path, *names: str) -> list[str]:
    """Mount the volume, and give what files hold."""
    one = _mount(device, directory, None)
    try:
        return [(directory / name).read_text() for name in names]
    finally:
        mounting.unmount(one)


@pytest.mark.parametrize("way", HOLDINGS)
def test_what_is_held_is_not_taken_away(
    cli: Cli, device: Path, mounted: places.Mounted, tmp_path: Path, way: str
) -> None:
    directory, other = Path(mounted.directory), tmp_path / "other"
    other.mkdir()
    (directory / "before").write_text(way)
    with HOLDINGS[way](directory, other) as named:
        done = cli("volume", "umount", mounted.directory, code=1)
        assert named in done.stderr
        assert "Nothing was changed" in done.stderr
        assert done.stderr.count("\n") == 1
        assert mounted.is_served
        (directory / "during").write_text(way)
    if way == "overmount":
        (directory / "during").write_text(way)
    cli("volume", "umount", mounted.directory)
    assert _core.volume_about(str(device))["is_clean"]
    assert _read(device, directory, "before", "during") == [way, way]


@pytest.mark.parametrize("way", UNSEEN)
def test_what_no_table_shows_is_seen_before_the_device_goes(
    device: Path,
    mounted: places.Mounted,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    way: str,
) -> None:
    monkeypatch.setattr(mounting, "_FREE_SECONDS", 0.1)
    directory, other = Path(mounted.directory), tmp_path / "other"
    other.mkdir()
    (directory / "before").write_text(way)
    with UNSEEN[way](directory, other) as named:
        for _ in range(2):
            with pytest.raises(RunError, match=f"process {mounted.pid} goes on") as raised:
                mounting.unmount(mounted)
            assert named in str(raised.value)
        assert not os.path.ismount(directory)
        assert mounted.is_served
        # Nor has the device been told to go once it is free.
        about = Path("/sys/block") / Path(mounted.loop).name / "loop"
        assert (about / "autoclear").read_text() == "0\n"
    monkeypatch.undo()
    mounting.unmount(mounted)
    assert _core.volume_about(str(device))["is_clean"]
    assert _read(device, directory, "before") == [way]


def test_copies_of_the_mount_that_go_with_it_hold_nothing(
    cli: Cli, device: Path, tmp_path: Path
) -> None:
    """As those in the namespaces of systemd's services."""
    shared = tmp_path / "shared"
    shared.mkdir()
    holding.run("mount", "--bind", shared, shared)
    try:
        holding.run("mount", "--make-shared", shared)
        one = _mount(device, shared / "mount")
        # The machine's own mounts may be private.
        script = f'{ALONE}umount "$1"; echo ready; read line'
        words = ["unshare", "-m", "--propagation", "slave", "sh", "-c", script]
        words += [one.directory, str(one.place.fuse)]
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            table = Path(f"/proc/{process.pid}/mountinfo")
            assert one.directory in table.read_text()
            cli("volume", "umount", one.directory)
            assert one.directory not in table.read_text()
            process.communicate(b"")
        assert _core.volume_about(str(device))["is_clean"]
    finally:
        holding.run("umount", shared)


def test_a_path_is_what_it_leads_to(cli: Cli, device: Path, tmp_path: Path) -> None:
    kept = {}
    for way, (given, named) in holding.odd_paths(tmp_path / "odd").items():
        cli("volume", "mount", str(device), str(given), "--mkfs", "ext4")
        (named / f"kept {way}").write_text(way)
        (one,) = [one for one in places.all_mounted() if places.is_same(one.device, str(device))]
        cli("volume", "umount", str(named))
        assert not os.path.ismount(named), way
        assert not one.is_served
        assert _core.volume_about(str(device))["is_clean"], way
        kept[f"kept {way}"] = way
    assert _read(device, tmp_path / "mount", *kept) == list(kept.values())


@pytest.mark.parametrize("kind", ["xfs", "btrfs"])
def test_other_file_systems_are_held_as_well(cli: Cli, tmp_path: Path, kind: str) -> None:
    """Btrfs shows another device number than that of its device."""
    find_program(f"mkfs.{kind}")
    device, directory, other = tmp_path / "device", tmp_path / "mount", tmp_path / "other"
    directory.mkdir()
    other.mkdir()
    _core.allocate_file(device, 420 * MEBIBYTE)
    _core.create_volume(str(device), "direct")
    one = mounting.mount(mounting.MountPlan(str(device), directory, kind))
    try:
        (directory / "before").write_text(kind)
        for way in ("bind", "namespace", "open file", "open file, mount gone"):
            with HOLDINGS[way](directory, other) as named:
                done = cli("volume", "umount", one.directory, code=1)
                assert named in done.stderr, way
                assert one.is_served
    finally:
        mounting.unmount(one)
    assert _read(device, directory, "before") == [kind]


def test_what_a_dead_server_leaves_is_taken_away_and_who_holds_it_named(
    cli: Cli, device: Path, mounted: places.Mounted, tmp_path: Path
) -> None:
    directory, other = Path(mounted.directory), tmp_path / "other"
    other.mkdir()
    (directory / "kept").write_text("kept")
    os.sync()
    with HOLDINGS["open file"](directory, other) as named:
        os.kill(mounted.pid, signal.SIGKILL)
        os.waitpid(mounted.pid, 0)
        done = cli("volume", "umount", mounted.directory, code=1)
        assert named in done.stderr
        assert "its server is gone" in done.stderr
        assert not os.path.ismount(directory)
        assert not mounted.place.folder.exists()
        assert _read(device, directory, "kept") == ["kept"]
