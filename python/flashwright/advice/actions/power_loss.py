"""Power-loss protection: what a flush costs, and what it would cost with capacitors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from flashwright._text import span
from flashwright.advice import drive_facts, questions, telling
from flashwright.advice.action import NO_LOSS, Candidate, Finding, NotKnown, Told, Useless
from flashwright.advice.case import Case
from flashwright.advice.setup import Setup

_WHAT = "Take a drive with power-loss protection"
_KEY = "write_buffer.power_loss_protected"


class PowerLoss:
    """Looks at the share of a commit that is its flush."""

    NAME = "power_loss"
    QUESTIONS: tuple[str, ...] = (questions.POWER_LOSS,)

    def findings(self, case: Case) -> Iterator[Finding]:
        """See `Action`."""
        drive, found = case.base.drive, telling.commits(case)
        about = drive_facts.profile(drive).profile
        if found is None:
            why = "the source does not say how long a flush takes"
            yield NotKnown(self.NAME, _WHAT, why, telling.record(case))
            return
        if not case.load.requests.get("flush", 0):
            yield self._no_flushes(case)
            return
        share = telling.flush_share(found)
        costs = f"a flush takes {span(found.flush_mean)}, {telling.share(share)} of a commit"
        if drive_facts.is_protected(drive):
            why = f"{case.profile_name} has it: {costs}"
            yield Useless(self.NAME, _WHAT, why)
        elif not about["write_buffer"]["bytes"]:
            why = f"{case.profile_name} has 0 bytes of write buffer that a power cut could take"
            yield Useless(self.NAME, _WHAT, why)
        elif share < telling.SMALL:
            yield Useless(self.NAME, _WHAT, f"{costs}; the rest is the log's write")
        else:
            yield self._protected(case, costs)
        yield Useless(
            self.NAME,
            "Send no flushes (fsync=off, nobarrier, `write through` written to write_cache)",
            f"never on a drive without power-loss protection: a power cut takes what it has "
            f"acknowledged, and the database may be damaged as a whole; {costs}",
        )

    def _no_flushes(self, case: Case) -> Told:
        writes = case.load.requests["write"]
        cache = case.device.get("write_cache")
        why = (
            "the kernel sends none, as the disk says that it needs none (write through)"
            if cache == "write through"
            else f"the disk says `{cache}`, so whoever writes does not ask for any (fsync off?)"
            if cache
            else "either the disk says that it needs none, or fsync is off: "
            f"`cat {telling.queue_file(case, 'write_cache')}`"
        )
        return Told(self.NAME, f"0 flushes came with {writes} writes: {why}.")

    def _protected(self, case: Case, costs: str) -> Candidate:
        def changed(setup: Setup) -> Setup:
            kept = tuple(one for one in setup.drive.overrides if not one.startswith(_KEY))
            return setup.changed(drive=replace(setup.drive, overrides=(*kept, f"{_KEY}=true")))

        return Candidate(
            self.NAME,
            "power_loss(protected)",
            _WHAT,
            changed,
            "the drive, and the time in which the data are copied",
            NO_LOSS,
            (
                "# buy one whose data sheet says power-loss protection (PLP), and copy the data",
                f"cat {telling.queue_file(case, 'write_cache')}   # says `write through` then",
            ),
            ("# mount the old drive again",),
            f"Here {costs}; with capacitors it is answered at once.",
            ("the drive is otherwise as this one, and its flush costs nothing",),
            combines=False,
        )
