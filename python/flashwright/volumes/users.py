"""Users of a file system, through which it lives on when its directory is unmounted.

They are found by the numbers of devices and mounts: a path says nothing of what it leads to, or in
whose namespace.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from . import blocks, mounts
from .mounts import Mount, Table

_MOST_NAMED = 5
_LINKS = (("cwd", "its current folder"), ("root", "its root folder"), ("exe", "its program"))
_LAYERS = re.compile(r"(?:^|,)(?:lowerdir\+?|upperdir|workdir)=((?:[^,\\]|\\.)*)")


@dataclass(frozen=True)
class Used:
    """File systems whose users are looked for."""

    table: Table
    devices: frozenset[int]
    """Numbers of the block devices that they are on."""
    mounts: tuple[Mount, ...]
    """All their mounts."""
    ends: tuple[Mount, ...]
    """Mounts that are to be unmounted."""

    @property
    def numbers(self) -> frozenset[int]:
        """The numbers of devices that files on them show."""
        found = self.devices | {mount.device for mount in self.mounts}
        # Files of btrfs show numbers that no mount has: one for each subvolume.
        listed = {mount.device for mount in self.table.every}
        for mount in self.mounts:
            if mount.kind == "btrfs":
                with contextlib.suppress(OSError):
                    found |= {_seen_by(mount, mount.point).st_dev} - listed
        return found


def named(used: Used) -> str:
    """Say what else than the mounts that are to end keeps these file systems; empty if nothing.

    Only root sees the files of all processes.
    """
    return _listed([*_mounts(used), *_swaps(used), *_loops(used), *_built(used), *_processes(used)])


def is_elsewhere(used: Used) -> bool:
    """Tell whether mounts stay in other namespaces."""
    return any(mount.pid for mount in _staying(used))


def openers(used: Used) -> str:
    """Say which processes have the block devices open; empty if none is found."""

    def is_node(link: Path, _descriptor: int) -> bool:
        about = link.stat()
        return stat.S_ISBLK(about.st_mode) and about.st_rdev in used.devices

    return _listed(
        [
            f"process {folder.name} ({_name(folder)}: the block device)"
            for folder in _all_processes()
            if folder.name != str(os.getpid()) and _has_open(folder, is_node)
        ]
    )


def _listed(found: list[str]) -> str:
    more = [f"{len(found) - _MOST_NAMED} more"] if len(found) > _MOST_NAMED else []
    return ", ".join(found[:_MOST_NAMED] + more)


def _seen_by(mount: Mount, path: str) -> os.stat_result:
    """Look at a path as the processes do that see a mount."""
    return os.stat(f"{mount.process}/root{path}")  # noqa: PTH116


# Mounts


def _staying(used: Used) -> list[Mount]:
    """Give the mounts of the file systems that stay when others end."""
    return [
        mount
        for mount in used.mounts
        if mount not in used.ends
        and not any(used.table.goes_along(mount, end) for end in used.ends)
    ]


def _mounts(used: Used) -> Iterator[str]:
    """Name mounts that stay when others end, and what is mounted on those or made of them."""
    yield from map(str, _staying(used))
    for end in used.ends:
        for other in used.table.upon(end):
            if other not in used.mounts:
                where = "over" if other.point == end.point else "below"
                yield f"{other} ({other.kind}) {where} it"
    for mount in used.table.every:
        if mount.kind == "overlay":
            yield from (f"{mount} (overlay) over {layer}" for layer in _layers(mount, used))


def _layers(mount: Mount, used: Used) -> list[str]:
    """Give the folders of these file systems that an overlay shows."""
    paths = [path for found in _LAYERS.findall(mount.options) for path in found.split(":")]
    found = []
    for path in dict.fromkeys(paths):
        with contextlib.suppress(OSError):
            if path.startswith("/") and _seen_by(mount, path).st_dev in used.numbers:
                found.append(path)
    return found


# Files and devices that the kernel itself has open


def _swaps(used: Used) -> Iterator[str]:
    for line in Path("/proc/swaps").read_bytes().splitlines()[1:]:
        path = mounts.plain(line.split()[0])
        with contextlib.suppress(OSError):
            about = os.stat(path)  # noqa: PTH116
            if stat.S_ISBLK(about.st_mode) and about.st_rdev in used.devices:
                yield f"the swap on {path}"
            elif about.st_dev in used.numbers:
                yield f"the swap file {path}"


def _loops(used: Used) -> Iterator[str]:
    """Name loop devices over files of these file systems, or over the block devices."""
    for loop in blocks.loops():
        with contextlib.suppress(OSError):
            if loop.number in used.devices:
                continue
            device, file_is = loop.file()
            if device in used.numbers or file_is in used.devices:
                yield f"the loop device {loop.path} over {loop.backing}{_where(loop, used.table)}"


def _where(loop: blocks.Loop, table: Table) -> str:
    points = [mount.point for mount in table.of_devices(blocks.numbers(loop.path))]
    return f", mounted at {points[0]}" if points else ""


def _built(used: Used) -> Iterator[str]:
    for number in used.devices:
        yield from (f"the device {name} built on it" for name in blocks.holders(number))


# Processes


def _processes(used: Used) -> Iterator[str]:
    numbers = used.numbers
    of_mounts = {mount.number for mount in used.mounts}

    def is_of(_link: Path, descriptor: int) -> bool:
        number = _mount_of(descriptor)
        if number in used.table.by_number:
            return number in of_mounts
        return os.fstat(descriptor).st_dev in numbers

    for folder in _all_processes():
        uses = _uses(folder, is_of, numbers)
        if uses:
            yield f"process {folder.name} ({_name(folder)}: {', '.join(uses)})"


def _all_processes() -> list[Path]:
    return sorted(Path("/proc").glob("[0-9]*"), key=lambda path: int(path.name))


def _name(folder: Path) -> str:
    try:
        return (folder / "comm").read_text().strip()
    except OSError:
        return "it has just ended"


def _uses(folder: Path, is_of: Callable[[Path, int], bool], numbers: frozenset[int]) -> list[str]:
    uses = [what for link, what in _LINKS if _leads_there(folder / link, is_of)]
    if _has_open(folder, is_of):
        uses.append("open files")
    elif _maps(folder, numbers):
        uses.append("files mapped into memory")
    return uses


def _has_open(folder: Path, is_of: Callable[[Path, int], bool]) -> bool:
    try:
        return any(_leads_there(link, is_of) for link in (folder / "fd").iterdir())
    except OSError:
        return False


def _leads_there(link: Path, is_of: Callable[[Path, int], bool]) -> bool:
    """Ask of what a link of /proc leads to, which is not opened for that."""
    # A process may end meanwhile; it then uses nothing.
    with contextlib.suppress(OSError):
        descriptor = os.open(link, os.O_PATH)
        try:
            return is_of(link, descriptor)
        finally:
            os.close(descriptor)
    return False


def _mount_of(descriptor: int) -> int:
    """Give the number of the mount by which a file was reached.

    Unlike looking at the file, it asks no file system, which might not answer.
    """
    text = Path(f"/proc/self/fdinfo/{descriptor}").read_text()
    return int(text.partition("mnt_id:")[2].split()[0])


def _maps(folder: Path, numbers: frozenset[int]) -> bool:
    try:
        lines = (folder / "maps").read_bytes().splitlines()
    except OSError:
        return False
    found = {line.split(maxsplit=4)[3] for line in lines}
    return any(
        os.makedev(*(int(part, 16) for part in device.split(b":"))) in numbers for device in found
    )
