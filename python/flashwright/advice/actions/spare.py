"""Space that is left free, so that the drive has more spare space to clean in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from flashwright._text import percent, significant, size
from flashwright.advice.action import NO_LOSS, Candidate, Finding, NotKnown, Useless
from flashwright.advice.case import Case
from flashwright.advice.setup import Setup

NAME = "spare"
QUESTIONS = ("Leave space unpartitioned, and how much?",)
_SHARES = (0.07, 0.15, 0.28)
_NO_AMPLIFICATION = 1.03


def findings(case: Case) -> Iterator[Finding]:
    """Give a candidate for each share of the disk that is not held by data already."""
    amplification = case.figures.write_amplification
    if amplification <= _NO_AMPLIFICATION:
        yield Useless(
            NAME,
            "More space left unpartitioned",
            f"the flash programs {significant(amplification)} bytes for each that it is written, "
            "so cleaning costs next to nothing",
        )
        return
    drive = case.base.drive
    if drive.capacity_bytes is None:
        yield NotKnown(
            NAME,
            "Space left unpartitioned",
            "the size of the disk is not known",
            "--size 256G and --fill 80% tell.",
        )
        return
    now = 1.0 if drive.fill is None else drive.fill
    for share in _SHARES:
        if now > 1 - share:
            yield _candidate(case, share, now)


def _candidate(case: Case, share: float, now: float) -> Candidate:
    def changed(setup: Setup) -> Setup:
        return setup.changed(drive=replace(setup.drive, fill=1 - share))

    capacity = case.base.drive.capacity_bytes or 0
    disk = str(case.device.get("name") or "DISK")
    return Candidate(
        action=NAME,
        name=f"spare({share:.0%})",
        what=f"Leave {percent(share, 2)} of the disk unpartitioned",
        changed=changed,
        cost=f"{size(share * capacity)} that hold no data",
        loss=NO_LOSS,
        do=(
            f"sgdisk --new=0:0:{(1 - share) * capacity / (1 << 30):.0f}G /dev/{disk}    # of an "
            "empty disk",
            f"blkdiscard --offset {_aligned((1 - share) * capacity)} /dev/{disk}    # what is "
            "behind the partition, once: this destroys what is there",
        ),
        undo=("make the partition larger, and grow the file system",),
        why=f"The disk is {percent(now, 2)} full for the drive, and its flash programs "
        f"{significant(case.figures.write_amplification)} bytes for each that it is written.",
        assumes=("the free space was trimmed once, so that the drive knows it to be free",),
    )


def _aligned(offset: float) -> int:
    return (int(offset) + (1 << 20)) >> 20 << 20
