"""For who makes drives: placement within the drive, and handles that tell the log from data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from flashwright._text import significant
from flashwright.advice.action import NO_LOSS, Candidate, Finding, NotKnown, Useless
from flashwright.advice.case import Case
from flashwright.advice.setup import Setup
from flashwright.devices import DriveProfile
from flashwright.slices.geometry import is_page_mapped

NAME = "placement"
QUESTIONS: tuple[str, ...] = ()
_POLICIES = ("hazard", "sepbit", "multi_log")
_NO_AMPLIFICATION = 1.03


def findings(case: Case) -> Iterator[Finding]:
    """Give better placement where the drive cleans, and handles where it may have them."""
    own = DriveProfile.load(case.base.drive.profile, case.base.drive.overrides)
    amplification = case.figures.write_amplification
    if not is_page_mapped(own):
        yield Useless(NAME, "Placement within the drive", "this kind of drive maps whole blocks")
        return
    if amplification <= _NO_AMPLIFICATION:
        yield Useless(
            NAME,
            "Placement within the drive, and handles (FDP)",
            f"the flash programs {significant(amplification)} bytes for each that it is written",
        )
        return
    now = str(own.profile["ftl"].get("placement") or "none")
    for policy in _POLICIES:
        if policy != now.partition("(")[0]:
            yield _placed(policy, amplification)
    yield from _handles(case, own, amplification)


def _placed(policy: str, amplification: float) -> Candidate:
    def changed(setup: Setup) -> Setup:
        drive = setup.drive
        return setup.changed(
            drive=replace(drive, overrides=(*drive.overrides, f"ftl.placement={policy}"))
        )

    return Candidate(
        action=NAME,
        name=f"placement({policy})",
        what=f"For makers of drives: placement by {policy} within the drive",
        changed=changed,
        cost="other firmware",
        loss=NO_LOSS,
        do=(f"flashwright compare SOURCE --placements none,{policy}",),
        undo=("the firmware as it was",),
        why=f"The flash programs {significant(amplification)} bytes for each that it is written.",
        combines=False,
    )


def _handles(case: Case, own: DriveProfile, amplification: float) -> Iterator[Finding]:
    if not case.load.share("wal"):
        yield NotKnown(
            "handles",
            "Handles (FDP) for log and data",
            "the source does not say which requests are of the log",
            "`flashwright record --database KIND PATH` does.",
        )
        return
    if not str(own.profile["ftl"]["scheme"]).startswith("superblock_mapped"):
        yield Useless("handles", "Handles (FDP) for log and data", "this kind of drive has none")
        return

    def changed(setup: Setup) -> Setup:
        drive = setup.drive
        overrides = (*drive.overrides, "fdp.handles=2", "ftl.placement=none")
        return setup.changed(drive=replace(drive, overrides=overrides), handles=True)

    yield Candidate(
        action="handles",
        name="handles",
        what="Tell the drive apart log and data by handles (FDP)",
        changed=changed,
        cost="a drive and a kernel with FDP, and a file system or database that names handles",
        loss=NO_LOSS,
        do=("nvme fdp status DISK    # whether the drive has it",),
        undo=("write without handles",),
        why=f"The flash programs {significant(amplification)} bytes for each that it is written; "
        "log and data then share no erase block.",
        combines=False,
    )
