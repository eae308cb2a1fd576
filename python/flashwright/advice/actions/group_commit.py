"""Commits that share flushes: by waiting for each other, or by not waiting for the log at all."""

from __future__ import annotations

from collections.abc import Iterator

from flashwright._text import percent, span
from flashwright.advice.action import NO_LOSS, Candidate, Finding, Loss, Lost, NotKnown, Useless
from flashwright.advice.case import Case
from flashwright.advice.setup import Setup

NAME = "group_commit"
QUESTIONS: tuple[str, ...] = ()
_ASYNCHRONOUS = 0.2
"""`wal_writer_delay`, in seconds: the log is flushed that often."""
_DELAYS = (0.001, 0.005)


def findings(case: Case) -> Iterator[Finding]:
    """Give commits that do not wait, and commits that wait for others."""
    if case.database != "postgres":
        return
    if not case.load.share("wal"):
        yield NotKnown(
            NAME,
            "synchronous_commit and commit_delay",
            "the source does not say which requests are of the log",
            "`flashwright record --database postgres DIR` does.",
        )
        return
    yield _asynchronous(case)
    clients = 1.0 if case.loop is None else case.loop.clients
    if clients < 2:
        yield Useless(NAME, "commit_delay", "one client commits: there is nobody to wait for")
        return
    for delay in _DELAYS:
        yield _delayed(case, delay)


def _asynchronous(case: Case) -> Candidate:
    def changed(setup: Setup) -> Setup:
        if case.what_ifs is not None and case.what_ifs.refused is None:
            return case.with_settings(setup, {"synchronous_commit": "off"})
        return setup.changed(merge_seconds=_ASYNCHRONOUS)

    return Candidate(
        action=NAME,
        name="synchronous_commit=off",
        what="Let commits not wait for the log (synchronous_commit = off)",
        changed=changed,
        cost="nothing",
        loss=Loss(
            Lost.SECONDS,
            "commits of up to three times wal_writer_delay, 0.6 s; the database stays whole",
        ),
        do=("ALTER SYSTEM SET synchronous_commit = off; SELECT pg_reload_conf();",),
        undo=("ALTER SYSTEM RESET synchronous_commit; SELECT pg_reload_conf();",),
        why=f"The log is {percent(case.load.share('wal'), 2)} of what the disk is written, with "
        f"{case.load.requests['flush']:,} flushes; then it is written five times a second.",
        settings={"synchronous_commit": "off"},
    )


def _delayed(case: Case, delay: float) -> Candidate:
    micros = round(delay * 1e6)

    def changed(setup: Setup) -> Setup:
        if case.what_ifs is not None and case.what_ifs.refused is None:
            return case.with_settings(setup, {"commit_delay": str(micros)})
        return setup.changed(merge_seconds=delay)

    return Candidate(
        action=NAME,
        name=f"commit_delay={micros}",
        what=f"Let commits wait {span(delay)} for others (commit_delay = {micros})",
        changed=changed,
        cost=f"each commit takes up to {span(delay)} longer, which is not in the drive's wait",
        loss=NO_LOSS,
        do=(
            f"ALTER SYSTEM SET commit_delay = {micros};",
            "ALTER SYSTEM SET commit_siblings = 1; SELECT pg_reload_conf();",
        ),
        undo=(
            "ALTER SYSTEM RESET commit_delay;",
            "ALTER SYSTEM RESET commit_siblings; SELECT pg_reload_conf();",
        ),
        why=f"{case.load.requests['flush']:,} flushes were sent; commits within {span(delay)} "
        "share one.",
        settings={"commit_delay": str(micros), "commit_siblings": "1"},
    )
