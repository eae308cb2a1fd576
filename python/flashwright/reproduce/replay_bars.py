"""The bars of replaying, measured: `python -m flashwright.reproduce.replay_bars`. Needs root, for
loop devices and for recording.

How late requests are sent at 20 000 a second, on memory and on a loop device; and whether a device
gets exactly what was recorded.
"""  # noqa: D205

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import click
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from flashwright import replays
from flashwright._core import InputError
from flashwright._text import count, percent, short_time
from flashwright.cli.output import write_json
from flashwright.cli.replay import Asked, replay_on
from flashwright.cli.replay_recorded import recorded
from flashwright.probing.targets import Target
from flashwright.recording.finish import finish
from flashwright.recording.tools import need_root, tool
from flashwright.reports.replay_words import pace, recorded_line
from flashwright.reproduce.pages import command_of, errors_told, made_with, markdown_table
from flashwright.runs import provenance
from flashwright.sources import Reading
from flashwright.workloads.supervisor import Supervisor

REQUESTS_PER_SECOND = 20_000
BAR_NS = 50_000
"""Of the lateness, at the 99th percentile, on a machine that does nothing else."""
IDLE_SHARE = 0.05
"""Of the processors' time taken by others, below which a machine does nothing else."""
DEVICE_BYTES = 64 << 20
PAGE_BYTES = 4096
BUFFER_KIB = 65_536


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
    """What the processors do beside our own work, from its making on."""

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
    """Wait until others leave the processors alone for a second, at most so long."""
    deadline = time.monotonic() + patience_seconds
    while time.monotonic() < deadline:
        processors = Processors()
        time.sleep(1.0)
        if processors.share_of_others() < IDLE_SHARE:
            return


def lateness(trace: Path, device: str, runs: int, patience_seconds: float) -> list[dict[str, Any]]:
    """Replay the trace by its clock, so many times, each when nothing else is to be done."""
    found = []
    for _ in range(runs):
        wait_until_idle(patience_seconds)
        target = Target.find(device).opened_by("destroy_data", 1)
        processors = Processors()
        run, ended = replay_on(Asked(trace, Reading(), replays.Plan(), target, is_silent=True))
        if run is None or ended is not None:
            raise ended or AssertionError("nothing was played")
        told = run.result["lateness_ns"]
        others = processors.share_of_others()
        kind = run.result["device"]["kind"]
        found.append(
            {"device": kind, **told, "share_of_others": others, "met": told["p99"] < BAR_NS}
        )
    return found


def sequences(trace: Path, device: str, folder: Path) -> list[dict[str, Any]]:
    """Replay the trace closed loop, recorded, and hold what the device got against it."""
    found = []
    for number, depth in enumerate((1, 32)):
        plan = replays.Plan(replays.Pace("one_by_one" if depth == 1 else "closed_loop", depth))
        target = Target.find(device).opened_by("destroy_data", 1)
        again = folder / f"again-{number}"
        asked = Asked(trace, Reading(), plan, target, is_silent=True)
        run, ended = replay_on(asked, recorded(target, again, BUFFER_KIB))
        if run is None or ended is not None:
            raise ended or AssertionError("nothing was played")
        recording = finish(again)
        told = replays.compare(trace, Reading(), run, recording.table_files["requests"], 0)
        lost = recording.result["recording"]["lost_events"]
        found.append(
            {"pace": run.result["pace"], "iops": run.result["iops"], "lost_events": lost, **told}
        )
    return found


def _page(document: dict[str, Any]) -> str:
    keys = ("mean", "p50", "p90", "p99", "p999", "max")
    late = [
        [
            one["device"],
            *(short_time(one[key]) for key in keys),
            percent(one["share_of_others"], 2),
            "met" if one["met"] else "**missed**",
        ]
        for one in document["lateness"]
    ]
    headings = (
        "device",
        "mean",
        "median",
        "90 %",
        "99 %",
        "99.9 %",
        "longest",
        "processors busy with others",
        "verdict",
    )
    same = [
        [pace(one["pace"]), count(one["iops"]), count(one["lost_events"]), recorded_line(one)]
        for one in document["sequences"]
    ]
    return "\n\n".join(
        [
            "# Bars of replaying",
            f"Made with `{command_of('replay_bars')}`. {made_with()}",
            f"## Lateness at {count(REQUESTS_PER_SECOND)} requests a second",
            "Reads and writes of 4 KiB as a Poisson process; the bar is 50 µs at the 99th "
            "percentile on a machine that does nothing else. Others' share of the processors holds "
            "the kernel's own threads, such as those of the loop device.",
            markdown_table(headings, late),
            "## The same sequence",
            f"{Path(document['trace']).name}, replayed on a loop device and recorded meanwhile.",
            markdown_table(("pace", "requests a second", "events lost", "verdict"), same),
        ]
    )


@click.command(help=__doc__)
@click.option(
    "--trace",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("data/traces/tpcc_postgres.parquet"),
    show_default=True,
    help="What is held against its recording.",
)
@click.option(
    "--on",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("/var/tmp"),  # noqa: S108
    show_default=True,
)
@click.option(
    "--runs", type=click.IntRange(1), default=5, show_default=True, help="Of each device."
)
@click.option(
    "--seconds", type=click.FloatRange(0.1), default=10.0, show_default=True, help="Of each run."
)
@click.option(
    "--patience",
    type=click.FloatRange(0),
    default=30.0,
    show_default=True,
    metavar="S",
    help="Wait so long for the machine to have nothing else to do, before each.",
)
@click.option("--json", "json_path", metavar="PATH|-", help="Write the figures as JSON there.")
def main(
    trace: Path, on: Path, runs: int, seconds: float, patience: float, json_path: str | None
) -> None:
    """Measure, and print Markdown."""
    with errors_told("replay_bars"), Supervisor() as supervisor:
        need_root("measuring the bars of replaying")
        if not trace.is_file():
            raise InputError(f"{trace}: no such trace; name one with --trace")
        folder = supervisor.folder(on, "flashwright-replay-")
        timed = folder / "timed.parquet"
        write_timed(timed, seconds, 1)
        late = lateness(timed, f"memory(bytes={DEVICE_BYTES})", runs, patience)
        late += lateness(
            timed, loop_device(supervisor, folder, "small", DEVICE_BYTES), runs, patience
        )
        end_bytes = replays.load(trace, Reading(), replays.Plan(replays.Pace("one_by_one"))).totals[
            "end_bytes"
        ]
        size_bytes = -(-end_bytes // (1 << 20)) * (1 << 20)
        same = sequences(trace, loop_device(supervisor, folder, "large", size_bytes), folder)
        document = {
            "trace": str(trace),
            "lateness": late,
            "sequences": [{"folder": "", **one} for one in same],
            "provenance": provenance(["python", "-m", "flashwright.reproduce.replay_bars"], [], 1),
        }
        write_json(document, json_path)
        if json_path != "-":
            click.echo(_page(document))


if __name__ == "__main__":
    main()
