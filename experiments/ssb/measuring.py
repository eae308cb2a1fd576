"""Queries measured on a real server over emulated drives, cold, on the wall clock.

The database is made with the volume mounted over the file that holds the drive's bytes, which waits
for nothing; then the volume is mounted over the emulated drive, and cells are measured one by one.
Each begins with a server that was started anew and with none of its pages in memory. Every result
is kept at once. The machine's processors serve the drive, too: of a drive that is faster than they
are the emulation is the limit, which the results say by their processor time.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.ssb.cells import SEED, Cell
from experiments.ssb.drives import size_of
from experiments.ssb.kept import Kept
from experiments.ssb.queries import QUERIES, Plan
from experiments.ssb.schema import Say
from experiments.ssb.server import Warehouse
from flashwright import _core
from flashwright._core import Cancelled, RunError
from flashwright.advice.trials import Drive
from flashwright.volumes import mounting
from flashwright.volumes.mounting import MountPlan
from flashwright.volumes.places import Mounted
from flashwright.workloads.supervisor import Supervisor

_CLOSING_SECONDS = 600.0
_READ_AHEAD_KB = 128
"""Linux's default, which is PARALLELISM's kernel's, too."""


@dataclass
class Measuring:
    """Cells of one drive at one scale factor."""

    drive: str
    scale: float
    folder: Path
    """Where the drive's bytes lie meanwhile."""
    kept: Kept
    say: Say
    version: int | None = None
    """Major version of PostgreSQL; None for any."""

    def run(self, cells: Sequence[Cell], stop: Any) -> None:
        """Measure cells that have no result yet.

        Raises:
            InputError: no root, or a program is missing.
            RunError: something failed; what was measured before is kept.
            Cancelled: `stop` was set.
        """
        missing = [cell for cell in cells if self.kept.get(cell.name) is None]
        if not missing:
            return
        with Supervisor() as supervisor:
            own = supervisor.folder(self.folder, "flashwright-ssb-")
            data, mount = own / "drive", own / "mount"
            mount.mkdir()
            size = size_of(self.drive, self.scale)
            device = Drive(self.drive, size).device(data, SEED)
            _core.create_volume(device, "direct", seed=SEED)
            warehouse = Warehouse(mount / "db", own / "run", supervisor, version=self.version)
            with _mounted(str(data), mount), _closing(warehouse):
                (mount / "db").mkdir(mode=0o755)
                warehouse.make(self.scale, SEED, self.say)
            self.say("opening the volume over the drive")
            with _mounted(device, mount) as mounted, _closing(warehouse):
                _set_read_ahead(mounted)
                self._measure(warehouse, missing, stop)

    def _measure(self, warehouse: Warehouse, missing: Sequence[Cell], stop: Any) -> None:
        warehouse.start_warm()
        memory = warehouse.limit_memory()
        parts = {
            cell: warehouse.parts(QUERIES[cell.load.query], cell.load.plan, cell.streams)
            for cell in missing
        }
        for cell in missing:
            if stop.is_set():
                raise Cancelled("stopped")
            self.say(f"{cell.load.name}, {cell.streams} streams")
            query = QUERIES[cell.load.query]
            warehouse.start_cold()
            statements = [query.sql(cell.load.plan, part) for part in parts[cell]]
            ran = warehouse.run(query, cell.load.plan, statements)
            self._check(cell, ran.totals)
            self.kept.put(
                cell.name,
                {
                    "seconds": ran.seconds,
                    "cpu_seconds": ran.cpu_seconds,
                    "parts": ran.parts,
                    "memory_bytes": memory,
                    "server": warehouse.server.version(),
                    "sum": sum(ran.totals.values()),
                },
            )

    def _check(self, cell: Cell, totals: Any) -> None:
        """Make sure that all cells of a query found the same.

        Raises:
            RunError: a split query does not add up to what another one did.
        """
        for streams in range(1, 33):
            for plan in Plan:
                load = type(cell.load)(cell.load.query, plan)
                other = self.kept.get(Cell(cell.scale, cell.drive, load, streams).name)
                if other is not None and other["sum"] != sum(totals.values()):
                    raise RunError(f"{cell.name}: its sum is not that of {load.name} {streams}")


def _set_read_ahead(mounted: Mounted) -> None:
    block = Path(mounted.loop).resolve().name
    Path(f"/sys/block/{block}/queue/read_ahead_kb").write_text(str(_READ_AHEAD_KB))


@contextlib.contextmanager
def _closing(warehouse: Warehouse) -> Iterator[None]:
    try:
        yield
    finally:
        warehouse.close()


@contextlib.contextmanager
def _mounted(device: str, directory: Path) -> Iterator[Mounted]:
    mounted = mounting.mount(MountPlan(device, directory, "ext4"))
    try:
        yield mounted
    except BaseException:
        with contextlib.suppress(RunError):
            mounting.unmount(mounted, _CLOSING_SECONDS)
        raise
    mounting.unmount(mounted, _CLOSING_SECONDS)
