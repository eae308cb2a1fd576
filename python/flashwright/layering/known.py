"""Finding out what layers have to know of a device, before they are played on it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from flashwright import _core
from flashwright._core import InputError, RunError
from flashwright.devices import DriveProfile
from flashwright.layering import facts
from flashwright.probing.targets import Target
from flashwright.progress import follow, work

if TYPE_CHECKING:
    from flashwright.layering.facts import Facts

MEASURE, NOTHING = "measure", "none"


def facts_for_volume(device: str, given: Path | None, *, is_chosen: bool) -> Facts:
    """Find out what is to be known of the device of a new volume.

    `given` is the run folder of a probe. An emulated drive, whose profile says all, is measured if
    a stack is to be chosen for it.

    Raises InputError if the folder has nothing of it; RunError if measuring fails.
    """
    if given is not None:
        return facts.of_folder(given)
    emulated = _core.emulated_parts(device)
    if emulated is None or not is_chosen:
        return facts.Facts()
    profile, _ = emulated
    target = Target(profile, DriveProfile.load(profile), "filled", None, seed=1)
    return facts_for(target, MEASURE, needed=True)


def facts_for(target: Target, given: str | None, *, needed: bool) -> Facts:
    """Find out what is to be known of a device.

    `given`: the run folder of a probe; `measure`, on a second simulated drive of the same profile;
    `none`; or None for what suits the device. Without layers nothing is `needed`.

    Raises InputError if the folder has nothing of it, or nothing can be measured; RunError if
    measuring fails.
    """
    target = replace(target, holds_data=False)
    given = given or (MEASURE if target.is_simulated else NOTHING)
    if given == NOTHING or not needed:
        return facts.Facts()
    if given != MEASURE:
        return facts.of_folder(Path(given))
    if not target.is_simulated:
        raise InputError(
            f"--facts measure: {target.given} is a real device; probe it first, with `flashwright "
            f"probe {target.given} --write --full`, and give --facts its run folder"
        )
    if facts.is_cached(target):
        return facts.of_cache(target)
    second = work(f"Making a second {target.name}", "page writes", target.open)
    session = facts.session(target, second)
    outcome = follow(
        lambda: f"Measuring {target.name}: {session.label()}", "", session, session.run
    )
    if outcome.error is not None:
        raise RunError(
            f"{target.name}: measuring what layers have to know failed: {outcome.error}; --facts "
            "none does without"
        )
    return facts.measured(target, outcome)
