"""What commands say of a store of many volumes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from flashwright import _core, sources
from flashwright._core import InputError, RunError
from flashwright.cli.output import Output
from flashwright.comparing.policies import choose
from flashwright.terminal import print_table, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flashwright.comparing.policies import Policy
    from flashwright.engine.doing import Done
    from flashwright.engine.where import Where
    from flashwright.fleet.costs import FleetDrive
    from flashwright.fleet.saving import Asked
    from flashwright.pages.page import Table
    from flashwright.runs import Run

PLACEMENTS = ("none", "dac", "sepbit", "hazard")
"""Placement policies that a fleet is simulated with, if none are named: MultiLog needs more erase
blocks than many a volume has.
"""
_OF_ADVICE = (
    "source", "device", "seed", "engine", "address", "jobs", "store", "json_path", "out",
)  # fmt: skip
"""Parameters of `advise` that a store has, too."""
SAMPLE = 8
"""One page in so many of a volume is followed, unless `part(STORE, sample=N)` says otherwise."""


def stats(given: str, page_size: int, where: Where, output: Output) -> None:
    """Study each volume of a store, and say what all do together."""
    from flashwright import sources
    from flashwright.fleet.stores import open_fleet
    from flashwright.fleet.studying import study
    from flashwright.reports import fleet as words

    source, _ = sources.part_of(given, takes_fleets=True)
    sample = sample_of(given, 1)
    run, done = study(open_fleet(source), page_size, where, sample=sample)
    result = run.result
    said = [words.studied_headline(result), *words.studied_remarks(result)]
    _tell(words.spread_table(result), said, done, output)
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
    result = run.result
    said = [words.savings_headline(result), *words.savings_remarks(result)]
    _tell(words.sums_table(result), said, done, output)
    _end(run, done, output)


def _tell(table: Table, said: Sequence[str], done: Done, output: Output) -> None:
    if output.is_only_json:
        return
    output.say_known(done.known, done.planned, "volumes")
    print_table(table.columns, [tuple(row) for row in table.rows], table.title)
    for line in (table.note, *said):
        say(line)


def policies_of(named: Sequence[str] | None, victims: Sequence[str] | None) -> list[Policy]:
    """Give the pairs of a fleet: each placement with its authors' victim policy; None for all."""
    return choose(named, victims, only_own=True)


def sample_of(given: str, unless_said: int = SAMPLE) -> int:
    """Give one page in how many is followed. Raises InputError for a part that a fleet has not."""
    part = json.loads(_core.read_setting("source", given))
    wrong = next((key for key in part if key not in ("of", "sample")), None)
    if wrong is not None:
        raise InputError(f"{given}: `{wrong}` is of a trace, not of a store; leave it out")
    return int(part.get("sample", unless_said))


def is_fleet(given: str) -> bool:
    """Tell whether a text names a store of many volumes, or a part of one."""
    return sources.is_fleet(json.loads(_core.read_setting("source", given))["of"])


def advise(given: str, device: str | None, seed: int, where: Where, output: Output) -> None:
    """Say how many drives a fleet wears out, and what spare space or placement would save.

    Raises click.UsageError for an option that is of one trace.
    """
    from flashwright.advice.nearest import named
    from flashwright.comparing.policies import Policy
    from flashwright.devices import DriveProfile
    from flashwright.fleet.costs import FleetDrive
    from flashwright.fleet.saving import Asked

    context = click.get_current_context()
    for option in context.command.params:
        given_by = context.get_parameter_source(option.name or "")
        if given_by is ParameterSource.COMMANDLINE and option.name not in _OF_ADVICE:
            raise click.UsageError(
                f"{option.opts[0]}: it is of one trace, and {given} is a store of many volumes; "
                "leave it out"
            )
    source, _ = sources.part_of(given, takes_fleets=True)
    if device is None:
        raise InputError(
            f"{source}: many volumes do not say what they lie on; name a drive: --device nvme-tlc"
        )
    drive = FleetDrive.of(DriveProfile.load(named(device).profile))
    own = Policy(drive.placement, drive.victim)
    policies = list(dict.fromkeys([own, *policies_of(PLACEMENTS, None)]))
    asked = Asked(policies, drive.over_provisionings(), sample=sample_of(given), seed=seed)
    savings(source, asked, where, output, "advise", drive)


def _end(run: Run, done: Done, output: Output) -> None:
    """Write the run, and leave with the exit code of what came of it."""
    output.finish(run)
    if done.stop is not None:
        raise done.stopped()
    failures: list[dict[str, Any]] = run.result["failures"]
    if failures:
        more = f" (and {len(failures) - 1} more)" if len(failures) > 1 else ""
        raise RunError(f"volume {failures[0]['volume']}: {failures[0]['error']}{more}")
