"""All that is known of a database and its disk, for actions to look at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

from flashwright._core import InputError, Progress
from flashwright.advice.action import Lost
from flashwright.advice.load import Load
from flashwright.advice.loop import Loop
from flashwright.advice.processors import Processors
from flashwright.advice.setup import Figures, Setup

GOALS = ("life", "latency", "throughput")


class WhatIfs(Protocol):
    """Loads that other settings of the database would have made, from its own log."""

    HAS_CLOCK: ClassVar[bool]
    """Whether what is written for a transaction depends on how many there are a second."""

    @property
    def refused(self) -> str | None:
        """Why there are none; None if there are."""

    @property
    def as_recorded(self) -> Load:
        """Give the load that it finds for the settings as they are: what gains are held against.

        So what its model gets wrong of both cancels out.
        """

    def load(
        self,
        settings: Mapping[str, str],
        pace: float = 1,
        disk_time: float = 1,
        busy_page_us: float = 0,
    ) -> Load:
        """Give the load under these settings of the database.

        `pace`: transactions a second over those of the recording, for as long as that took.
        `disk_time`: time that the disk takes for a data page over that of the recording.
        `busy_page_us`: microseconds that a disk that is never idle takes for a page of the
        background writer at least. All are as by default where nothing goes by a clock.

        Raises:
            InputError: it cannot be told, with the reason.
        """

    def prepare(self, many: Sequence[Mapping[str, str]], progress: Progress | None = None) -> None:
        """Find the loads under several settings at once, which is quicker."""


@dataclass(frozen=True)
class Case:
    """A load, the drive that it is on, and what the recording says of both."""

    load: Load
    base: Setup
    """As things stand."""
    figures: Figures
    """Of the base."""
    goal: str = "life"
    risk: Lost = Lost.SECONDS
    database: str | None = None
    """`postgres`, `sqlite`, `mysql`; None if the source does not say."""
    database_path: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    """Settings of the database, by its own names; empty if they are not known."""
    recording: Mapping[str, Any] = field(default_factory=dict)
    """`result.json` of the recording; empty for a trace."""
    folder: Path | None = None
    """Of the recording."""
    drive_known: str = "named"
    """How the drive was chosen: `named`, `measured`, `model`, or `nearest`."""
    drive_said: str = ""
    """In words: which profile, why, at which size and fill."""
    writes_per_day: float | None = None
    """Bytes that the disk is written a day; None if nothing says it."""
    rate_said: str = ""
    """In words: where that rate is from."""
    loop: Loop | None = None
    """None if the waits of clients were not recorded."""
    what_ifs: WhatIfs | None = None
    """None if the recording has no log of the database."""
    counters: Mapping[str, Any] = field(default_factory=dict)
    """`drive_counters` of the recording."""
    processors: Processors | None = None
    """None if the recording does not tell what the load took of them."""

    @property
    def file_system(self) -> Mapping[str, Any]:
        """What the recording says of the file system; empty if nothing."""
        found = self.recording.get("recording", {}).get("file_system") or {}
        return found if isinstance(found, Mapping) else {"type": found}

    @property
    def device(self) -> Mapping[str, Any]:
        """What the recording says of the disk; empty if nothing."""
        found: Mapping[str, Any] = self.recording.get("recording", {}).get("device") or {}
        return found

    @property
    def profile_name(self) -> str:
        """Name of the drive's profile."""
        return self.base.drive.profile

    @property
    def loads_a_day(self) -> float:
        """How often a day the load is written, at the rate that is known; 0 if none is."""
        if not self.writes_per_day or not self.load.written_bytes:
            return 0.0
        return self.writes_per_day / self.load.written_bytes

    def with_settings(self, setup: Setup, settings: Mapping[str, str]) -> Setup:
        """Give a setup whose load is what the database would have sent under more settings.

        Those that a change before has made stay.

        Raises:
            InputError: the recording has no log of the database, or it does not tell, with why.
        """
        if self.what_ifs is None or self.what_ifs.refused is not None:
            why = "it was not recorded" if self.what_ifs is None else self.what_ifs.refused
            raise InputError(f"the database's log says nothing of other settings: {why}")
        together = {**dict(setup.settings), **settings}
        load = self.what_ifs.load(together)
        return setup.changed(load=load, settings=tuple(sorted(together.items())))
