"""Trims: whether the drive is told what is free, by the mount option or by a timer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from flashwright._text import size, span
from flashwright.advice import drive_facts, questions, telling
from flashwright.advice.action import NO_LOSS, Candidate, Finding, NotKnown, Told, Useless
from flashwright.advice.case import Case
from flashwright.advice.setup import Setup
from flashwright.lifetime import SECONDS_IN_DAY, volume

_SEEN = 0.01
_WHAT = "Tell the drive what is free (mount option discard, or fstrim)"


class Trim:
    """Looks at the trims that there are, and at what the file system does not hold."""

    NAME = "trim"
    QUESTIONS: tuple[str, ...] = (questions.TRIM,)

    def findings(self, case: Case) -> Iterator[Finding]:
        """See `Action`."""
        if case.device.get("discard_max_bytes") == 0:
            why = "the disk takes no trims: its discard_max_bytes is 0"
            yield Useless(self.NAME, _WHAT, why)
            return
        if case.load.requests.get("trim", 0):
            yield from self._with_trims(case)
        else:
            yield from self._without(case)
        used = None if case.load.disk is None else case.load.disk.used_share
        if used is not None and drive_facts.fill(case) > used + _SEEN:
            yield self._of_all(case, used)

    def _of_all(self, case: Case, used: float) -> Candidate:
        def changed(setup: Setup) -> Setup:
            now = 1.0 if setup.drive.fill is None else setup.drive.fill
            return setup.changed(drive=replace(setup.drive, fill=min(now, used)))

        where = telling.mount_point(case)
        held = telling.share(drive_facts.fill(case))
        return Candidate(
            self.NAME,
            "trim(fstrim)",
            "Trim what is free, and then each week",
            changed,
            "a burst of trims each time",
            NO_LOSS,
            (f"fstrim --verbose {where}", "systemctl enable --now fstrim.timer"),
            ("systemctl disable --now fstrim.timer",),
            f"The file system holds {telling.share(used)} of the disk, and the drive takes {held} "
            "for held.",
            ("what lies between passes trims on (LUKS, LVM, RAID)",),
        )

    def _with_trims(self, case: Case) -> Iterator[Finding]:
        load = case.load
        number, trimmed = load.requests["trim"], load.bytes["trim"]
        during = f" in {span(load.seconds)}" if load.seconds else ""
        said = f"The drive was told of {size(trimmed)} that are free{during}, by {number} trims."
        daily = trimmed * case.loads_a_day
        free = (1 - drive_facts.fill(case)) * drive_facts.capacity_bytes(case)
        if daily and free:
            lasts = span(free / daily * SECONDS_IN_DAY)
            said += (
                f" That is {volume(daily)} a day, so a timer instead of the mount option would "
                f"have to trim at least each {lasts}, in which the {size(free)} that hold nothing "
                "are written once."
            )
        yield Told(self.NAME, said)
        where = telling.mount_point(case)
        yield Candidate(
            self.NAME,
            "trim(fstrim alone)",
            "Mount without discard, and let fstrim.timer trim once a week",
            lambda setup: setup.changed(trims=False),
            "the drive learns up to a week later what is free",
            NO_LOSS,
            (
                f"mount -o remount,nodiscard {where}",
                f"# and take discard out of the options of {where} in /etc/fstab",
                "systemctl enable --now fstrim.timer",
            ),
            (
                f"mount -o remount,discard {where}",
                "systemctl disable --now fstrim.timer",
            ),
            f"{number} trims are among the requests that commits wait beside; without them the "
            "drive keeps what was freed as if it were data.",
            ("what the timer frees once a week makes no difference: the gain is at its lowest",),
        )

    def _without(self, case: Case) -> Iterator[Finding]:
        where = telling.mount_point(case)
        options = telling.mount_options(case)
        look = f"fstrim --verbose {where}; systemctl is-enabled fstrim.timer"
        if case.base.drive.fill is None or case.base.drive.fill >= 1:
            why = (
                "the load has 0 trims, and how full the disk is is not known, so it is taken as "
                "full: then there is nothing to trim"
            )
            how = f"df {where}; then {telling.advise(case, '--fill SHARE')}"
            yield NotKnown(self.NAME, _WHAT, why, how)
            return
        free = (1 - drive_facts.fill(case)) * drive_facts.capacity_bytes(case)
        how_mounted = (
            "it is mounted with discard, and nothing was freed"
            if any(one.startswith("discard") for one in options)
            else "it is not mounted with discard"
            if options != ("",)
            else "how it is mounted is not known"
        )
        why = (
            f"the load has 0 trims ({how_mounted}). All figures take the {size(free)} that hold no "
            "data as free for the drive, which is so only if they were trimmed"
        )
        yield NotKnown(self.NAME, _WHAT, why, look)
