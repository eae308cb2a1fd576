"""Life of a drive at the write rate of a run (SCHEDULER 5.5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flashwright import _core
from flashwright.devices import DriveProfile
from flashwright.lifetime import SECONDS_IN_DAY, Recorded

LONGER = "runs of --for 600 or more give a life"
DAYS_IN_YEAR = 365.25
SECONDS_IN_YEAR = DAYS_IN_YEAR * SECONDS_IN_DAY


def years_by_guarantee(guaranteed_bytes: float, write_bytes_per_second: float) -> float | None:
    """Give the years until the host has written what the maker guarantees.

    SCHEDULER 5.5, table 5.4.

    "dividing this guaranteed lifetime write amount (in bytes) by average throughput". None if
    nothing is written.
    """
    return (
        guaranteed_bytes / write_bytes_per_second / SECONDS_IN_YEAR
        if write_bytes_per_second > 0
        else None
    )


def life_figures(
    row: Mapping[str, Any],
    drive: DriveProfile | None,
    endurance_cycles: float | None,
    guaranteed_bytes: float | None,
) -> dict[str, Any]:
    """Give columns on the life of the profile's whole drive under what a run wrote, all day.

    Of a run that was too short to say what a day brings, or in which the drive was not steady,
    `life_unknown` says why there are no years. `endurance_cycles` beats the profile's; with
    neither, or without a drive, there is no life by cycles. The write amplification is that of the
    drive that was simulated. Wear is taken as even.
    """
    rate = row["issued_write_bytes_per_second"]
    recorded = Recorded(row["recorded_seconds"], rate * SECONDS_IN_DAY)
    found: dict[str, Any] = {"write_bytes_per_day": recorded.bytes_per_day}
    has_day = not recorded.is_short
    if not has_day:
        found["life_unknown"] = recorded.why_no_day(LONGER)
    if guaranteed_bytes is not None:
        found["life_years_by_guarantee"] = (
            years_by_guarantee(guaranteed_bytes, rate) if has_day else None
        )
        found["life_transactions_by_guarantee"] = _transactions(
            guaranteed_bytes, row["issued_write_bytes_per_transaction"]
        )
    if drive is None:
        return found
    cycles = endurance_cycles or drive.profile["media"]["endurance_cycles"] or None
    amplification = row.get("drive_bytes_amplification")
    if cycles is None or amplification is None or not rate:
        return found
    flash_bytes_per_day = rate * SECONDS_IN_DAY * amplification
    physical = drive.summary["physical_bytes"]
    is_known = has_day and row["drive_is_steady"]
    if has_day and not is_known:
        found["life_unknown"] = "the run on the simulated drive is not steady"
    return {
        **found,
        "endurance_cycles": float(cycles),
        # The bytes are those that the flash takes, so the write amplification is 1 here.
        "life_years": _core.lifetime_years(float(cycles), physical, 1.0, flash_bytes_per_day)
        if is_known
        else None,
        "life_transactions": _transactions(
            cycles * physical, row["drive_flash_write_bytes_per_transaction"]
        ),
    }


def _transactions(lifetime_bytes: float, bytes_per_transaction: float | None) -> float | None:
    return lifetime_bytes / bytes_per_transaction if bytes_per_transaction else None
