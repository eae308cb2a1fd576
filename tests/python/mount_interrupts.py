"""Interrupts `mount` and `umount` of a volume at each line that they come to, and looks at what is
left: the next command goes on from it, and the files are there.

    python tests/python/mount_interrupts.py --every 1

Not by time: the line is counted, so that each is reached, however busy the machine is. Needs root.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from flashwright import _core
from flashwright._core import InputError
from flashwright.volumes import blocks, mounting, places

SIGNALS = (signal.SIGKILL, signal.SIGINT, signal.SIGTERM)
STEPS = tuple(module.__file__ for module in (mounting, places, blocks))
"""Files whose lines are steps that change something; all other code only looks."""
_DONE = 77
_FAILED = 78


def interrupted(
    act: Callable[[], Any],
    at: int,
    number: signal.Signals,
    log: Path,
    within: Collection[str] = (),
) -> str | None:
    """Run something in a process of its own, which gets a signal at the line of this number.

    Lines count when they are first come to: how often it is waited for something is no matter.
    With `within` only those of these functions do. Gives the line; None if there are fewer.
    """
    lines: list[str] = []
    seen: set[tuple[str, int]] = set()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = _FAILED
        try:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            os.setsid()
            with log.open("w") as said:
                os.dup2(said.fileno(), 2)

            def traced(frame: FrameType, event: str, _argument: object) -> Any:
                if frame.f_code.co_filename not in STEPS:
                    return None
                place = (frame.f_code.co_filename, frame.f_lineno)
                is_step = not within or frame.f_code.co_name in within
                if event == "line" and is_step and place not in seen:
                    seen.add(place)
                    if len(seen) == at:
                        name = f"{Path(place[0]).name}:{place[1]} {frame.f_code.co_name}"
                        os.write(writing, name.encode())
                        os.kill(os.getpid(), number)
                return traced

            sys.settrace(traced)
            act()
            code = _DONE
        except KeyboardInterrupt:
            code = 130
        except BaseException as error:
            os.write(2, f"{type(error).__name__}: {error}\n".encode())
        finally:
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        lines = pipe.read().splitlines()
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    assert code != _FAILED, log.read_text()
    return lines[0] if lines else None


@dataclass
class Volume:
    """A volume with files, of which each has to stay."""

    folder: Path
    files: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Make it."""
        self.device, self.directory = self.folder / "device", self.folder / "mount"
        self.directory.mkdir()
        self.make()

    def make(self) -> None:
        """Make it again, without a file system."""
        self.device.unlink(missing_ok=True)
        self.files = []
        _core.allocate_file(self.device, 24 << 20)
        self.uuid = _core.create_volume(str(self.device), "log_volume(segment=256Ki)")["uuid"]

    def mount(self) -> places.Mounted:
        """Mount it."""
        plan = mounting.MountPlan(str(self.device), self.directory, "ext4")
        return mounting.mount(plan)

    def write(self) -> None:
        """Write one more file, and leave it to the kernel to write it to the device."""
        name = f"file {len(self.files)}"
        (self.directory / name).write_text(name)
        self.files.append(name)

    def umount(self) -> None:
        """Unmount it by its directory."""
        mounting.unmount(places.find(str(self.directory)))

    def check_mounted(self) -> None:
        """Make sure that what is said to be mounted is, with all files."""
        assert os.path.ismount(self.directory), "it is said to be mounted, and is not"
        for name in self.files:
            assert (self.directory / name).read_text() == name

    def check_left(self, next_command: str) -> None:
        """Go on with a command from whatever is left, and see that all is there in the end."""
        if next_command == "umount":
            if places.noted(self.uuid) is None:
                assert not os.path.ismount(self.directory)
            else:
                self.umount()
            assert not self._is_there()
        # Only the last steps leave it mounted: then the next mount says so, rightly.
        with contextlib.suppress(InputError):
            self.mount()
        self.check_mounted()
        self.write()
        self.umount()
        assert not self._is_there()
        assert _core.volume_about(str(self.device))["is_clean"]

    def _is_there(self) -> bool:
        file = str(places.Place(self.uuid).file)
        return (
            os.path.ismount(self.directory)
            or any(loop.backing == file for loop in blocks.loops())
            or any(one.uuid == self.uuid for one in places.all_served())
        )


def walk(
    folder: Path, what: str, every: int, say: Callable[[str], None], within: Collection[str] = ()
) -> int:
    """Interrupt a command at lines of these functions, `every` apart; gives how often.

    Each line gets the next signal; if they are 1 apart, all signals. `what` is `mkfs` (a mount that
    makes a file system), `mount` or `umount`.
    """
    volume = Volume(folder)
    if what != "mkfs":
        volume.mount()
        volume.write()
        volume.umount()
    tries = 0
    at = 1
    while True:
        for number in SIGNALS if every == 1 else (SIGNALS[tries % len(SIGNALS)],):
            if what == "mkfs":
                volume.make()
            if what == "umount":
                volume.mount()
                volume.write()
            act = volume.umount if what == "umount" else volume.mount
            line = interrupted(act, at, number, folder / "said", within)
            command = ("mount", "umount")[(tries // (len(SIGNALS) if every == 1 else 1)) % 2]
            say(f"{what} {at} {number.name} {line}, then {command}")
            volume.check_left(command)
            if line is None:
                return tries
            tries += 1
        at += every


def main() -> None:
    """Walk through all three."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=1, help="1: at each line, by each signal")
    asked = parser.parse_args()

    def say(line: str) -> None:
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()

    tries = 0
    for what in ("mkfs", "mount", "umount"):
        with tempfile.TemporaryDirectory(prefix="flashwright-interrupts-") as folder:
            found = walk(Path(folder), what, asked.every, say)
        say(f"{what}: {found} interrupts, nothing lost")
        tries += found
    say(f"{tries} interrupts, nothing lost")


if __name__ == "__main__":
    main()
