"""Layers of ours under the database: a volume that shapes its writes."""

from __future__ import annotations

from collections.abc import Iterator

from flashwright import _core
from flashwright.advice.action import NO_LOSS, Candidate, Finding, NotKnown
from flashwright.advice.case import Case
from flashwright.layering import candidates as known

NAME = "layers"
QUESTIONS: tuple[str, ...] = ()


def findings(case: Case) -> Iterator[Finding]:
    """Give each stack that may make a device faster."""
    if not case.load.disk and case.base.drive.capacity_bytes is None:
        yield NotKnown(
            NAME,
            "Layers under the database",
            "they are made for a size, and that of the disk is not known",
            "--size 256G tells.",
        )
        return
    for one in known.CANDIDATES:
        yield _candidate(case, one)


def _candidate(case: Case, one: known.Candidate) -> Candidate:
    disk = f"/dev/{case.device.get('name') or 'DISK'}"
    stack = _core.settled_stack(one.played or one.stack, facts={})
    return Candidate(
        action=NAME,
        name=one.stack,
        what=f"A volume with {one.stack} under the database",
        changed=lambda setup: setup.changed(stack=stack),
        cost=f"{one.cost}; the database is copied onto it",
        loss=NO_LOSS,
        do=(
            f"flashwright volume create {disk} --stack '{one.stack}'    # of an empty disk",
            f"flashwright volume mount {disk} /mnt/database --mkfs ext4",
        ),
        undo=("copy the database back onto a plain file system",),
        why=f"Risk: {one.risk}.",
        assumes=("all of the database's files are on it",),
    )
