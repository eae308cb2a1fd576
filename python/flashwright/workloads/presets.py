"""The papers' set-ups of database benchmarks.

What they leave open is filled in by us and marked so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from flashwright import written
from flashwright._core import InputError
from flashwright.written import number, setting

from .base import Workload

MIB = 1 << 20
_LEAST_BUFFER_BYTES = 128 * 1024
_REPLICATION_BYTES = {"tpcc": 2_400_000_000, "tpcb": 2_200_000_000, "tatp": 2_400_000_000}
"""REPLICATION 5.1, of the simulations."""


@dataclass(frozen=True)
class Preset:
    """A set-up.

    `units` is the workload's size (warehouses ...), or None where the paper gives `bytes_of` the
    database instead. Times are in seconds. `ours` says what the paper does not say, and `differs`
    where ours cannot be as theirs was.
    """

    name: str
    source: str
    summary: str
    workloads: tuple[str, ...]
    clients: int
    seconds: float
    units: int | None = None
    bytes_of: Mapping[str, int] = field(default_factory=dict)
    mix: str | None = None
    warm_up_seconds: float = 0.0
    buffer_bytes: int | None = None
    buffer_share: float | None = None
    uncached: bool = False
    checkpoint_seconds: float | None = None
    ours: str = ""
    differs: str = ""

    def units_for(self, workload: Workload) -> int:
        """Give the size of a workload in its own units.

        Raises:
            InputError: the paper did not run it.
        """
        if workload.name not in self.workloads:
            raise InputError(
                f"--preset {self.name} is for {', '.join(self.workloads)}, not for {workload.name}"
            )
        if self.units is not None:
            return self.units
        return max(1, round(self.bytes_of[workload.name] / workload.bytes_per_unit))

    def of_workload(self, workload: Workload) -> dict[str, Any]:
        """Give what it says of a workload, by the names of its settings.

        Raises:
            InputError: the paper did not run it.
        """
        return {"scale": self.units_for(workload), "mix": self.mix}

    def of_database(self) -> dict[str, Any]:
        """Give what it says of a database, by the names of its settings."""
        buffer = None if self.buffer_share is None else f"{100 * self.buffer_share:g}%"
        return {
            "buffer": buffer or self.buffer_bytes,
            "direct_io": self.uncached,
            "checkpoint": self.checkpoint_seconds,
        }

    def scaled_down(self, factor: float) -> Preset:
        """Divide sizes and times alike.

        Database, buffer, duration, warm-up and checkpoint interval; the clients stay.
        """
        if factor == 1:
            return self
        buffer = self.buffer_bytes
        return replace(
            self,
            units=None if self.units is None else max(1, round(self.units / factor)),
            bytes_of={name: round(size / factor) for name, size in self.bytes_of.items()},
            seconds=max(1.0, self.seconds / factor),
            warm_up_seconds=self.warm_up_seconds / factor,
            buffer_bytes=None
            if buffer is None
            else max(_LEAST_BUFFER_BYTES, round(buffer / factor)),
            checkpoint_seconds=None
            if self.checkpoint_seconds is None
            else self.checkpoint_seconds / factor,
        )


PRESETS: dict[str, Preset] = {
    preset.name: preset
    for preset in (
        Preset(
            name="stablebuffer",
            source="STABLEBUFFER 4.1",
            summary="TPC-C on PostgreSQL with default settings, 20 warehouses, 20 clients, 30 "
            "minutes",
            workloads=("tpcc",),
            clients=20,
            units=20,
            seconds=1800,
            buffer_bytes=32 * MIB,
            ours="the buffer of 32 MiB, PostgreSQL 8.4's default; no warm-up; the standard mix",
        ),
        Preset(
            name="scheduler_5_3",
            source="SCHEDULER 5.3, tables 5.1 and 5.2",
            summary="TPC-C, 30 warehouses (2.7 GB), 30 clients without think time, a buffer of 8 "
            "MB",
            workloads=("tpcc",),
            clients=30,
            units=30,
            seconds=600,
            mix="normal",
            buffer_bytes=8 * MIB,
            ours="the 600 s, which SCHEDULER 7 has; no warm-up",
            differs="the commercial DBMS, with pages of 4 KB and a data file of 5.5 GB made "
            "beforehand",
        ),
        Preset(
            name="scheduler_7_2",
            source="SCHEDULER 7.2, table 7.1",
            summary="TPC-C, 30 warehouses, 30 clients, a buffer of 80 MB, no page cache, a "
            "checkpoint each 30 ... 600 s",
            workloads=("tpcc",),
            clients=30,
            units=30,
            seconds=600,
            mix="normal",
            buffer_bytes=80 * MIB,
            uncached=True,
            checkpoint_seconds=60,
            ours="the interval of 60 s of the range (checkpoint=30s chooses another); no warm-up",
            differs="the commercial DBMS on a raw device, its log on another (wal_on=DIR)",
        ),
        Preset(
            name="replication_5_1",
            source="REPLICATION 5.1",
            summary="TPC-C, TPC-B or TM-1 of about 2.3 GB, 10 clients without think time, a buffer "
            "of 1 % of the database, 3 hours",
            workloads=("tpcc", "tpcb", "tatp"),
            clients=10,
            bytes_of=_REPLICATION_BYTES,
            seconds=9000,
            warm_up_seconds=1800,
            buffer_share=0.01,
            ours="how many warehouses, branches or subscribers make the sizes that the paper gives",
            differs="PostgreSQL 8.4; the page cache is not mentioned, and is used",
        ),
    )
}


@dataclass(frozen=True)
class _Scaled:
    """Settings of a preset, written with its name."""

    scale_down: float = setting("Divide its sizes and times alike.", number(1), 1.0)


def find(text: str) -> Preset:
    """Read `scheduler_7_2` or `scheduler_7_2(scale_down=10)`.

    Raises:
        InputError: there is no such preset.
    """
    asked = written.read(text, dict.fromkeys(PRESETS, _Scaled), "preset")
    return PRESETS[written.split(text)[0]].scaled_down(asked.scale_down)


def listing() -> list[dict[str, Any]]:
    """Give all presets as `flashwright list` does."""
    summaries = {
        one.name: (one.summary + (f"; ours: {one.ours}" if one.ours else ""), one.source)
        for one in PRESETS.values()
    }
    return written.listing(dict.fromkeys(PRESETS, _Scaled), summaries)
