"""Judgement of a run on a simulated drive: whether figures are steady, and the drive's life."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from flashwright import steady
from flashwright.lifetime import SECONDS_IN_DAY, Life, Lifetime, Recorded, Wear, lifetime_of
from flashwright.sources import counted_bytes_per_day

if TYPE_CHECKING:
    import pyarrow as pa

    from flashwright.devices import DriveProfile
    from flashwright.jobs.play.places import Place


def judged(
    place: Place, run: Mapping[str, Any], tables: Mapping[str, pa.Table], lifetime: Lifetime
) -> dict[str, Any]:
    """Judge a run on a simulated drive that was played directly.

    Gives `steady` by figure, `judged` with intervals and reasons, `steady_with` (the options that
    would make it steady), `life_years`, `life_unknown` and `lifetime`.
    """
    drive = place.drive
    if drive is None:
        raise AssertionError("only a simulated drive is judged")
    outcome = outcome_of(run, tables)
    settings = place.settings
    found = steady.of_drive(drive.profile, drive.summary, outcome, settings["warm_up"])
    pages, footprint = drive.summary["logical_pages"], place.source.footprint_bytes
    untimed = untimed_requests(place)
    played = steady.Played(
        place.source.requests,
        settings["source"].get("repeat", 1),
        untimed,
        settings["requests"],
        settings["duration"],
        pages if footprint is None else min(pages, -(-footprint // drive.summary["page_bytes"])),
    )
    is_steady = {key: figure["steady"] for key, figure in found.items()}
    return {
        "steady": is_steady,
        "judged": found,
        "steady_with": steady.remedy(drive.summary, outcome, found, played),
        **life_of(drive, run, lifetime, is_steady["write_amplification"]).document(),
        "lifetime": lifetime.document(),
    }


def outcome_of(run: Mapping[str, Any], tables: Mapping[str, pa.Table]) -> dict[str, Any]:
    """Give a run as `steady` takes it: its counters by name, beside the figures over time."""
    over_time = tables["over_time"]
    return {
        **run["simulated"]["counters"],
        "requests": run["requests"],
        "read_bytes": run["read_bytes"],
        "written_bytes": run["written_bytes"],
        "simulated_seconds": run["seconds"],
        "state": run["state"]["kind"],
        "tables": {"over_time": {name: over_time[name] for name in over_time.column_names}},
    }


def untimed_requests(place: Place) -> int:
    """Give the requests of a source that are played in no time."""
    untimed = str(place.settings["untimed"])
    if untimed.endswith("%"):
        return int(float(untimed[:-1]) / 100 * (place.source.requests or 0))
    return int(untimed)


def lifetime(place: Place) -> Lifetime:
    """Resolve what the life of a drive under a source is computed from.

    Of a drive that is simulated as a slice its whole capacity counts.

    Raises InputError if the recorded rate is asked for and there are no times.
    """
    drive, asked = place.drive, place.settings["life"] or {}
    if drive is None:
        raise AssertionError("only a simulated drive has a life")
    totals, nanoseconds = place.source.totals, place.source.duration_ns
    recorded = None
    if totals is not None and nanoseconds:
        # Of a slice's trace the time is divided, too.
        seconds = nanoseconds / 1e9 * drive.slices
        written = totals["written_bytes"] * drive.slices
        recorded = Recorded(seconds, written * SECONDS_IN_DAY / seconds)
    media = drive.profile["media"]
    slices = media.get("slices", 1) if drive.slice is None else drive.slices
    return lifetime_of(
        place.source.name,
        Wear(writes_per_day=asked.get("writes_per_day")),
        asked.get("cycles") or media["endurance_cycles"] or None,
        drive.capacity_bytes * slices,
        recorded,
        counted_bytes_per_day(place.given),
    )


def life_of(
    drive: DriveProfile, run: Mapping[str, Any], lifetime: Lifetime, is_steady: bool | None
) -> Life:
    """Give the life in years, or why there is none."""
    counters = run["simulated"]["counters"]
    if not counters["host_page_writes"]:
        return Life(None, "nothing was written")
    return lifetime.life(
        run["simulated"]["write_amplification"],
        drive.over_provisioning,
        erases=counters["erases"],
        steady=is_steady,
    )
