"""Telling the drive what is free: `discard` at mount, or `fstrim` by a timer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from flashwright._text import percent, significant, size
from flashwright.advice.action import NO_LOSS, Candidate, Finding, NotKnown, Told, Useless
from flashwright.advice.case import Case
from flashwright.advice.setup import Setup

NAME = "trim"
QUESTIONS = ("discard at mount or fstrim, and how often?",)
_NO_AMPLIFICATION = 1.03


def findings(case: Case) -> Iterator[Finding]:
    """Say what trims do here, and what a drive that is not told what is free would do."""
    trims = case.load.requests["trim"]
    if trims:
        yield Told(
            NAME,
            f"The file system trims as it goes: {size(case.load.bytes['trim'])} in {trims:,} "
            "requests.",
        )
    fill = case.base.drive.fill
    if case.load.disk is None or case.load.disk.used_share is None:
        yield NotKnown(
            NAME,
            "What trimming gains",
            "how much of the disk holds data is not known",
            "A recording of `flashwright record` has it; --fill 60% tells.",
        )
        return
    used = case.load.disk.used_share
    amplification = case.figures.write_amplification
    if amplification <= _NO_AMPLIFICATION:
        yield Useless(
            NAME,
            "Trimming more often",
            f"the flash programs {significant(amplification)} bytes for each that it is written",
        )
        return
    if fill is not None and fill <= used + 0.01:
        yield Told(
            NAME,
            f"All of this takes for granted that the drive knows what is free: {percent(used, 2)} "
            "of the disk holds data. `fstrim` once a week keeps it so; `discard` at mount does it "
            "at each commit of the file system.",
        )
        return

    def changed(setup: Setup) -> Setup:
        return setup.changed(drive=replace(setup.drive, fill=used))

    point = str(case.file_system.get("mount_point") or "/")
    yield Candidate(
        action=NAME,
        name="fstrim",
        what="Trim what is free, weekly",
        changed=changed,
        cost="a burst of trims a week",
        loss=NO_LOSS,
        do=(f"fstrim {point}", "systemctl enable --now fstrim.timer"),
        undo=("systemctl disable --now fstrim.timer",),
        why=f"The file system holds {percent(used, 2)} of the disk, and the drive takes "
        f"{percent(1.0 if fill is None else fill, 2)} for held.",
        assumes=("what lies between drive and file system passes trims on (LUKS, LVM, RAID)",),
    )
