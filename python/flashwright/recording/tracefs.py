"""The kernel's tracefs.

One recording at a time, and every setting put back, whatever becomes of us.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from flashwright._core import InputError, RunError
from flashwright._paths import make_folder, open_plain
from flashwright.workloads.supervisor import Supervisor

from .tools import need_root, tool

ROOT = Path("/sys/kernel/tracing")
LOCK = Path("/run/flashwright-tracing")
"""Whoever records holds it (flock). Not in /run/lock, where every user may make files."""
_LOSSES = ("overrun", "commit overrun", "dropped events")
_WAIT_S = 0.1
INSTANCE_OPTIONS = {
    "event-fork": "1",
    "context-info": "1",
    **dict.fromkeys(("bin", "raw", "hex"), "0"),
}
"""Of an instance of our own: it begins with those of the tracer, which a recording of the block
layer changes.
"""
REMOVE_INSTANCE = (
    'for _ in $(seq 50); do [ -d "$1" ] || exit 0; rmdir "$1" && exit 0; sleep 0.1; done'
)
"""For a shell: removes the instance that is its argument, which others may hold for a moment."""


@contextlib.contextmanager
def at_hand() -> Iterator[Path]:
    """Give the folder of tracefs for a look.

    Where it is not mounted, it is for that long if we may. That is in a folder of our own: a
    recording that begins meanwhile may need the usual one for longer.
    """
    if (ROOT / "current_tracer").exists() or os.geteuid() != 0:
        yield ROOT
        return
    with contextlib.ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="flashwright-"))
        # Not a temporary directory that removes what is in it: that would be the kernel's, were it
        # still mounted.
        stack.callback(folder.rmdir)
        with contextlib.suppress(InputError, RunError):
            tool("mount", "-t", "tracefs", "nodev", folder)
            stack.callback(tool, "umount", "--lazy", folder)
        yield folder


class Tracefs:
    """Tracefs, ours alone until `close`. The supervisor puts settings back if we cannot."""

    def __init__(self, supervisor: Supervisor, patience_s: float = 0.0) -> None:
        """Mount it if need be, and wait for other recordings of ours at most `patience_s` seconds.

        Raises:
            InputError: we are not root, the kernel has no tracefs, or another recording goes on.
        """
        need_root("recording what the kernel does")
        self._supervisor = supervisor
        self._saved: list[tuple[int, Path, str]] = []
        if not ROOT.is_dir():
            raise InputError("this kernel has no tracefs: it needs CONFIG_FTRACE")
        self._lock: int | None = _locked(patience_s)
        try:
            if not (ROOT / "current_tracer").exists():
                supervisor.undo("umount", ROOT)
                tool("mount", "-t", "tracefs", "nodev", ROOT)
        except BaseException:
            self.close()
            raise

    def set(self, path: Path, value: str) -> None:
        """Write a setting, and put it back at the end.

        Raises:
            InputError: the kernel does not take it.
        """
        try:
            old = current(path)
            self.at_end(path, old)
            path.write_text(value)
        except OSError as error:
            raise InputError(
                f"{path}: the kernel does not take `{value}`: {error.strerror}"
            ) from error

    def at_end(self, path: Path, value: str) -> None:
        """Have a value written at the end, whatever becomes of us."""
        # A device may be gone by then: what is not there needs nothing.
        number = self._supervisor.undo(
            "sh", "-c", '[ ! -e "$1" ] || echo "$2" > "$1"', "sh", path, value
        )
        self._saved.append((number, path, value))

    def close(self) -> None:
        """Put every setting back, and let others trace."""
        while self._saved:
            number, path, value = self._saved.pop()
            if path.exists():
                path.write_text(value)
            # Else it would be written at the supervisor's end, into the recording of somebody else.
            with contextlib.suppress(RunError):
                self._supervisor.forget(number)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def current(path: Path) -> str:
    """Give the value of a setting; of a list like `local [mono] boot` the one in brackets."""
    text = path.read_text().strip()
    if "[" in text:
        text = text.partition("[")[2].partition("]")[0]
    return text.split()[0] if text else ""


def lost_events(instance: Path = ROOT) -> int:
    """Count the events that found no room in the buffer since it was last emptied.

    Over all processors.
    """
    return sum(_stats(instance, _LOSSES))


def _stats(instance: Path, names: tuple[str, ...]) -> Iterator[int]:
    for stats in instance.glob("per_cpu/cpu*/stats"):
        for line in stats.read_text().splitlines():
            name, _, value = line.partition(":")
            if name in names:
                yield int(value)


def entries() -> int:
    """Count the events that came into the buffer since it was last emptied, over all processors."""
    return sum(_stats(ROOT, ("entries", "read events")))


def commands() -> dict[int, str]:
    """Give the command of each thread that the kernel remembers from tracing."""
    lines = (ROOT / "saved_cmdlines").read_text(errors="replace").splitlines()
    return {int(pid): command for pid, _, command in (line.partition(" ") for line in lines)}


def is_busy() -> bool:
    """Tell whether another recording of ours goes on at this moment."""
    try:
        os.close(_locked(0.0))
    except InputError:
        return True
    return False


def _locked(patience_s: float) -> int:
    try:
        # A container may have no /run.
        make_folder(LOCK.parent)
        handle = open_plain(LOCK, os.O_RDWR | os.O_CREAT, owner=os.geteuid())
    except OSError as error:
        raise RunError(f"{LOCK}: the lock of all recordings: {error.strerror}") from error
    deadline = time.monotonic() + patience_s
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                os.close(handle)
                raise InputError(
                    "another recording goes on: the kernel's tracer serves one at a time"
                ) from None
            time.sleep(_WAIT_S)
        else:
            return handle
