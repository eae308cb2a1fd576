"""The same load on drives of other kinds."""

from __future__ import annotations

from collections.abc import Iterator

from flashwright import _core
from flashwright.advice.action import NO_LOSS, Candidate, Finding
from flashwright.advice.case import Case
from flashwright.advice.setup import Setup

NAME = "other_drive"
QUESTIONS: tuple[str, ...] = ()
KINDS = (
    *("sd-card-a2", "emmc-51", "intel-335", "nvme-qlc", "nvme-tlc"),
    *("micron-7450-pro", "samsung-pm9a3", "kioxia-cm7-r-4"),
)
"""Kinds that can be bought, from cards up."""


def findings(case: Case) -> Iterator[Finding]:
    """Give each kind of drive, at the size and fill of this disk."""
    summaries = {one["name"]: one["summary"] for one in _core.profiles()}
    for kind in KINDS:
        if kind != case.base.drive.profile and case.base.drive.capacity_bytes is not None:
            yield _candidate(kind, summaries[kind])


def _candidate(kind: str, summary: str) -> Candidate:
    def changed(setup: Setup) -> Setup:
        drive = setup.drive
        return setup.changed(drive=type(drive)(kind, (), drive.capacity_bytes, drive.fill))

    return Candidate(
        action=NAME,
        name=kind,
        what=f"A drive like {kind}",
        changed=changed,
        cost="another drive",
        loss=NO_LOSS,
        do=("copy the data, and measure it: `flashwright probe DISK`",),
        undo=("keep the old drive",),
        why=f"{summary[0].upper()}{summary[1:]}.",
        assumes=("it is as large and as full as this disk",),
        combines=False,
    )
