"""Failures below a volume, which is full, broken or gone: what is said, and what is there after."""

from __future__ import annotations

import contextlib
import os
import random
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Protocol

import pytest

from flashwright import _core, sqlite
from hostile_nbd import Client
from support import find_program
from volume_fsx import Server

MEBIBYTE = 1 << 20
PAGE = 4096
STACKS = ("direct", "log_volume(segment=256Ki)", "stable_buffer(size=1Mi,page=4Ki)")
_READ, _WRITE, _FLUSH = 0, 1, 3
_SECONDS = 60.0


class Below(Protocol):
    """Device that a volume lies on, and that can be spoilt and mended."""

    device: str

    def spoil(self) -> None:
        """Let it fail from now on."""

    def mend(self) -> None:
        """Let it be whole again, with all that it took."""

    def end(self) -> None:
        """Take it away."""


def _system(*words: str | Path) -> str:
    done = subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True)
    return done.stdout.strip()


class Full:
    """A file with holes on a file system without room for all of it."""

    def __init__(self, folder: Path) -> None:
        image, self._directory = folder / "image", folder / "small"
        image.touch()
        os.truncate(image, 40 * MEBIBYTE)
        self._directory.mkdir()
        _system("mkfs.ext4", "-q", "-m", "0", image)
        _system("mount", "-o", "loop", image, self._directory)
        path = self._directory / "device"
        path.touch()
        os.truncate(path, 64 * MEBIBYTE)
        self.device = str(path)

    def spoil(self) -> None:
        with (
            contextlib.suppress(OSError),
            (self._directory / "filler").open("wb", buffering=0) as file,
        ):
            while True:
                file.write(bytes(PAGE))

    def mend(self) -> None:
        (self._directory / "filler").unlink()

    def end(self) -> None:
        _system("umount", "--lazy", self._directory)


class Failing:
    """A device that takes no writes, by nbdkit's filter of errors."""

    def __init__(self, folder: Path) -> None:
        find_program("nbdkit")
        image, directory = folder / "image", folder / "failing"
        image.touch()
        os.truncate(image, 64 * MEBIBYTE)
        directory.mkdir()
        path, self._trigger = directory / "device", folder / "trigger"
        words = [find_program("nbdfuse"), str(path), "--command", "nbdkit", "-s", "--filter=error"]
        words += ["file", str(image), "error=EIO", "error-pwrite-rate=100%"]
        self._server = subprocess.Popen(
            [*words, "error-zero-rate=100%", f"error-file={self._trigger}"],
            stderr=subprocess.DEVNULL,
        )
        end = time.monotonic() + _SECONDS
        while not path.exists():
            assert self._server.poll() is None
            assert time.monotonic() < end
            time.sleep(0.02)
        self.device, self._directory = str(path), directory

    def spoil(self) -> None:
        self._trigger.touch()

    def mend(self) -> None:
        self._trigger.unlink()

    def end(self) -> None:
        _system("umount", "--lazy", self._directory)
        self._server.terminate()
        self._server.wait(_SECONDS)


