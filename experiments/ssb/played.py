"""Queries played in virtual time: accesses of plans, this machine's processor times, any drive.

What a server tells is asked once for a scale factor: the shape of its files, and the processor time
of each plan with everything in memory, which is spread evenly over the plan's accesses. It holds
the system calls of pages that are in the page cache, and not those of waiting for a drive. The
processor is this machine's, and not the paper's of 2008; `slower` makes it so many times slower.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from experiments.ssb.accesses import Database, Pages, Shape
from experiments.ssb.cells import SEED, Cell, Load
from experiments.ssb.drives import check_room, device_of
from experiments.ssb.kept import Kept
from experiments.ssb.model import Costs, Counts, ProbedDrive, seconds
from experiments.ssb.playing import CoreDrive, Drive, Host, play
from experiments.ssb.queries import FACT, MOST_KEY, QUERIES, Plan, key_parts, page_parts
from experiments.ssb.schema import KEYS, PAGE_BYTES, Say
from experiments.ssb.server import MEMORY_SHARE, Warehouse
from flashwright import _core
from flashwright._core import Cancelled
from flashwright.workloads.supervisor import Supervisor

_RUNS = 3
"""Warm runs, of which the one with the least processor time counts."""


def takes_single_reads() -> bool:
    """Tell whether the core's simulated drives take single reads; else probed curves stand in."""
    return hasattr(_core.Device, "submit_read")


def kind_of_drive() -> str:
    """Name what streams are played on, for results."""
    return "simulated" if takes_single_reads() else "probed"


@cache
def _costs(drive: str, database_bytes: int) -> Costs:
    return Costs.probed(drive, database_bytes)


def _drive(name: str, database_bytes: int) -> Drive:
    check_room(name, database_bytes)
    if takes_single_reads():
        return CoreDrive(device_of(name))
    return ProbedDrive(_costs(name, database_bytes))


