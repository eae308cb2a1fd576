"""What the way through a volume costs: fio over NBD on it, beside nbdkit's own plugins, in turn.

`python tests/python/volume_speed.py FOLDER`: on an idle machine, on the file system of FOLDER.
"""

from __future__ import annotations

import argparse
import json
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

SECONDS = 3
ROUNDS = 5
BYTES = 256 << 20
LOADS = [(rw, depth) for rw in ("randread", "randwrite") for depth in (1, 32)]


@contextmanager
def nbdkit(folder: Path, *words: str) -> Iterator[str]:
    """Serve something on a socket; gives its URI."""
    socket = folder / "socket"
    socket.unlink(missing_ok=True)
    command = ["nbdkit", "--foreground", "--threads", "32", "--unix", str(socket), *words]
    server = subprocess.Popen(command)
    try:
        while not socket.exists():
            assert server.poll() is None
            time.sleep(0.01)
        yield f"nbd+unix:///?socket={socket}"
    finally:
        server.terminate()
        server.wait()


def speed(uri: str, rw: str, depth: int) -> float:
    """Give the requests of 4 KiB a second."""
    done = subprocess.run(
        [
            *("fio", "--name=speed", "--ioengine=nbd", f"--uri={uri}", f"--rw={rw}", "--bs=4k"),
            *(f"--iodepth={depth}", f"--size={BYTES - (8 << 20)}", "--time_based"),
            *(f"--runtime={SECONDS}", "--norandommap", "--randseed=1", "--output-format=json"),
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    # fio says something of its own before the JSON.
    job = json.loads(done.stdout[done.stdout.index("{") :])["jobs"][0]
    return float(job["read" if "read" in rw else "write"]["iops"])


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
            # Past the page cache on both sides: a volume never goes through it.
            "file": (["file", f"file={plain}", "cache=none"], [str(PLUGIN), f"volume={device}"]),
            "memory": (["memory", str(BYTES)], [str(PLUGIN), f"volume=memory(bytes={BYTES})"]),
        }
        for what, (theirs, ours) in pairs.items():
            for rw, depth in LOADS:
                found: tuple[list[float], list[float]] = ([], [])
                for _ in range(ROUNDS):
                    for speeds, words in zip(found, (theirs, ours), strict=True):
                        with nbdkit(folder, *words) as uri:
                            speeds.append(speed(uri, rw, depth))
                medians = [statistics.median(speeds) for speeds in found]
                sys.stdout.write(
                    f"{what}, {rw}, depth {depth}: nbdkit's own {medians[0]:,.0f}/s, a volume "
                    f"{medians[1]:,.0f}/s: {medians[1] / medians[0]:.2f} times\n"
                )
                sys.stdout.flush()


if __name__ == "__main__":
    main()
