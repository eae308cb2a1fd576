"""The process that serves a volume until it is asked to stop."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import math
import os
import secrets
import shlex
import shutil
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import quote

from flashwright import _core
from flashwright._core import InputError, RunError
from flashwright._paths import check_trusted

from . import blocks, mounts, places
from .places import Served, process_began, whole
from .stopping import Stopping

PLUGIN = Path(__file__).parent.parent / "_native" / "libflashwright_nbdkit.so"
_LOOK_SECONDS = 1.0
"""Seconds between two checks whether the volume is still of use."""
_FIRST_PASSED = 3
"""The first descriptor that systemd, and who does as it does, hands over."""
_PR_SET_IO_FLUSHER = 57
QUEUE_DEPTH, METRICS_EVERY = 128, 10.0
"""Default queue depth, and default seconds between two writes of the metrics."""
SCRUB_DAYS = 7.0
"""Days from one scrub to the next, unless another time is given."""
_DAY_SECONDS = 86_400
_LOCK_SECONDS = 120.0
"""Seconds to wait for another mount of the same volume to end."""
_OPENER = "somebody who has it open"
_THREADS = 32
"""Requests of one NBD connection that are under way at a time."""


@dataclass(frozen=True)
class Serving:
    """Settings of serving a volume, or a device as it is."""

    device: str
    _: KW_ONLY
    queue_depth: int = QUEUE_DEPTH
    metrics: Path | None = None
    """Another file of metrics, beside what its server says when it is asked."""
    metrics_every: float = METRICS_EVERY
    """Seconds between two writes of that file."""
    bare: bool = False
    """The device as it is, without header or layers."""
    staging: str | None = None
    """Path of the staging device, if that is not where it was last."""
    memory_bytes: int | None = None
    """The most that the volume may take in memory."""
    scrub_days: float = SCRUB_DAYS
    """Days from one scrub to the next; 0 for only when it is asked."""

    def words(self) -> list[str]:
        """Give the options that ask for the same of another command, but for its defaults."""
        words = [] if self.staging is None else ["--staging", whole(self.staging)]
        if self.queue_depth != QUEUE_DEPTH:
            words += ["--depth", str(self.queue_depth)]
        if self.memory_bytes is not None:
            words += ["--memory", str(self.memory_bytes)]
        if self.scrub_days != SCRUB_DAYS:
            words += ["--scrub-every", f"{self.scrub_days:g}"]
        if self.metrics is not None:
            words += ["--metrics", str(self.metrics.absolute())]
            words += ["--metrics-every", f"{self.metrics_every:g}"]
        return words

    @property
    def scrub_seconds(self) -> int:
        """The same in whole seconds, which are at least one."""
        return math.ceil(self.scrub_days * _DAY_SECONDS)


def say(event: str, **facts: object) -> None:
    """Write one line of JSON for the log."""
    line = {"time": time.strftime("%Y-%m-%dT%H:%M:%S%z"), "event": event, **facts}
    sys.stderr.write(json.dumps(line) + "\n")
    sys.stderr.flush()


def look(device: str, staging: str | None, memory_bytes: int | None) -> dict[str, Any]:
    """Tell what volume is on a device, with the staging device that it needs.

    Raises InputError if there is no volume, its staging device is missing or another, or it may
    take more memory than that.
    """
    about = _core.volume_about(device, staging=staging)
    found = about["staging"]
    if found is not None and found["problem"] is not None:
        raise InputError(found["problem"])
    if memory_bytes is not None:
        _core.check_volume_memory(device, memory_bytes, staging=staging)
    return about


def serve_fuse(serving: Serving, directory: Path) -> None:
    """Show the volume as a file in `directory` until SIGTERM or Ctrl-C, then close it.

    As long as somebody has the file open, it goes on: a loop device may be over it.

    Raises:
        InputError: there is no volume, or it is in use.
        RunError: it became of no use, or could not be closed.
    """
    if any(directory.iterdir()):
        raise InputError(f"{directory}: it is not empty, and would be hidden: name an empty one")

    file = str(directory.resolve() / places.FILE_NAME)

    def show(volume: _core.Volume) -> None:
        volume.mount(directory)
        say("mounted", directory=str(directory))

    def used_by() -> list[str]:
        if not mounts.is_busy(directory):
            return []
        return [loop.path for loop in blocks.loops() if loop.backing == file] or [_OPENER]

    _serve(serving, "fuse", directory, show, used_by)


def serve_ublk(serving: Serving, link: Path | None, *, read_only: bool) -> None:
    """Make a block device of the volume until SIGTERM or Ctrl-C, then close it.

    As long as it is mounted, or otherwise held alone, it goes on.

    `link` becomes a symbolic link to the block device, and goes with it.

    Raises:
        InputError: the kernel has no ublk, there is no volume, it is in use, something else is
        where the link is to be, or another user may put something there.
        RunError: it became of no use, or could not be closed.
    """
    _core.check_ublk()
    if link is not None:
        _check_folder(f"--link {link}", link.parent)
    if link is not None and os.path.lexists(link) and not _is_left_link(link):
        raise InputError(f"{link}: something else is there; name a path where nothing is")
    made: list[str] = []

    def show(volume: _core.Volume) -> None:
        path = volume.attach_ublk(read_only=read_only)
        made.append(path)
        if link is not None:
            new = link.with_name(f".{link.name}.{secrets.token_hex(8)}")
            new.symlink_to(path)
            new.replace(link)
        say("attached", block_device=path, link=None if link is None else str(link))

    try:
        _serve(serving, "ublk", link, show, lambda: [path for path in made if _is_held(path)])
    finally:
        if link is not None and link.is_symlink() and str(link.readlink()) in made:
            link.unlink()


def _is_held(block: str) -> bool:
    try:
        with blocks.exclusive(block, 0):
            return False
    except OSError as error:
        return error.errno == errno.EBUSY


def _is_left_link(link: Path) -> bool:
    """Tell whether a killed server has left a link: to a block device of ublk, now gone."""
    return link.is_symlink() and str(link.readlink()).startswith("/dev/ublkb") and not link.exists()


def _serve(
    serving: Serving,
    way: str,
    where: Path | None,
    show: Callable[[_core.Volume], None],
    used_by: Callable[[], list[str]],
) -> None:
    """Open the volume, show it, and close it when we are asked to stop and nobody uses it."""
    stop = Stopping()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    # The kernel must not wait for this process to write, while this process waits for memory that
    # the kernel makes free by writing. Threads that begin later inherit it. Only root may.
    ctypes.CDLL(None).prctl(_PR_SET_IO_FLUSHER, 1, 0, 0, 0)
    began = time.monotonic()
    volume = _core.Volume(
        serving.device,
        queue_depth=serving.queue_depth,
        bare=serving.bare,
        staging=serving.staging,
        memory=serving.memory_bytes,
        scrub_every_s=serving.scrub_seconds,
    )
    about = volume.about()
    say(
        "opened",
        device=serving.device,
        uuid=about["uuid"],
        stack=about["stack"],
        openings=about["openings"],
        capacity_bytes=about["capacity_bytes"],
        notes=about["notes"],
        seconds=round(time.monotonic() - began, 3),
    )
    broken: str | None = None
    served: Served | None = None
    try:
        if not serving.bare:
            served = _noted(serving.device, about["uuid"], way, where)
        if served is not None:
            _let_ask(volume, served)
        if serving.metrics is not None:
            volume.keep_metrics(serving.metrics, serving.metrics_every)
        show(volume)
        _notify("READY=1")
        is_said = False
        while not stop.wait(_LOOK_SECONDS) or (users := used_by()):
            if stop.is_asked:
                if not is_said:
                    say("in use", device=serving.device, by=users)
                is_said = True
                time.sleep(_LOOK_SECONDS)
            now = volume.broken()
            if now is not None and broken is None:
                say("broken", device=serving.device, reason=now)
                broken = now
    finally:
        _notify("STOPPING=1")
        say("closing")
        began = time.monotonic()
        volume.close()
        say("closed", seconds=round(time.monotonic() - began, 3))
    if broken is not None:
        raise RunError(f"{serving.device}: {broken}")


def _let_ask(volume: _core.Volume, served: Served) -> None:
    """Let other commands ask the server; where that is not possible it goes on without."""
    try:
        volume.keep_control(served.place.control)
    except RunError as error:
        say("alone", device=served.device, reason=str(error))


def _noted(device: str, uuid: str, way: str, where: Path | None) -> Served | None:
    """Note that this process serves the volume, where other commands look for it.

    None, with a line in the log, where there is no place for that: in a sandbox.

    Raises InputError if another server has a volume of this UUID.
    """
    pid = os.getpid()
    path = "" if where is None else str(where.absolute())
    served = Served(uuid, whole(device), way, path, pid, process_began(pid))
    place = served.place
    # Whoever mounts it has the lock while we serve it.
    has_lock = path in {str(place.fuse), str(place.block)}
    try:
        place.make()
        with contextlib.nullcontext() if has_lock else place.alone(_LOCK_SECONDS, makes=True):
            places.check_uuid(device, uuid)
            served.write()
    except (OSError, RunError) as error:
        say("alone", device=device, reason=str(error))
        return None
    return served


def serve_nbd(serving: Serving, where: Path, more: Sequence[str]) -> NoReturn:
    """Become nbdkit, which serves the volume on a Unix socket that only its owner may use.

    `more` are options of nbdkit, such as those of TLS.

    Raises InputError if nbdkit or the plugin is missing, or there is no volume.
    """
    if shutil.which("nbdkit") is None:
        raise InputError("nbdkit is not installed (Debian: apt-get install nbdkit)")
    if not PLUGIN.is_file():
        raise InputError(f"{PLUGIN}: the plugin was not built; right would be `make build`")
    uuid: str | None = None
    if not serving.device.startswith("memory"):
        # Said in one line here; nbdkit would say more.
        uuid = _look_first(serving)
    settings = [f"volume={serving.device}", f"depth={serving.queue_depth}"]
    settings.append(f"scrub_every={serving.scrub_seconds}")
    if serving.bare:
        settings.append("bare=yes")
    if serving.memory_bytes is not None:
        settings.append(f"memory={serving.memory_bytes}")
    if serving.staging is not None:
        settings.append(f"staging={serving.staging}")
    if serving.metrics is not None:
        if not serving.metrics.absolute().parent.is_dir():
            raise InputError(f"--metrics {serving.metrics}: there is no such folder")
        settings.append(f"metrics={serving.metrics.absolute()}")
        settings.append(f"metrics_every={serving.metrics_every:g}")
    settings.append(f"ready={_attaching(where)}")
    words = ["nbdkit", "--foreground", "--threads", str(_THREADS)]
    listening = _listen(where)
    # Last, as nbdkit alone takes the note away.
    served = None if uuid is None else _noted(serving.device, uuid, "nbd", where)
    if served is not None:
        settings.append(f"control={served.place.control}")
    _hand_over(listening)
    os.execvp("nbdkit", [*words, *more, str(PLUGIN), *settings])  # noqa: S606


def _attaching(socket_path: Path) -> str:
    """Say how a client reaches what is served, for whoever waits until it is open."""
    path = socket_path.absolute()
    uri = shlex.quote(f"nbd+unix:///?socket={quote(str(path))}")
    return "\n".join(
        (
            "flashwright: ready; Ctrl-C ends it. As a block device:",
            f"    sudo modprobe nbd && sudo nbd-client -unix {shlex.quote(str(path))} /dev/nbd0",
            "or for a program that knows NBD:",
            f"    nbdinfo {uri}",
        )
    )


def _look_first(serving: Serving) -> str | None:
    """Give the UUID of a volume.

    Raises InputError if nbdkit's plugin would not open the device.
    """
    devices, uuid = [serving.device], None
    if not serving.bare:
        about = look(serving.device, serving.staging, serving.memory_bytes)
        second, uuid = about["staging"], about["uuid"]
        devices += [] if second is None else [second["device"]]
    for device in devices:
        _core.check_free(device)
    return uuid


def _listen(where: Path) -> socket.socket:
    """Make a socket that only its owner may use; nbdkit itself would let others look at it.

    Raises InputError if it cannot be made, somebody listens there, or another user may put
    something in its place.
    """
    path = str(where.absolute())
    _check_folder(str(where), where.parent)
    try:
        if where.is_socket() and not where.is_symlink():
            with socket.socket(socket.AF_UNIX) as other:
                found = other.connect_ex(path)
            if found == 0:
                raise InputError(f"{where}: another server listens there")
            if found != errno.ECONNREFUSED:
                raise InputError(
                    f"{where}: somebody's socket is there ({os.strerror(found)}); name another path"
                )
            # A server that is gone has left it.
            where.unlink()
        listening = socket.socket(socket.AF_UNIX)
        # Whoever waits for the socket to appear may connect at once.
        new = Path(f"{path}.{os.getpid()}")
        before = os.umask(0o177)
        try:
            listening.bind(str(new))
        finally:
            os.umask(before)
        listening.listen()
        # Unlike a new name, a second one takes the place of nothing.
        try:
            where.hardlink_to(new)
        finally:
            new.unlink()
    except OSError as error:
        raise InputError(f"{where}: no socket can be made there: {error.strerror}") from error
    return listening


def _check_folder(what: str, folder: Path) -> None:
    """Refuse to make something in a folder in which another user may put something else there."""
    try:
        check_trusted(folder)
    except OSError as error:
        raise InputError(f"{what}: {error.strerror}") from error


def _hand_over(listening: socket.socket) -> None:
    """Leave a socket to the program that this process becomes, as systemd does."""
    os.dup2(listening.fileno(), _FIRST_PASSED, inheritable=True)
    if listening.fileno() == _FIRST_PASSED:
        os.set_inheritable(_FIRST_PASSED, True)  # noqa: FBT003
        listening.detach()
    os.environ.update(LISTEN_FDS="1", LISTEN_PID=str(os.getpid()))


def _notify(state: str) -> None:
    """Tell systemd, if it started us and wants to know."""
    address = os.environ.get("NOTIFY_SOCKET")
    if address:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as to:
            to.connect("\0" + address[1:] if address.startswith("@") else address)
            to.sendall(state.encode())
