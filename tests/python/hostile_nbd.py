"""A client of NBD that keeps to nothing: `python tests/python/hostile_nbd.py FOLDER --seconds 600`.

It serves a volume, and connects again and again: garbage instead of a handshake, options with any
lengths, requests of any kind, offset and length, connections that end in the middle. A good client
writes and reads a range of its own between. A server that dies, that does not answer the good
client, that gives it other bytes, or that takes too much memory is a fault. Where nbdkit itself
gives up, the volume is served again, and has to hold what was acknowledged with FUA.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from flashwright import _core
from volume_lives import STACKS

MEBIBYTE = 1 << 20
MOST_MEMORY_KIB = 2 << 20
"""32 threads with 32 MiB each, twice, are the most that good clients could make it take."""
_OWN_BYTES = MEBIBYTE
"""Bytes at the begin of the volume that are the good client's own."""
_HELLO = struct.Struct(">8s8sH")
_OPTION = struct.Struct(">8sII")
_REQUEST = struct.Struct(">IHHQQI")
_REPLY = struct.Struct(">IIQ")
_REQUEST_MAGIC, _REPLY_MAGIC = 0x25609513, 0x67446698
READ, WRITE, DISCONNECT, FLUSH, TRIM, ZEROES = 0, 1, 2, 3, 4, 6
_FUA = 1
NO_HOLE, FAST_ZERO = 1 << 1, 1 << 4
_SECONDS_TO_ANSWER = 20.0
_SECONDS_OF_PATIENCE = 2.0
"""Patience of a client that may be owed no answer."""
_OF_NBDKIT = "raw_send_socket: Assertion `sock >= 0' failed"
"""nbdkit 1.32 ends so if a client goes while several threads answer it."""


@dataclass
class Outcome:
    """Counts of a run."""

    connections: int = 0
    requests: int = 0
    refused: int = 0
    """Replies with an error."""
    checked: int = 0
    """Times that the good client found what it had written."""
    most_memory_kib: int = 0
    nbdkit_gave_up: int = 0
    """Times that nbdkit ended by an error of its own; the volume was recovered and served again."""


@dataclass
class Client:
    """One connection."""

    path: Path
    link: socket.socket = field(init=False)
    brought: bytes = b""
    """Bytes of the last read."""

    def __post_init__(self) -> None:
        """Connect."""
        self.link = socket.socket(socket.AF_UNIX)
        self.link.settimeout(_SECONDS_TO_ANSWER)
        self.link.connect(str(self.path))

    def take(self, length: int) -> bytes:
        """Receive `length` bytes."""
        got = bytearray()
        while len(got) < length:
            part = self.link.recv(length - len(got))
            if not part:
                raise ConnectionError("the server closed the connection")
            got += part
        return bytes(got)

    def shake_hands(self) -> None:
        """Reach the transmission phase as a good client does."""
        self.take(_HELLO.size)
        # Fixed newstyle, no zeroes; then NBD_OPT_EXPORT_NAME of the default export.
        self.link.sendall(struct.pack(">I", 3) + _OPTION.pack(b"IHAVEOPT", 1, 0))
        self.take(10)

    def ask(self, kind: int, offset: int, length: int, data: bytes = b"", flags: int = 0) -> int:
        """Ask, and give the error of the reply; what a read brings is in `brought`."""
        self.link.sendall(_REQUEST.pack(_REQUEST_MAGIC, flags, kind, 7, offset, length) + data)
        magic, error, cookie = _REPLY.unpack(self.take(_REPLY.size))
        if (magic, cookie) != (_REPLY_MAGIC, 7):
            raise ConnectionError("the server replied with something else")
        self.brought = self.take(length) if kind == READ and not error else b""
        return int(error)


def _odd(draw: random.Random, bits: int) -> int:
    """Give a number that is often one at a border."""
    near = draw.randrange(3)
    number = draw.choice(
        [(1 << draw.randrange(bits)) - near, (1 << bits) - 1 - near, near, draw.getrandbits(bits)]
    )
    return number % (1 << bits)


