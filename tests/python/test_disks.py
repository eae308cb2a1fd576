"""Which disks are below a file, and what the kernel counts of them: on real devices."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from flashwright import InputError
from flashwright.recording import device as devices
from flashwright.recording import disks
from flashwright.recording.disks import Traffic
from flashwright.workloads.supervisor import Supervisor
from recordings import require
from support import find_program

MIB = 1 << 20
Loop = Callable[..., Path]


@pytest.fixture
def supervisor() -> Iterator[Supervisor]:
    require(os.geteuid() == 0, "devices of our own need root")
    with Supervisor() as made:
        yield made


@pytest.fixture
def folder(supervisor: Supervisor) -> Path:
    return supervisor.folder(Path("/var/tmp"), "disks-")  # noqa: S108


@pytest.fixture
def loop(supervisor: Supervisor, folder: Path) -> Loop:
    """Makes a loop device over a file of some MiB."""

    def make(name: str, mib: int, *options: str, parent: Path = folder) -> Path:
        image = parent / name
        with image.open("wb") as file:
            file.truncate(mib * MIB)
        detach = 'for l in $(losetup -n -O NAME -j "$1"); do losetup -d "$l"; done'
        supervisor.undo("sh", "-c", detach, "sh", image)
        return Path(run("losetup", "--find", "--show", *options, image))

    return make


def run(*command: str | Path) -> str:
    words = [str(word) for word in command]
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def mount(supervisor: Supervisor, at: Path, *what: str | Path) -> Path:
    at.mkdir()
    supervisor.undo("umount", at)
    run("mount", *what, at)
    return at


def names(found: list[devices.BlockDevice]) -> set[str]:
    return {one.name for one in found}


def test_a_loop_device_lies_on_the_disk_of_its_file(
    supervisor: Supervisor, loop: Loop, folder: Path
) -> None:
    bottom = names([disk for one in disks.below(folder) for disk in disks.whole(one)])
    outer = loop("outer", 64)
    run("mkfs.ext4", "-q", outer)
    inside = mount(supervisor, folder / "outer-mount", outer)
    assert names(disks.below(inside)) == {outer.name}
    inner = loop("inner", 8, parent=inside)
    assert names(disks.whole(devices.find(inner))) == bottom


def test_the_disk_of_a_partition(loop: Loop) -> None:
    disk = loop("parts", 64)
    # Without a table on it, as not every kernel reads one.
    # A test that was killed may have left one.
    subprocess.run([find_program("delpart"), disk, "1"], check=False, capture_output=True)
    run(find_program("addpart"), disk, "1", "2048", "65536")
    try:
        number = Path(f"/sys/class/block/{disk.name}p1/dev").read_text().strip()
        part = devices.BlockDevice(f"{disk.name}p1", number)
        assert disks.disk_of(part).name == disk.name
        assert disks.disk_of(devices.find(disk)).name == disk.name
    finally:
        # It would stay there when the loop device goes, and hinder the next one.
        run(find_program("delpart"), disk, "1")


# mkfs.btrfs looks at all loop devices, and fails of one whose server was just killed.
@pytest.mark.usefixtures("can_mount_alone")
def test_a_file_system_over_several_devices(
    supervisor: Supervisor, loop: Loop, folder: Path
) -> None:
    find_program("mkfs.btrfs")
    first, second = loop("first", 128), loop("second", 128)
    run("mkfs.btrfs", "-q", "-f", first, second)
    run("btrfs", "device", "scan", first, second)
    point = mount(supervisor, folder / "btrfs", first)
    run("btrfs", "subvolume", "create", point / "sub")
    assert names(disks.below(point / "sub")) == {first.name, second.name}


def test_the_upper_folder_of_an_overlay(supervisor: Supervisor, folder: Path) -> None:
    for name in ("lower", "upper", "work"):
        (folder / name).mkdir()
    options = f"lowerdir={folder}/lower,upperdir={folder}/upper,workdir={folder}/work"
    point = mount(supervisor, folder / "merged", "-t", "overlay", "-o", options, "overlay")
    assert names(disks.below(point)) == names(disks.below(folder))


def test_a_file_system_on_no_device_is_refused(supervisor: Supervisor, folder: Path) -> None:
    point = mount(supervisor, folder / "memory", "-t", "tmpfs", "none")
    with pytest.raises(InputError, match="on no block device"):
        disks.below(point)


def test_what_the_kernel_counts_of_a_device(loop: Loop) -> None:
    node = loop("counted", 16)
    device = devices.find(node)
    before = disks.traffic()[device.number]
    run("dd", "if=/dev/zero", f"of={node}", "bs=64k", "count=32", "oflag=direct", "conv=fsync")
    got = disks.traffic()[device.number] - before
    assert got.written_bytes == 2 * MIB
    # A flush may count as a write of nothing.
    assert 32 <= got.writes <= 34
    assert got.flushes >= 1


def test_counters_of_kernels_that_count_less() -> None:
    old = "   8       0 sda 5 1 80 9 7 2 160 11 0 5 6\n"
    assert disks.traffic(old) == {
        "8:0": Traffic(read_bytes=80 * 512, writes=7, written_bytes=160 * 512)
    }
    new = f"{old.rstrip()} 1 0 16 0 3 4\n"
    assert disks.traffic(new)["8:0"] == Traffic(80 * 512, 7, 160 * 512, 16 * 512, 3)
