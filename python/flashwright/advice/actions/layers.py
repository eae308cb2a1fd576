"""Layers between database and drive."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from flashwright import _core
from flashwright._core import FlashwrightError
from flashwright._text import significant, span
from flashwright.advice import drive_facts, telling
from flashwright.advice.action import NO_LOSS, Candidate, Finding, NotKnown, Useless
from flashwright.advice.case import Case
from flashwright.advice.setup import Setup
from flashwright.layering import candidates as layering
from flashwright.layering.facts import AS_FAST_AT_RANDOM

IN_SEGMENTS = "log_volume(summaries=segments,filled=yes)"
"""The log as it is played on a drive that takes turns between two places badly."""
_WHAT = "Put layers between database and drive (flashwright volume)"


class Layers:
    """Offers stacks where writes at random take longer than those in sequence."""

    NAME = "layers"
    QUESTIONS: tuple[str, ...] = (
        "Would a log-structured volume or a staging buffer below the database help?",
    )

    def findings(self, case: Case) -> Iterator[Finding]:
        """See `Action`."""
        drive = case.base.drive
        try:
            at_random, in_sequence = drive_facts.writes(drive)
        except FlashwrightError as error:
            how = f"flashwright play {case.load.name} --on {case.profile_name} --stack auto"
            yield NotKnown(self.NAME, _WHAT, str(error), how)
            return
        ratio = at_random / max(in_sequence, 1e-12)
        takes = (
            f"a write of 4 KiB at random takes {span(at_random)} on {case.profile_name}, "
            f"{significant(ratio)} times as long as one in sequence"
        )
        if ratio <= AS_FAST_AT_RANDOM:
            yield Useless(self.NAME, _WHAT, f"{takes}: there is no pattern that it likes better")
            return
        for one in layering.CANDIDATES:
            yield self._stack(case, one, one.stack, one.played or one.stack, takes)
            if one.stack == "log_volume":
                shown = "log_volume(summaries=segments)"
                yield self._stack(case, one, shown, IN_SEGMENTS, takes)

    def _stack(
        self, case: Case, one: layering.Candidate, stack: str, played: str, takes: str
    ) -> Candidate:
        _core.check_stack(played)
        part, where = telling.partition(case), telling.mount_point(case)
        return Candidate(
            self.NAME,
            f"layers({stack})",
            f"Put {stack} between database and drive",
            partial(_below, played),
            one.cost + (layering.SEGMENTS_COST if "segments" in stack else ""),
            NO_LOSS,
            (
                f"flashwright probe {part} --write --only write_patterns",
                f"flashwright volume create {part} --stack '{stack}' --facts PROBE_FOLDER "
                f"--destroy-data {part}",
                f"flashwright volume mount {part} {where} --mkfs ext4",
            ),
            (
                f"flashwright volume umount {where}",
                f"flashwright volume change {part} --destroy {part}",
                "# make a file system there again, and copy the data back",
            ),
            f"{takes[0].upper()}{takes[1:]}, and the stack makes others of them.",
            (
                "the data are copied to the volume and back",
                f"its risk is taken: {one.risk}",
            ),
        )


def _below(stack: str, setup: Setup) -> Setup:
    return setup.changed(stack=stack)
