"""Tables and indexes: fillfactor with HOT updates, and vacuum."""

from __future__ import annotations

from collections.abc import Iterator

from flashwright.advice import telling
from flashwright.advice.action import Finding, NotKnown, Useless
from flashwright.advice.case import Case

_WHAT = "Leave room in pages, so that updates write no indexes (fillfactor, HOT)"
_HOT = (
    'psql -c "SELECT relname, n_tup_upd, n_tup_hot_upd, n_dead_tup, last_autovacuum FROM '
    'pg_stat_user_tables ORDER BY n_tup_upd - n_tup_hot_upd DESC LIMIT 10"'
)


class Heap:
    """Says how much indexes are of what is written: the most that HOT could save."""

    NAME = "heap"
    QUESTIONS: tuple[str, ...] = (
        "Would fillfactor, HOT updates or another autovacuum save writes?",
    )

    def findings(self, case: Case) -> Iterator[Finding]:
        """See `Action`."""
        if case.database != "postgres":
            return
        if not case.load.knows_purposes:
            yield telling.purposes_not_known(case, self.NAME, _WHAT)
            return
        index, heap = case.load.share("index"), case.load.share("heap")
        if index < telling.SMALL:
            why = f"indexes are {telling.share(index)} of what is written, and no more can be saved"
            yield Useless(self.NAME, _WHAT, why)
        else:
            why = (
                f"indexes are {telling.share(index)} of what is written, the most that is to be "
                "saved beside their part of the log; how many updates are HOT today is the "
                "database's to say"
            )
            how = f"{_HOT}; then ALTER TABLE ... SET (fillfactor = 80), VACUUM FULL, and again"
            yield NotKnown(self.NAME, _WHAT, why, how)
        what = "Let autovacuum come at other times"
        if heap < telling.SMALL:
            why = f"tables are {telling.share(heap)} of what is written, vacuum's part included"
            yield Useless(self.NAME, what, why)
        else:
            why = (
                f"tables are {telling.share(heap)} of what is written; which of it is vacuum's the "
                "disk's requests do not tell"
            )
            yield NotKnown(self.NAME, what, why, f"{_HOT}; log_autovacuum_min_duration = 0")