def _garbage(client: Client, draw: random.Random, _outcome: Outcome) -> None:
    client.link.sendall(draw.randbytes(draw.randrange(1, 5000)))


def _options(client: Client, draw: random.Random, _outcome: Outcome) -> None:
    client.take(_HELLO.size)
    client.link.sendall(struct.pack(">I", draw.choice([0, 1, 2, 3, _odd(draw, 32)])))
    for _ in range(draw.randrange(1, 8)):
        length = draw.choice([0, draw.randrange(64), _odd(draw, 32)])
        option = draw.choice([1, 2, 3, 5, 6, 7, 8, 9, 10, _odd(draw, 32)])
        said = _OPTION.pack(b"IHAVEOPT", option, length) + draw.randbytes(min(length, 4096))
        client.link.sendall(said)
        client.take(4)


def _requests(client: Client, draw: random.Random, outcome: Outcome) -> None:
    client.shake_hands()
    for _ in range(draw.randrange(1, 40)):
        kind = draw.choice([READ, WRITE, FLUSH, TRIM, ZEROES, _odd(draw, 16)])
        flags = draw.choice([0, 0, _FUA, _odd(draw, 16)])
        # Within the volume, behind the good client's range; else it would find other bytes.
        offset = draw.choice(
            [draw.randrange(_OWN_BYTES, 64 * MEBIBYTE), _odd(draw, 64) | (1 << 40)]
        )
        length = draw.choice([draw.randrange(70_000), _odd(draw, 32)])
        if kind == WRITE:
            length = min(length, 1 << 16)
            data = draw.randbytes(length)
            if draw.random() < 0.05:
                client.link.sendall(
                    _REQUEST.pack(_REQUEST_MAGIC, flags, kind, 7, offset, length)
                    + data[: draw.randrange(length + 1)]
                )
                return
        else:
            data = b""
        outcome.requests += 1
        if kind in {READ, WRITE, FLUSH, TRIM, ZEROES} and flags in {0, _FUA}:
            outcome.refused += client.ask(kind, offset, length, data, flags) != 0
        else:
            client.link.sendall(
                _REQUEST.pack(_REQUEST_MAGIC, flags, kind, 7, offset, length) + data
            )


class Server:
    """A served volume, started again where nbdkit itself gave up."""

    def __init__(self, folder: Path, stack: str) -> None:
        """Make the volume, and serve it."""
        self.device, self.path = folder / "device", folder / "socket"
        self.log = folder / "log"
        self.most_memory_kib = 0
        _core.allocate_file(self.device, 64 * MEBIBYTE)
        _core.create_volume(str(self.device), stack)
        self.start()

    def start(self) -> None:
        """Serve it."""
        self.path.unlink(missing_ok=True)
        words = [sys.executable, "-m", "flashwright", "serve", str(self.device)]
        with self.log.open("w") as log:
            self.process = subprocess.Popen([*words, "--nbd", str(self.path)], stderr=log)
        end = time.monotonic() + 60
        while not self.path.exists():
            assert self.process.poll() is None, self.said()
            assert time.monotonic() < end
            time.sleep(0.02)

    def said(self) -> str:
        """Give the end of its log."""
        return self.log.read_text()[-2000:]

    def look(self) -> bool:
        """Tell whether it lives; False if nbdkit gave up by its own error, and was started again.

        Raises AssertionError if it died otherwise, or takes too much memory.
        """
        if self.process.poll() is None:
            status = Path(f"/proc/{self.process.pid}/status").read_text()
            if "VmHWM:" in status:
                held = int(status.split("VmHWM:")[1].split()[0])
                self.most_memory_kib = max(self.most_memory_kib, held)
            assert self.most_memory_kib < MOST_MEMORY_KIB
            return True
        assert self.process.returncode == -signal.SIGABRT, self.said()
        assert _OF_NBDKIT in self.said(), self.said()
        self.start()
        return False

    def stop(self) -> None:
        """Stop it.

        Raises AssertionError if it did not close the volume.
        """
        self.process.terminate()
        assert self.process.wait(60) == 0, self.said()
        assert _core.volume_about(str(self.device))["is_clean"]


