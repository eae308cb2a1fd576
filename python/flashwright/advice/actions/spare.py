"""Space that is left unpartitioned, which the drive has to clean with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from flashwright._text import significant, size
from flashwright.advice import drive_facts, questions, telling
from flashwright.advice.action import NO_LOSS, Candidate, Finding, Useless
from flashwright.advice.case import Case
from flashwright.advice.setup import Setup
from flashwright.devices import LEFT_FREE

LITTLE_MOVED = 0.03
"""Bytes that the drive moves for each written, below which spare space cannot gain more than that.
"""
_WHAT = "Leave space unpartitioned"


class Spare:
    """Offers three sizes of space that nothing is written to."""

    NAME = "spare"
    QUESTIONS: tuple[str, ...] = (questions.SPARE,)

    def findings(self, case: Case) -> Iterator[Finding]:
        """See `Action`."""
        drive = case.base.drive
        if not drive_facts.is_page_mapped(drive):
            why = (
                f"{case.profile_name} maps whole erase blocks ({drive_facts.scheme(drive)}): it "
                "has the same 0 more of them to write to, whatever is partitioned"
            )
            yield Useless(self.NAME, _WHAT, why)
            return
        if telling.moved(case) < LITTLE_MOVED:
            yield Useless(
                self.NAME, _WHAT, f"there is nothing to save: {telling.amplification(case)}"
            )
            return
        fill = drive_facts.fill(case)
        offered = [left for left in LEFT_FREE if 1 - left < fill]
        if not offered:
            why = (
                f"{telling.share(1 - fill)} of the disk holds no data, which is spare already as "
                "long as it is trimmed"
            )
            yield Useless(self.NAME, _WHAT, why)
        for left in offered:
            yield self._leaving(case, left)

    def _leaving(self, case: Case, left: float) -> Candidate:
        capacity = drive_facts.capacity_bytes(case)
        kept = 1 - left

        def changed(setup: Setup) -> Setup:
            now = 1.0 if setup.drive.fill is None else setup.drive.fill
            own = setup.drive.capacity_bytes or capacity
            drive = replace(setup.drive, capacity_bytes=own, fill=min(now, kept))
            return setup.changed(drive=drive)

        disk, part = telling.disk(case), telling.partition(case)
        gib = int(capacity * kept / 2**30)
        shrink = (
            (f"e2fsck -f {part}", f"resize2fs {part} {max(1, gib - 1)}G")
            if telling.file_system(case).startswith("ext")
            else (f"# copy the data off {part}, and make a smaller file system there below",)
        )
        return Candidate(
            self.NAME,
            f"spare({telling.share(left)})",
            f"Leave {telling.share(left)} of the disk unpartitioned ({size(capacity * left)})",
            changed,
            _cost(case, left),
            NO_LOSS,
            (
                f"umount {part}",
                *shrink,
                f"parted {disk} resizepart 1 {max(1, gib)}GiB",
                f"sgdisk --new=0:0:0 --change-name=0:spare {disk}",
                "blkdiscard /dev/disk/by-partlabel/spare   # once: nothing writes there again",
            ),
            (
                f"sgdisk --delete=2 {disk}",
                f"parted {disk} resizepart 1 100%",
                f"# then let the file system of {part} grow (resize2fs, xfs_growfs)",
            ),
            f"Cleaning and the like program {significant(telling.moved(case), 2)} bytes more for "
            "each that is written; with more spare space a victim holds fewer pages to move.",
            _assumes(case, left),
        )


def _cost(case: Case, left: float) -> str:
    capacity = drive_facts.capacity_bytes(case)
    return f"{size(capacity * left)} of the disk, and an hour in which it is partitioned anew"


def _assumes(case: Case, left: float) -> tuple[str, ...]:
    trimmed = "the space is trimmed once, and nothing writes to it"
    known = None if case.load.disk is None else case.load.disk.used_share
    asked = case.base.drive.fill if known is None else known
    if asked is None or (known is None and asked >= 1):
        return (trimmed, f"the data fit into {telling.share(1 - left)} of the disk")
    over = asked - (1 - left)
    if over <= 0:
        return (trimmed,)
    moved = size(over * drive_facts.capacity_bytes(case))
    return (trimmed, f"{moved} of the data go elsewhere, or the disk is so much larger")
