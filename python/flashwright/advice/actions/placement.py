"""Placement within the drive: for those who make drives."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from flashwright import _core
from flashwright._text import significant
from flashwright.advice import drive_facts, telling
from flashwright.advice.action import NO_LOSS, Candidate, Finding, Useless
from flashwright.advice.case import Case
from flashwright.advice.setup import Setup

POLICIES = ("hazard", "sepbit", "multi_log")
"""Online policies of the registry that write least in `compare`."""
_WHAT = "Place pages by another policy within the drive (for makers of drives)"
_LITTLE_MOVED = 0.03


class Placement:
    """Offers the policies that write least, with the victim policy of their authors."""

    NAME = "placement"
    QUESTIONS: tuple[str, ...] = (
        "What would another placement policy in the drive's firmware save?",
    )

    def findings(self, case: Case) -> Iterator[Finding]:
        """See `Action`."""
        drive = case.base.drive
        ftl = drive_facts.profile(drive).profile["ftl"]
        if not drive_facts.is_page_mapped(drive):
            why = (
                f"{case.profile_name} maps whole erase blocks ({drive_facts.scheme(drive)}), and "
                "has 1 place for each page"
            )
            yield Useless(self.NAME, _WHAT, why)
        elif telling.moved(case) < _LITTLE_MOVED:
            why = f"there is nothing to save: {telling.amplification(case)}"
            yield Useless(self.NAME, _WHAT, why)
        else:
            victims = {one["name"]: one["victim"] for one in _core.registry()["placement"]}
            for name in POLICIES:
                if str(ftl["placement"]).partition("(")[0] != name:
                    yield self._placed(case, name, victims[name])

    def _placed(self, case: Case, name: str, victim: str) -> Candidate:
        # Empty leaves the victims to the placement.
        keys = (f"ftl.placement={name}", f"ftl.victim={'' if victim == 'own' else victim}")

        def changed(setup: Setup) -> Setup:
            kept = tuple(
                one
                for one in setup.drive.overrides
                if not one.startswith(("fdp.", "ftl.placement", "ftl.victim"))
            )
            drive = replace(setup.drive, overrides=(*kept, *keys))
            return setup.changed(drive=drive, handles=False)

        return Candidate(
            self.NAME,
            f"placement({name})",
            f"For makers of drives: place pages by {name}",
            changed,
            "firmware of the drive; nobody who buys one can set it",
            NO_LOSS,
            (f"# in the firmware; here --device 'profile' with {keys[0]}, {keys[1]}",),
            ("# the firmware before",),
            f"Of each byte written {significant(telling.moved(case), 2)} are moved along by "
            "cleaning; pages that die together are put together.",
            ("the drive's processor has the time and the memory for it",),
            combines=False,
        )
