"""Kills a recorded benchmark with SIGKILL at random points, and looks at what is left: nothing but
a trace that can be read.

    python tests/python/kill_recording.py --kills 50 --seed 1

Killed is our command, its supervisor, or the database (PostgreSQL's first process, or a client that
has SQLite in it). Needs root.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from flashwright.recording.recorder import recorded_bytes
from flashwright.recording.tracefs import LOCK
from processes import command_of, descendants, is_alive, processes_of, until

TRACEFS = Path("/sys/kernel/tracing")
SETTINGS = ("current_tracer", "trace_clock", "buffer_size_kb", "tracing_on")
VICTIMS = ("us", "supervisor", "database")
DATABASES = ("sqlite", "postgres")
SQUEEZED = "tpcc(items=300,customers=30)"


@dataclass(frozen=True)
class Kill:
    """One kill: so many seconds after the start of the run, or of its recording."""

    victim: str
    database: str
    delay_s: float
    is_recording: bool

    def __str__(self) -> str:
        begin = "of recording" if self.is_recording else "from its start"
        return f"{self.victim} of a run on {self.database}, {self.delay_s:.2f} s {begin}"


def settings() -> dict[str, str]:
    """Give what the kernel's tracing is set to, and which devices are traced."""
    said = {name: (TRACEFS / name).read_text().strip() for name in SETTINGS}
    traced = [
        str(path)
        for path in Path("/sys/block").glob("*/trace/enable")
        if path.read_text().strip() != "0"
    ]
    return {**said, "traced": " ".join(traced)}


def settings_at_rest() -> dict[str, str]:
    """Give the settings while nobody records.

    Others on this machine may, and change them for so long.
    """
    with LOCK.open("a") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        # Of one that was killed they come back a moment after its lock is free.
        until(lambda: settings()["current_tracer"] == "nop")
        if "expanded" in settings()["buffer_size_kb"]:
            # Of a kernel that has not traced yet: its buffer grows for good at the first use.
            (TRACEFS / "current_tracer").write_text("nop")
        return settings()


def kill(one: Kill, work: Path) -> str:
    """Run, kill, and check; say what there is of the recording.

    Raises AssertionError with what is left behind, or cannot be read.
    """
    before = settings_at_rest()
    place, recording = work / "place", work / "recording"
    place.mkdir()
    # The server's user has to get through.
    place.chmod(0o711)
    process = _start(one.database, place, recording)
    if one.is_recording:
        assert until(lambda: recorded_bytes(recording) > 0, 120), f"{one}: it never recorded"
    time.sleep(one.delay_s)
    everything = {process.pid} | descendants(process.pid)
    assert process.poll() is None, f"{one}: it ended by itself: {process.communicate()}"
    victims = _victims(one, process.pid, everything)
    assert victims, f"{one}: no such process among {[command_of(pid) for pid in everything]}"
    for pid in victims:
        os.kill(pid, signal.SIGKILL)
    if one.victim != "us":
        # A dead process may not be asked for anything until the end: ask for the end.
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
    stderr = process.communicate(timeout=90)[1]
    assert process.returncode != 0, f"{one}: exit code 0"
    assert "Traceback" not in stderr, f"{one}: {stderr}"
    left = [command_of(pid) for pid in everything if is_alive(pid)]
    assert until(lambda: not any(map(is_alive, everything))), f"{one}: processes left: {left}"
    assert until(lambda: processes_of(str(place)) == []), (
        f"{one}: processes left: {processes_of(str(place))}"
    )
    assert until(lambda: str(place) not in Path("/proc/self/mounts").read_text()), (
        f"{one}: still mounted"
    )
    assert until(lambda: list(place.iterdir()) == []), (
        f"{one}: left in the folder: {list(place.iterdir())}"
    )
    assert until(lambda: settings_at_rest() == before), (
        f"{one}: tracing was {before} and is {settings()}"
    )
    loops = subprocess.run(["losetup", "--all"], capture_output=True, text=True, check=True).stdout
    assert str(place) not in loops, f"{one}: loop device left: {loops}"
    return _read(one, recording)


def _start(database: str, place: Path, recording: Path) -> subprocess.Popen[str]:
    command = [
        sys.executable,
        "-m",
        "flashwright",
        "bench",
        SQUEEZED,
        "--db",
        database,
        "--clients",
        "2",
        "--for",
        "300",
    ]
    size = "1200M" if database == "postgres" else "200M"
    command += ["--on", f"volume(size={size},folder={place})"]
    command += ["--record", str(recording), "--out", str(recording.parent / "out")]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _victims(one: Kill, ours: int, everything: set[int]) -> list[int]:
    if one.victim == "us":
        return [ours]
    commands = {pid: command_of(pid) for pid in everything}
    if one.victim == "supervisor":
        return [pid for pid, command in commands.items() if "supervisor/__main__" in command]
    if one.database == "postgres":
        return [pid for pid, command in commands.items() if "/postgres -D" in command]
    return [
        pid
        for pid, command in commands.items()
        if "spawn_main" in command or "forkserver" in command
    ][:1]


def _read(one: Kill, recording: Path) -> str:
    if (recording / "requests.parquet").exists():
        return "finished by itself"
    if not recorded_bytes(recording):
        return "nothing yet"
    command = [sys.executable, "-m", "flashwright", "record", "--finish", str(recording)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{one}: the recording cannot be finished: {done.stderr}"
    return "read"


def plan(kills: int, seed: int) -> list[Kill]:
    """Give kills of every kind, at random times within the first seconds of a run."""
    rng = random.Random(seed)
    made = []
    for number in range(kills):
        database = DATABASES[number // len(VICTIMS) % 2]
        victim = VICTIMS[number % len(VICTIMS)]
        # A database can be killed only when it is there.
        is_recording = victim == "database" or number // (2 * len(VICTIMS)) % 2 == 0
        made.append(
            Kill(
                victim,
                database,
                rng.uniform(0, 2) if is_recording else rng.uniform(0.5, 6),
                is_recording,
            )
        )
    return made


def main() -> int:
    """Run a campaign, and say what was found."""
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--kills", type=int, default=50)
    p.add_argument("--seed", type=int, default=1)
    args = p.parse_args()
    found: Counter[str] = Counter()
    for number, one in enumerate(plan(args.kills, args.seed), 1):
        with tempfile.TemporaryDirectory(prefix="flashwright-kill-", dir="/var/tmp") as folder:
            Path(folder).chmod(0o755)
            said = kill(one, Path(folder))
        found[said] += 1
        print(f"{number}: {one}: {said}", flush=True)  # noqa: T201
    print(f"{args.kills} kills: {dict(found)}; nothing was left behind")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
