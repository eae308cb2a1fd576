"""The database's log on a drive of its own."""

from __future__ import annotations

from collections.abc import Iterator

from flashwright._text import percent, size
from flashwright.advice.action import NO_LOSS, Candidate, Finding, NotKnown, Useless
from flashwright.advice.case import Case
from flashwright.advice.setup import Drive, Setup

NAME = "log_apart"
QUESTIONS = ("Should the write-ahead log lie on its own drive?",)
_LEAST_SHARE, _MOST_SHARE = 0.02, 0.98
_LEAST_FILL = 0.02


def findings(case: Case) -> Iterator[Finding]:
    """Give a second drive of the same kind for the log, where there is a log and other data."""
    what = "The log on a drive of its own"
    if not case.load.knows_purposes:
        yield NotKnown(
            NAME,
            what,
            "the source does not say which requests are of the log",
            "`flashwright record --database KIND PATH` does.",
        )
        return
    share = case.load.share("wal")
    if not _LEAST_SHARE <= share <= _MOST_SHARE:
        yield Useless(
            NAME,
            what,
            f"the log is {percent(share, 2)} of what the disk is written: one drive "
            "would have all of the work",
        )
        return
    if case.database == "sqlite":
        yield Useless(NAME, what, "SQLite keeps its log beside the database")
        return
    yield _candidate(case, share)


def _candidate(case: Case, share: float) -> Candidate:
    def changed(setup: Setup) -> Setup:
        drive = setup.drive
        capacity = drive.capacity_bytes
        written = setup.load.written_by.get("wal", 0)
        fill = None if capacity is None else max(_LEAST_FILL, min(1.0, written / capacity))
        return setup.changed(log_apart=Drive(drive.profile, drive.overrides, capacity, fill))

    data = case.database_path or "DATA"
    return Candidate(
        action=NAME,
        name="log-apart",
        what="Put the log on a second drive of the same kind",
        changed=changed,
        cost=f"a drive and its mount, a restart; the log is {size(_log_bytes(case))} here",
        loss=NO_LOSS,
        do=(
            "systemctl stop postgresql",
            f"cp -a {data}/pg_wal /mnt/log/ && mv {data}/pg_wal {data}/pg_wal.old",
            f"ln -s /mnt/log/pg_wal {data}/pg_wal && systemctl start postgresql",
        ),
        undo=(
            "systemctl stop postgresql",
            f"rm {data}/pg_wal && cp -a /mnt/log/pg_wal {data}/ && systemctl start postgresql",
        ),
        why=f"The log is {percent(share, 2)} of what the disk is written; commits wait for it "
        "alone then, and it is not mixed with pages that live longer.",
        assumes=("the database is lost if either drive is",),
    )


def _log_bytes(case: Case) -> int:
    return case.load.written_by.get("wal", 0)
