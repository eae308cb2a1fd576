"""SCHEDULER's TPC-C: what is judged, and one run on a real server over an emulated drive."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from experiments.registry import Outcome
from experiments.tpcc import cells, judged, study
from experiments.tpcc.cells import DISK, INTEL, LOG, MTRON, OCZ, Cell, Conditions
from experiments.tpcc.judged import Found
from experiments.tpcc.logical import LogicalIo
from experiments.tpcc.measuring import Measuring
from flashwright._core import RunError
from servers import find_server
from support import wait_for


def result(cell: Cell) -> dict[str, Any]:
    """Give a run as the paper has them: the log gains on the Mtron, and nowhere else."""
    speed = {DISK: 10.0, MTRON: 40.0, INTEL: 110.0, OCZ: 100.0}[cell.drive]
    is_log = cell.stack != cells.IN_PLACE
    if is_log and cell.drive == MTRON:
        buffer = cells.BUFFERS.index(cell.buffer)
        speed *= 2 + cells.MIXES.index(cell.mix) - 0.3 * buffer
    if is_log:
        cleans = cells.CLEANING.index(cell.stack)
        speed *= 1 - (0.2 if cell.drive == MTRON else 0.1) * cleans
    speed *= 1 + cells.BUFFERS.index(cell.buffer) * 0.9
    speed *= 10 ** (2 - cells.MIXES.index(cell.mix))
    written = speed * 1e4
    physical = written * (1.5 if is_log else 1.1)
    return {
        "transactions_per_second": speed,
        "logical": {"read_bytes": 3 * written, "write_bytes": written, "reads": 1, "writes": 1},
        "physical": {
            "read_bytes": written / 3,
            "write_bytes": physical,
            "reads": 1,
            "writes": physical / (65536 if is_log else 8192),
        },
        "cleanings": None,
        "busy_share": 0.5,
    }


def other(cell: Cell) -> dict[str, Any]:
    """Give a run in which all is the other way round."""
    found = result(cell)
    found["transactions_per_second"] = 1 / found["transactions_per_second"]
    if cell.drive == OCZ and cell.stack == LOG:
        found["transactions_per_second"] *= 1e6
    if cell.scheduler != cells.SCHEDULERS[0]:
        found["transactions_per_second"] *= 2
    logical, physical = found["logical"], found["physical"]
    logical["read_bytes"], logical["write_bytes"] = logical["write_bytes"], logical["read_bytes"]
    physical["read_bytes"] *= 100
    physical["writes"] = 1 if cell.stack == cells.IN_PLACE else 1e9
    return found


def rows(of: Any = result) -> list[Outcome]:
    """Give all rows but that of 7.2, for which a drive is probed."""
    return [
        row
        for part in study.PARTS
        if part.name != "scheduler-7.2-7.3-server"
        for row in part.judge(part.name, Found(of))
    ]


def agreed(of: Any) -> dict[str, bool]:
    """Give what agrees, by part and row."""
    return {f"{row.part} {row.what}": row.agrees for row in rows(of) if row.agrees is not None}


def test_what_the_paper_says_is_held_by_runs_that_are_so() -> None:
    found = agreed(result)
    assert len(found) == 18
    assert [what for what, agrees in found.items() if not agrees] == []


def test_what_the_paper_says_is_not_held_by_runs_that_are_the_other_way_round() -> None:
    assert [what for what, agrees in agreed(other).items() if agrees] == []


def test_the_life_of_the_drive_is_that_of_its_data_sheet() -> None:
    """2 PB at 63.4 MB/s are a year."""

    def steady(_: Cell) -> dict[str, Any]:
        return {"physical": {"write_bytes": 2e15 / (365.25 * 86400)}}

    rows = list(judged.of_life("scheduler-table-5.4", Found(steady)))
    assert [row.published for row in rows] == [5.47, 2.32]
    assert [row.ours for row in rows] == pytest.approx([1.0, 1.0])


WRITER = """
import os, sys, time
out = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
while True:
    os.pwrite(out, bytes(8192), 0)
    time.sleep(0.001)
"""


def test_calls_of_processes_are_counted_until_one_ends(tmp_path: Path) -> None:
    count = LogicalIo()
    shell = ["sh", "-c", '"$0" -c "$1" "$2" & wait', sys.executable, WRITER, str(tmp_path / "out")]
    with subprocess.Popen(shell, start_new_session=True) as server:
        try:
            wait_for((tmp_path / "out").exists)
            count._postmaster = server.pid
            count.measurement_begins(0)
            wait_for(lambda: counted_writes(count) > 0)
        finally:
            os.killpg(server.pid, signal.SIGKILL)
    assert count._thread is not None
    count._thread.join(60)
    assert not count._thread.is_alive(), "it counts no more once a process has ended"
    count.measurement_ends(0)
    rates = count.rates(1e-6)
    assert rates["writes"] > 0
    assert rates["write_bytes"] == pytest.approx(8192 * rates["writes"])
    with pytest.raises(RunError, match="one of them ended"):
        count.rates(1e6)


def counted_writes(count: LogicalIo) -> float:
    """Give the writes a second so far; 0 before there are two samples."""
    return 0.0 if count._last is None else count.rates(0.0)["writes"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to mount a volume")
@pytest.mark.timeout(600)
def test_a_run_is_measured_and_leaves_nothing(folder: Path) -> None:
    conditions = Conditions(scale=1, clients=2, seconds=4, warm_up=2, memory="96Mi")
    measuring = Measuring(folder, conditions, lambda _: None, threading.Event())
    find_server()
    found = measuring.run(Cell(MTRON, LOG, scheduler="bfq"))
    assert found["transactions_per_second"] > 0
    assert found["cleanings"] == 0, "a log that does not clean"
    assert found["logical"]["write_bytes"] > 0
    assert found["physical"]["write_bytes"] > 0
    assert "pg_amcheck" in found["checks"]
    assert list(folder.iterdir()) == []
