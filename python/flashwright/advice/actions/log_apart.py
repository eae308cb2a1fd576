"""The log on a drive of its own."""

from __future__ import annotations

from collections.abc import Iterator

from flashwright._text import size
from flashwright.advice import drive_facts, questions, telling
from flashwright.advice.action import NO_LOSS, Candidate, Finding, NotKnown, Useless
from flashwright.advice.case import Case
from flashwright.advice.setup import Drive

PROTECTED = "micron-7450-pro"
"""Profile of a drive whose flushes cost nothing."""
SMALL_BYTES = 64 << 30
"""Size of such a drive for a log alone."""
LEAST_FILL = 0.02
_WHAT = "Put the log on a drive of its own"


class LogApart:
    """Offers a second drive of the same kind, and a small one with power-loss protection."""

    NAME = "log_apart"
    QUESTIONS: tuple[str, ...] = (questions.LOG_APART,)

    def findings(self, case: Case) -> Iterator[Finding]:
        """See `Action`."""
        log = case.load.share("wal")
        if case.database == "sqlite":
            why = (
                f"SQLite keeps its log ({telling.share(log)} of what is written) beside the "
                "database: 1 file system holds both"
            )
            yield Useless(self.NAME, _WHAT, why)
        elif not case.load.knows_purposes:
            yield telling.purposes_not_known(case, self.NAME, _WHAT)
        elif log == 0:
            yield Useless(self.NAME, _WHAT, "the disk got 0 bytes of a log: it lies elsewhere")
        elif case.base.log_apart is None:
            own = case.base.drive
            yield self._on(case, "the same kind", Drive(own.profile, own.overrides), log)
            if not drive_facts.is_protected(own):
                yield self._on(case, PROTECTED, Drive(PROTECTED), log)
        else:
            yield NotKnown(self.NAME, _WHAT, "it lies apart already", telling.record(case))

    def _on(self, case: Case, kind: str, drive: Drive, log: float) -> Candidate:
        own = drive_facts.capacity_bytes(case)
        capacity = own if kind != PROTECTED else min(own, SMALL_BYTES)
        fill = max(LEAST_FILL, min(1.0, case.load.written_by.get("wal", 0) / capacity))
        apart = Drive(drive.profile, drive.overrides, capacity, fill)
        waits = telling.commits_said(case)
        return Candidate(
            self.NAME,
            f"log_apart({kind})",
            f"{_WHAT} of {kind} ({size(capacity)})",
            lambda setup: setup.changed(log_apart=apart),
            "a second drive, and a restart; if either drive dies the database is gone, so both "
            "want a mirror",
            NO_LOSS,
            _move(case),
            _move_back(case),
            f"The log is {telling.share(log)} of what is written"
            + (
                f"; commits wait {waits} on the drive that the tables are written to."
                if waits
                else "."
            ),
            (f"the second drive is a {drive.profile} of {size(capacity)} with nothing else on it",),
        )


def _move(case: Case) -> tuple[str, ...]:
    place = telling.place(case)
    if case.database == "postgres":
        return (
            f"pg_ctl stop -D {place} -m fast",
            f"mv {place}/pg_wal /mnt/log/pg_wal",
            f"ln -s /mnt/log/pg_wal {place}/pg_wal",
            f"pg_ctl start -D {place}",
        )
    if case.database == "mysql":
        return ("innodb_log_group_home_dir = /mnt/log   # in my.cnf, after the files were moved",)
    return ("# move the log's folder to the second drive while the database is stopped",)


def _move_back(case: Case) -> tuple[str, ...]:
    place = telling.place(case)
    if case.database == "postgres":
        return (
            f"pg_ctl stop -D {place} -m fast",
            f"rm {place}/pg_wal",
            f"mv /mnt/log/pg_wal {place}/pg_wal",
            f"pg_ctl start -D {place}",
        )
    return ("# move it back while the database is stopped",)
