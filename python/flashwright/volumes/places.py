"""Notes on running volumes, by which any later command finds them, also after a crash."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shlex
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from flashwright._core import InputError, RunError
from flashwright._paths import write_whole

from . import blocks, mounts

Noted = TypeVar("Noted", "Mounted", "Served")
_LOOK_SECONDS = 0.02
FILE_NAME = "volume"
"""The name of the file that FUSE shows."""


def _root() -> Path:
    """Give the folder of all notes: root's, or the user's own."""
    if os.geteuid() == 0:
        return Path("/run/flashwright")
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    return Path(runtime or tempfile.gettempdir()) / f"flashwright-{os.geteuid()}"


@dataclass(frozen=True)
class Place:
    """The folder of one running volume: only its owner may look into it."""

    uuid: str

    @property
    def folder(self) -> Path:
        """Folder that all else lies in."""
        return _root() / self.uuid

    @property
    def fuse(self) -> Path:
        """Mount point of the FUSE file system."""
        return self.folder / "fuse"

    @property
    def file(self) -> Path:
        """The volume as a file."""
        return self.fuse / FILE_NAME

    @property
    def block(self) -> Path:
        """A link to the volume as a block device of ublk."""
        return self.folder / "block"

    @property
    def log(self) -> Path:
        """Output of the server."""
        return self.folder / "server.log"

    @property
    def control(self) -> Path:
        """The socket on which its server is asked."""
        return self.folder / "control.sock"

    @property
    def note(self) -> Path:
        """Note of what is mounted, for `umount`."""
        return self.folder / "mounted.json"

    @property
    def served(self) -> Path:
        """Note of how it is served, and by whom."""
        return self.folder / "served.json"

    def make(self) -> None:
        """Make the folder, for its owner alone.

        Raises:
            RunError: somebody else could look into it.
            OSError: it cannot be made.
        """
        for folder in (_root(), self.folder):
            with contextlib.suppress(FileExistsError):
                folder.mkdir(mode=0o700)
                # Whatever the umask is: that of our unit of systemd takes the right to enter away.
                folder.chmod(0o700)
        for folder in (_root(), self.folder):
            if not _is_ours(folder):
                raise RunError(
                    f"{folder}: it belongs to another user, or others may look into it; right would"
                    " be a folder of our own with mode 0700"
                )

    def remove(self) -> None:
        """Remove the folder; nothing is mounted there any more.

        What a living server has there stays.
        """
        with contextlib.suppress(OSError):
            self.clear()
            self.folder.rmdir()

    def clear(self) -> None:
        """Remove what lies in the folder, but for that."""
        lives = any(one.uuid == self.uuid for one in all_served())
        kept = {self.served.name, self.control.name} if lives else set()
        # The note last: as long as anything is there, `umount` finds it.
        for path in sorted(self.folder.iterdir(), key=lambda path: path == self.note):
            if path.name in kept:
                continue
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)

    @contextlib.contextmanager
    def alone(self, seconds: float, *, makes: bool = False) -> Iterator[int | None]:
        """Keep others from mounting or unmounting the volume meanwhile; wait for one that does.

        Gives the folder, open; None if it is not there, which with `makes` it is. The lock lies on
        the folder, as its end is that of the mount: nothing is left behind.

        Raises RunError if the other does not end within this time.
        """
        end = time.monotonic() + seconds
        while (folder := self._locked(makes=makes)) is None:
            if not makes and not self.folder.exists():
                yield None
                return
            if time.monotonic() > end:
                raise RunError(
                    f"volume {self.uuid}: another mount or umount of it is under way, and has not "
                    f"ended within {seconds:g} s; ask again"
                )
            time.sleep(_LOOK_SECONDS)
        try:
            yield folder
        finally:
            os.close(folder)

    def _locked(self, *, makes: bool) -> int | None:
        """Give the folder, open and locked; None if another has it, or has just removed it."""
        if makes:
            self.make()
        try:
            folder = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(folder), self.folder.stat()):
                return folder
        except (BlockingIOError, FileNotFoundError):
            pass
        os.close(folder)
        return None


@dataclass(frozen=True)
class Mounted:
    """Record of one `mount`, for `umount` to undo."""

    uuid: str
    device: str
    directory: str
    loop: str
    pid: int
    process_began: int
    """Start of the server, in ticks since that of the machine: another process may get its number.
    """

    @property
    def place(self) -> Place:
        """Its folder."""
        return Place(self.uuid)

    @property
    def is_served(self) -> bool:
        """True if the server lives."""
        # Before there is a server its number is 0, which to `kill` is all of our own group.
        return self.pid > 0 and process_began(self.pid) == self.process_began

    def write(self) -> None:
        """Keep it."""
        _write(self.place.note, self)


@dataclass(frozen=True)
class Served:
    """A volume that a server shows, mounted or not."""

    uuid: str
    device: str
    way: str
    """`fuse`, `nbd` or `ublk`."""
    where: str
    """The directory of FUSE, the socket of NBD, or the link to the block device of ublk."""
    pid: int
    process_began: int

    @property
    def place(self) -> Place:
        """Its folder."""
        return Place(self.uuid)

    @property
    def is_served(self) -> bool:
        """True if the server lives."""
        return process_began(self.pid) == self.process_began

    def write(self) -> None:
        """Keep it, in a folder that is there. The server takes it away when it ends."""
        _write(self.place.served, self)


def _write(path: Path, noted: Mounted | Served) -> None:
    """Keep a note: readers see all of it or nothing."""
    write_whole(path, json.dumps(asdict(noted), indent=2) + "\n")


def whole(device: str) -> str:
    """Give the whole path of a device; an emulated drive has none."""
    return device if "(" in device else str(Path(device).absolute())


def is_same(device: str, other: str) -> bool:
    """Tell whether two paths are of one device."""
    with contextlib.suppress(OSError):
        one, another = os.stat(device), os.stat(other)  # noqa: PTH116
        if stat.S_ISBLK(one.st_mode) and stat.S_ISBLK(another.st_mode):
            return one.st_rdev == another.st_rdev
        return os.path.samestat(one, another)
    # One of them cannot be looked at, such as a directory whose server is gone.
    return os.path.realpath(device) == os.path.realpath(other)


def is_a_copy(device: str, uuid: str, where: str) -> InputError:
    """Give the error that another volume of this UUID is in use, and where."""
    return InputError(
        f"{device}: a volume of the same UUID, {uuid}, is {where}; a copy needs a UUID of its own: "
        f"`flashwright volume change {shlex.quote(device)} --new-uuid`"
    )


def check_uuid(device: str, uuid: str) -> None:
    """Make sure that no other process serves this volume, or another of its UUID.

    Raises InputError if one does.
    """
    for one in all_served():
        if one.uuid != uuid or one.pid == os.getpid():
            continue
        if not is_same(device, one.device):
            raise is_a_copy(device, uuid, f"served from {one.device} ({one.way} {one.where})")
        raise InputError(
            f"{device}: process {one.pid} serves it ({one.way} {one.where}); end that first"
        )


def process_began(pid: int) -> int:
    """Tell when a process began, in ticks since the machine did; 0 if there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0
    # The name before it is in brackets, and may have any characters.
    fields = stat.rpartition(")")[2].split()
    return 0 if fields[0] == "Z" and not _has_threads(pid) else int(fields[19])


