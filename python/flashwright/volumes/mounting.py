"""Mounting of a volume: from a device to a directory with files, and back.

A server shows the volume as a file in FUSE; a loop device lies over the file, and a file system on
that. Or a block device of ublk takes the place of the first two. Each step is noted before the
next, so that `unmount` finds what there is, whatever happened meanwhile.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import stat
import subprocess
import sys
import time
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from flashwright import _core
from flashwright._core import InputError, RunError
from flashwright._text import one_line
from flashwright.recording.tools import need, need_root, tool

from . import blocks, mounts, places, serving, users
from .places import Mounted, Place, process_began

_LOOK_SECONDS = 0.02
STOP_SECONDS = 120.0
"""Seconds that the server has to write back what it holds, unless another time is given."""
_MAKE = {
    # Nothing is there that would have to be discarded, and the loop device would write zeros.
    "ext4": ("mkfs.ext4", "-q", "-E", "nodiscard"),
    "ext2": ("mkfs.ext2", "-q", "-E", "nodiscard"),
    "xfs": ("mkfs.xfs", "-q", "-K"),
    "btrfs": ("mkfs.btrfs", "-q", "--nodiscard"),
}
FILE_SYSTEMS = tuple(_MAKE)
_UBLK = "/dev/ublkb"
_WHEN_NOTED = ("sh", "-c", 'read -r noted && exec "$@" </dev/null', "sh")
"""A command before another, which begins when a line arrives, and never if its sender dies before:
so there is no server that is not noted."""
_UNSEEN = (
    "something that no table shows, such as a mount namespace without processes, or files of a "
    "file system that was unmounted lazily"
)
_FREE_SECONDS = 5.0
"""Seconds that the kernel, and whoever looks at all devices, may take to let go of one."""
_DIRECTORY_BYTES = 4 << 20
"""The most that the directory of SQLite's files takes (docs/formats/sqlite_files.md)."""
_ERROR = "flashwright: error: "


@dataclass(frozen=True)
class MountPlan(serving.Serving):
    """Plan of a mount: the volume, the directory, and the file system."""

    directory: Path
    make: str | None = None
    """File system to make if there is none."""
    options: str = "noatime"
    is_ublk: bool = False
    """The file system lies on a block device of ublk, and not on a loop device over a file."""
    destroys: bool = False
    """True if the volume's data may be lost when a file system is made."""


def mount(plan: MountPlan) -> Mounted:
    """Serve the volume, and mount the file system on it.

    What a mount or unmount of it that was killed has left is taken away first, with a warning if
    somebody still uses what a server took along when it died.

    Raises:
        InputError: no root, no ublk where that is asked, no volume, no file system on it, a
        directory that is not there or not empty, or the volume is mounted already.
        RunError: a program failed, and nothing is left behind; or what is left cannot be taken
        away.
    """
    need_root("mounting a volume")
    for program in ("losetup", "mount", "blkid"):
        need(program)
    if plan.is_ublk:
        _core.check_ublk()
    if not os.path.lexists(plan.directory):
        raise _no_directory(plan.directory)
    about = serving.look(plan.device, plan.staging, plan.memory_bytes)
    device = places.whole(plan.device)
    place = Place(about["uuid"])
    _is_not_served(device, place.uuid)
    with place.alone(STOP_SECONDS, makes=True) as lock:
        try:
            _is_not_mounted(device, place)
            directory = _is_empty(plan.directory)
            mounted = Mounted(place.uuid, device, str(directory), "", 0, 0)
            return _mount(plan, mounted, about, lock)
        except BaseException:
            if not place.note.exists():
                place.remove()
            raise


def _is_not_served(device: str, uuid: str) -> None:
    """Make sure that nobody shows the volume without having mounted it."""
    if any(one.uuid == uuid and not places.mounted_at(one) for one in places.all_served()):
        places.check_uuid(device, uuid)


