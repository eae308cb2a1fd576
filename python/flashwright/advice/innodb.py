"""What is asked of InnoDB, of MySQL and MariaDB, and is not known yet."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from flashwright._text import span
from flashwright.advice import telling
from flashwright.advice.action import Finding, NotKnown
from flashwright.advice.case import Case


@dataclass
class OfInnodb:
    """A setting of InnoDB whose effect only a run of its own tells."""

    NAME: str
    QUESTIONS: tuple[str, ...]
    what: str
    danger: str
    try_it: str

    def findings(self, case: Case) -> Iterator[Finding]:
        """See `Action`."""
        if case.database != "mysql":
            return
        log = telling.share(case.load.share("wal"))
        why = (
            f"{telling.written(case)} were recorded, {log} of it log; nothing reads InnoDB's log "
            f"here, which would tell what another setting writes. {self.danger}"
        )
        yield NotKnown(self.NAME, self.what, why, self.try_it)

    @staticmethod
    def again(setting: str) -> str:
        """Give the experiment that tells."""
        long = span(600)
        return (
            f"a copy of the server with {setting} in my.cnf, the same work for {long}, and "
            "flashwright record --database files DATA_DIRECTORY --for 10m for both"
        )
