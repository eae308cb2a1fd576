"""Mounts and unmounts that are interrupted: the next command takes on what they leave.

The long form, at every line and by every signal, is `make mount-interrupts`.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from flashwright import _core
from flashwright._core import InputError
from flashwright.volumes import mounting, places
from mount_interrupts import walk
from support import Cli

pytestmark = pytest.mark.usefixtures("can_mount")
STEPS = {
    "mkfs": ("_mount", "_serve", "_file_system"),
    "mount": ("_mount", "_serve", "write"),
    "umount": ("_take_away", "_detach", "_stop", "detach", "clear"),
}


@pytest.mark.parametrize("what", STEPS)
def test_what_an_interrupted_command_leaves_is_taken_on(tmp_path: Path, what: str) -> None:
    said: list[str] = []
    try:
        assert walk(tmp_path, what, 4, said.append, STEPS[what]) > 5
    except BaseException as error:
        error.add_note(f"after {said[-1] if said else 'nothing'}")
        raise


def test_ctrl_c_while_the_server_opens_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device, directory = tmp_path / "device", tmp_path / "mount"
    _core.allocate_file(device, 24 << 20)
    uuid = _core.create_volume(str(device), "direct")["uuid"]
    directory.mkdir()
    servers: list[int] = []

    def stopped(_seconds: float) -> None:
        noted = places.noted(uuid)
        assert noted is not None
        servers.append(noted.pid)
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", stopped)
    with pytest.raises(KeyboardInterrupt):
        mounting.mount(mounting.MountPlan(str(device), directory, "ext4"))
    assert places.process_began(servers[0]) == 0
    assert not places.Place(uuid).folder.exists()


def test_a_mount_hides_no_files(cli: Cli, tmp_path: Path) -> None:
    device, directory = tmp_path / "device", tmp_path / "mount"
    _core.allocate_file(device, 24 << 20)
    _core.create_volume(str(device), "direct")
    directory.mkdir()
    (directory / ".hidden").touch()
    done = cli("volume", "mount", device, directory, "--mkfs", "ext4", code=2)
    assert f"{directory}: it is not empty: the mount would hide '.hidden'" in done.stderr
    assert done.stderr.count("\n") == 1
    assert _core.volume_about(str(device))["openings"] == 1
    # Also what somebody puts there while the volume is recovered.
    (directory / ".hidden").unlink()
    file_system = mounting._file_system

    def slowly(*words: object) -> None:
        file_system(*words)  # type: ignore[arg-type]
        (directory / "late").touch()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mounting, "_file_system", slowly)
        with pytest.raises(InputError, match="would hide 'late'"):
            mounting.mount(mounting.MountPlan(str(device), directory, "ext4"))
    assert not directory.is_mount()
    assert _core.volume_about(str(device))["is_clean"]
