"""SCHEDULER 5.4.1 and 7.3.1: TPC-C on a raw device, in place and out of place.

As in 7.3.1, what was traced is played one by one, and the sum of the response times is what a drive
takes for it: the system calls for the raw device, the requests below a file system for the others
(the README beside the traces has the set-up). In place is ext2. The paper's file system that writes
out of place is nilfs2, which is in few kernels: a log-structured volume that defers nothing, below
ext2, stands for it. A transaction's share of the time gives how many transactions a drive alone
would allow; the database ran on a faster one. Chapter 5 has a buffer of 8 MB where these traces
have chapter 7's 80 MB.
"""

from __future__ import annotations

import json
from functools import cache, partial
from typing import Any

from experiments.data import TPCC_FILE_SYSTEMS
from experiments.figures.drawing import Drawing, Published, Shape
from experiments.figures.layered import Case, Played, Runs, axis, named_values
from experiments.figures.scheduler_drives import DRIVES, INTEL, MTRON
from experiments.figures.scheduler_layers import LOG, read_time, write_time
from flashwright.jobs.play.names import DIRECT
from flashwright.sources import REQUESTS_FILE

RUNS = Runs()
SECONDS: float | None = None
"""Of each recording: all."""
RAW, IN_PLACE, LOGGED = "raw device", "ext2", "log volume"
SYSTEMS = {
    RAW: ("raw", DIRECT),
    IN_PLACE: ("ext2", DIRECT),
    LOGGED: ("ext2", f"log_volume({LOG})"),
}
"""Folder of the requests, and the layers below them."""
CLEAR = 1.2
"""Times as many transactions that are a clear advantage: the paper gives no number."""
SEQUENTIAL_MB = 120.0
"""MB/s at which sequential writes of the Mtron saturate (4.3.1)."""


@cache
def transactions(folder: str) -> int:
    """Give how many transactions ended while a folder's requests were recorded."""
    told = json.loads((TPCC_FILE_SYSTEMS / "about.json").read_text(encoding="utf-8"))
    return int(told[folder]["transactions"])


def runs(profile: str) -> dict[str, Played]:
    """Play all systems on a drive, one by one."""
    wanted = {
        name: Case(
            profile,
            stack,
            seconds=SECONDS,
            recording=TPCC_FILE_SYSTEMS / folder / REQUESTS_FILE,
        )
        for name, (folder, stack) in SYSTEMS.items()
    }
    RUNS.make(wanted.values())
    return {name: RUNS.of(case) for name, case in wanted.items()}


def per_minute(profile: str, system: str) -> float:
    """Give the transactions a minute that the drive alone would allow."""
    run = runs(profile)[system]
    return 60 * transactions(SYSTEMS[system][0]) / (read_time(run) + write_time(run))


def write_ms(profile: str, system: str) -> float:
    """Give the time of writing for each transaction, in milliseconds."""
    return 1e3 * write_time(runs(profile)[system]) / transactions(SYSTEMS[system][0])


def read_ms(profile: str, system: str) -> float:
    """Give the time of reading for each transaction, in milliseconds."""
    return 1e3 * read_time(runs(profile)[system]) / transactions(SYSTEMS[system][0])


def megabytes(profile: str, system: str) -> float:
    """Give the bytes read and written by the time that they took, in MB/s."""
    run = runs(profile)[system]
    moved = run["read_bytes"] + run["written_bytes"]
    return float(moved) / (read_time(run) + write_time(run)) / 1e6


def _throughput() -> dict[str, Any]:
    values = {name: per_minute(MTRON, name) for name in SYSTEMS}
    return named_values("figure 7.2", axis("transactions of the drive alone", "1/min"), values)


def _io() -> dict[str, Any]:
    values = {name: megabytes(MTRON, name) for name in SYSTEMS}
    return named_values("figure 7.3", axis("throughput", "MB/s"), values)


def _times() -> dict[str, Any]:
    values = {
        f"{name}: {what}": of(MTRON, name)
        for name in SYSTEMS
        for what, of in (("reads", read_ms), ("writes", write_ms))
    }
    return named_values("figure 7.4", axis("time of a transaction", "ms", is_log=True), values)


def _of_drives() -> dict[str, Any]:
    values = {
        f"{label}: {name}": per_minute(profile, name)
        for profile, label in DRIVES.items()
        for name in SYSTEMS
        if name != RAW
    }
    y = axis("transactions of the drive alone", "1/min", is_log=True)
    return named_values("figure 5.5", y, values)


def gain(profile: str) -> float:
    """Give how many times as many transactions the log volume allows as ext2 alone."""
    return per_minute(profile, LOGGED) / per_minute(profile, IN_PLACE)


def advantage(profile: str) -> tuple[str, bool | None]:
    """Tell whether writing out of place has the advantage that it had on this drive."""
    found = gain(profile)
    is_clear = found >= CLEAR
    return f"{found:.2f}x the transactions", is_clear == (profile == MTRON)


def lower_on_intel() -> tuple[str, bool | None]:
    """Tell whether writing out of place is behind on the Intel."""
    found = gain(INTEL)
    return f"{found:.2f}x the transactions", found < 1


def far_from_sequential() -> tuple[str, bool | None]:
    """Tell whether less than half of what sequential writes reach is reached."""
    found = megabytes(MTRON, LOGGED)
    return f"{found:.1f} MB/s", found < SEQUENTIAL_MB / 2


def mostly_writes() -> tuple[str, bool | None]:
    """Tell whether writes are the major part of the time on the raw device."""
    reads, writes = read_ms(MTRON, RAW), write_ms(MTRON, RAW)
    return f"{writes / (reads + writes):.0%} of the time", writes > reads


def write_gain() -> float:
    """Give how many times less time writes of a transaction take in the log volume."""
    return write_ms(MTRON, IN_PLACE) / write_ms(MTRON, LOGGED)


def drawings() -> list[Drawing]:
    """Give figures 5.5 and 7.2 to 7.4."""
    advantages = [
        Shape(
            f"{label}: log volume below ext2 against ext2",
            "5.4.1",
            "noticeably better" if profile == MTRON else "no clear advantage",
            partial(advantage, profile),
        )
        for profile, label in DRIVES.items()
    ]
    advantages.append(
        Shape(
            "Intel: transaction throughput of the log volume against ext2",
            "5.4.1",
            "lower",
            lower_on_intel,
        )
    )
    far = Shape(
        "Mtron: I/O throughput of the log volume against sequential writes",
        "7.3.1",
        "still far from figure 4.4's (here: less than half of 120 MB/s)",
        far_from_sequential,
    )
    five = Published(
        "Mtron: write time on ext2 over that of the log volume",
        "7.3.3",
        5.0,
        "times",
        write_gain,
        "nilfs2 there",
    )
    major = Shape("Mtron: writes on the raw device", "7.3.1", "the major part", mostly_writes)
    return [
        Drawing(
            "5.5",
            "transactions that three drives alone allow, in place and out of place",
            MTRON,
            _of_drives,
            shapes=advantages,
        ),
        Drawing("7.2", "transactions that the drive alone allows", MTRON, _throughput),
        Drawing("7.3", "I/O throughput one by one", MTRON, _io, shapes=[far]),
        Drawing(
            "7.4 file systems",
            "I/O time of a transaction: raw device, ext2, log volume",
            MTRON,
            _times,
            published=[five],
            shapes=[major],
        ),
    ]
