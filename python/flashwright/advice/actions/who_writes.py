"""What writes so much, and why a small database writes terabytes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from flashwright._text import significant, size, span
from flashwright.advice import questions, telling, traces
from flashwright.advice.action import Finding, NotKnown, Told
from flashwright.advice.case import Case
from flashwright.advice.engine import years
from flashwright.advice.load import WRITE
from flashwright.advice.words import by_purpose
from flashwright.lifetime import volume

_PAGE_BYTES = 4096
_DAYS = 365.25
_LONGEST = 200


class WhoWrites:
    """Tells whose the written bytes are, and the chain of multiples."""

    NAME = "who_writes"
    QUESTIONS: tuple[str, ...] = (questions.WHO_WRITES, questions.TINY)

    def findings(self, case: Case) -> Iterator[Finding]:
        """See `Action`."""
        load = case.load
        if load.knows_purposes:
            parts = by_purpose(load.written_by)
            yield Told(self.NAME, f"Of {telling.written(case)}: {parts}.")
        else:
            what = "Whose the written bytes are"
            yield telling.purposes_not_known(case, self.NAME, what)
        yield Told(self.NAME, _chain(case))
        lives = years(case.figures, case.loads_a_day)
        if lives is None:
            why = (
                f"nothing is known of the endurance of {case.profile_name}"
                if case.loads_a_day
                else case.rate_said or "nothing says what a day brings"
            )
            how = telling.advise(case, "--writes-per-day 40G --device nvme-tlc")
            yield NotKnown(self.NAME, "How long the drive lives", why, how)
        else:
            long = (
                f"more than {_LONGEST} years"
                if lives.value > _LONGEST
                else f"{significant(lives.value, 2)} years"
            )
            yield Told(self.NAME, f"At {telling.per_day(case)} the drive lives {long}.")


def _chain(case: Case) -> str:
    """Say by which multiples a small place becomes many bytes."""
    layers = case.recording.get("waterfall", {}).get("layers", {})
    calls = layers.get("calls", {}).get("write", {}).get("bytes")
    own = case.load.written_bytes * (1 - case.load.share("others"))
    first = (
        f"Of {size(calls)} that the database's calls wrote, {size(own)} reached the disk "
        f"({significant(own / calls)} bytes for each). "
        if calls
        else ""
    )
    requests = traces.load(case.load.path)
    writes = requests.taken(requests.op == WRITE)
    touched = _pages(writes) * _PAGE_BYTES
    over = case.load.written_bytes / max(touched, 1)
    said = (
        f"{first}{size(touched)} of the disk were written, {significant(over)} times over"
        f"{f' in {span(case.load.seconds)}' if case.load.seconds else ''}; "
        f"{telling.amplification(case)}"
    )
    if case.writes_per_day is None:
        return f"{said}."
    daily = case.writes_per_day
    flash = daily * case.figures.write_amplification
    return (
        f"{said}. At {volume(daily)} a day ({case.rate_said or 'as given'}) that is "
        f"{significant(daily / max(touched, 1), 2)} times this place a day, "
        f"{volume(daily * _DAYS)} a year to the disk, and {volume(flash * _DAYS)} of flash."
    )


def _pages(writes: traces.Requests) -> int:
    """Count the pages of 4 KiB that writes touch."""
    first = writes.offset // _PAGE_BYTES
    behind = (writes.offset + np.maximum(writes.length, 1) - 1) // _PAGE_BYTES + 1
    order = np.argsort(first, kind="stable")
    first, behind = first[order], np.maximum.accumulate(behind[order])
    before = np.concatenate([[0], behind[:-1]])
    return int(np.maximum(behind - np.maximum(first, before), 0).sum())
