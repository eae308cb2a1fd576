"""Cells of SCHEDULER's figures 5.5 to 5.12 and 7.2: TPC-C on a drive, in place or in a log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

DISK, MTRON, INTEL, OCZ = "hard_disk", "mtron-pro-7500", "intel-x25e", "ocz-vertex-ex"
SSDS = (MTRON, INTEL, OCZ)
IN_PLACE = "direct"
LOG = "log_volume(over_provisioning=1)"
"""A log with room for what a run writes: it cleans next to nothing. nilfs2 did not clean (5.3)."""
FORMS = (IN_PLACE, LOG)
CLEANING = (
    LOG,
    "log_volume(over_provisioning=0.28,filled=yes)",
    "log_volume(over_provisioning=0.1,filled=yes)",
)
"""A log that never cleans, and two that do: the less spare space, the more often."""
BUFFERS = ("8Mi", "32Mi", "80Mi")
"""Buffers of the database: that of table 5.2, and up to that of 7.2."""
MIXES = ("read_intensive", "normal", "write_intensive")
SCHEDULERS = ("none", "mq-deadline", "kyber", "bfq")
"""What the kernel offers today in place of noop, deadline, anticipatory and CFQ."""


@dataclass(frozen=True)
class Cell:
    """A run of TPC-C."""

    drive: str
    stack: str = IN_PLACE
    buffer: str = BUFFERS[0]
    mix: str = "normal"
    scheduler: str = SCHEDULERS[0]

    @property
    def name(self) -> str:
        """Name in results."""
        return f"{self.drive}, {self.stack}, {self.buffer}, {self.mix}, {self.scheduler}"


@dataclass(frozen=True)
class Conditions:
    """What all cells have in common."""

    scale: int = 2
    """Warehouses."""
    clients: int = 8
    seconds: float = 30.0
    warm_up: float = 10.0
    memory: str = "192Mi"
    """Of the server, its buffers and the page cache of its files: less than the database."""
    settings: dict[str, str] = field(
        default_factory=lambda: {
            # Checkpoints come several times in a run, as they do in an hour of a real one.
            "max_wal_size": "64MB",
            "checkpoint_timeout": "30s",
            # Its processes would come and go, and what they read and write with them.
            "autovacuum": "off",
        }
    )


def both(cell: Cell) -> tuple[Cell, Cell]:
    """Give a cell in place and in a log."""
    return replace(cell, stack=IN_PLACE), replace(cell, stack=LOG)


def by_drive() -> Iterator[Cell]:
    """Give the cells of figures 5.5 to 5.8."""
    for drive in (DISK, *SSDS):
        yield from both(Cell(drive))


def by_cleaning() -> Iterator[Cell]:
    """Give the cells of figure 5.9."""
    for drive in (MTRON, INTEL):
        for stack in CLEANING:
            yield Cell(drive, stack)


def by_buffer() -> Iterator[Cell]:
    """Give the cells of figure 5.10."""
    for buffer in BUFFERS:
        yield from both(Cell(MTRON, buffer=buffer))


def by_mix() -> Iterator[Cell]:
    """Give the cells of figure 5.11."""
    for mix in MIXES:
        yield from both(Cell(MTRON, mix=mix))


def by_scheduler() -> Iterator[Cell]:
    """Give the cells of figure 5.12."""
    for scheduler in SCHEDULERS:
        yield Cell(MTRON, scheduler=scheduler)


def of_life() -> Iterator[Cell]:
    """Give the cells of table 5.4."""
    yield from both(Cell(INTEL))


def with_large_buffer() -> Iterator[Cell]:
    """Give the cells of figures 7.2 and 7.3."""
    yield from both(Cell(MTRON, buffer=BUFFERS[-1]))
