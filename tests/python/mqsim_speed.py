"""Speed of the simulated drive beside MQSim's, on one core: the figures of docs/mqsim.md.

cargo bench -p flashwright-ssd --bench drive_speed --no-run      # prints the path of BENCH
python tests/python/mqsim_speed.py PATH/TO/MQSim PATH/TO/BENCH

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
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from flashwright.mqsim import playing

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
        sys.exit(f"{command[0]} ended with {done.returncode}: {(done.stdout + done.stderr)[-300:]}")
    return seconds, done.stdout


def mqsim(program: str, folder: Path, op: str, requests: int) -> tuple[float, int, int]:
    """Play random pages on MQSim; gives seconds, requests, and flash operations.

    MQSim reads from flash what was never written, too, so that reads need nothing before them.
    Writes come after the whole drive was written in order, and so many more that it cleans: its own
    preconditioning ends in an error with traces.
    """
    random = np.random.default_rng(7)
    pages = random.integers(0, LOGICAL_PAGES, requests)
    if op == "write":
        pages = np.concatenate([np.arange(LOGICAL_PAGES), pages])
    # Sent about as fast as a fresh drive does them: the queue is full once it cleans.
    kind = playing.READ if op == "read" else playing.WRITE
    times = np.arange(len(pages)) * (1_000 if op == "read" else 24_000)
    playing.Trace(times, pages, 1, kind).write(folder / "load.trace", 4096)
    playing.configuration(folder / "drive.xml", A16)
    flow = {
        **playing.FLOW,
        **playing.places(A16),
        "Device_Level_Data_Caching_Mode": "TURNED_OFF",
        "Initial_Occupancy_Percentage": 0,
        "File_Path": "load.trace",
    }
    playing.scenario(folder / "load.xml", flow, "Trace_Based")
    seconds, _ = processor_seconds([program, "-i", "drive.xml", "-w", "load.xml"], folder)
    told = (folder / "load_scenario_1.xml").read_text(errors="replace")
    done = int(re.findall(r"<Request_Count>(\d+)", told)[0])
    if done < len(pages):
        sys.exit(f"MQSim ended after {done} of {len(pages)} requests")
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


def say(line: str) -> None:
    """Print a line at once: a turn takes minutes."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    """Print the figures of each turn, and the ratios of the best."""
    program, bench = (str(Path(name).resolve()) for name in sys.argv[1:3])
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    best: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="flashwright-mqsim-") as name:
        folder = Path(name)
        for _ in range(REPEATS):
            for op, lengths, figure in (("read", READS, 0), ("write", WRITES, 1)):
                for who, how in (("MQSim", mqsim), ("ours", ours)):
                    path = program if who == "MQSim" else bench
                    found = rates(partial(how, path, folder, op), lengths[who])[figure]
                    best[f"{who} {op}"] = max(best.get(f"{who} {op}", 0.0), found)
                    say(f"{who} {op}: {found:,.0f} /s")
    for op, what, bar in (("read", "requests", 25), ("write", "flash operations", 100)):
        us, them = best[f"ours {op}"], best[f"MQSim {op}"]
        verdict = "met" if us >= bar * them else "missed"
        say(
            f"random {op}s: ours {us:,.0f} {what}/s, MQSim {them:,.0f}; {us / them:.1f} times, "
            f"asked were {bar}: {verdict}"
        )


if __name__ == "__main__":
    main()