def _is_not_mounted(device: str, place: Place) -> None:
    """Make sure that the volume is not mounted, and take away what another command has left."""
    noted = places.noted(place.uuid)
    if noted is None:
        return
    if noted.is_served and _Taken(noted).is_mounted:
        if places.is_same(device, noted.device):
            raise InputError(f"{device}: it is mounted at {noted.directory} already")
        where = f"mounted from {noted.device} at {noted.directory}"
        raise places.is_a_copy(device, noted.uuid, where)
    problem = _take_away(noted, STOP_SECONDS)
    if problem is not None:
        warnings.warn(problem, stacklevel=3)
    place.clear()
    place.make()


def _no_directory(directory: Path) -> InputError:
    return InputError(f"{directory}: no such directory; make it first")


def _is_empty(directory: Path) -> Path:
    """Give the directory as it is without links; nothing is in it that a mount would hide."""
    try:
        directory = directory.resolve(strict=True)
        hidden = next(directory.iterdir(), None)
    except (FileNotFoundError, NotADirectoryError):
        raise _no_directory(directory) from None
    if directory.is_mount():
        raise InputError(f"{directory}: something is mounted there already")
    if hidden is not None:
        raise InputError(
            f"{directory}: it is not empty: the mount would hide {hidden.name!r}; name an empty "
            "directory, or move that away"
        )
    return directory


def _mount(plan: MountPlan, mounted: Mounted, about: dict[str, Any], lock: int | None) -> Mounted:
    place = mounted.place
    place.fuse.mkdir(mode=0o700, exist_ok=True)
    try:
        mounted = _serve(plan, mounted)
        if plan.is_ublk:
            block = str(place.block.readlink())
        else:
            block = _run(
                lock,
                *("losetup", "--find", "--show", "--direct-io=on"),
                *("--sector-size", str(about["sector_bytes"]), str(place.file)),
            )
        mounted = replace(mounted, loop=block)
        mounted.write()
        _file_system(plan, block, lock)
        # Making it ready may have taken long.
        _is_empty(Path(mounted.directory))
        _run(lock, "mount", "-o", plan.options, block, mounted.directory)
    except BaseException:
        with contextlib.suppress(RunError):
            _take_away(places.noted(place.uuid) or mounted, STOP_SECONDS)
            place.remove()
        raise
    return mounted


def _run(lock: int | None, *words: str) -> str:
    """Run a program to its end, also when we are interrupted: half a file system is of no use.

    It shares our lock: if we are killed, the next command waits for its end.
    """
    with subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        pass_fds=() if lock is None else (lock,),
        # Ctrl-C reaches us alone.
        start_new_session=True,
    ) as process:
        try:
            said, wrong = process.communicate()
        except BaseException:
            process.communicate()
            raise
    if process.returncode != 0:
        reason = wrong.strip() or said.strip()
        raise RunError(f"{' '.join(words)}: exit {process.returncode}: {reason}")
    return said.strip()


def _serve(plan: MountPlan, mounted: Mounted) -> Mounted:
    """Start the server, and wait until the volume is there: its recovery may take long."""
    place = mounted.place
    way = ["--ublk", "--link", str(place.block)] if plan.is_ublk else ["--fuse", str(place.fuse)]
    words = [sys.executable, "-m", "flashwright", "serve", mounted.device, "--volume"]
    words += [*way, *plan.words()]
    waits, noted = os.pipe()
    with place.log.open("w") as log, os.fdopen(waits) as waiting:
        words = [*_WHEN_NOTED, *words]
        server = subprocess.Popen(
            words, stdin=waiting, stdout=log, stderr=log, start_new_session=True
        )
    mounted = replace(mounted, pid=server.pid, process_began=process_began(server.pid))
    mounted.write()
    # It may have been killed by now, which is seen below.
    with contextlib.suppress(BrokenPipeError), os.fdopen(noted, "wb") as to_server:
        to_server.write(b"noted\n")
    there = place.block if plan.is_ublk else place.file
    while not there.exists():
        if server.poll() is not None:
            said = place.log.read_text().strip().splitlines()
            last = said[-1] if said else "nothing"
            wrong = InputError if server.returncode == 2 else RunError
            raise wrong(last.removeprefix(_ERROR))
        time.sleep(_LOOK_SECONDS)
    return mounted


