"""Speed of the simulated drive beside MQSim's, on one core: the figures of docs/mqsim.md.

The drive is profile `a16` on both. Times are of the processor, not of the clock on the wall, so
that other work on the machine counts as little as can be; runs of the two take turns, and the
shortest of each counts. Preparation is taken out in the same way on both sides: the times of a
long and a short run, subtracted.
"""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import click
import numpy as np

from experiments.mqsim import playing
from experiments.mqsim.options import MQSIM, program_of
from experiments.registry import option
from experiments.tables import Found, Options, TablePart, table_set
from flashwright._core import InputError, RunError

TIMES_NS = {"Read": "75000", "Program": "750000"}
A16 = {
    "Seed": "7",
    "PCIe_Lane_Bandwidth": "25.0",
    "IO_Queue_Depth": "33",
    "Queue_Fetch_Size": "32",
    "Overprovisioning_Ratio": f"{0.07 / 1.07:.9f}",
    "Data_Cache_Capacity": "1048576",
    "Flash_Channel_Count": "8",
    "Chip_No_Per_Channel": "2",
    "Die_No_Per_Chip": "1",
    "Plane_No_Per_Die": "2",
    "Block_No_Per_Plane": "512",
    "Page_No_Per_Block": "256",
    "Page_Capacity": "4096",
    "Channel_Transfer_Rate": "333",
    "Block_Erase_Latency": "3800000",
    "Enable_ResponseTime_Logging": "false",
    "Enabled_Preconditioning": "false",
    **{
        f"Page_{op}_Latency_{page}": time
        for op, time in TIMES_NS.items()
        for page in ("LSB", "CSB", "MSB")
    },
}
LOGICAL_PAGES = int(8 * 2 * 2 * 512 * 256 / 1.07)
REPEATS = 3
"""Turns; of each program the best counts."""
READS = {"ours": (1_000_000, 11_000_000), "MQSim": (20_000, 220_000)}
WRITES = {"ours": (50_000, 450_000), "MQSim": (150_000, 250_000)}


def processor_seconds(command: list[str], folder: Path) -> tuple[float, str]:
    """Run a program on this process's core; gives its user time, and what it printed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    done = subprocess.run(
        command, cwd=folder, input="\n", capture_output=True, text=True, check=False
    )
    seconds = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
    if done.returncode:
        said = (done.stdout + done.stderr)[-300:]
        raise RunError(f"{command[0]} ended with {done.returncode}: {said}")
    return seconds, done.stdout


def mqsim(program: str, folder: Path, op: str, requests: int) -> tuple[float, int, int]:
    """Play random pages on MQSim; gives seconds, requests, and flash operations.

    MQSim reads from flash what was never written, too, so that reads need nothing before them.
    Writes come after the whole drive was written in order, and enough of them that it cleans: its
    own preconditioning ends in an error with traces.
    """
    random = np.random.default_rng(7)
    pages = random.integers(0, LOGICAL_PAGES, requests)
    if op == "write":
        pages = np.concatenate([np.arange(LOGICAL_PAGES), pages])
    # Sent about as fast as a fresh drive does them: the queue is full once it cleans.
    kind = playing.READ if op == "read" else playing.WRITE
    times = np.arange(len(pages)) * (1_000 if op == "read" else 24_000)
    playing.prepare(folder, A16, playing.Trace(times, pages, 1, kind))
    seconds, _ = processor_seconds([program, "-i", "drive.xml", "-w", "load.xml"], folder)
    told = (folder / "load_scenario_1.xml").read_text(errors="replace")
    done = int(re.findall(r"<Request_Count>(\d+)", told)[0])
    if done < len(pages):
        raise RunError(f"MQSim ended after {done} of {len(pages)} requests")
    return seconds, done, playing.total(told, playing.OPERATIONS)


def ours(program: str, folder: Path, op: str, requests: int) -> tuple[float, int, int]:
    """Play the same on the simulated drive, filled (reads) or aged (writes)."""
    seconds, told = processor_seconds([program, op, str(requests)], folder)
    return seconds, requests, int(re.findall(r"(\d+) flash operations, write", told)[0])


def rates(
    play: Callable[[int], tuple[float, int, int]], lengths: tuple[int, int]
) -> tuple[float, float]:
    """Give requests and flash operations a second, between a short and a long run."""
    short, long = (play(length) for length in lengths)
    seconds = long[0] - short[0]
    return (long[1] - short[1]) / seconds, (long[2] - short[2]) / seconds


CASES = (
    ("read", READS, 0, "random reads, requests a second", 25),
    ("write", WRITES, 1, "random writes under cleaning, flash operations a second", 100),
)
"""Operation, lengths of the runs, index of the rate that counts, its name, and how many times as
fast as MQSim we ask to be.
"""


@contextmanager
def _on_one_core() -> Iterator[None]:
    """Keep this process, and those that it starts, on one processor."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _speeds(options: Options) -> Found:
    program = program_of(options, "mqsim-speed")
    if not options["bench"]:
        raise InputError(
            "mqsim-speed: give --bench PATH, the program that `cargo bench -p flashwright-ssd "
            "--bench drive_speed --no-run` names"
        )
    players = {
        "MQSim": partial(mqsim, str(program)),
        "ours": partial(ours, str(Path(options["bench"]).resolve())),
    }
    best: dict[tuple[str, str], float] = {}
    with _on_one_core(), tempfile.TemporaryDirectory(prefix="flashwright-mqsim-") as name:
        for _ in range(REPEATS):
            for op, lengths, figure, _, _ in CASES:
                for who, play in players.items():
                    found = rates(partial(play, Path(name), op), lengths[who])[figure]
                    best[who, op] = max(best.get((who, op), 0.0), found)
                    sys.stderr.write(f"mqsim-speed: {who} {op}: {found:,.0f} /s\n")
    rows, documents = [], []
    for op, _, _, said, asked in CASES:
        us, them = best["ours", op], best["MQSim", op]
        rows.append([said, f"{us:,.0f}", f"{them:,.0f}", f"{us / them:.1f}", str(asked)])
        documents.append({"what": said, "ours": us, "mqsim": them, "asked_times": asked})
    return rows, documents


SET = table_set(
    "mqsim-speed",
    "speed of the simulated drive beside MQSim's, on one core",
    "MQSim, built; the benchmark of `ssd`; an hour",
    (
        TablePart(
            "mqsim-rates",
            "",
            "random reads, and random writes under cleaning",
            ("on one core, the best of three turns", "here", "MQSim", "times", "asked"),
            _speeds,
            "Times of the processor, between a short and a long run: preparation is left out.",
        ),
    ),
    (MQSIM, option("--bench", "", click.STRING, "The program of `ssd`'s bench `drive_speed`.")),
)
