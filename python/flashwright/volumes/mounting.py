"""From a device with a volume to a directory with files, and back.

A server with the volume as a file in FUSE, a loop device over the file, a file system on it; or
a block device of ublk in place of the first two. Each step is noted before the next, so that
`unmount` finds what there is, whatever happened meanwhile.
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
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from flashwright import _core
from flashwright._core import InputError, RunError
from flashwright.recording.tools import need, need_root, tool

from . import places, serving, users
from .places import Mounted, Place, process_began

_LOOK_SECONDS = 0.02
STOP_SECONDS = 120.0
"""How long the server has to write back what it holds, unless another time is given."""
_MAKE = {
    # Nothing is there that would have to be discarded, and the loop device would write zeros.
    "ext4": ("mkfs.ext4", "-q", "-E", "nodiscard"),
    "ext2": ("mkfs.ext2", "-q", "-E", "nodiscard"),
    "xfs": ("mkfs.xfs", "-q", "-K"),
    "btrfs": ("mkfs.btrfs", "-q", "--nodiscard"),
}
FILE_SYSTEMS = tuple(_MAKE)
WAYS = ("loop", "ublk")
"""A loop device over a file in FUSE, or a block device of ublk."""
_UBLK = "/dev/ublkb"
_FREE_SECONDS = 5.0
_DIRECTORY_BYTES = 4 << 20
"""The most that the directory of SQLite's files takes (docs/formats/sqlite_files.md)."""
_ERROR = "flashwright: error: "


@dataclass(frozen=True)
class MountPlan:
    """What is mounted, where and how."""

    device: str
    directory: Path
    make: str | None = None
    """File system to make if there is none."""
    options: str = "noatime"
    queue_depth: int = 128
    metrics: Path | None = None
    """Another file of metrics, beside the one that `flashwright top` reads."""
    metrics_every: float = 10.0
    """Seconds between two writes of it."""
    staging: str | None = None
    """Where the staging device is, if that is not where it was last."""
    by: str = "loop"
    """The block device that the file system lies on: one of `WAYS`."""
    memory_bytes: int | None = None
    """The most that the volume may take in memory."""
    scrub_days: float = serving.SCRUB_DAYS
    """From one scrub to the next; 0 for only when it is asked."""
    destroys: bool = False
    """What the volume holds may be lost, if a file system is made."""


def mount(plan: MountPlan) -> Mounted:
    """Serve the volume, and mount the file system on it.

    Raises:
        InputError: no root, no ublk where that is asked, no volume, no file system on it, a
        directory that is not there, or the volume is mounted already.
        RunError: a program failed. Nothing is left behind then.
    """
    need_root("mounting a volume")
    for program in ("losetup", "mount", "blkid"):
        need(program)
    if plan.by == "ublk":
        _core.check_ublk()
    directory = plan.directory.absolute()
    if not directory.is_dir():
        raise InputError(f"{directory}: no such directory; make it first")
    about = serving.look(plan.device, plan.staging, plan.memory_bytes)
    device = places.whole(plan.device)
    place = Place(about["uuid"])
    _is_not_served(device, place.uuid)
    with place.alone(STOP_SECONDS, makes=True):
        try:
            _is_free(device, place, directory)
            return _mount(plan, Mounted(place.uuid, device, str(directory), "", 0, 0), about)
        except BaseException:
            if not place.note.exists():
                place.remove()
            raise


def _is_not_served(device: str, uuid: str) -> None:
    """Make sure that nobody shows the volume without having mounted it."""
    if any(one.uuid == uuid and not places.mounted_at(one) for one in places.all_served()):
        places.check_uuid(device, uuid)


def _is_free(device: str, place: Place, directory: Path) -> None:
    """Make sure that the volume is not mounted, nor anything else at this directory."""
    for one in places.all_mounted():
        if one.uuid == place.uuid:
            if one.is_served and places.is_same(device, one.device):
                raise InputError(f"{device}: it is mounted at {one.directory} already")
            if one.is_served:
                raise places.is_a_copy(
                    device, one.uuid, f"mounted from {one.device} at {one.directory}"
                )
            # A crash left it.
            _take_away(one, STOP_SECONDS)
            place.clear()
            place.make()
    if os.path.ismount(directory):
        raise InputError(f"{directory}: something is mounted there already")


def _mount(plan: MountPlan, mounted: Mounted, about: dict[str, Any]) -> Mounted:
    place = mounted.place
    place.fuse.mkdir(mode=0o700, exist_ok=True)
    try:
        mounted = _serve(plan, mounted)
        if plan.by == "ublk":
            loop = str(place.block.readlink())
        else:
            loop = tool(
                *("losetup", "--find", "--show", "--direct-io=on"),
                *("--sector-size", str(about["sector_bytes"]), place.file),
            )
        mounted = replace(mounted, loop=loop)
        mounted.write()
        _file_system(plan, loop)
        tool("mount", "-o", plan.options, loop, plan.directory.absolute())
    except BaseException:
        with contextlib.suppress(RunError):
            _take_away(mounted, STOP_SECONDS)
            place.remove()
        raise
    return mounted