def _file_system(plan: MountPlan, loop: str, lock: int | None) -> None:
    """Make sure that there is one."""
    found = subprocess.run(
        ["blkid", "-p", "-o", "value", "-s", "TYPE", loop],
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    if found and plan.make is not None and found != plan.make:
        raise InputError(f"{plan.device}: it holds {found}, and --mkfs {plan.make} was asked")
    if found:
        return
    if plan.make is None:
        raise InputError(
            f"{plan.device}: the volume holds no file system; --mkfs ext4 makes one, if it holds "
            "nothing else"
        )
    need(_MAKE[plan.make][0])
    if plan.destroys:
        _clear_files(loop)
    else:
        _look_for_data(plan, loop)
    _run(lock, *_MAKE[plan.make], loop)


def _clear_files(loop: str) -> None:
    """Write zeros over the directory of SQLite's files, if the volume holds any.

    A file system leaves what it does not need, and later copies of the directory would still be
    taken for one: SQLite would write over the file system.
    """
    with Path(loop).open("r+b") as block:
        held = block.seek(0, os.SEEK_END)
        block.seek(0)
        block.write(bytes(min(held, _DIRECTORY_BYTES)))
        block.flush()
        os.fsync(block.fileno())


def _look_for_data(plan: MountPlan, loop: str) -> None:
    """Make sure that the volume holds nothing that a new file system would destroy.

    Raises InputError if it does.
    """
    try:
        _core.open_device(loop, access="write")
    except InputError as error:
        said = str(error).removeprefix(f"{loop}: ")
        said = said.replace(
            "allow its data to be destroyed, or name another device",
            f"add --destroy-data {plan.device} to destroy that",
        )
        raise InputError(f"{plan.device}: --mkfs {plan.make}: {said}") from None


def unmount(mounted: Mounted, seconds: float = STOP_SECONDS) -> None:
    """Take away what `mount` has made, as far as it is there, and wait until the volume is closed.

    Where another does that already, wait for it.

    Raises:
        RunError: something still uses the file system, and nothing was changed but what the
        message says; or the server is gone, or did not close the volume well.
    """
    place = mounted.place
    with place.alone(seconds) as lock:
        now = places.noted(mounted.uuid)
        is_another = now is not None and now.process_began != mounted.process_began
        if lock is None or is_another:
            return
        problem = _take_away(mounted, seconds)
        place.remove()
    if problem is not None:
        raise RunError(problem)


class _Taken:
    """Remains of a volume that was mounted: block devices, mounts, and who uses them."""

    def __init__(self, mounted: Mounted) -> None:
        self.mounted = mounted
        self.blocks = _blocks(mounted)
        table = mounts.table()
        numbers = {number for block in self.blocks for number in blocks.numbers(block)}
        of_volume = table.of_devices(numbers)
        # The mount of ours is below what else was put over it.
        own = [mount for mount in of_volume if mount.point == mounted.directory and not mount.pid]
        self.directory = own[0] if own else None
        fuse = str(mounted.place.fuse)
        shown = [mount for mount in table.every if mount.point == fuse and not mount.pid]
        of_fuse = {mount.device for mount in shown[:1] if mount.kind.startswith("fuse")}
        self.used = users.Used(
            table,
            frozenset(numbers),
            (*of_volume, *(mount for mount in table.every if mount.device in of_fuse)),
            (*own[:1], *shown[:1]),
        )

    @property
    def is_mounted(self) -> bool:
        """True if the file system is where it is noted to be."""
        return self.directory is not None

    @property
    def keepers(self) -> str:
        """Say what would keep the file system when its directory is unmounted."""
        return users.named(self.used)


def _blocks(mounted: Mounted) -> list[str]:
    """Give the block devices over what the server shows."""
    place = mounted.place
    if place.block.is_symlink():
        return [str(place.block.readlink())]
    # So the kernel writes the path of the file, if somebody has unmounted FUSE lazily.
    without = f"/{places.FILE_NAME}"
    return [
        loop.path
        for loop in blocks.loops()
        if loop.backing == str(place.file)
        or (loop.path == mounted.loop and loop.backing == without)
    ]


def _take_away(mounted: Mounted, seconds: float) -> str | None:
    """Do so, but for the folder: why the volume was not closed well, if it was not."""
    if not mounted.is_served:
        return _take_away_dead(mounted)
    taken = _settled(mounted)
    keepers = taken.keepers
    if keepers:
        raise RunError(_in_use(mounted, keepers))
    if taken.directory is not None:
        _unmount_directory(taken)
    _detach(mounted)
    served, status = _stop(mounted, seconds)
    _wait_until_free(mounted.device)
    _take_fuse_away(mounted)
    return _problem(mounted, status) if served else None


def _settled(mounted: Mounted) -> _Taken:
    """Look at what there is, once other namespaces have let go of it, or after a while.

    A container that starts has copies of all mounts for a moment.
    """
    end = time.monotonic() + _FREE_SECONDS
    while users.is_elsewhere((taken := _Taken(mounted)).used) and time.monotonic() < end:
        time.sleep(_LOOK_SECONDS)
    return taken


def _in_use(mounted: Mounted, keepers: str) -> str:
    return f"{mounted.directory}: it is in use: {keepers}; end that first. Nothing was changed"


def _unmount_directory(taken: _Taken) -> None:
    """Unmount it; if it is in use, say by whom."""
    try:
        tool("umount", taken.mounted.directory)
    except RunError as error:
        keepers = taken.keepers
        if not keepers:
            raise
        raise RunError(_in_use(taken.mounted, keepers)) from error


def _detach(mounted: Mounted) -> None:
    """Let go of the block device, once it is proved that no file system on it lives."""
    for block in _blocks(mounted):
        try:
            with blocks.exclusive(block, _FREE_SECONDS) as descriptor:
                if not mounted.place.block.is_symlink():
                    blocks.detach(descriptor)
        except OSError as error:
            if error.errno == errno.EBUSY:
                raise RunError(_still_held(mounted)) from None
            # Another has taken it away, as the server does that ends.
            if error.errno not in {errno.ENOENT, errno.ENXIO, errno.ENODEV}:
                raise
        if not mounted.place.block.is_symlink() and not blocks.wait_until_detached(
            block, _FREE_SECONDS
        ):
            raise RunError(_still_held(mounted))


def _still_held(mounted: Mounted) -> str:
    """Say that the block device is in use, though its directory is not mounted any more."""
    taken = _Taken(mounted)
    keepers = taken.keepers or users.openers(taken.used) or _UNSEEN
    return (
        f"{mounted.directory}: it is unmounted, but {', '.join(taken.blocks)} is still in use: "
        f"{keepers}; end that, then run umount again. Until then process {mounted.pid} goes on "
        "serving it, and nothing is lost"
    )


def _take_away_dead(mounted: Mounted) -> str | None:
    """Take away what a server has left that is gone: it can be of no use to anybody.

    Gives who still holds what it took along.

    Raises RunError if something else is mounted over it or below it.
    """
    taken = _Taken(mounted)
    if taken.directory is not None:
        others = [str(one) for one in taken.used.table.upon(taken.directory)]
        if others:
            raise RunError(_in_use(mounted, ", ".join(others)))
        # With what was not written: nobody can write it any more.
        tool("umount", "--lazy", mounted.directory)
    for block in taken.blocks:
        if not mounted.place.block.is_symlink():
            # Those who still have it keep it, and get errors.
            with contextlib.suppress(RunError):
                tool("losetup", "--detach", block)
    keepers = _Taken(mounted).keepers if taken.used.mounts else ""
    if mounted.place.block.is_symlink():
        # A server that ended by itself would have taken the link along.
        path = str(mounted.place.block.readlink())
        _core.remove_left_ublk(int(path.removeprefix(_UBLK)), mounted.pid)
    _take_fuse_away(mounted)
    if not keepers:
        return None
    return (
        f"{mounted.directory}: it is unmounted, and its server is gone; what it served is still in "
        f"use: {keepers}; end that: it reads and writes nothing any more"
    )


def _take_fuse_away(mounted: Mounted) -> None:
    """Unmount what a server has left that did not do so itself."""
    if os.path.ismount(mounted.place.fuse) or not _answers(mounted.place.fuse):
        tool("umount", "--lazy", mounted.place.fuse)


def _stop(mounted: Mounted, seconds: float) -> tuple[bool, int | None]:
    """Let the server close the volume; False if it is gone, and nobody closed it.

    With its exit code, as subprocess has it, if it is a child of ours.
    """
    try:
        os.kill(mounted.pid, signal.SIGTERM)
    except ProcessLookupError:
        return False, None
    end = time.monotonic() + seconds
    while (code := _exit_code(mounted.pid)) is None and mounted.is_served:
        if time.monotonic() > end:
            raise RunError(
                f"{mounted.device}: the server (process {mounted.pid}) has not written back all "
                f"within {seconds:g} s; ask again, or look into {mounted.place.log}"
            )
        time.sleep(_LOOK_SECONDS)
    return True, _exit_code(mounted.pid) if code is None else code


def _exit_code(pid: int) -> int | None:
    """Give the exit code of a child of ours that has ended, as subprocess has it."""
    try:
        reaped, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return None
    return os.waitstatus_to_exitcode(status) if reaped else None


def _answers(directory: Path) -> bool:
    """Return False for a directory of a FUSE file system whose server is gone."""
    try:
        directory.stat()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _wait_until_free(device: str) -> None:
    """Wait until the kernel has let go of a device whose server has ended.

    It does so a moment later, and whoever opened the device before that would find it in use.
    """
    end = time.monotonic() + _FREE_SECONDS
    while _is_held(Path(device)) and time.monotonic() < end:
        time.sleep(_LOOK_SECONDS)


def _is_held(device: Path) -> bool:
    try:
        about = device.stat()
        if stat.S_ISBLK(about.st_mode):
            os.close(os.open(device, os.O_RDONLY | os.O_EXCL))
            return False
        # As the kernel lists locks: taking it to see whether it is free might get in another's way.
        major, minor = os.major(about.st_dev), os.minor(about.st_dev)
        held = f"{major:02x}:{minor:02x}:{about.st_ino}"
        return held in Path("/proc/locks").read_text().split()
    except OSError as error:
        return error.errno == errno.EBUSY


def _problem(mounted: Mounted, code: int | None) -> str | None:
    """Say why the server did not close the volume, by its last line; None if it did.

    Neither is it a problem if it was asked to end before it had opened it.
    """
    try:
        said = mounted.place.log.read_text().strip().splitlines()
    except OSError:
        said = []
    last = said[-1] if said else ""
    if last.startswith(_ERROR):
        return f"{mounted.device}: the server did not close the volume: {last.removeprefix(_ERROR)}"
    # What an interpreter says while it ends comes after that.
    was_closed = any('"closed"' in line for line in said)
    if was_closed or not any('"opened"' in line for line in said):
        return None
    how = ", as if it was killed"
    if code is not None:
        how = f", by {signal.Signals(-code).name}" if code < 0 else f", with exit code {code}"
    if not last.startswith("{"):
        # No line of its log: what an interpreter says of an error that nobody caught.
        how = f"{how}: {one_line(last)}"
    return (
        f"{mounted.device}: its server (process {mounted.pid}) ended before it had closed the "
        f"volume{how}; the next mount recovers what was durable"
    )
