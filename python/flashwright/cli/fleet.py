"""What commands say of a store of many volumes."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from flashwright import _core
from flashwright._core import InputError, RunError
from flashwright.cli.output import Output
from flashwright.comparing.policies import choose
from flashwright.progress import StoppedError
from flashwright.terminal import print_table, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flashwright.comparing.policies import Policy
    from flashwright.engine.where import Where
    from flashwright.fleet.costs import FleetDrive
    from flashwright.fleet.doing import Done
    from flashwright.fleet.saving import Asked
    from flashwright.pages.page import Table
    from flashwright.runs import Run
    from flashwright.sources import Reading

PLACEMENTS = ("none", "dac", "sepbit", "hazard")
"""Placement policies that a fleet is simulated with, if none are named: MultiLog needs more erase
blocks than many a volume has.
"""
SAMPLE = 8
"""One page in so many of a volume is followed, unless `part(STORE, sample=N)` says otherwise."""


def stats(source: str, page_size: int, where: Where, output: Output) -> None:
    """Study each volume of a store, and say what all do together."""
    from flashwright.fleet.stores import open_fleet
    from flashwright.fleet.studying import study
    from flashwright.reports import fleet as words

    run, done = study(open_fleet(source), page_size, where)
    if not output.is_only_json:
        _tell_known(done, output)
        _print(words.spread_table(run.result))
        say(words.studied_headline(run.result))
        for line in words.studied_remarks(run.result):
            say(line)
    _end(run, done, output)


def savings(
    source: str,
    asked: Asked,
    where: Where,
    output: Output,
    command: str,
    drive: FleetDrive | None = None,
) -> None:
    """Simulate each volume of a store, and say what would be saved over all of them."""
    from flashwright.fleet.saving import save
    from flashwright.fleet.stores import open_fleet
    from flashwright.reports import fleet as words

    run, done = save(open_fleet(source), asked, where, command, drive)
    if not output.is_only_json:
        _tell_known(done, output)
        _print(words.sums_table(run.result))
        say(words.savings_headline(run.result))
        for line in words.savings_remarks(run.result):
            say(line)
    _end(run, done, output)


def policies_of(named: Sequence[str] | None, victims: Sequence[str] | None) -> list[Policy]:
    """Give the pairs of a fleet: each placement with its authors' victim policy."""
    return choose(named or PLACEMENTS, victims, only_own=True)


def sample_of(reading: Reading, given: str) -> int:
    """Give one page in how many is followed. Raises InputError for a part that a fleet has not."""
    for name, value in (("repeat", reading.repeat != 1), ("format", reading.format is not None)):
        if value:
            raise InputError(f"{given}: `{name}` is of a trace, not of a store; leave it out")
    return reading.sample if "sample" in given else SAMPLE


def source_of(given: str) -> tuple[str, int] | None:
    """Give the store that a text names and its sample; None if it is anything else."""
    from flashwright import sources

    of = json.loads(_core.read_setting("source", given))["of"]
    if not sources.is_fleet(of):
        return None
    source, reading = sources.part_of(given, takes_fleets=True)
    return source, sample_of(reading, given)


def advise(
    source: str,
    sample: int,
    device: str | None,
    seed: int,
    output: Output,
) -> None:
    """Say how many drives a fleet wears out, and what spare space or placement would save."""
    from flashwright.advice.nearest import named
    from flashwright.comparing.policies import Policy
    from flashwright.devices import DriveProfile
    from flashwright.engine.where import Where
    from flashwright.fleet.costs import FleetDrive
    from flashwright.fleet.saving import Asked

    if device is None:
        raise InputError(
            f"{source}: many volumes do not say what they lie on; name a drive: --device nvme-tlc"
        )
    drive = FleetDrive.of(DriveProfile.load(named(device).profile))
    own = Policy(drive.placement, drive.victim)
    policies = list(dict.fromkeys([own, *policies_of(None, None)]))
    asked = Asked(policies, drive.over_provisionings(), sample=sample, seed=seed)
    savings(source, asked, Where(), output, "advise", drive)


def _tell_known(done: Done, output: Output) -> None:
    output.say_known(done.known, done.planned, "volumes")


def _print(table: Table) -> None:
    print_table(table.columns, [tuple(row) for row in table.rows], table.title)
    if table.note:
        say(table.note)


def _end(run: Run, done: Done, output: Output) -> None:
    """Write the run, and leave with the exit code of what came of it."""
    output.finish(run)
    total = done.planned
    if done.stop is not None:
        kept = f"volumes; all that is finished is kept in {done.store.url}"
        raise StoppedError(total - done.left, total, kept, None)
    failures: list[dict[str, Any]] = run.result["failures"]
    if done.left:
        sys.stderr.write(
            f"flashwright: {done.left} of {total} volumes are left; the same command goes on\n"
        )
    if failures:
        more = f" (and {len(failures) - 1} more)" if len(failures) > 1 else ""
        raise RunError(f"volume {failures[0]['volume']}: {failures[0]['error']}{more}")