def _serve(plan: MountPlan, mounted: Mounted) -> Mounted:
    """Start the server, and wait until the volume is there: its recovery may take long."""
    place = mounted.place
    words = [sys.executable, "-m", "flashwright", "volume", "serve", mounted.device]
    is_ublk = plan.by == "ublk"
    way = ["--ublk", "--link", str(place.block)] if is_ublk else ["--fuse", str(place.fuse)]
    words += [*way, "--depth", str(plan.queue_depth)]
    words += ["--scrub-every", f"{plan.scrub_days:g}"]
    if plan.memory_bytes is not None:
        words += ["--memory", str(plan.memory_bytes)]
    if plan.staging is not None:
        words += ["--staging", places.whole(plan.staging)]
    if plan.metrics is not None:
        words += ["--metrics", str(plan.metrics.absolute())]
        words += ["--metrics-every", f"{plan.metrics_every:g}"]
    with place.log.open("a") as log:
        server = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    mounted = replace(mounted, pid=server.pid, process_began=process_began(server.pid))
    mounted.write()
    there = place.block if is_ublk else place.file
    while not there.exists():
        if server.poll() is not None:
            said = place.log.read_text().strip().splitlines()
            last = said[-1] if said else "nothing"
            wrong = InputError if server.returncode == 2 else RunError
            raise wrong(last.removeprefix(_ERROR))
        time.sleep(_LOOK_SECONDS)
    return mounted


def _file_system(plan: MountPlan, loop: str) -> None:
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
    if plan.destroys:
        _clear_files(loop)
    else:
        _look_for_data(plan, loop)
    tool(*_MAKE[plan.make], loop)


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
        RunError: the directory is in use, or the server did not close the volume well.
    """
    place = mounted.place
    with place.alone(seconds) as is_there:
        now = [one for one in places.all_mounted() if one.uuid == mounted.uuid]
        is_another = any(one.process_began != mounted.process_began for one in now)
        if not is_there or is_another:
            return
        problem = _take_away(mounted, seconds)
        place.remove()
    if problem is not None:
        raise RunError(problem)


def _take_away(mounted: Mounted, seconds: float) -> str | None:
    """Do so, but for the folder: why the volume was not closed well, if it was not."""
    served = mounted.is_served
    if os.path.ismount(mounted.directory) and _is_ours(mounted):
        # Without its server it can only be taken away at once, with what was not written.
        _unmount_directory(mounted, lazily=not served)
    _detach(mounted)
    if served:
        served = _stop(mounted, seconds)
        _wait_until_free(mounted.device)
    elif mounted.place.block.is_symlink():
        # A server that ended by itself would have taken the link along.
        path = str(mounted.place.block.readlink())
        _core.remove_left_ublk(int(path.removeprefix(_UBLK)), mounted.pid)
    if os.path.ismount(mounted.place.fuse) or not _answers(mounted.place.fuse):
        tool("umount", "--lazy", mounted.place.fuse)
    return _problem(mounted) if served else None


def _unmount_directory(mounted: Mounted, *, lazily: bool) -> None:
    """Unmount it; if it is in use, say by whom."""
    try:
        tool("umount", *(["--lazy"] if lazily else []), mounted.directory)
    except RunError as error:
        found = users.of_directory(mounted.directory)
        if not found:
            raise
        raise RunError(
            f"{mounted.directory}: it is in use: {found}; end that first. Nothing was changed"
        ) from error


def _is_ours(mounted: Mounted) -> bool:
    """Whether what is mounted there is the volume's block device."""
    table = Path("/proc/self/mounts").read_text().splitlines()
    return any(
        line.split()[:2] == [mounted.loop, mounted.directory.replace(" ", "\\040")]
        for line in table
    )


def _detach(mounted: Mounted) -> None:
    """Detach the loop device, if it still is over our file."""
    if not mounted.loop:
        return
    backing = Path("/sys/block") / Path(mounted.loop).name / "loop" / "backing_file"
    with contextlib.suppress(OSError):
        if backing.read_text().strip().removesuffix(" (deleted)") == str(mounted.place.file):
            tool("losetup", "--detach", mounted.loop)
    # The kernel lets go of the file a moment later.
    end = time.monotonic() + 5
    while backing.exists() and time.monotonic() < end:
        time.sleep(_LOOK_SECONDS)


def _stop(mounted: Mounted, seconds: float) -> bool:
    """Let the server close the volume; False if it is gone, and nobody closed it."""
    try:
        os.kill(mounted.pid, signal.SIGTERM)
    except ProcessLookupError:
        return False
    end = time.monotonic() + seconds
    while mounted.is_served:
        if time.monotonic() > end:
            raise RunError(
                f"{mounted.device}: the server (process {mounted.pid}) has not written back all "
                f"within {seconds:g} s; ask again, or look into {mounted.place.log}"
            )
        with contextlib.suppress(ChildProcessError):
            os.waitpid(mounted.pid, os.WNOHANG)
        time.sleep(_LOOK_SECONDS)
    return True


def _answers(directory: Path) -> bool:
    """Whether a directory is no FUSE file system whose server is gone."""
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


def _problem(mounted: Mounted) -> str | None:
    """Say why the server did not close the volume, by its last line; None if it did."""
    try:
        last = mounted.place.log.read_text().strip().splitlines()[-1]
    except (OSError, IndexError):
        last = ""
    if '"closed"' in last:
        return None
    if last.startswith(_ERROR):
        return f"{mounted.device}: the server did not close the volume: {last.removeprefix(_ERROR)}"
    return (
        f"{mounted.device}: its server (process {mounted.pid}) ended before it had closed the "
        "volume, as if it was killed; the next mount recovers what was durable"
    )