class FailingLate(Failing):
    """A loop device over a file of a file system there: it fails when the kernel writes back."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._whole = _system("losetup", "--find", "--show", self.device)
        # A journal would end the file system's writes for good.
        _system("mkfs.ext4", "-q", "-F", "-O", "^has_journal", self._whole)
        self._mount = folder / "late"
        self._mount.mkdir()
        _system("mount", "-o", "errors=continue", self._whole, self._mount)
        file = self._mount / "file"
        with file.open("wb") as written:
            written.write(bytes(48 * MEBIBYTE))
            os.fsync(written.fileno())
        self.device = _system("losetup", "--find", "--show", "--direct-io=off", file)

    def end(self) -> None:
        _system("losetup", "--detach", self.device)
        _system("umount", self._mount)
        _system("losetup", "--detach", self._whole)
        super().end()


class Gone:
    """A loop device that is detached."""

    def __init__(self, folder: Path) -> None:
        self._image = folder / "image"
        self._image.touch()
        os.truncate(self._image, 64 * MEBIBYTE)
        self._attach()

    def _attach(self) -> None:
        self.device = _system("losetup", "--find", "--show", "--direct-io=on", self._image)

    def spoil(self) -> None:
        _system("losetup", "--detach", self.device)

    def mend(self) -> None:
        self._attach()

    def end(self) -> None:
        _system("losetup", "--detach", self.device)


@contextlib.contextmanager
def made(kind: Callable[[Path], Below], folder: Path, stack: str) -> Iterator[Below]:
    """Make a volume on it."""
    below = kind(folder)
    try:
        _core.create_volume(below.device, stack, destroy=True)
        yield below
    finally:
        below.end()


def stamped(number: int) -> bytes:
    """Give the bytes of a page."""
    return number.to_bytes(8, "little") * (PAGE // 8)


def hold(below: Below, plain: dict[int, int]) -> None:
    """Hold a volume that is whole again against what was acknowledged as durable."""
    volume = _core.Volume(below.device)
    for page, number in plain.items():
        assert volume.read(page * PAGE, PAGE) == stamped(number), page
    volume.write(0, b"and it is written to again", fua=True)
    volume.close()
    assert _core.check_volume(below.device)["bad_bytes"] == 0


def use(
    below: Below, write: Callable[[int, bytes], int], read: Callable[[int], bytes | None]
) -> dict[int, int]:
    """Write, flush, spoil what is below, write until that is said, and read: what is durable."""
    draw, plain = random.Random(1), {}
    for number in range(1, 200):
        page = draw.randrange(1, 3000)
        plain[page] = number
        assert write(page * PAGE, stamped(number)) == 0
    assert write(-1, b"") == 0, "a flush"
    below.spoil()
    errors = set()
    for _ in range(600):
        errors.add(write(draw.randrange(3000, 9000) * PAGE, stamped(0)))
        errors.add(write(-1, b""))
    assert errors - {0}, "nobody said that it is not kept"
    for page, number in plain.items():
        assert read(page * PAGE) in {None, stamped(number)}, "a wrong answer in place of an error"
    return plain


KINDS = [Full, Failing, Gone]


@pytest.mark.usefixtures("can_mount")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("stack", STACKS)
def test_the_file_says_so_once_and_what_was_synced_is_there(
    tmp_path: Path, kind: Callable[[Path], Below], stack: str
) -> None:
    with made(kind, tmp_path, stack) as below:
        server = Server(below.device, tmp_path / "fuse")
        file = os.open(server.path, os.O_RDWR)

        def write(at: int, data: bytes) -> int:
            try:
                os.fsync(file) if at < 0 else os.pwrite(file, data, at)
            except OSError as error:
                return error.errno or 0
            return 0

        def read(at: int) -> bytes | None:
            try:
                return os.pread(file, PAGE, at)
            except OSError:
                return None

        log = tmp_path / "server.log"
        try:
            plain = use(below, write, read)
            end = time.monotonic() + _SECONDS
            while '"broken"' not in log.read_text():
                assert time.monotonic() < end, "the log says nothing"
                time.sleep(0.05)
        finally:
            os.close(file)
            server.process.terminate()
            code = server.process.wait(_SECONDS)
        assert code == 1
        lines = log.read_text().splitlines()
        assert sum('"broken"' in line for line in lines) == 1
        assert below.device in next(line for line in lines if '"broken"' in line)
        assert sum(line.startswith("flashwright: error: ") for line in lines) == 1
        assert below.device in lines[-1]
        below.mend()
        hold(below, plain)


def serve_nbd(device: str, socket: Path, log: Path) -> tuple[subprocess.Popen[bytes], Client]:
    """Serve a volume over NBD, to a client."""
    find_program("nbdkit")
    words = [sys.executable, "-m", "flashwright", "serve", device]
    with log.open("wb") as to:
        server = subprocess.Popen([*words, "--nbd", str(socket)], stderr=to)
    end = time.monotonic() + _SECONDS
    while not socket.exists():
        assert server.poll() is None, log.read_text()
        assert time.monotonic() < end
        time.sleep(0.02)
    client = Client(socket)
    client.shake_hands()
    return server, client


@pytest.mark.usefixtures("can_mount")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("stack", STACKS)
def test_a_client_of_nbd_is_told_and_what_was_flushed_is_there(
    tmp_path: Path, kind: Callable[[Path], Below], stack: str
) -> None:
    with made(kind, tmp_path, stack) as below:
        log = tmp_path / "server.log"
        server, client = serve_nbd(below.device, tmp_path / "socket", log)

        def write(at: int, data: bytes) -> int:
            if at < 0:
                return client.ask(_FLUSH, 0, 0)
            return client.ask(_WRITE, at, len(data), data)

        def read(at: int) -> bytes | None:
            return client.brought if client.ask(_READ, at, PAGE) == 0 else None

        try:
            plain = use(below, write, read)
        finally:
            client.link.close()
            server.terminate()
            code = server.wait(_SECONDS)
        assert code == 1, "a volume that failed did not end well"
        lines = [
            one
            for one in log.read_text().splitlines()
            if one.startswith("flashwright: ") and not one.startswith("flashwright: ready")
        ]
        assert len(lines) == 1
        below.mend()
        hold(below, plain)


@pytest.mark.usefixtures("can_mount")
def test_a_flush_that_failed_is_not_made_good_by_the_next(tmp_path: Path) -> None:
    """The kernel reports what it could not write back once, and drops it from the page cache."""
    with made(FailingLate, tmp_path, "direct") as below:
        server, client = serve_nbd(below.device, tmp_path / "socket", tmp_path / "server.log")
        try:
            assert client.ask(_WRITE, 0, PAGE, stamped(1)) == 0
            assert client.ask(_FLUSH, 0, 0) == 0
            below.spoil()
            assert client.ask(_WRITE, PAGE, PAGE, stamped(2)) == 0
            assert client.ask(_FLUSH, 0, 0) != 0
            below.mend()
            assert client.ask(_FLUSH, 0, 0) != 0, "what it should have made durable is lost"
            assert client.ask(_WRITE, PAGE, PAGE, stamped(3)) != 0
            assert client.ask(_READ, 0, PAGE) == 0
            assert client.brought == stamped(1)
        finally:
            client.link.close()
            server.terminate()
            server.wait(_SECONDS)
        hold(below, {0: 1})


@pytest.mark.usefixtures("can_mount")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("stack", STACKS)
def test_sqlite_is_told_and_every_commit_is_there(
    tmp_path: Path, kind: Callable[[Path], Below], stack: str
) -> None:
    with made(kind, tmp_path, stack) as below:
        base = sqlite.connect(below.device, "db", isolation_level=None)
        base.execute("create table t (n integer primary key, body blob)")
        for number in range(40):
            base.execute("insert into t values (?, ?)", (number, bytes(3000)))
        below.spoil()
        committed, said = 40, ""
        try:
            for number in range(40, 9000):
                base.execute("insert into t values (?, ?)", (number, bytes(9000)))
                committed = number + 1
        except sqlite3.OperationalError as error:
            said = str(error)
        assert said.startswith("disk I/O error")
        assert "\n" not in said
        with contextlib.suppress(sqlite3.Error):
            base.close()
        del base
        below.mend()
        with closing(sqlite.connect(below.device, "db")) as again:
            assert again.execute("pragma integrity_check").fetchone() == ("ok",)
            count, last = again.execute("select count(*), max(n) from t").fetchone()
            assert count == last + 1
            assert count >= committed
