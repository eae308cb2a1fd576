"""What recording costs a database: one run, recorded in every other stretch of time, so that both
have the same database and hour.

    python -m flashwright.reproduce.recording_bars [--scale 10] [--clients 10] [--stretches 24]
        [--seconds 8]

TPC-C on PostgreSQL on a volume of its own. Stretches go round: not recorded, the device alone, not
recorded, the device and the calls. Each recorded one is held against the mean of its two
neighbours. Needs root.
"""  # noqa: D205

from __future__ import annotations

import argparse
import statistics
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import click

from flashwright.recording import device as devices
from flashwright.recording.path import Names, PathRecorder, processes_of
from flashwright.recording.recorder import RAW, Recorder
from flashwright.recording.volume import VolumePlan
from flashwright.workloads import registry
from flashwright.workloads.databases.place import Place, Settings
from flashwright.workloads.driver import RunConfig, Unobserved
from flashwright.workloads.session import Plan, Session
from flashwright.workloads.supervisor import Supervisor

KINDS = ("nothing", "device", "nothing", "device and calls")
SETTLE_S = 1.0
"""At the begin of a stretch, left out: setting up is not recording."""
GIB = 1 << 30


class Toggling(Unobserved):
    """Records in stretches.

    `stretches` has the kind of each, with begin and end in nanoseconds of the measurement.
    """

    def __init__(self, work: Path, count: int, seconds: float) -> None:
        self.stretches: list[tuple[str, int, int]] = []
        self.requests_lost = 0
        self._work, self._count, self._seconds = work, count, seconds
        self._there: tuple[Place, Supervisor] | None = None
        self._thread = threading.Thread(target=self._toggle, daemon=True)
        self._begun_ns = 0
        self.error: Exception | None = None

    def database_ready(self, place: Place, supervisor: Supervisor) -> None:
        """See `Observer`."""
        self._there = (place, supervisor)

    def measurement_begins(self, at_ns: int) -> None:
        """See `Observer`."""
        self._begun_ns = at_ns
        self._thread.start()

    def measurement_ends(self, at_ns: int) -> None:  # noqa: ARG002  (an observer's)
        """See `Observer`."""
        self._thread.join()

    def _toggle(self) -> None:
        try:
            for number in range(self._count):
                self._stretch(KINDS[number % len(KINDS)], self._work / str(number))
        except Exception as error:
            self.error = error

    def _stretch(self, kind: str, folder: Path) -> None:
        if self._there is None:
            raise AssertionError("the database comes before the measurement")
        place, supervisor = self._there
        first = place.files()[0]
        if kind == "nothing":
            self._measure(kind)
            return
        recorder = Recorder(supervisor, devices.find(first), folder, command=[], buffer_kib=65_536)
        path = None
        try:
            recorder.prepare()
            if kind != "device":
                path = PathRecorder(supervisor, folder / RAW, Names.of(place))
                point, _, file_system, _ = devices.mount_of(first)
                path.prepare(file_system, recorder.device.path, point)
                path.start(processes_of(place))
            recorder.start()
            self._measure(kind)
            recorder.stop()
            if path is not None:
                path.stop()
        finally:
            recorder.close()
            if path is not None:
                path.close()

    def _measure(self, kind: str) -> None:
        time.sleep(SETTLE_S)
        begin_ns = time.monotonic_ns()
        time.sleep(self._seconds)
        self.stretches.append(
            (kind, begin_ns - self._begun_ns, time.monotonic_ns() - self._begun_ns)
        )


def ratios(stretches: list[tuple[str, int, int]], log: dict[str, Any]) -> dict[str, list[float]]:
    """Give, by kind, the throughput of each recorded stretch over that of its neighbours.

    It is over the mean of those that are not recorded.
    """
    ends = log["end_ns"]
    rates = [((ends >= begin) & (ends < end)).sum() / (end - begin) for _, begin, end in stretches]
    found: dict[str, list[float]] = {kind: [] for kind in KINDS[1::2]}
    for number, (kind, _, _) in enumerate(stretches):
        around = [rates[other] for other in (number - 1, number + 1) if 0 <= other < len(rates)]
        if kind in found and len(around) == 2:
            found[kind].append(float(rates[number] / statistics.mean(around)))
    return found


def main() -> None:
    """Measure, and print a table."""
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--scale", type=int, default=10)
    p.add_argument("--clients", type=int, default=10)
    p.add_argument("--stretches", type=int, default=24)
    p.add_argument("--seconds", type=float, default=8.0)
    args = p.parse_args()
    workload, _ = registry.find("tpcc")
    load = workload.load({"warehouses": args.scale}, None)
    total = args.stretches * (args.seconds + SETTLE_S + 2) + 10
    config = RunConfig(args.clients, total, warm_up_seconds=20, keep_transactions=True)
    ground = VolumePlan("ext4", round(args.scale * workload.bytes_per_unit * 2) + 2 * GIB)
    settings = Settings(buffer_bytes=GIB // 8)
    with tempfile.TemporaryDirectory(prefix="flashwright-bars-") as work:
        toggling = Toggling(Path(work), args.stretches, args.seconds)
        on = Path("/var/tmp")  # noqa: S108  (in it, the supervisor makes a folder of its own)
        finding = Session(
            Plan(workload, load, "postgres", settings, config, on, ground=ground), toggling
        ).run()
    if toggling.error is not None:
        raise toggling.error
    rate = finding.result.transactions / finding.result.seconds
    click.echo(
        f"{finding.place['version']}, {args.scale} warehouses, {args.clients} clients: {rate:.0f} "
        "transactions/s"
    )
    for kind, found in ratios(toggling.stretches, finding.result.transactions_log).items():
        low, median, high = statistics.quantiles(found, n=4)
        click.echo(
            f"recording the {kind}: {median:.3f} of the throughput (quartiles "
            f"{low:.3f}-{high:.3f}, {len(found)} stretches)"
        )


if __name__ == "__main__":
    main()
