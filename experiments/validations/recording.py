"""Cost of recording a database.

One run of TPC-C on PostgreSQL, on a volume of its own, is recorded in every other stretch of time,
so that all stretches share the database and the hour. They take turns: not recorded, the device
alone, not recorded, the device and the calls. Each recorded one is compared with the mean of its
two neighbours.
"""

from __future__ import annotations

import statistics
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import click

from experiments.pages import markdown_table, page
from experiments.registry import Made, Part, Request, Set, option
from flashwright.benches.grounds import OnVolume
from flashwright.recording import device as devices
from flashwright.recording.path import Names, PathRecorder, processes_of
from flashwright.recording.recorder import RAW, Recorder
from flashwright.recording.tools import need_root
from flashwright.workloads import registry
from flashwright.workloads.databases.cluster import Postgres
from flashwright.workloads.databases.place import Place
from flashwright.workloads.driver import RunConfig, Unobserved
from flashwright.workloads.session import BenchPlan, Session
from flashwright.workloads.supervisor import Supervisor

KINDS = ("nothing", "device", "nothing", "device and calls")
SETTLE_S = 1.0
"""Seconds left out at the begin of a stretch: setting up is not recording."""
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
                path.prepare(file_system, recorder.device, point)
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


def measured(
    scale: int, clients: int, stretches: int, stretch_seconds: float
) -> tuple[dict[str, Any], dict[str, list[float]]]:
    """Run and record; give what ran, and by kind the ratio of each stretch."""
    workload, _, load = registry.find(f"tpcc(scale={scale})")
    total = stretches * (stretch_seconds + SETTLE_S + 2) + 10
    config = RunConfig(clients, total, warm_up_seconds=20, keep_transactions=True)
    ground = OnVolume(size=round(scale * workload.bytes_per_unit * 2) + 2 * GIB)
    database = Postgres(buffer=GIB // 8)
    with tempfile.TemporaryDirectory(prefix="flashwright-validation-") as work:
        toggling = Toggling(Path(work), stretches, stretch_seconds)
        finding = Session(BenchPlan(workload, load, database, config, ground), toggling).run()
    if toggling.error is not None:
        raise toggling.error
    result = finding.result
    ran = {
        "database": finding.place["version"],
        "warehouses": scale,
        "clients": clients,
        "transactions_per_second": result.transactions / result.seconds,
    }
    return ran, ratios(toggling.stretches, result.transactions_log)


def _make(request: Request[Part]) -> Made:
    need_root("measuring what recording costs")
    ran, found = measured(**request.options)
    quartiles = {kind: statistics.quantiles(of_kind, n=4) for kind, of_kind in found.items()}
    rows = [
        [kind, f"{median:.3f}", f"{low:.3f}-{high:.3f}", str(len(found[kind]))]
        for kind, (low, median, high) in quartiles.items()
    ]
    note = (
        f"{ran['database']}, {ran['warehouses']} warehouses, {ran['clients']} clients: "
        f"{ran['transactions_per_second']:.0f} transactions/s."
    )
    headings = ("recorded", "throughput over not recorded", "quartiles", "stretches")
    title = "Validation of recording: what it costs a database"
    text = page(title, request.command, note, [markdown_table(headings, rows)])
    return Made(text, {**ran, "ratios": found})


SET = Set(
    "validate-recording",
    "what recording costs a database",
    "root, PostgreSQL, an idle machine; minutes",
    (Part("recording-cost", "", "throughput of TPC-C, recorded over not recorded"),),
    _make,
    [
        option("--scale", 10, click.IntRange(1), "Warehouses."),
        option("--clients", 10, click.IntRange(1), "Of the database."),
        option("--stretches", 24, click.IntRange(9), "Recorded and not."),
        option("--stretch-seconds", 8.0, click.FloatRange(0.1), "Length of each stretch."),
    ],
)
