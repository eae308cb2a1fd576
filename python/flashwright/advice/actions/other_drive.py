"""Other drives, each with the same load, and the endurance class that the load needs."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from flashwright._text import significant, size
from flashwright.advice import drive_facts, questions, telling
from flashwright.advice.action import NO_LOSS, Candidate, Finding, NotKnown, Told
from flashwright.advice.case import Case
from flashwright.advice.setup import Drive, Setup
from flashwright.lifetime import volume

KINDS: tuple[tuple[str, ...], ...] = (
    (
        *("nvme-tlc", "nvme-qlc", "sk-hynix-pe8110", "samsung-pm9a3"),
        *("micron-7450-pro", "kioxia-cm7-r-4"),
    ),
    ("intel-335", "ocz-vector", "intel-x25m", "intel-x25e"),
    ("sd-card-a2", "emmc-51"),
)
"""Profiles that stand beside each other: by NVMe, by SATA, cards. Those that map whole erase blocks
are of 2010 and before, and are not offered.
"""
_CARDS = ("sd-card", "usb-stick", "sd-card-a2", "emmc-51")
_YEARS = 5
_DAYS = 365.25


class OtherDrive:
    """Offers each profile of the kind, at the same size and fill."""

    NAME = "other_drive"
    QUESTIONS: tuple[str, ...] = (questions.ENDURANCE,)

    def findings(self, case: Case) -> Iterator[Finding]:
        """See `Action`."""
        yield self._needed(case)
        for name in _beside(case):
            yield self._other(case, name)

    def _needed(self, case: Case) -> Finding:
        what = "Endurance class that the load needs"
        if not case.writes_per_day:
            why = f"nothing says what a day brings: {case.rate_said or 'the source has no times'}"
            return NotKnown(self.NAME, what, why, telling.advise(case, "--writes-per-day 40G"))
        capacity = drive_facts.capacity_bytes(case)
        flash = case.writes_per_day * case.figures.write_amplification
        written, programmed = (volume(one * _DAYS * _YEARS) for one in (case.writes_per_day, flash))
        said = (
            f"The load needs {significant(case.writes_per_day / capacity, 2)} drive writes a day "
            f"of {size(capacity)}, or {written} written (TBW) in {_YEARS} years; of flash that is "
            f"{programmed}, as {telling.amplification(case)}. Makers rate with an amplification of "
            "their own: where it is not published, take the larger figure."
        )
        return Told(self.NAME, said)

    def _other(self, case: Case, name: str) -> Candidate:
        capacity = drive_facts.capacity_bytes(case)
        about = drive_facts.profile(Drive(name)).profile
        cycles = about["media"].get("endurance_cycles")
        endurance = (
            f"its flash takes {cycles} cycles"
            if cycles
            else "how long its flash lives is not known"
        )
        return Candidate(
            self.NAME,
            f"other_drive({name})",
            f"Take a {name}: {about['summary'].partition(';')[0]}",
            partial(_on, name, capacity),
            "the drive, and the time in which the data are copied",
            NO_LOSS,
            (
                "# stop the database",
                f"rsync --archive --hard-links {telling.mount_point(case)}/ /mnt/new/",
                "# mount the new drive in its place, and start the database",
            ),
            ("# mount the old drive again, which still has what it held",),
            f"The same {telling.written(case)}, at {size(capacity)} and "
            f"{telling.share(drive_facts.fill(case))} full, on another drive.",
            (f"the drive is as its profile, at {size(capacity)}", endurance),
            combines=False,
        )


def _on(name: str, capacity: int, setup: Setup) -> Setup:
    drive = Drive(name, (), setup.drive.capacity_bytes or capacity, setup.drive.fill)
    return setup.changed(drive=drive, handles=False)


def _beside(case: Case) -> tuple[str, ...]:
    own = case.profile_name
    if own in _CARDS:
        kind = KINDS[2]
    else:
        by = drive_facts.profile(case.base.drive).profile["interface"]["kind"]
        kind = KINDS[{"nvme": 0, "sata": 1}.get(str(by), 2)]
    return tuple(name for name in kind if name != own)
