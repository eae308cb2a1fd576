"""A run of TPC-C on a real server over an emulated drive, on the wall clock.

The database is made with the volume mounted over the file with the drive's bytes, which waits for
nothing. Then the volume is mounted over the drive, and the load runs with nothing in memory.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.tpcc.cells import DISK, INTEL, MTRON, OCZ, Cell, Conditions
from experiments.tpcc.logical import LogicalIo
from flashwright._core import Cancelled, InputError
from flashwright.advice.trial_loads import BenchLoad, Say, Watch, plan_of
from flashwright.advice.trial_volumes import Volume, cleanings
from flashwright.advice.trials import Drive
from flashwright.runs import git_revision
from flashwright.volumes.metrics import Between
from flashwright.volumes.places import Mounted
from flashwright.workloads import session
from flashwright.workloads.driver import RunConfig
from flashwright.workloads.supervisor import Supervisor

SEED = 1
SIZE_BYTES = {DISK: 2 << 30, MTRON: 2 << 30, OCZ: 4 << 30, INTEL: 8 << 30}
"""Drives are cut to it. Half of it is spare space of the log, which no run writes twice."""
STATE = "filled"
FILE_SYSTEM = "ext2"
_OPTIONS = "noatime"


@dataclass(frozen=True)
class Measuring:
    """Measures cells one by one."""

    folder: Path
    """Where the drive's bytes lie meanwhile."""
    conditions: Conditions
    say: Say
    stop: threading.Event

    def run(self, cell: Cell) -> dict[str, Any]:
        """Measure a cell, and leave nothing.

        Raises:
            InputError: no root, or a program is missing.
            RunError: something failed, or is not whole afterwards.
            Cancelled: it was stopped.
        """
        with Supervisor() as supervisor:
            own = supervisor.folder(self.folder, "flashwright-tpcc-")
            data, mount = own / "drive", own / "mount"
            device = Drive(cell.drive, SIZE_BYTES[cell.drive], STATE).device(data, SEED)
            volume = Volume(
                device, data, mount, cell.stack, _OPTIONS, SEED, supervisor, FILE_SYSTEM
            )
            with session.database_errors():
                return self._on(cell, volume, supervisor)

    def _on(self, cell: Cell, volume: Volume, supervisor: Supervisor) -> dict[str, Any]:
        base = volume.directory / "db"
        load = BenchLoad.of(self._plan(cell, base), base, supervisor, self.say, self.stop)
        volume.make()
        with volume.mounted(on_drive=False):
            load.fill()
        self.say("opening the volume over the drive")
        logical = LogicalIo()
        with volume.mounted(on_drive=True) as mounted:
            _schedule(mounted, cell.scheduler)
            watch = Watch([mounted.place.control], logical, has_warm_up=True)
            try:
                result = load.measure(watch).result
            finally:
                watch.run_ends()
        if not result.is_complete:
            raise Cancelled("stopped within a run")
        [between] = watch.between()
        with volume.mounted(on_drive=False):
            self.say("checking the database")
            checks = load.check()
        volume.check()
        return {
            "transactions_per_second": result.transactions_per_second,
            "logical": logical.rates(result.seconds),
            "physical": _physical(between),
            "cleanings": cleanings(between),
            "busy_share": watch.busy.share,
            "checks": [*checks, "volume info --check"],
            "revision": git_revision(),
        }

    def _plan(self, cell: Cell, base: Path) -> session.BenchPlan:
        own = self.conditions
        config = RunConfig(own.clients, own.seconds, warm_up_seconds=own.warm_up, seed=SEED)
        return plan_of(
            f"tpcc(scale={own.scale},mix={cell.mix})",
            f"postgres(buffer={cell.buffer},memory={own.memory})",
            own.settings,
            config,
            base,
        )


def _physical(between: Between) -> dict[str, float]:
    """Give what the drive got, in bytes and requests a second."""
    found = {}
    for op in ("read", "write"):
        found[f"{op}_bytes"] = between.rate("volume_device_bytes_total", op=op)
        found[f"{op}s"] = between.rate("volume_devices_total", op=op)
    return found


def _schedule(mounted: Mounted, scheduler: str) -> None:
    """Choose the kernel's scheduler for a volume. Its device is gone with it.

    Raises:
        InputError: the kernel does not have it.
    """
    path = Path("/sys/block") / Path(mounted.loop).resolve().name / "queue" / "scheduler"
    try:
        path.write_text(scheduler, encoding="ascii")
    except OSError as error:
        offered = path.read_text(encoding="ascii").strip()
        raise InputError(
            f"{path}: the kernel does not take `{scheduler}`: {error.strerror}; it offers {offered}"
        ) from error
