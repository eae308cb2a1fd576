"""Life of a drive, and whether a run gives it: the one place that decides it.

A life is the drive's endurance over what it is programmed with a day. What a day brings is given,
or counted by the drive itself, or recorded for long enough; nothing else is extrapolated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flashwright import _core
from flashwright._core import InputError
from flashwright._text import significant, span

RECORDED = "recorded"
GIVEN = "given"
ASSUMED = "assumed"
COUNTED = "counted"
"""Daily writes are known from the drive's own counters, which a recording keeps."""
UNKNOWN = "unknown"
SECONDS_IN_DAY = 86_400
LEAST_SECONDS = 600.0
"""Shortest recording that says something of a day, in seconds."""
TRACE = "trace"
"""Value of `writes_per_day`: the rate of the recording."""
REMEDY = "--life 'life(40G)', with the true volume, gives a life"


@dataclass(frozen=True)
class Wear:
    """Settings of a drive's life, by `--life`."""

    endurance: float = 3000
    writes_per_day: float | str | None = None
    """Times a day that the host writes its data once over; a size, such as `40G`, for bytes a day;
    `trace`: as recorded. None: as recorded if a capacity is given, or else once.
    """
    capacity: int | None = None
    """Bytes that the host can store on the drive; None: as many as the workload touches."""
    fill: float = 1.0
    """Share of the capacity that holds data."""


@dataclass(frozen=True)
class Recorded:
    """Write rate of a recording."""

    seconds: float
    bytes_per_day: float
    """Bytes written a day, at the rate of those seconds."""

    @property
    def is_short(self) -> bool:
        """True if it is too short to say what a day brings."""
        return self.seconds < LEAST_SECONDS

    def at_this_rate(self) -> str:
        """Say what would be written a day, if all of it were like the recording."""
        return f"at this rate {volume(self.bytes_per_day)} a day"

    def why_no_day(self, remedy: str = REMEDY) -> str:
        """Say why a short recording gives no life, and what gives one."""
        return (
            f"{span(self.seconds)} are too short to say what a day brings, below "
            f"{span(LEAST_SECONDS)}; {self.at_this_rate()}; {remedy}"
        )


@dataclass(frozen=True)
class Life:
    """Life of a drive in years, or why it is not known."""

    years: float | None
    unknown: str | None = None

    def document(self) -> dict[str, Any]:
        """Give both, for a result or a row of one."""
        return {"life_years": self.years, "life_unknown": self.unknown}


@dataclass(frozen=True)
class Lifetime:
    """Terms of a drive's life: its endurance, and the writes of the host.

    An erase block can be erased `endurance` times. The host writes its data over `writes_per_day`
    times a day.
    """

    endurance: float | None
    """None if nothing is known of it."""
    writes_per_day: float | None
    """None if nothing says what a day brings."""
    rate: str = GIVEN
    """`given`, `counted`, `recorded`, `assumed` or `unknown`."""
    capacity_bytes: int | None = None
    fill: float = 1.0
    recorded: Recorded | None = None

    def life(
        self,
        write_amplification: float,
        over_provisioning: float,
        *,
        erases: int = 1,
        steady: bool | None = True,
    ) -> Life:
        """Give the years until the media was programmed `endurance` times over.

        None with the reason if the run did not erase, was not `steady` (None: too short to say),
        or nothing says what a day brings. Wear is taken as even. Media of (1 + over_provisioning)
        times the data take up `write_amplification` times what the host writes.
        """
        if self.endurance is None:
            return Life(None, "the profile has no endurance; --life 'life(cycles=3000)' gives one")
        if not erases:
            return Life(None, "nothing was cleaned")
        if not steady:
            return Life(None, "the run is not steady" if steady is False else "the run is short")
        if self.writes_per_day is None:
            why = "nothing says what a day brings" if self.recorded is None else None
            return Life(None, why or self._short.why_no_day())
        # Capacities in units of the data: their size cancels out.
        years = _core.lifetime_years(
            self.endurance, 1 + over_provisioning, write_amplification, self.writes_per_day
        )
        return Life(years)

    @property
    def _short(self) -> Recorded:
        if self.recorded is None:
            raise AssertionError("only a recording can be too short")
        return self.recorded

    def document(self) -> dict[str, Any]:
        """Give the assumptions, for the result."""
        return {
            "endurance_cycles": self.endurance,
            "drive_writes_per_day": self.writes_per_day,
            "rate": self.rate,
            "capacity_bytes": self.capacity_bytes,
            "fill": self.fill,
            "recorded_seconds": None if self.recorded is None else self.recorded.seconds,
            "recorded_bytes_per_day": (
                None if self.recorded is None else self.recorded.bytes_per_day
            ),
        }


def volume(bytes_per_day: float) -> str:
    """Give what is written a day, as drives are sold: in millions of millions of bytes."""
    for unit, name in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB")):
        if bytes_per_day >= unit or name == "MB":
            return f"{significant(bytes_per_day / unit)} {name}"
    raise AssertionError("the last unit takes all")


def recorded_of(document: dict[str, Any]) -> Recorded | None:
    """Give what a result's `lifetime` says of its recording; None without times."""
    seconds, rate = document.get("recorded_seconds"), document.get("recorded_bytes_per_day")
    return None if seconds is None or rate is None else Recorded(seconds, rate)


def writes_per_day(asked: float | str, data_bytes: int) -> float | None:
    """Give how often a day the data are written over; None for `trace`.

    Raises InputError if it is neither a number above 0, a size nor `trace`.
    """
    if asked == TRACE:
        return None
    try:
        found = float(asked)
    except ValueError:
        found = (_core.parse_bytes(str(asked)) or 0) / data_bytes
    if not 0 < found < float("inf"):
        raise InputError(
            f"--life {asked}: it is not a rate; write bytes a day, such as 40G, how "
            f"often the drive is written over, such as 1, or `{TRACE}`"
        )
    return found


def lifetime_of(
    name: str,
    wear: Wear,
    endurance: float | None,
    data_bytes: int,
    recorded: Recorded | None,
    counted_bytes_per_day: float | None = None,
) -> Lifetime:
    """Resolve the write rate of a workload.

    `recorded`: None if the workload `name` has no times; `data_bytes` that it touches, or that the
    drive holds. `counted_bytes_per_day` is what the drive's own counters say, if they are known.

    Raises InputError if the recorded rate is asked for and there is none.
    """
    asked = wear.writes_per_day
    if wear.capacity is not None:
        data_bytes = max(1, round(wear.capacity * wear.fill))
    given = None if asked is None else writes_per_day(asked, data_bytes)

    def resolved(rate: str, per_day: float | None) -> Lifetime:
        return Lifetime(endurance, per_day, rate, wear.capacity, wear.fill, recorded)

    if given is not None:
        return resolved(GIVEN, given)
    if recorded is None and (asked is not None or wear.capacity is not None):
        said = f"--life {TRACE}" if asked is not None else "--life capacity="
        raise InputError(
            f"{said}: {name} has no times, so its rate is not known; give it a "
            "number, or bytes a day such as 40G"
        )
    if counted_bytes_per_day is not None and (recorded is None or recorded.is_short):
        return resolved(COUNTED, counted_bytes_per_day / data_bytes)
    if recorded is not None and recorded.is_short:
        return resolved(UNKNOWN, None)
    if recorded is None or (asked is None and wear.capacity is None):
        return Lifetime(endurance, 1.0, ASSUMED, recorded=recorded)
    return resolved(RECORDED, recorded.bytes_per_day / data_bytes)