def _has_threads(pid: int) -> bool:
    """Tell whether a process whose first thread has ended has others, which keep its files open."""
    try:
        return len(os.listdir(f"/proc/{pid}/task")) > 1  # noqa: PTH208
    except OSError:
        return False


def all_mounted() -> list[Mounted]:
    """Give all that was mounted and not taken away."""
    return _all("mounted.json", Mounted)


def all_served() -> list[Served]:
    """Give all whose server lives, mounted ones among them."""
    return [one for one in _all("served.json", Served) if one.is_served]


def _is_ours(folder: Path) -> bool:
    """Tell whether nobody else can have put something into a folder."""
    try:
        found = folder.stat(follow_symlinks=False)
    except OSError:
        return False
    return found.st_uid == os.geteuid() and not found.st_mode & 0o077


def _all(name: str, what: type[Noted]) -> list[Noted]:
    found: list[Noted] = []
    if not _is_ours(_root()):
        return found
    for path in sorted(_root().glob(f"*/{name}")):
        try:
            found.append(what(**json.loads(path.read_text())))
        except FileNotFoundError:
            # Its server has just ended.
            continue
        except (OSError, ValueError, TypeError) as error:
            raise RunError(f"{path}: it cannot be read ({error}); remove {path.parent}") from error
    return found


def listed() -> list[dict[str, Any]]:
    """Give all that is mounted or served: of each, how, and whether its server lives."""
    mounted = {(one.uuid, one.pid): one for one in all_mounted()}
    served = {(one.uuid, one.pid): one for one in all_served()}
    found = []
    every: dict[tuple[str, int], Mounted | Served] = {**served, **mounted}
    for key, noted in every.items():
        one, how = mounted.get(key), served.get(key)
        found.append(
            {
                **asdict(noted),
                "directory": one.directory if one else None,
                "loop": one.loop if one else None,
                "way": how.way if how else None,
                "where": how.where if how else None,
                "is_served": one.is_served if one else True,
            }
        )
    return found


def noted(uuid: str) -> Mounted | None:
    """Give what was mounted of a volume and not taken away."""
    return next((one for one in all_mounted() if one.uuid == uuid), None)


def mounted_at(served: Served) -> str | None:
    """Give the directory at which what a server shows is mounted."""
    mounted = {one.pid: one.directory for one in all_mounted() if one.uuid == served.uuid}
    return mounted.get(served.pid)


def find_served(named: str) -> Served | None:
    """Give the volume of a device, UUID, or place where it is served or mounted; None without."""
    path = whole(named)
    for one in all_served():
        shown = (one.device, one.where, mounted_at(one))
        if named == one.uuid or any(each and is_same(path, each) for each in shown):
            return one
    return None


def find(named: str) -> Mounted:
    """Give the mounted volume of a directory, device or UUID: by what a path leads to.

    Raises InputError if there is none.
    """
    every = all_mounted()
    path = whole(named)
    found = [
        one
        for one in every
        if named == one.uuid or is_same(path, one.device) or is_same(path, one.directory)
    ]
    # A crash may have left a note of a directory where another volume is mounted by now.
    found.sort(key=lambda one: not _is_on(one.directory, one.loop))
    if found:
        return found[0]
    there = "; ".join(f"{one.device} at {one.directory}" for one in every) or "none"
    raise InputError(
        f"{named}: no mounted volume has this directory, device or UUID; there: {there}"
    )


def _is_on(directory: str, block: str) -> bool:
    """Tell whether the file system at a directory is on a block device."""
    with contextlib.suppress(OSError):
        on_it = mounts.table().of_devices(blocks.numbers(block))
        return any(mount.point == directory and not mount.pid for mount in on_it)
    return False
