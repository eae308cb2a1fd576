"""Whether the disk is fast enough for a log, and what power-loss protection would do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from flashwright._text import percent, span
from flashwright.advice.action import NO_LOSS, Candidate, Finding, NotKnown, Told, Useless
from flashwright.advice.case import Case
from flashwright.advice.setup import Setup
from flashwright.devices import DriveProfile

NAME = "power_loss_protection"
QUESTIONS = (
    "Is my disk fast enough for a log (99th percentile of fdatasync)?",
    "Does power-loss protection matter for fsync?",
)
_PROTECTED = "write_buffer.power_loss_protected=true"
_SMALL_SHARE = 0.1


def findings(case: Case) -> Iterator[Finding]:
    """Give the wait of commits, and what it would be if a flush cost nothing."""
    recorded = case.load.commits
    if recorded is not None:
        yield Told(
            NAME,
            f"A commit waits {span(recorded.p50)} for the disk in the median, and 1 of 100 longer "
            f"than {span(recorded.p99)}, of which flushes are "
            f"{percent(recorded.flush_mean / recorded.mean, 2)} on average; recorded.",
        )
    else:
        yield NotKnown(
            NAME,
            "Whether the disk is fast enough for a log",
            "the source has no latencies",
            "`flashwright record` keeps them.",
        )
    if case.load.requests["flush"] == 0:
        yield Useless(
            NAME,
            "A drive with power-loss protection",
            "no flush was sent: the kernel takes this disk for one that keeps what it has "
            "acknowledged, or nothing asks for durability",
        )
        return
    yield from _protected(case)


def _protected(case: Case) -> Iterator[Finding]:
    own = DriveProfile.load(case.base.drive.profile, case.base.drive.overrides)
    buffer = own.profile["write_buffer"]
    if buffer.get("power_loss_protected"):
        yield Useless(NAME, "A drive with power-loss protection", "this kind of drive has it")
        return
    if not buffer["bytes"]:
        yield Useless(
            NAME,
            "A drive with power-loss protection",
            "this kind of drive has no write buffer that would have to be protected",
        )
        return
    commits = case.figures.commits
    share = 0.0 if commits is None else commits.flush_mean / commits.mean
    if share < _SMALL_SHARE:
        yield Useless(
            NAME,
            "A drive with power-loss protection",
            f"flushes are {percent(share, 2)} of what commits wait for on this drive",
        )
        return

    def changed(setup: Setup) -> Setup:
        drive = setup.drive
        return setup.changed(drive=replace(drive, overrides=(*drive.overrides, _PROTECTED)))

    yield Candidate(
        action=NAME,
        name="power-loss protection",
        what="The same drive with power-loss protection",
        changed=changed,
        cost="a drive for data centers",
        loss=NO_LOSS,
        do=("buy a drive whose data sheet names power-loss protection",),
        undo=("nothing of the data changes",),
        why=f"Flushes are {percent(share, 2)} of what commits wait for; protected, they cost "
        "nothing.",
        assumes=("all else of the drive stays",),
        combines=False,
    )
