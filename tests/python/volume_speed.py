"""What the way through a volume costs: fio over NBD on it, beside nbdkit's own plugins, in turn.

`python tests/python/volume_speed.py FOLDER`: on an idle machine, on the file system of FOLDER. Also
processor time of a write through StableBuffer, and, where it is root, the same volume as a file in
FUSE and as a loop device over that.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from flashwright import _core
from flashwright.volumes.serving import PLUGIN
from volume_fsx import Server

SECONDS = 3
WRITES = 200_000
ROUNDS = 5
BYTES = 256 << 20
LOADS = [(rw, depth) for rw in ("randread", "randwrite") for depth in (1, 32)]


@contextmanager
def nbdkit(folder: Path, *words: str) -> Iterator[tuple[str, int]]:
    """Serve something on a socket; gives its URI, and the process."""
    socket = folder / "socket"
    socket.unlink(missing_ok=True)
    command = ["nbdkit", "--foreground", "--threads", "32", "--unix", str(socket), *words]
    server = subprocess.Popen(command)
    try:
        while not socket.exists():
            assert server.poll() is None
            time.sleep(0.01)
        yield f"nbd+unix:///?socket={socket}", server.pid
    finally:
        server.terminate()
        server.wait()


def fio(*words: str) -> dict[str, float]:
    """Play requests of 4 KiB at random; gives what fio found, of reads or writes."""
    done = subprocess.run(
        [
            *("fio", "--name=speed", "--bs=4k", f"--size={BYTES - (8 << 20)}"),
            *("--norandommap", "--randseed=1", "--output-format=json", *words),
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    # fio says something of its own before the JSON.
    job = json.loads(done.stdout[done.stdout.index("{") :])["jobs"][0]
    return dict(job["read"] if job["read"]["total_ios"] else job["write"])


def speed(way: list[str], rw: str, depth: int) -> float:
    """Give the requests of 4 KiB a second."""
    timed = ("--time_based", f"--runtime={SECONDS}")
    return float(fio(*way, f"--rw={rw}", f"--iodepth={depth}", *timed)["iops"])


def over_nbd(uri: str) -> list[str]:
    """Give fio's words for a way."""
    return ["--ioengine=nbd", f"--uri={uri}"]


def processor_us(pid: int) -> float:
    """Give the microseconds of a processor that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * 1e6 / os.sysconf("SC_CLK_TCK")


def compare_processor_time(folder: Path) -> None:
    """Print what a write costs the server's processor, by the layer that it goes through."""
    for stack in ("direct", "scheduler", "stable_buffer"):
        found = []
        for _ in range(ROUNDS):
            words = [str(PLUGIN), f"volume=memory(bytes={BYTES})", f"stack={stack}"]
            with nbdkit(folder, *words) as (uri, pid):
                before = processor_us(pid)
                size = (f"--io_size={WRITES * 4096}", "--rw=randwrite", "--iodepth=32")
                writes = fio(*over_nbd(uri), *size)["total_ios"]
                found.append((processor_us(pid) - before) / writes)
        say(f"{stack}, memory, depth 32: {statistics.median(found):.2f} us of a processor a write")


def compare_fuse(folder: Path, device: Path) -> None:
    """Print how fast the volume is as a file in FUSE, and as a loop device over it."""
    server = Server(str(device), folder / "fuse")
    try:
        loop = subprocess.run(
            ["losetup", "--find", "--show", "--direct-io=on", str(server.path)],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        try:
            for name, path in (("FUSE", str(server.path)), ("FUSE and loop", loop)):
                for rw, depth in LOADS:
                    way = ["--ioengine=libaio", "--direct=1", f"--filename={path}"]
                    found = statistics.median(speed(way, rw, depth) for _ in range(ROUNDS))
                    say(f"{name}, file, {rw}, depth {depth}: {found:,.0f}/s")
        finally:
            subprocess.run(["losetup", "--detach", loop], check=True)
    finally:
        server.stop()


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    """Measure both kinds, and print the medians and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as name:
        folder = Path(name)
        plain, device = folder / "plain", folder / "device"
        for path in (plain, device):
            _core.allocate_file(path, BYTES)
            path.write_bytes(b"\x05" * BYTES)
        _core.create_volume(str(device), "direct", destroy=True)
        pairs = {
            # Through the page cache on both sides.
            "file": (["file", f"file={plain}"], [str(PLUGIN), f"volume={device}"]),
            "memory": (["memory", str(BYTES)], [str(PLUGIN), f"volume=memory(bytes={BYTES})"]),
        }
        for what, (theirs, ours) in pairs.items():
            for rw, depth in LOADS:
                found: tuple[list[float], list[float]] = ([], [])
                for _ in range(ROUNDS):
                    for speeds, words in zip(found, (theirs, ours), strict=True):
                        with nbdkit(folder, *words) as (uri, _):
                            speeds.append(speed(over_nbd(uri), rw, depth))
                medians = [statistics.median(speeds) for speeds in found]
                say(
                    f"{what}, {rw}, depth {depth}: nbdkit's own {medians[0]:,.0f}/s, a volume "
                    f"{medians[1]:,.0f}/s: {medians[1] / medians[0]:.2f} times"
                )
        compare_processor_time(folder)
        if os.geteuid() == 0:
            compare_fuse(folder, device)


if __name__ == "__main__":
    main()
