"""Mounts in every mount namespace, as the kernel lists them."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

_OCTAL = re.compile(rb"\\([0-7]{3})")
_MNT_EXPIRE = 4
_BTRFS = Path("/sys/fs/btrfs")


@dataclass(frozen=True)
class Mount:
    """One line of mountinfo (proc_pid_mountinfo(5)). Its number is that of no other mount."""

    number: int
    parent: int
    device: int
    """Device number of the file system; of btrfs a number that no block device has."""
    root: str
    """Part of the file system that is shown."""
    point: str
    shared: int
    """The group of mounts that each pass on what is mounted below; 0 for none."""
    master: int
    """The group from which what is mounted below arrives; 0 for none."""
    kind: str
    source: str
    options: str
    """Options of the file system."""
    pid: int
    """A process that sees it; 0 for ours."""

    @property
    def process(self) -> Path:
        """Folder in /proc of a process that sees it."""
        return Path("/proc") / (str(self.pid) if self.pid else "self")

    def __str__(self) -> str:
        """Say where it is."""
        if not self.pid:
            return f"the mount {self.point}"
        with contextlib.suppress(OSError):
            name = (self.process / "comm").read_text().strip()
            return f"the mount {self.point} in the mount namespace of process {self.pid} ({name})"
        return f"the mount {self.point} in another mount namespace"


class Table:
    """All mounts that there are."""

    def __init__(self, mounts: Iterable[Mount]) -> None:
        """Take them in the order of the kernel: what is over another comes behind it."""
        self.by_number: dict[int, Mount] = {}
        for mount in mounts:
            self.by_number.setdefault(mount.number, mount)

    @property
    def every(self) -> list[Mount]:
        """Give them: ours first."""
        return list(self.by_number.values())

    def of_devices(self, numbers: set[int]) -> list[Mount]:
        """Give the mounts of file systems on these block devices."""
        family = numbers | _with_btrfs(numbers)
        return [
            mount
            for mount in self.every
            if mount.device in numbers or (mount.kind == "btrfs" and _number_of(mount) in family)
        ]

    def upon(self, mount: Mount) -> list[Mount]:
        """Give what is mounted below a mount, or over it."""
        return [other for other in self.every if other.parent == mount.number]

    def goes_along(self, other: Mount, with_this: Mount) -> bool:
        """Tell whether the kernel takes `other` away when `with_this` is unmounted.

        It does so where both are at the same place below mounts that pass on what happens below
        them (mount_namespaces(7)), unless something is mounted below it.
        """
        ours, theirs = self.by_number.get(with_this.parent), self.by_number.get(other.parent)
        if ours is None or theirs is None or other.root != with_this.root or self.upon(other):
            return False
        groups = self._reached(ours.shared)
        is_reached = theirs.shared in groups or theirs.master in groups
        place = (ours.device, _within(ours, with_this))
        return is_reached and (theirs.device, _within(theirs, other)) == place

    def _reached(self, group: int) -> set[int]:
        """Give the groups to which mounts of a group pass on what is unmounted."""
        found = {group} - {0}
        size = 0
        while len(found) > size:
            size = len(found)
            more = {one.shared for one in self.every if one.master in found}
            found |= more - {0}
        return found


def table() -> Table:
    """Look up all mounts, in the namespaces of all processes.

    Those of namespaces without processes, and such as were unmounted lazily, are in no table.
    """
    return Table(_every())


def is_busy(directory: Path) -> bool:
    """Tell whether the mount at a directory has open files, or anything mounted below it.

    Whoever asks twice, with nobody looking at it between, unmounts it. Without the right to unmount
    it there is no answer: False.
    """
    result = ctypes.CDLL(None, use_errno=True).umount2(os.fsencode(directory), _MNT_EXPIRE)
    return result != 0 and ctypes.get_errno() == errno.EBUSY


def _every() -> Iterator[Mount]:
    yield from _listed(Path("/proc/self"), 0)
    seen = {_view(Path("/proc/self"))}
    for folder in Path("/proc").glob("[0-9]*"):
        # A process may end meanwhile.
        with contextlib.suppress(OSError):
            view = _view(folder)
            if view not in seen:
                yield from _listed(folder, int(folder.name))
                seen.add(view)


def _view(process: Path) -> tuple[int, str]:
    """Give what decides which mounts a process sees: its namespace, and its root."""
    return (process / "ns" / "mnt").stat().st_ino, str((process / "root").readlink())


def _listed(process: Path, pid: int) -> list[Mount]:
    lines = (process / "mountinfo").read_bytes().split(b"\n")
    return [parsed(line, pid) for line in lines if line]


def parsed(line: bytes, pid: int = 0) -> Mount:
    """Read one line of mountinfo."""
    fields = [plain(field) for field in line.split(b" ")]
    end = fields.index("-", 6)
    groups = dict(field.partition(":")[::2] for field in fields[6:end])
    major, minor = fields[2].split(":")
    return Mount(
        number=int(fields[0]),
        parent=int(fields[1]),
        device=os.makedev(int(major), int(minor)),
        root=fields[3],
        point=fields[4],
        shared=int(groups.get("shared", 0)),
        master=int(groups.get("master", 0)),
        kind=fields[end + 1],
        source=fields[end + 2],
        options=fields[end + 3],
        pid=pid,
    )


def plain(field: bytes) -> str:
    r"""Give a field without the kernel's escapes: \040, \011, \012, \134 and the like."""
    return os.fsdecode(_OCTAL.sub(lambda found: bytes([int(found[1], 8) & 0xFF]), field))


def _within(parent: Mount, mount: Mount) -> str:
    """Give the place of a mount within the file system that it is mounted on."""
    return os.path.normpath(
        f"{parent.root}/{os.path.relpath(mount.point, parent.point)}".replace("//", "/")
    )


def _with_btrfs(numbers: set[int]) -> set[int]:
    """Give the devices of all btrfs that are on one of these."""
    found: set[int] = set()
    for folder in _BTRFS.glob("*/devices"):
        with contextlib.suppress(OSError):
            devices = {_read_number(device / "dev") for device in folder.iterdir()}
            if devices & numbers:
                found |= devices
    return found


def _number_of(mount: Mount) -> int:
    """Give the number of the block device that a mount names; 0 for none."""
    for prefix in (f"{mount.process}/root", ""):
        with contextlib.suppress(OSError):
            return os.stat(f"{prefix}{mount.source}").st_rdev  # noqa: PTH116
    with contextlib.suppress(OSError):
        return _read_number(Path("/sys/class/block") / Path(mount.source).name / "dev")
    return 0


def _read_number(path: Path) -> int:
    major, minor = path.read_text().split(":")
    return os.makedev(int(major), int(minor))
