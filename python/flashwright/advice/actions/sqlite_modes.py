"""SQLite's journal, how often it syncs, its checkpoints, and how much goes into a transaction."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from flashwright._core import InputError
from flashwright._text import percent
from flashwright.advice.action import NO_LOSS, Candidate, Finding, Loss, Lost, NotKnown, Useless
from flashwright.advice.case import Case

NAME = "sqlite_modes"
QUESTIONS = (
    "SQLite: synchronous NORMAL or FULL, WAL or journal?",
    "How to have fewer commits on an SD card?",
    "Which page size?",
)
_HOW = "`flashwright record --database sqlite FILE --for 10m` keeps its transactions."
_NORMAL = Loss(
    Lost.SECONDS,
    "commits since the last checkpoint of the log, after a loss of power; the database stays whole",
)


def findings(case: Case) -> Iterator[Finding]:
    """Give other modes, each as it would have written the recorded transactions."""
    if case.database != "sqlite":
        return
    if case.what_ifs is None or case.what_ifs.refused is not None:
        said = "the transactions are not in the source"
        why = said if case.what_ifs is None else str(case.what_ifs.refused)
        yield NotKnown(NAME, "journal_mode and synchronous", why, _HOW)
        return
    yield NotKnown(
        NAME,
        "Another page size",
        "which rows share a page is not known from pages of another size",
        "`VACUUM` a copy with another `PRAGMA page_size`, and record the same load on it.",
    )
    now = case.settings.get("journal_mode", "").lower()
    if now == "wal":
        yield Useless(NAME, "journal_mode = WAL", "the database has it")
    else:
        yield from _candidate(case, "wal", {"journal_mode": "wal"}, NO_LOSS)
    yield from _normal(case)
    for pages in (4000, 16000):
        yield from _candidate(
            case,
            f"wal_autocheckpoint={pages}",
            {"journal_mode": "wal", "wal_autocheckpoint": str(pages)},
            NO_LOSS,
        )
    for number in (10, 100):
        yield _together(case, number)


def _normal(case: Case) -> Iterator[Finding]:
    if case.settings.get("synchronous", "").lower() == "normal":
        yield Useless(NAME, "synchronous = NORMAL", "the database has it")
        return
    settings = {"journal_mode": "wal", "synchronous": "normal"}
    yield from _candidate(case, "synchronous=normal", settings, _NORMAL)


def _candidate(case: Case, name: str, settings: Mapping[str, str], loss: Loss) -> Iterator[Finding]:
    what = f"PRAGMA {', '.join(f'{key} = {value}' for key, value in settings.items())}"
    try:
        case.with_settings(case.base, settings)
    except InputError as error:
        yield NotKnown(NAME, what, str(error), _HOW)
        return
    yield Candidate(
        action=_ACTIONS.get(name.partition("=")[0], NAME),
        name=name,
        what=f"Set {what}",
        changed=lambda setup: case.with_settings(setup, settings),
        cost="the log may grow larger" if "wal_autocheckpoint" in settings else "nothing",
        loss=loss,
        do=tuple(
            f"PRAGMA {key} = {value};    -- in each connection" for key, value in settings.items()
        ),
        undo=tuple(f"PRAGMA {key} = {case.settings.get(key, _DEFAULTS[key])};" for key in settings),
        why=_why(case),
        settings=settings,
    )


_ACTIONS = {
    "wal": "sqlite_journal",
    "synchronous": "sqlite_synchronous",
    "wal_autocheckpoint": "sqlite_autocheckpoint",
}
_DEFAULTS = {"journal_mode": "delete", "synchronous": "full", "wal_autocheckpoint": "1000"}


def _together(case: Case, number: int) -> Candidate:
    settings = {"transactions_in_one": str(number)}
    return Candidate(
        action="sqlite_transactions",
        name=f"transactions({number})",
        what=f"Put {number} changes into one transaction",
        changed=lambda setup: case.with_settings(setup, settings),
        cost="the application changes: it begins and commits less often, and holds the lock longer",
        loss=Loss(Lost.SECONDS, f"up to {number} changes that were not committed yet"),
        do=("BEGIN; ...; COMMIT;    -- around several changes, in the application",),
        undo=("commit each change by itself again",),
        why=_why(case),
    )


def _why(case: Case) -> str:
    return (
        f"The log or journal is {percent(case.load.share('wal'), 2)} of what the disk is written, "
        f"with {case.load.requests['flush']:,} flushes."
    )
