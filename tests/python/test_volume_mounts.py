"""Tables of mounts as the kernel writes them, and which mounts go along with another."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from flashwright.volumes import blocks, mounts, users
from flashwright.volumes.mounts import Mount, Table, parsed


def table(*lines: str) -> Table:
    """Read lines; of another namespace those that begin with a process and `|`."""
    found = []
    for line in lines:
        pid, _, rest = line.rpartition("|")
        found.append(parsed(rest.strip().encode(), int(pid or 0)))
    return Table(found)


def test_a_line_is_read_with_its_escapes() -> None:
    line = rb"36 35 98:0 /mnt1 /mnt/a\040b\011c\012d\134040 rw - ext4 /dev/a\040b rw"
    assert parsed(line) == Mount(
        36, 35, os.makedev(98, 0), "/mnt1", "/mnt/a b\tc\nd\\040", 0, 0, "ext4", "/dev/a b", "rw", 0
    )
    more = rb"7 1 0:40 / /x rw,noatime shared:12 master:3 propagate_from:2 - tmpfs  rw,size=1k"
    one = parsed(more, 99)
    assert (one.shared, one.master, one.source, one.options) == (12, 3, "", "rw,size=1k")
    assert (one.pid, parsed(rb"1 1 0:1 / /\377\303\244 rw - a b c").point) == (99, "/\udcffä")


def test_the_tables_of_this_machine_are_read() -> None:
    lines = Path("/proc/self/mountinfo").read_bytes
    before, found = lines(), mounts.table()
    # Other programs mount meanwhile.
    while before != lines():
        before, found = lines(), mounts.table()
    own = [mount for mount in found.every if not mount.pid]
    assert len(own) == len(before.splitlines())
    assert any(mount.point == "/proc" for mount in own)


ROOT = "1 0 8:1 / / rw shared:1 - ext4 /dev/sda rw"
OURS = "2 1 7:0 / /mnt/db rw shared:9 - ext4 /dev/loop0 rw"


@pytest.mark.parametrize(
    ("goes", "lines"),
    [
        (True, ["5| 21 0 8:1 / / rw shared:1 - ext4 /dev/sda rw", "/mnt/db"]),
        (True, ["5| 21 0 8:1 / / rw master:1 - ext4 /dev/sda rw", "/mnt/db"]),
        # The root of a container is another folder of the same file system.
        (True, ["5| 21 0 8:1 /mnt / rw master:1 - ext4 /dev/sda rw", "/db"]),
        (False, ["5| 21 0 8:1 / / rw - ext4 /dev/sda rw", "/mnt/db"]),
        (False, ["5| 21 0 8:1 / / rw shared:4 - ext4 /dev/sda rw", "/mnt/db"]),
        (False, ["5| 21 0 8:1 / / rw master:1 - ext4 /dev/sda rw", "/mnt/other"]),
        (False, ["5| 21 0 8:2 / / rw master:1 - ext4 /dev/sdb rw", "/mnt/db"]),
    ],
)
def test_what_is_passed_on_by_the_mount_it_is_on_goes_along(goes: bool, lines: list[str]) -> None:
    parent, point = lines
    copy = f"5| 22 21 7:0 / {point} rw master:9 - ext4 /dev/loop0 rw"
    found = table(ROOT, OURS, parent, copy)
    ours, other = found.by_number[2], found.by_number[22]
    assert found.goes_along(other, ours) is goes
    # Nor does it with something mounted below it.
    more = "5| 23 22 0:9 / /mnt/db/x rw - tmpfs none rw"
    kept = table(ROOT, OURS, parent, copy, more)
    assert not kept.goes_along(other, ours)


def test_what_is_passed_on_by_way_of_another_goes_along() -> None:
    found = table(
        ROOT,
        OURS,
        "5| 21 0 8:1 / / rw shared:4 master:1 - ext4 /dev/sda rw",
        "6| 31 0 8:1 / / rw master:4 - ext4 /dev/sda rw",
        "6| 32 31 7:0 / /mnt/db rw - ext4 /dev/loop0 rw",
        "6| 33 31 7:0 /sub /mnt/db rw - ext4 /dev/loop0 rw",
    )
    assert found.goes_along(found.by_number[32], found.by_number[2])
    assert not found.goes_along(found.by_number[33], found.by_number[2]), "a bind of a folder"


def test_devices_that_are_built_on_another_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of LVM, which not each kernel has. No other test has that loop device open."""
    number = os.makedev(7, 9999)
    about = tmp_path / "dev" / "block" / "7:9999"
    for name in ("holders/dm-0", "loop0p1"):
        (about / name).mkdir(parents=True)
    (about / "loop0p1" / "partition").write_text("1\n")
    (about / "loop0p1" / "dev").write_text("259:3\n")
    monkeypatch.setattr(blocks, "_SYS", tmp_path)
    used = users.Used(table(ROOT), frozenset({number}), (), ())
    assert users.named(used) == "the device dm-0 built on it"
    assert blocks.with_partitions(number) == {number, os.makedev(259, 3)}