@dataclass
class Own:
    """Data of the good client: the bytes that were acknowledged, and a write that was not."""

    acknowledged: bytearray
    written: bytearray

    def found(self, brought: bytes) -> None:
        """Take what was read for what is there.

        Raises AssertionError if it is neither.
        """
        may_be = zip(brought, self.acknowledged, self.written, strict=True)
        assert brought == self.acknowledged or all(
            byte in (old, new) for byte, old, new in may_be
        ), "the good client has found other bytes"
        self.acknowledged[:], self.written[:] = brought, brought


def _check(server: Server, draw: random.Random, own: Own, outcome: Outcome) -> None:
    """Write and read as a good client does: it gets its own bytes."""
    while True:
        try:
            _write_and_read(server, draw, own)
        except ConnectionError:
            # It has ended, or is about to: what was acknowledged has to be there when it is served
            # again.
            with contextlib.suppress(subprocess.TimeoutExpired):
                server.process.wait(_SECONDS_TO_ANSWER)
            assert not server.look(), "the server refuses a good client"
            outcome.nbdkit_gave_up += 1
        else:
            outcome.checked += 1
            return


def _write_and_read(server: Server, draw: random.Random, own: Own) -> None:
    client = Client(server.path)
    with contextlib.closing(client.link):
        client.shake_hands()
        assert client.ask(READ, 0, _OWN_BYTES) == 0
        own.found(client.brought)
        at = draw.randrange(_OWN_BYTES - 5000)
        own.written[at : at + 5000] = draw.randbytes(5000)
        assert client.ask(WRITE, at, 5000, bytes(own.written[at : at + 5000]), _FUA) == 0
        own.acknowledged[:] = own.written
        client.link.sendall(_REQUEST.pack(_REQUEST_MAGIC, 0, DISCONNECT, 7, 0, 0))


def attack(folder: Path, stack: str, seconds: float, seed: int) -> Outcome:
    """Serve a volume, and do so for a while.

    Raises AssertionError if the server does not bear it.
    """
    draw, outcome = random.Random(seed), Outcome()
    server = Server(folder, stack)
    try:
        own = Own(bytearray(_OWN_BYTES), bytearray(_OWN_BYTES))
        first = Client(server.path)
        first.shake_hands()
        assert first.ask(ZEROES, 0, _OWN_BYTES, flags=_FUA) == 0
        first.link.close()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            way = draw.choice([_garbage, _options, _requests, _requests, _requests])
            # The server may end a connection at any time; it must not let one wait.
            with contextlib.suppress(ConnectionError, BrokenPipeError, TimeoutError):
                client = Client(server.path)
                client.link.settimeout(_SECONDS_OF_PATIENCE)
                with contextlib.closing(client.link):
                    way(client, draw, outcome)
            outcome.connections += 1
            outcome.nbdkit_gave_up += not server.look()
            if outcome.connections % 20 == 0:
                _check(server, draw, own, outcome)
        _check(server, draw, own, outcome)
        outcome.most_memory_kib = server.most_memory_kib
    except BaseException:
        server.process.kill()
        server.process.wait()
        raise
    server.stop()
    return outcome


def main() -> None:
    """Attack a volume of each stack in turn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    for number, stack in enumerate(STACKS):
        with tempfile.TemporaryDirectory(dir=given.folder) as folder:
            outcome = attack(Path(folder), stack, given.seconds / len(STACKS), given.seed + number)
            sys.stdout.write(f"{stack}: {outcome}: no fault\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
