"""Placement handles (FDP) that keep the log apart from the rest within the drive."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from flashwright._text import significant
from flashwright.advice import drive_facts, telling
from flashwright.advice.action import NO_LOSS, Candidate, Finding, Useless
from flashwright.advice.case import Case
from flashwright.advice.setup import Setup
from flashwright.advice.traces import LOG_HANDLE

_WHAT = "Keep log and tables apart by placement handles (FDP)"
_WANTED = LOG_HANDLE + 1
_LITTLE_MOVED = 0.03


class Handles:
    """Offers two handles where the drive is of superblocks, as reclaim units are."""

    NAME = "handles"
    QUESTIONS: tuple[str, ...] = ("Do placement handles (FDP) or streams for log and tables help?",)

    def findings(self, case: Case) -> Iterator[Finding]:
        """See `Action`."""
        drive = case.base.drive
        about = drive_facts.profile(drive).profile
        log = case.load.share("wal")
        if about["interface"]["kind"] != "nvme" or drive_facts.scheme(drive) != "superblock_mapped":
            why = (
                f"{case.profile_name} has 0 handles: they are of NVMe drives that write and clean "
                f"superblocks, and it is {about['interface']['kind']} with "
                f"{drive_facts.scheme(drive)}"
            )
            yield Useless(self.NAME, _WHAT, why)
        elif not case.load.knows_purposes:
            yield telling.purposes_not_known(case, self.NAME, _WHAT)
        elif not 0 < log < 1:
            why = f"the log is {telling.share(log)} of what is written: there is nothing to part"
            yield Useless(self.NAME, _WHAT, why)
        elif telling.moved(case) < _LITTLE_MOVED:
            why = f"there is nothing to save: {telling.amplification(case)}"
            yield Useless(self.NAME, _WHAT, why)
        else:
            yield self._parted(case, log)

    def _parted(self, case: Case, log: float) -> Candidate:
        has = int(drive_facts.profile(case.base.drive).profile.get("fdp", {}).get("handles", 0))

        def changed(setup: Setup) -> Setup:
            if has >= _WANTED:
                return setup.changed(handles=True)
            kept = tuple(
                one
                for one in setup.drive.overrides
                if not one.startswith(("fdp.", "ftl.placement"))
            )
            added = (*kept, "ftl.placement=none", f"fdp.handles={_WANTED}")
            return setup.changed(drive=replace(setup.drive, overrides=added), handles=True)

        namespace = telling.disk(case)
        controller = namespace.rpartition("n")[0] if "nvme" in namespace else "/dev/nvme0"
        generic = f"/dev/ng{controller.removeprefix('/dev/nvme')}n1"
        return Candidate(
            self.NAME,
            "handles(log)",
            _WHAT,
            changed,
            "the drive is formatted anew, and log and tables are written by what names handles",
            NO_LOSS,
            (
                f"nvme fdp configs {controller} --endgrp-id=1",
                "# back up: all namespaces have to go before FDP is switched on",
                f"nvme set-feature {controller} --feature-id=0x1d --value=1 --cdw12=0x1 --save",
                f"nvme create-ns {controller} --nsze=BLOCKS --ncap=BLOCKS --nphndls={_WANTED} "
                "--phndls=0,1",
                f"flashwright volume create {generic} --stack 'log_volume(hints=yes)'",
            ),
            (
                "# back up, and delete the namespace",
                f"nvme set-feature {controller} --feature-id=0x1d --value=1 --cdw12=0x0 --save",
            ),
            f"The log is {telling.share(log)} of what is written and dies young; today the drive "
            f"programs {significant(telling.moved(case), 2)} bytes more for each, as it cleans it "
            "together with tables.",
            (
                "the drive has FDP, initially isolated, and is otherwise like this profile without "
                "a placement of its own"
                if has < _WANTED
                else "the drive is as its profile",
                "whoever writes names the handles: no database does so by itself, and none of this "
                "was run on a real drive",
            ),
        )
