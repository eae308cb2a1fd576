"""File systems of our own that a database is put on, and what is done to them meanwhile."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from flashwright import written
from flashwright._core import InputError, open_device
from flashwright.recording import device as devices
from flashwright.recording import file_systems as known
from flashwright.recording.tools import PACKAGES, need, need_root
from flashwright.recording.volume import Volume
from flashwright.workloads.session import Folder
from flashwright.workloads.supervisor import Supervisor
from flashwright.written import DEVICE, FOLDER, TEXT, seconds, setting
from flashwright.written import size as bytes_of

from .cleaning import CLEANERS

# In it, we make a folder of our own, with a random name.
DEFAULT_FOLDER = Path("/var/tmp")  # noqa: S108
HAVE_COMMIT = ("ext4", "btrfs")
"""File systems whose mount option `commit` is an interval in seconds (ext4(5), btrfs(5)); 5 and 30
by default.
"""
ALL = "all"
_LOOP = Path("/sys/block/loop0/queue/scheduler")
_FILE_SYSTEM = f"One of {', '.join(known.NAMES)}; {ALL} is a bench on each that there is."


@dataclass(frozen=True)
class Made:
    """A file system of our own: what both kinds have in common."""

    file_system: str = setting(_FILE_SYSTEM, TEXT, "ext4", title="file system")
    options: str | None = setting("Of its mount.  [default: discard,noatime]", TEXT, None)
    commit: float | None = setting(
        f"How often it commits its own metadata ({', '.join(HAVE_COMMIT)}), in whole seconds.",
        seconds(1),
        None,
        title="seconds between the file system's commits",
        is_log=True,
    )
    scheduler: str | None = setting(
        "The I/O scheduler of the device below it.", TEXT, None, title="I/O scheduler"
    )
    clean: float | None = setting(
        f"How often it is cleaned while it is measured ({', '.join(CLEANERS)}: balance).",
        seconds(is_open=True),
        None,
        title="seconds between cleanings",
    )

    def check(self) -> None:
        """Refuse what cannot be, before anything is made.

        Raises:
            InputError: it says what would be right.
        """

    def make(self, supervisor: Supervisor) -> Path:
        """See `Ground`."""
        raise NotImplementedError

    def check_on(self, offered: Path) -> None:
        """Refuse what this file system, or a device with these I/O schedulers, cannot do.

        Raises:
            InputError: it says what would be right.
        """
        file_system = self.file_system
        need(known.find(file_system).make[0])
        if self.commit is not None and file_system not in HAVE_COMMIT:
            raise InputError(
                f"{file_system} has no interval of commits: commit is for {', '.join(HAVE_COMMIT)}"
            )
        if self.commit is not None and self.commit != int(self.commit):
            raise InputError(f"commit={self.commit:g}: it should be whole seconds")
        if self.clean is not None and file_system not in CLEANERS:
            raise InputError(
                f"{file_system} has no cleaner that can be asked: clean is for "
                f"{', '.join(CLEANERS)}"
            )
        if self.clean is not None:
            need(CLEANERS[file_system][0][0])
        if self.scheduler is not None:
            need_root("choosing an I/O scheduler")
            names = _offered(offered)
            if self.scheduler not in names:
                raise InputError(
                    f"scheduler={self.scheduler} is not offered for this device; the kernel offers "
                    f"{', '.join(names)}"
                )

    def volume(self, supervisor: Supervisor) -> Volume:
        """Give the volume that is to be made."""
        found = known.find(self.file_system)
        options = found.options if self.options is None else self.options
        if self.commit is not None:
            options = f"{options},commit={self.commit:.0f}"
        return Volume(supervisor, found, options)

    def with_scheduler(self, supervisor: Supervisor, mount_point: Path) -> Path:
        """Choose the scheduler, if one is asked for; what was chosen comes back at the end.

        Raises:
            InputError: the kernel does not take it.
        """
        if self.scheduler is None:
            return mount_point
        path = _scheduler_of(devices.find(mount_point).sys)
        before = path.read_text().partition("[")[2].partition("]")[0]
        supervisor.undo("sh", "-c", '[ ! -e "$1" ] || echo "$2" > "$1"', "sh", path, before)
        try:
            path.write_text(self.scheduler)
        except OSError as error:
            raise InputError(
                f"{path}: the kernel does not take `{self.scheduler}`: {error.strerror}"
            ) from error
        return mount_point


@dataclass(frozen=True)
class OnVolume(Made):
    """A file system of our own, on a loop device over an image."""

    size: int | None = setting("Of the image.  [default: by the database]", bytes_of(), None)
    folder: Path = setting("Where the image lies.", FOLDER, DEFAULT_FOLDER)

    def check(self) -> None:
        """See `Made`."""
        least = known.find(self.file_system).least_bytes
        if self.size is not None and self.size < least:
            raise InputError(
                f"a volume of {self.size:,} bytes: {self.file_system} needs {least:,} at least"
            )
        if self.folder.exists() and not self.folder.is_dir():
            raise InputError(f"{self.folder}: it is no folder")
        self.check_on(_LOOP)

    def make(self, supervisor: Supervisor) -> Path:
        """See `Ground`."""
        if self.size is None:
            raise AssertionError("whoever makes the plan knows the size")
        volume = self.volume(supervisor)
        volume.on_image(self.folder, self.size)
        return self.with_scheduler(supervisor, volume.mount_point)


@dataclass(frozen=True, kw_only=True)
class OnDisk(Made):
    """A file system of our own on a block device, all of it: what is there is lost."""

    device: Path = setting("The block device.", DEVICE, is_first=True)

    def check(self) -> None:
        """See `Made`."""
        self.check_on(_scheduler_of(devices.find(self.device).sys))

    def make(self, supervisor: Supervisor) -> Path:
        """See `Ground`."""
        volume = self.volume(supervisor)
        volume.on_device(self.device)
        return self.with_scheduler(supervisor, volume.mount_point)


GROUNDS: dict[str, type[Any]] = {"folder": Folder, "volume": OnVolume, "disk": OnDisk}
_SUMMARIES = {
    "folder": "a folder, in which the database gets one of its own; also DIR alone",
    "volume": "a file system of our own, on a loop device over an image",
    "disk": "a file system of our own on a block device, whose data are lost; also DEVICE alone",
}
Anywhere = Folder | OnVolume | OnDisk


def listing() -> list[dict[str, Any]]:
    """Give all places as `flashwright list` does."""
    return written.listing(GROUNDS, {name: (said, "") for name, said in _SUMMARIES.items()})


def read(text: str, destroyed: Sequence[Path]) -> tuple[list[Anywhere], list[str]]:
    """Read a place: the path of a folder or device, or `volume(btrfs, size=2G)` and the like.

    Of all file systems it is one for each, with remarks on those that are not there. A device's
    data may only be lost if `destroyed` repeats its path.

    Raises:
        InputError: it cannot be, or the device may not be overwritten.
    """
    name = text.strip().partition("(")[0]
    found: Anywhere
    if name in GROUNDS:
        found = written.read(text, GROUNDS, "place")
    else:
        path = Path(text.strip())
        found = OnDisk(device=path) if path.is_block_device() else Folder(path)
    if isinstance(found, Folder):
        if found.path.exists() and not found.path.is_dir():
            raise InputError(f"{found.path}: neither a folder nor a block device")
        return [found], []
    remarks: list[str] = []
    each: list[Anywhere] = [found]
    if found.file_system == ALL:
        names, remarks = there()
        each = [replace(found, file_system=one) for one in names]
    for one in each:
        if isinstance(one, OnDisk) and one.device not in destroyed:
            raise InputError(
                f"{one.device}: a file system is made there, and what is on it is lost: say so "
                f"with --destroy-data {one.device}"
            )
        if isinstance(one, OnDisk):
            # Refuses what is mounted or otherwise in use.
            open_device(str(one.device), access="destroy_data")
        if isinstance(one, Made):
            one.check()
    return each, remarks


def there() -> tuple[list[str], list[str]]:
    """Give the file systems that can be made here, and a remark on each other that we know."""
    remarks, names = [], []
    for one in known.ALL:
        if not one.is_there():
            remarks.append(f"{one.name} is left out: this kernel does not have it.")
        elif shutil.which(one.make[0]) is None:
            package = PACKAGES.get(one.make[0], one.make[0])
            remarks.append(
                f"{one.name} is left out: {one.make[0]} is not installed (Debian: apt-get install "
                f"{package})."
            )
        else:
            names.append(one.name)
    return names, remarks


def file_system_of(ground: Anywhere) -> str:
    """Name the file system that a database is on."""
    if isinstance(ground, Made):
        return ground.file_system
    there = next(path for path in (ground.path, *ground.path.absolute().parents) if path.exists())
    return devices.mount_of(there)[2]


def device_bytes_of(ground: Anywhere) -> int:
    """Give the size of the device that a database is on."""
    if isinstance(ground, OnVolume):
        return ground.size or 0
    path = ground.device if isinstance(ground, OnDisk) else ground.path
    return devices.find(path).size_bytes


def is_out_of_place(file_system: str) -> bool:
    """Tell whether a file system never writes over what is there; one that we do not know may."""
    return any(one.out_of_place for one in known.ALL if one.name == file_system)


def _scheduler_of(sys: Path) -> Path:
    # A partition has the queue of its disk.
    own = sys / "queue" / "scheduler"
    return own if own.exists() else sys.resolve().parent / "queue" / "scheduler"


def _offered(path: Path) -> list[str]:
    try:
        return path.read_text().replace("[", "").replace("]", "").split()
    except OSError as error:
        raise InputError(
            f"{path}: the device's I/O schedulers cannot be read: {error.strerror}"
        ) from error
