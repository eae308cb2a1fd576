"""Cost of the way through a volume: fio over NBD, beside nbdkit's own plugins, in turn.

Also the processor time of a write through each layer, and the same volume as a file in FUSE and as
a loop device over that.
"""

from __future__ import annotations

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

from experiments.pages import ON
from experiments.tables import Found, Options, TablePart, table_set
from flashwright import _core
from flashwright._core import RunError
from flashwright.recording.tools import need_root
from flashwright.volumes import places
from flashwright.volumes.serving import PLUGIN

SECONDS = 3
WRITES = 200_000
ROUNDS = 5
ANSWERS_IN_S = 20
BYTES = 256 << 20
LOADS = [(rw, depth) for rw in ("randread", "randwrite") for depth in (1, 32)]


def _wait_for(path: Path, server: subprocess.Popen[bytes]) -> None:
    """Wait until a server shows a file. Raises RunError if it ends, or takes too long."""
    end = time.monotonic() + ANSWERS_IN_S
    while not path.exists():
        if server.poll() is not None or time.monotonic() > end:
            raise RunError(f"{server.args!r}: shows no {path}")
        time.sleep(0.01)


@contextmanager
def nbdkit(folder: Path, *words: str) -> Iterator[tuple[str, int]]:
    """Serve something on a socket; gives its URI, and the process."""
    socket = folder / "socket"
    socket.unlink(missing_ok=True)
    command = ["nbdkit", "--foreground", "--threads", "32", "--unix", str(socket), *words]
    server = subprocess.Popen(command)
    try:
        _wait_for(socket, server)
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


def _fill(path: Path) -> None:
    _core.allocate_file(path, BYTES)
    path.write_bytes(b"\x05" * BYTES)


def _beside_plugins(options: Options) -> Found:
    rows, documents = [], []
    with tempfile.TemporaryDirectory(dir=options["on"]) as name:
        folder = Path(name)
        plain, device = folder / "plain", folder / "device"
        for path in (plain, device):
            _fill(path)
        _core.create_volume(str(device), "direct", destroy=True)
        pairs = {
            # Through the page cache on both sides.
            "file": (["file", f"file={plain}"], [str(PLUGIN), f"volume={device}"]),
            "memory": (["memory", str(BYTES)], [str(PLUGIN), f"volume=memory(bytes={BYTES})"]),
        }
        for what, ways in pairs.items():
            for rw, depth in LOADS:
                found: tuple[list[float], list[float]] = ([], [])
                for _ in range(ROUNDS):
                    for speeds, words in zip(found, ways, strict=True):
                        with nbdkit(folder, *words) as (uri, _):
                            speeds.append(speed(over_nbd(uri), rw, depth))
                theirs, ours = map(statistics.median, found)
                case = f"{what}, {rw}, depth {depth}"
                rows.append([case, f"{theirs:,.0f}", f"{ours:,.0f}", f"{ours / theirs:.2f}"])
                documents.append({"load": case, "nbdkit_iops": theirs, "volume_iops": ours})
    return rows, documents


def _processor_time(options: Options) -> Found:
    rows, documents = [], []
    for stack in ("direct", "scheduler", "stable_buffer"):
        found = []
        for _ in range(ROUNDS):
            words = [str(PLUGIN), f"volume=memory(bytes={BYTES})", f"stack={stack}"]
            with (
                tempfile.TemporaryDirectory(dir=options["on"]) as folder,
                nbdkit(Path(folder), *words) as (uri, pid),
            ):
                before = processor_us(pid)
                size = (f"--io_size={WRITES * 4096}", "--rw=randwrite", "--iodepth=32")
                writes = fio(*over_nbd(uri), *size)["total_ios"]
                found.append((processor_us(pid) - before) / writes)
        median = statistics.median(found)
        rows.append([stack, f"{median:.2f}"])
        documents.append({"stack": stack, "processor_us": median})
    return rows, documents


@contextmanager
def _in_fuse(device: Path, folder: Path) -> Iterator[Path]:
    """Serve the volume of a device as a file; gives its path."""
    folder.mkdir()
    words = [sys.executable, "-m", "flashwright", "volume", "serve", str(device)]
    server = subprocess.Popen([*words, "--fuse", str(folder)])
    try:
        _wait_for(folder / places.FILE_NAME, server)
        yield folder / places.FILE_NAME
    finally:
        server.terminate()
        server.wait()


@contextmanager
def _loop(path: Path) -> Iterator[str]:
    words = ["losetup", "--find", "--show", "--direct-io=on", str(path)]
    device = subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
    try:
        yield device
    finally:
        subprocess.run(["losetup", "--detach", device], check=True)


def _as_a_file(options: Options) -> Found:
    need_root("a loop device over a volume")
    rows, documents = [], []
    with tempfile.TemporaryDirectory(dir=options["on"]) as name:
        device = Path(name) / "device"
        _fill(device)
        _core.create_volume(str(device), "direct", destroy=True)
        with _in_fuse(device, Path(name) / "fuse") as path, _loop(path) as loop:
            for way, where in (("FUSE", str(path)), ("FUSE and loop", loop)):
                for rw, depth in LOADS:
                    words = ["--ioengine=libaio", "--direct=1", f"--filename={where}"]
                    found = statistics.median(speed(words, rw, depth) for _ in range(ROUNDS))
                    case = f"{way}, {rw}, depth {depth}"
                    rows.append([case, f"{found:,.0f}"])
                    documents.append({"load": case, "iops": found})
    return rows, documents


SET = table_set(
    "volume-speed",
    "what the way through a volume costs",
    "fio, nbdkit, an idle machine; root for the last part; minutes",
    (
        TablePart(
            "volume-nbd",
            "",
            "requests of 4 KiB a second over NBD, beside nbdkit's own plugins",
            ("load", "nbdkit's own", "a volume", "times"),
            _beside_plugins,
            f"Medians of {ROUNDS} runs of {SECONDS} s, of both in turn.",
        ),
        TablePart(
            "volume-processor",
            "",
            "processor time of a write of 4 KiB, in memory at depth 32",
            ("stack", "µs"),
            _processor_time,
            f"Of the server; medians of {ROUNDS} runs of {WRITES:,} writes.",
        ),
        TablePart(
            "volume-file",
            "",
            "requests of 4 KiB a second to the volume as a file",
            ("load", "requests a second"),
            _as_a_file,
            f"Medians of {ROUNDS} runs of {SECONDS} s, past the page cache.",
        ),
    ),
    (ON,),
)