@dataclass
class Playing:
    """Cells of one scale factor."""

    scale: float
    folder: Path
    """Where the database lies meanwhile."""
    kept: Kept
    shapes: Kept
    """Shapes of databases, which are large."""
    say: Say
    slower: float = 1.0
    version: int | None = None
    _database: Database | None = None

    def name_of(self, cell: Cell) -> str:
        """Name of a cell in results."""
        return f"played {kind_of_drive()} {self.slower:g} {cell.name}"

    def run(self, cells: Sequence[Cell], stop: Any) -> None:
        """Play cells that have no result yet.

        Raises:
            Cancelled: `stop` was set.
        """
        missing = [cell for cell in cells if self.kept.get(self.name_of(cell)) is None]
        if not missing:
            return
        database = self.database(list(dict.fromkeys(cell.load for cell in missing)))
        by_streams: dict[tuple[Load, int], list[Cell]] = {}
        for cell in missing:
            by_streams.setdefault((cell.load, cell.streams), []).append(cell)
        for (load, count), alike in by_streams.items():
            streams = self.streams(database, load, count)
            for cell in alike:
                if stop.is_set():
                    raise Cancelled("stopped")
                self.say(f"playing {load.name} on {cell.drive}, {count} streams")
                self._play(cell, database.shape, streams)

    def _play(self, cell: Cell, shape: Shape, streams: Sequence[Pages]) -> None:
        costs_of = self.kept.get(self._cpu_name(cell.load))
        own = self.slower * costs_of["cpu_seconds"] / costs_of["accesses"]
        host = Host(
            self.memory_pages(shape), shape.total, [shape.first(one) for one in shape.pages]
        )
        drive = _drive(cell.drive, shape.total * PAGE_BYTES)
        played = play(drive, host, [(pages, own) for pages in streams])
        self.kept.put(
            self.name_of(cell),
            {
                "seconds": played.seconds,
                "parts": len(streams),
                "reads": played.reads,
                "read_pages": played.read_pages,
                "cpu_seconds": played.busy_seconds,
            },
        )

    @staticmethod
    def memory_pages(shape: Shape) -> int:
        """Give the pages of memory, the same share of the database as on a real server."""
        return round(MEMORY_SHARE * shape.total)

    def streams(self, database: Database, load: Load, count: int) -> list[Pages]:
        """Give the accesses of each part of a load."""
        query = QUERIES[load.query]
        if load.plan is Plan.HASH:
            parts = page_parts(database.shape.pages[FACT], count)
        elif count == 1:
            parts = [(0, MOST_KEY)]
        else:
            parts = key_parts(database.keys(query), count)
        return [database.accesses(query, load.plan, part) for part in parts]

    def _cpu_name(self, load: Load) -> str:
        return f"warm {self.scale:g} {load.name}"

    def database(self, loads: Sequence[Load]) -> Database:
        """Give rows and shape; a server is asked for what is not known of these loads."""
        wanted = [load for load in loads if self.kept.get(self._cpu_name(load)) is None]
        shape = self.shapes.get(f"{self.scale:g}")
        if wanted or shape is None:
            self.shapes.put(f"{self.scale:g}", self._of_server(wanted).as_dict())
            shape = self.shapes.get(f"{self.scale:g}")
        if self._database is None:
            self.say("drawing the rows again")
            self._database = Database(Shape.from_dict(shape), self.scale, SEED)
        for load in wanted:
            pages = self.streams(self._database, load, 1)[0]
            known = self.kept.get(f"cpu {self._cpu_name(load)}")
            self.kept.put(
                self._cpu_name(load), {**known, **counted(self._database.shape, load, pages)}
            )
        return self._database

    def _of_server(self, wanted: Sequence[Load]) -> Shape:
        with Supervisor() as supervisor:
            own = supervisor.folder(self.folder, "flashwright-ssb-")
            warehouse = Warehouse(own, own / "run", supervisor, version=self.version)
            try:
                warehouse.make(self.scale, SEED, self.say)
                shape = Shape.of(warehouse)
                warehouse.start_warm()
                for load in wanted:
                    self.say(f"{load.name} in memory")
                    query = QUERIES[load.query]
                    cpu = min(
                        warehouse.run_in_parts(query, load.plan, 1).cpu_seconds
                        for _ in range(_RUNS)
                    )
                    self.kept.put(f"cpu {self._cpu_name(load)}", {"cpu_seconds": cpu})
            finally:
                warehouse.close()
        return shape

    def counts(self, load: Load) -> Counts:
        """Give what the cost model knows of a load that was played."""
        known = self.kept.get(self._cpu_name(load))
        return Counts(
            load.plan,
            known["accesses"],
            known["random_pages"],
            known["ordered_pages"],
            self.slower * known["cpu_seconds"],
        )

    def predicted(self, cell: Cell) -> float:
        """Give what the cost model says of a cell, in seconds."""
        return seconds(self.costs(cell.drive), self.counts(cell.load), cell.streams)

    def costs(self, drive: str) -> Costs:
        """Give what a drive costs, measured once by the prober for a database of this size."""
        pages = self.shapes.get(f"{self.scale:g}")["pages"]
        return _costs(drive, PAGE_BYTES * sum(pages.values()))


def counted(shape: Shape, load: Load, pages: Pages) -> dict[str, int]:
    """Count the accesses of a whole plan: all, those that have to be read, those in order.

    Of a join by index LINEORDER and its tree are read at random; what is read of dimensions is in
    order, as the first one is, and the others are small.
    """
    dimensions = sum(shape.pages[name] for name in (*KEYS, *(f"{one}_pkey" for one in KEYS)))
    # Relations of dimensions lie before all others.
    different, uses = np.unique(pages, return_counts=True)
    of_dimensions = int((different < dimensions).sum())
    if load.plan is Plan.HASH:
        return {"accesses": len(pages), "random_pages": 0, "ordered_pages": len(different)}
    memory = Playing.memory_pages(shape)
    at_random = different >= dimensions
    random, used = int(at_random.sum()), int(uses[at_random].sum())
    # None twice while all fit; else a share of the accesses that come back.
    again = max(0, used - random) * max(0.0, 1 - memory / random) if random else 0.0
    return {
        "accesses": len(pages),
        "random_pages": random + round(again),
        "ordered_pages": of_dimensions,
    }
