"""Validation of replays: lateness, and whether a device gets what was recorded.

Requests are sent at 20,000 a second, to memory and to a loop device.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import click
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from experiments.pages import ON, markdown_table, page
from experiments.registry import Made, Part, Request, Set, option
from flashwright import _core, data
from flashwright._core import InputError, RunError
from flashwright._text import count, percent, short_time
from flashwright.cli.play import do
from flashwright.jobs.play.remarks import recorded
from flashwright.jobs.play.run import JOB
from flashwright.jobs.play.said import pace
from flashwright.recording.tools import need_root, tool
from flashwright.runs import Run
from flashwright.workloads.supervisor import Supervisor

REQUESTS_PER_SECOND = 20_000
LATEST_NS = 50_000
"""Limit of the 99th percentile of the lateness on an idle machine, in nanoseconds."""
IDLE_SHARE = 0.05
"""Share of the processors' time taken by others, below which a machine is idle."""
DEVICE_BYTES = 64 << 20
PAGE_BYTES = 4096


def write_timed(path: Path, seconds: float, seed: int) -> None:
    """Write a trace of reads and writes of a page, half and half.

    They come as a Poisson process does.
    """
    random = np.random.default_rng(seed)
    number = round(seconds * REQUESTS_PER_SECOND)
    times = np.cumsum(random.exponential(1e9 / REQUESTS_PER_SECOND, number)).astype("u8")
    ops = pa.DictionaryArray.from_arrays(
        (random.random(number) < 0.5).astype("i1"), ["read", "write"]
    )
    offsets = random.integers(0, DEVICE_BYTES // PAGE_BYTES, number).astype("u8") * PAGE_BYTES
    columns = {
        "time_ns": times,
        "op": ops,
        "offset": offsets,
        "length": np.full(number, PAGE_BYTES, "u4"),
    }
    pq.write_table(pa.table(columns), path, compression="zstd")


def loop_device(supervisor: Supervisor, folder: Path, name: str, size_bytes: int) -> str:
    """Make a loop device with direct I/O, that goes with the supervisor."""
    image = folder / name
    with image.open("wb") as out:
        for _ in range(0, min(size_bytes, DEVICE_BYTES), 1 << 20):
            out.write(bytes(1 << 20))
        out.truncate(size_bytes)
    detach = (
        'for loop in $(losetup --noheadings --output NAME --associated "$1"); do losetup --detach '
        '"$loop"; done'
    )
    supervisor.undo("sh", "-c", detach, "sh", image)
    return tool("losetup", "--find", "--show", "--direct-io=on", image)


class Processors:
    """Load that others put on the processors since this object was made."""

    def __init__(self) -> None:
        self._before = self._now()

    @staticmethod
    def _now() -> tuple[float, float, float]:
        """Give seconds of all processors, busy ones, and our own."""
        ticks = [int(word) for word in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
        total, idle = sum(ticks), ticks[3] + ticks[4]
        hertz, ours = os.sysconf("SC_CLK_TCK"), os.times()
        return total / hertz, (total - idle) / hertz, ours.user + ours.system

    def share_of_others(self) -> float:
        """Give the share of all processors' time that others took.

        The kernel's own threads are included.
        """
        total, busy, ours = (
            now - then for now, then in zip(self._now(), self._before, strict=True)
        )
        return max(0.0, (busy - ours) / max(total, 1e-9))


def wait_until_idle(patience_seconds: float) -> None:
    """Wait until others leave the processors alone for a second, or patience ends."""
    deadline = time.monotonic() + patience_seconds
    while time.monotonic() < deadline:
        processors = Processors()
        time.sleep(1.0)
        if processors.share_of_others() < IDLE_SHARE:
            return


def _asked(trace: Path, device: str, pace: str) -> dict[str, Any]:
    """Give what `play` is asked for."""
    may_write = {"write": True, "destroy_data": [device] if Path(device).exists() else []}
    return {"source": str(trace), "on": [device], "pace": [pace], **may_write}


def lateness(trace: Path, device: str, runs: int, patience_seconds: float) -> list[dict[str, Any]]:
    """Play the trace by its clock in a number of runs, each when the machine is idle."""
    found = []
    for _ in range(runs):
        wait_until_idle(patience_seconds)
        processors = Processors()
        [run] = JOB.do(_asked(trace, device, "open")).outcome.runs
        others = processors.share_of_others()
        if run.error is not None or run.sent is None or run.sent.lateness_ns is None:
            raise RunError(f"{device}: {run.error}")
        late = run.sent.lateness_ns
        judged = {"share_of_others": others, "met": late.p99 < LATEST_NS}
        found.append({"device": run.about.kind, **asdict(late), **judged})
    return found


def sequences(trace: Path, device: str, folder: Path) -> list[dict[str, Any]]:
    """Play the trace closed loop, recorded, and hold what the device got against it."""
    found = []
    for depth in (1, 32):
        again, out = folder / f"again-{depth}", folder / f"run-{depth}"
        asked = {**_asked(trace, device, f"closed({depth})"), "record": str(again)}
        with contextlib.redirect_stdout(sys.stderr):
            do(asked, jobs=None, again=True, json_path=None, out=out)
        result = Run.read_result(out).result
        [run] = result["runs"]
        lost = Run.read_result(again).result["recording"]["lost_events"]
        own = {"pace": run["pace"], "iops": run["iops"], "lost_events": lost}
        found.append({**own, **result["recorded"]})
    return found


def _lateness(
    request: Request[Any], supervisor: Supervisor, folder: Path
) -> tuple[list[str], dict[str, Any]]:
    """Measure the lateness; give its part of the page, and the numbers."""
    runs, patience = request.options["runs"], request.options["patience"]
    timed = folder / "timed.parquet"
    write_timed(timed, request.options["run_seconds"], 1)
    devices = [
        f"memory(bytes={DEVICE_BYTES})",
        loop_device(supervisor, folder, "small", DEVICE_BYTES),
    ]
    late = [one for device in devices for one in lateness(timed, device, runs, patience)]
    keys = {"mean": "mean", "p50": "median", "p99": "99 %", "p999": "99.9 %", "max": "longest"}
    rows = [
        [
            one["device"],
            *(short_time(one[key]) for key in keys),
            percent(one["share_of_others"], 2),
            "met" if one["met"] else "**missed**",
        ]
        for one in late
    ]
    headings = ("device", *keys.values(), "processors busy with others", "verdict")
    page = [
        f"## Lateness at {count(REQUESTS_PER_SECOND)} requests a second",
        f"Reads and writes of 4 KiB as a Poisson process; wanted are {short_time(LATEST_NS)} "
        "at the 99th percentile on an idle machine. Others' share of the processors holds "
        "the kernel's own threads, such as those of the loop device.",
        markdown_table(headings, rows),
    ]
    return page, {"lateness": late}


def _sequence(
    request: Request[Any], supervisor: Supervisor, folder: Path
) -> tuple[list[str], dict[str, Any]]:
    """Hold what a device gets against the trace; give that part of the page, and the numbers."""
    trace: Path = request.options["trace"]
    if not trace.is_file():
        raise InputError(f"{trace}: no such trace; name one with --trace")
    read = _core.load_source(json.dumps(_asked(trace, "memory", "closed(1)")).encode())
    size_bytes = -(-(read.footprint_bytes or 0) // (1 << 20)) * (1 << 20)
    found = sequences(trace, loop_device(supervisor, folder, "large", size_bytes), folder)
    rows = [
        [pace(one["pace"]), count(one["iops"]), count(one["lost_events"]), recorded(one)]
        for one in found
    ]
    page = [
        "## The same sequence",
        f"{trace.name}, replayed on a loop device and recorded meanwhile.",
        markdown_table(("pace", "requests a second", "events lost", "verdict"), rows),
    ]
    return page, {"trace": str(trace), "sequences": found}


@dataclass(frozen=True)
class Measured(Part):
    """A measurement of a replay."""

    measure: Callable[[Request[Any], Supervisor, Path], tuple[list[str], dict[str, Any]]] = field(
        repr=False
    )


def _make(request: Request[Measured]) -> Made:
    need_root("the validation of replaying")
    parts: list[str] = []
    figures: dict[str, Any] = {}
    with Supervisor() as supervisor:
        folder = supervisor.folder(request.options["on"], "flashwright-replay-")
        for part in request.parts:
            text, numbers = part.measure(request, supervisor, folder)
            parts += text
            figures |= numbers
    return Made(page("Validation of replaying", request.command, "", parts), figures)


SET = Set(
    "validate-replay",
    "how late a replay sends requests, and whether the device gets what was recorded",
    "root, an idle machine; minutes",
    (
        Measured("lateness", "", "how late requests are sent at 20,000 a second", _lateness),
        Measured("sequence", "", "what a device gets of a trace, recorded again", _sequence),
    ),
    _make,
    [
        option(
            "--trace",
            data.TPCC_REQUESTS,
            click.Path(path_type=Path),
            "Replayed and recorded again.",
        ),
        ON,
        option("--runs", 5, click.IntRange(1), "Of each device."),
        option("--run-seconds", 10.0, click.FloatRange(0.1), "Length of each run."),
        option(
            "--patience",
            30.0,
            click.FloatRange(0),
            "Seconds to wait at most for an idle machine before each run.",
        ),
    ],
)
