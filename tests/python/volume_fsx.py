"""Random operations on the file that a served volume is in FUSE, beside a plain array of bytes.

As a script it is the long campaign: `python tests/python/volume_fsx.py --operations 1000000`. With
the program `fsx` (`cargo install fsx`) on the path, that one goes over each volume, too.
"""

from __future__ import annotations

import argparse
import ctypes
import errno
import mmap
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from flashwright import _core
from flashwright.volumes import places

MEBIBYTE = 1 << 20
STACKS = (
    "direct",
    "log_volume(segment=256Ki)",
    "stable_buffer(size=1Mi,page=4Ki)",
    "scheduler(coalesce)|stable_buffer(size=1Mi,page=4Ki)|log_volume(segment=256Ki)",
)
_DEVICE_MEBIBYTES = 16
_LONGEST_BYTES = 200_000
_KEEP_SIZE, _PUNCH_HOLE, _ZERO_RANGE = 1, 2, 16
"""Modes of fallocate."""
_OPEN_FLAGS = (0, 0, os.O_DIRECT, os.O_DSYNC, os.O_SYNC)
_REMEMBERED = 4000
"""Operations that are told of a byte that is wrong."""
_SECONDS_TO_ANSWER = 120.0
_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]


class Server:
    """The process that shows a volume as a file."""

    def __init__(self, device: str, directory: Path) -> None:
        """Serve the volume of a device."""
        self.directory, self.path = directory, directory / places.FILE_NAME
        directory.mkdir(exist_ok=True)
        words = [sys.executable, "-m", "flashwright", "serve", device]
        with (directory.parent / "server.log").open("ab") as log:
            self.process = subprocess.Popen([*words, "--fuse", str(directory)], stderr=log)
        end = time.monotonic() + _SECONDS_TO_ANSWER
        while not self.path.exists():
            assert self.process.poll() is None, "the server ended"
            assert time.monotonic() < end, "the server shows no file"
            time.sleep(0.01)

    def stop(self) -> None:
        """Let it close the volume."""
        self.process.terminate()
        assert self.process.wait(_SECONDS_TO_ANSWER) == 0

    def kill(self) -> None:
        """End it at once, and take away what it leaves."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(_SECONDS_TO_ANSWER)
        subprocess.run(["umount", "--lazy", self.directory], check=True)


@dataclass
class Exerciser:
    """One volume, and what it has to hold."""

    folder: Path
    stack: str
    seed: int
    done: Counter[str] = field(default_factory=Counter)
    """Number of times that each operation was done."""
    _number: int = 0
    _last: deque[tuple[int, str, int, int]] = field(
        default_factory=lambda: deque(maxlen=_REMEMBERED)
    )

    def __post_init__(self) -> None:
        """Make the volume, all of it zeros."""
        self._device = str(self.folder / "device")
        _core.allocate_file(Path(self._device), _DEVICE_MEBIBYTES * MEBIBYTE)
        _core.create_volume(self._device, self.stack, seed=self.seed)
        self._draw = random.Random(f"{self.stack} {self.seed}")
        self._serve()
        self._plain = bytearray(self._server.path.stat().st_size)
        self._allocate(_ZERO_RANGE, 0, len(self._plain))

    def _serve(self) -> None:
        self._server = Server(self._device, self.folder / "fuse")
        self._open()

    def _open(self) -> None:
        self._file = os.open(self._server.path, os.O_RDWR | self._draw.choice(_OPEN_FLAGS))
        self._other = os.open(self._server.path, os.O_RDWR)

    def _close(self) -> None:
        os.close(self._file)
        os.close(self._other)

    def run(self, operations: int) -> None:
        """Do so many of them; raises AssertionError if the file holds anything else."""
        ways: dict[Callable[[], None], float] = {
            self._read: 30,
            self._write: 30,
            self._map: 8,
            self._zero: 6,
            self._sync: 3,
            self._send: 3,
            self._copy: 2,
            self._reserve: 1,
            self._go_too_far: 1,
            self._open_again: 1,
            self.serve_again: 1 / 150,
            self.die: 1 / 150,
        }
        drawn = self._draw.choices(list(ways), list(ways.values()), k=operations)
        for number, way in enumerate(drawn):
            self._number = number
            way()
            self.done[way.__name__.strip("_")] += 1

    def end(self) -> None:
        """Look at all of it, close the volume and look at it once more."""
        self._hold(0, os.pread(self._file, len(self._plain), 0))
        self._close()
        self._server.stop()
        assert _core.volume_about(self._device)["is_clean"]
        volume = _core.Volume(self._device)
        self._hold(0, volume.read(0, len(self._plain)))
        volume.close()
        assert _core.check_volume(self._device)["bad_bytes"] == 0

    def _range(self) -> tuple[int, int]:
        """Draw a range: of any length, often of few bytes, often at borders, often where others
        were.
        """
        draw, end = self._draw, len(self._plain)
        length = min(int(draw.lognormvariate(8, 2)) + 1, _LONGEST_BYTES)
        at = draw.choice((draw.randrange(end), draw.randrange(MEBIBYTE), end - length))
        if draw.random() < 0.3:
            at, length = at & ~511, (length + 511) & ~511
        at = max(at, 0)
        return at, min(length, end - at)

    def _noted(self, what: str, at: int, length: int) -> None:
        self._last.append((self._number, what, at, length))

    def _hold(self, at: int, found: bytes, length: int | None = None) -> None:
        wanted = self._plain[at : at + (len(found) if length is None else length)]
        if found == wanted:
            return
        assert len(found) == len(wanted), f"{self._where()}: {len(found)} bytes, not {len(wanted)}"
        wrong = at + next(
            n for n, pair in enumerate(zip(found, wanted, strict=True)) if pair[0] != pair[1]
        )
        told = [one for one in self._last if one[2] <= wrong < one[2] + one[3]]
        raise AssertionError(
            f"{self._where()}: byte {wrong} is {found[wrong - at]}, and should be "
            f"{self._plain[wrong]}; what concerned it last: {told[-10:]}"
        )

    def _where(self) -> str:
        return f"{self.stack}, --seed {self.seed}, operation {self._number}"

    def _one(self) -> int:
        return self._file if self._draw.random() < 0.7 else self._other

    def _read(self) -> None:
        at, length = self._range()
        self._hold(at, os.pread(self._one(), length, at), length)

    def _write(self) -> None:
        at, length = self._range()
        data = self._draw.randbytes(length)
        self._noted("write", at, length)
        assert os.pwrite(self._one(), data, at) == length, self._where()
        self._plain[at : at + length] = data

    def _map(self) -> None:
        """Read through memory that the file is mapped to."""
        at, length = self._range()
        begin = at // mmap.ALLOCATIONGRANULARITY * mmap.ALLOCATIONGRANULARITY
        whole = at + length - begin
        with mmap.mmap(self._file, whole, mmap.MAP_PRIVATE, mmap.PROT_READ, offset=begin) as mapped:
            self._hold(at, mapped[at - begin : whole], length)

    def _allocate(self, mode: int, at: int, length: int) -> None:
        if _LIBC.fallocate(self._file, mode, at, length) != 0:
            raise OSError(ctypes.get_errno(), "fallocate")

    def _zero(self) -> None:
        at, length = self._range()
        modes = (_PUNCH_HOLE | _KEEP_SIZE, _ZERO_RANGE, _ZERO_RANGE | _KEEP_SIZE)
        self._noted("zero", at, length)
        self._allocate(self._draw.choice(modes), at, length)
        self._plain[at : at + length] = bytes(length)

    def _sync(self) -> None:
        self._draw.choice((os.fsync, os.fdatasync))(self._one())

    def _send(self) -> None:
        at, length = self._range()
        memory = os.memfd_create("sent")
        try:
            sent = 0
            while sent < length:
                sent += os.sendfile(memory, self._file, at + sent, length - sent)
            self._hold(at, os.pread(memory, length, 0), length)
        finally:
            os.close(memory)

    def _copy(self) -> None:
        (at, length), (to, most) = self._range(), self._range()
        length = min(length, most)
        if max(at, to) < min(at, to) + length:
            return
        self._noted("copy", to, length)
        copied = 0
        while copied < length:
            copied += os.copy_file_range(
                self._other, self._file, length - copied, at + copied, to + copied
            )
        self._plain[to : to + length] = self._plain[at : at + length]

    def _reserve(self) -> None:
        """Changes nothing: all that a volume has is there."""
        self._allocate(self._draw.choice((0, _KEEP_SIZE)), *self._range())

    def _go_too_far(self) -> None:
        """Is refused, and changes nothing."""
        end = len(self._plain)
        at = end - self._draw.randrange(1, 5000)
        assert len(os.pread(self._file, 9000, at)) == end - at, self._where()
        ways: tuple[tuple[int, Callable[[], object]], ...] = (
            (errno.ENOSPC, lambda: os.pwrite(self._file, bytes(end - at + 1), at)),
            (errno.ENOSPC, lambda: os.pwrite(self._file, b"x", end)),
            (errno.EPERM, lambda: os.truncate(self._server.path, at)),
            (errno.ENODEV, lambda: mmap.mmap(self._file, 4096)),
        )
        wanted, way = self._draw.choice(ways)
        found = 0
        try:
            way()
        except OSError as error:
            found = error.errno or 0
        assert found == wanted, f"{self._where()}: it ended with {found}, not {wanted}"

    def _open_again(self) -> None:
        self._close()
        self._open()

    def serve_again(self) -> None:
        """Let the server close the volume, and serve it again."""
        self._close()
        self._server.stop()
        self._serve()
        self._hold(0, os.pread(self._file, len(self._plain), 0), len(self._plain))

    def die(self) -> None:
        """Kill the server: what a sync covers is there afterwards."""
        os.fsync(self._one())
        self._server.kill()
        self._close()
        self._serve()
        self._hold(0, os.pread(self._file, len(self._plain), 0), len(self._plain))

    def real_fsx(self, program: str, operations: int) -> None:
        """Let the program of that name go over the file; it has an oracle of its own."""
        plan = self.folder / "fsx.toml"
        # Memory that is shared with the file is what FUSE refuses here.
        plan.write_text(
            "blockmode = true\n[opsize]\nmax = 131072\n[weights]\nread = 10\nwrite = 10\n"
            "mapread = 0\nmapwrite = 0\ntruncate = 0\nfsync = 1\nfdatasync = 1\npunch_hole = 2\n"
            "sendfile = 1\nposix_fadvise = 1\ncopy_file_range = 1\n"
        )
        words = [program, "-f", plan, "-N", str(operations), "-S", str(self.seed)]
        path = self._server.path
        done = subprocess.run(
            [*map(str, words), "-P", str(self.folder), str(path)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, (self.stack, done.stdout[-3000:], done.stderr[-3000:])
        self._plain[:] = path.read_bytes()


def main() -> None:
    """Exercise a volume of each stack."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--operations", type=int, default=1_000_000, help="in all")
    parser.add_argument("--stack", action="append", help="instead of all; again for each")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    given = parser.parse_args()
    stacks = given.stack or STACKS
    each, fsx = -(-given.operations // len(stacks)), shutil.which("fsx")
    for stack in stacks:
        with tempfile.TemporaryDirectory(dir=given.folder) as folder:
            one = Exerciser(Path(folder), stack, given.seed)
            one.run(each)
            if fsx is not None:
                one.real_fsx(fsx, each)
            one.end()
        more = f", and {each} of fsx" if fsx is not None else ", no fsx on the path"
        sys.stdout.write(f"{stack}: {each} operations {dict(one.done)}{more}: no fault\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
