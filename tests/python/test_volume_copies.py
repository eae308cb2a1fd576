"""Copies of volumes: beside their originals, which have the same UUID until that is changed."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

import pytest

from flashwright import _core, sqlite
from flashwright.volumes import mounting, places
from support import Cli

MEBIBYTE = 1 << 20


@pytest.mark.usefixtures("can_mount")
def test_a_copy_is_mounted_beside_the_original_when_it_has_a_uuid_of_its_own(
    cli: Cli, tmp_path: Path
) -> None:
    device, copy = tmp_path / "device", tmp_path / "a copy"
    cli("volume", "create", str(device), "--size", "32M", "--stack", "log_volume(segment=256Ki)")
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    cli("volume", "mount", device, first, "--mkfs", "ext4")
    (first / "kept").write_text("kept")
    cli("volume", "umount", first)
    shutil.copy(device, copy)
    (tmp_path / "link").symlink_to(device)
    one = mounting.mount(mounting.MountPlan(str(device), first))
    try:
        said = cli("volume", "mount", copy, second, code=2).stderr
        assert f"{copy}: a volume of the same UUID, {one.uuid}, is mounted from {device}" in said
        assert f"at {first}" in said
        assert f"`flashwright volume change '{copy}' --new-uuid`" in said
        assert said.count("\n") == 1
        again = cli("volume", "mount", tmp_path / "link", second, code=2).stderr
        assert f"link: it is mounted at {first} already" in again
        cli("volume", "change", device, "--new-uuid", code=2)
        said = cli("volume", "change", copy, "--new-uuid").stdout
        assert f"it was {one.uuid}" in said
        other = mounting.mount(mounting.MountPlan(str(copy), second))
        assert (second / "kept").read_text() == "kept"
        assert {one.uuid, other.uuid} <= {found.uuid for found in places.all_mounted()}
        mounting.unmount(other)
    finally:
        mounting.unmount(one)
    assert _core.volume_about(str(copy))["is_clean"]


def test_databases_go_on_in_a_copy_with_a_uuid_of_its_own(cli: Cli, tmp_path: Path) -> None:
    device, copy = str(tmp_path / "device"), str(tmp_path / "copy")
    cli("volume", "create", device, "--size", "16M", "--stack", "log_volume(segment=64Ki)")
    with closing(sqlite.connect(device)) as base:
        base.execute("create table t (n)")
        base.executemany("insert into t values (?)", [(n,) for n in range(1000)])
        base.commit()
    shutil.copy(device, copy)
    cli("volume", "change", copy, "--new-uuid")
    for path in (device, copy):
        with closing(sqlite.connect(path)) as base:
            assert base.execute("select sum(n) from t").fetchone() == (499_500,)
            assert base.execute("pragma integrity_check").fetchone() == ("ok",)
            base.execute("insert into t values (1)")
            base.commit()
    assert "`app.db`" in cli("volume", "info", copy, "--check").stdout
    assert "Note" not in cli("volume", "info", copy, "--check").stdout


def test_a_volume_that_was_not_closed_keeps_its_uuid(cli: Cli, tmp_path: Path) -> None:
    device, copy = str(tmp_path / "device"), str(tmp_path / "copy")
    cli("volume", "create", device, "--size", "16M", "--stack", "log_volume(segment=64Ki)")
    volume = _core.Volume(device)
    said = cli("volume", "change", device, "--new-uuid", code=2).stderr
    assert "locked" in said or "in use" in said
    shutil.copy(device, copy)
    volume.close()
    said = cli("volume", "change", copy, "--new-uuid", code=2).stderr
    assert "was not closed: it was copied while it was in use" in said
    assert said.count("\n") == 1
