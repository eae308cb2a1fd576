"""A database beside another program on one file system: whose bytes the device received.

`make neighbours` measures it: a database with a fixed number of transactions, alone and beside a
writer of three times its volume.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from flashwright.recording import file_systems
from flashwright.recording.volume import Volume
from flashwright.workloads.supervisor import Supervisor

KINDS = ("ext4", "xfs", "btrfs")
MODES = ("wal", "delete")
MIB = 1 << 20
_TIMES = 3
Flashwright = Callable[..., object]
"""Runs the command with its arguments."""
DATABASE = """
import sqlite3, sys
path, mode, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
base = sqlite3.connect(path, isolation_level=None)
base.execute(f"PRAGMA journal_mode = {mode}")
base.execute("PRAGMA synchronous = FULL")
base.execute("CREATE TABLE IF NOT EXISTS t (k INTEGER PRIMARY KEY, v TEXT)")
if not base.execute("SELECT count(*) FROM t").fetchone()[0]:
    base.execute("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500)"
        " INSERT INTO t SELECT i, hex(zeroblob(400)) FROM n")
for number in range(count):
    base.execute("UPDATE t SET v = ? WHERE k = ?", (f"{number:08}" * 100, number * 37 % 500 + 1))
base.close()
"""
NEIGHBOUR = """
import os, sys
folder, least = sys.argv[1], int(sys.argv[2])
done = number = 0
log = os.open(f"{folder}/log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
sys.stdin.read(1)
while done < least:
    # A log that grows, and files that come and go: their inodes and blocks are used again.
    done += os.write(log, os.urandom(48 << 10))
    path = f"{folder}/{number % 7}"
    file = os.open(path, os.O_WRONLY | os.O_CREAT)
    done += os.write(file, os.urandom(16 << 10))
    os.fsync(file)
    os.close(file)
    os.unlink(path)
    if number % 5 == 0:
        os.fsync(log)
    number += 1
os.fsync(log)
print(done, flush=True)
sys.stdin.read()
"""


@dataclass(frozen=True)
class Measured:
    """Bytes of one recording: by whose they are, and by the kernel's own counter."""

    whose: dict[str, int]
    counted: int

    @property
    def total(self) -> int:
        """All that was recorded."""
        return sum(self.whose.values())


@contextmanager
def neighbour(folder: Path, least: int) -> Iterator[subprocess.Popen[str] | None]:
    """Have another program that writes so many bytes as soon as it is let; none for 0."""
    if not least:
        yield None
        return
    folder.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-c", NEIGHBOUR, str(folder), str(least)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def measure(
    kind: str, mode: str, transactions: int, work: Path, least: int, flashwright: Flashwright
) -> Measured:
    """Record a database, beside a neighbour that writes `least` bytes before the end."""
    with Supervisor() as supervisor:
        volume = Volume(supervisor, file_systems.find(kind))
        volume.on_image(Path("/var/tmp"), 512 * MIB)  # noqa: S108
        data, script = volume.mount_point / "app", work / "database.py"
        data.mkdir()
        script.write_text(DATABASE)
        app = [sys.executable, str(script), str(data / "app.db"), mode]
        subprocess.run([*app, "0"], check=True)
        out = work / f"{kind}-{mode}-{least}"
        with neighbour(volume.mount_point / "other", least) as other:
            # It begins with the recording, and the recording ends when both are done.
            steps = [shell_of([*app, str(transactions)])]
            if other is not None and other.stdin is not None and other.stdout is not None:
                begin, done = (
                    f"/proc/{os.getpid()}/fd/{other.stdin.fileno()}",
                    other.stdout.fileno(),
                )
                steps = [f"printf x > {begin}", *steps, f"head -n1 < /proc/{os.getpid()}/fd/{done}"]
            command = ["sh", "-c", " && ".join(steps)]
            where = ["--database", "sqlite", str(data / "app.db"), "--out", str(out)]
            flashwright("record", *where, "--", *command)
    result: dict[str, Any] = json.loads((out / "result.json").read_text())
    return Measured(result["path"]["whose"], result["recording"]["received"]["written_bytes"])


def shell_of(words: list[str]) -> str:
    """Give a command for a shell."""
    return " ".join(f"'{word}'" for word in words)


def pair(
    kind: str, mode: str, transactions: int, work: Path, flashwright: Flashwright
) -> tuple[Measured, Measured]:
    """Measure a database alone, and beside a writer of three times its volume."""
    alone = measure(kind, mode, transactions, work, 0, flashwright)
    volume = alone.whose["data"] + alone.whose["own"] + alone.whose["shared"]
    return alone, measure(kind, mode, transactions, work, _TIMES * volume, flashwright)


def main() -> None:
    """Print the table; the argument is the number of transactions."""
    transactions = int(sys.argv[1]) if len(sys.argv) > 1 else 1000

    def flashwright(*arguments: str) -> None:
        command = [sys.executable, "-m", "flashwright", *arguments]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    print(  # noqa: T201
        "| file system, journal | files, alone | beside | apart | with the file system's, alone "
        "| beside | others | recorded / counted |"
    )
    print("|---|---|---|---|---|---|---|---|")  # noqa: T201
    with TemporaryDirectory(prefix="flashwright-neighbours-") as work:
        for kind in KINDS:
            for mode in MODES:
                alone, beside = pair(kind, mode, transactions, Path(work), flashwright)
                print(row(f"{kind}, {mode}", alone, beside), flush=True)  # noqa: T201


def row(name: str, alone: Measured, beside: Measured) -> str:
    """Give a row of the table, in MiB."""
    data = [one.whose["data"] for one in (alone, beside)]
    ranges = []
    for one in (alone, beside):
        least = one.whose["data"] + one.whose["own"]
        ranges.append(f"{least / MIB:.2f} to {(least + one.whose['shared']) / MIB:.2f}")
    return (
        f"| {name} | {data[0] / MIB:.2f} | {data[1] / MIB:.2f} | {data[1] / data[0] - 1:+.2%} | "
        f"{ranges[0]} | {ranges[1]} | {beside.whose['others'] / MIB:.1f} | "
        f"{beside.total / beside.counted:.4f} |"
    )


if __name__ == "__main__":
    main()
