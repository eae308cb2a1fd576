"""The file system: what it adds bounds what another one could save."""

from __future__ import annotations

from collections.abc import Iterator

from flashwright.advice import questions, telling
from flashwright.advice.action import Finding, NotKnown, Useless
from flashwright.advice.case import Case

OTHERS = ("ext4", "xfs", "btrfs", "f2fs")
_WHAT = "Take another file system, or another mode of its journal"


class FileSystem:
    """Says what journal and metadata are of all that is written."""

    NAME = "file_system"
    QUESTIONS: tuple[str, ...] = (questions.FILE_SYSTEM,)

    def findings(self, case: Case) -> Iterator[Finding]:
        """See `Action`."""
        if not case.load.knows_purposes:
            yield telling.purposes_not_known(case, self.NAME, _WHAT)
            return
        journal, metadata = case.load.share("journal"), case.load.share("metadata")
        kind = telling.file_system(case) or "the file system"
        adds = (
            f"{kind} adds {telling.share(journal + metadata)} of what is written (its journal "
            f"{telling.share(journal)}, its metadata {telling.share(metadata)})"
        )
        if journal + metadata < telling.SMALL:
            yield Useless(self.NAME, _WHAT, f"{adds}, and no other one could save more than that")
            return
        other = next(one for one in OTHERS if one != kind)
        bench = {"sqlite": "sqlite", "postgres": "postgres"}.get(case.database or "", "postgres")
        yield NotKnown(
            self.NAME,
            _WHAT,
            f"{adds}, the most that another one could save; what it would add itself only a run "
            "tells",
            f"flashwright bench tpcb --db {bench} --on 'volume({other}, size=8G)' --record "
            f"runs/{other}, and the same with {kind}; then flashwright advise of both",
        )
