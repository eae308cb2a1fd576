"""Settings of PostgreSQL whose loads are computed from its own log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from flashwright._core import InputError
from flashwright._text import percent
from flashwright.advice.action import NO_LOSS, Candidate, Finding, Loss, NotKnown
from flashwright.advice.case import Case

_HOW = "`flashwright record --database postgres DIR --for 10m` keeps the server's log."


@dataclass(frozen=True)
class Tried:
    """Values of settings that are tried together."""

    name: str
    what: str
    settings: Mapping[str, str]
    cost: str
    loss: Loss = NO_LOSS
    needs_restart: bool = False
    assumes: tuple[str, ...] = ()


def candidates(
    case: Case, action: str, what: str, why: str, tried: list[Tried]
) -> Iterator[Finding]:
    """Give what is tried, if the server's log was recorded and says something of it."""
    if case.what_ifs is None or case.what_ifs.refused is not None:
        said = "the server's log is not in the source"
        refused = said if case.what_ifs is None else str(case.what_ifs.refused)
        yield NotKnown(action, what, refused, _HOW)
        return
    for one in tried:
        try:
            case.what_ifs.load(one.settings)
        except InputError as error:
            yield NotKnown(action, one.what, str(error), _HOW)
            continue
        yield _candidate(case, action, why, one)


def _candidate(case: Case, action: str, why: str, one: Tried) -> Candidate:
    apply = "systemctl restart postgresql" if one.needs_restart else "SELECT pg_reload_conf();"
    return Candidate(
        action=action,
        name=one.name,
        what=one.what,
        changed=lambda setup: case.with_settings(setup, one.settings),
        cost=one.cost,
        loss=one.loss,
        do=(
            *(f"ALTER SYSTEM SET {key} = '{value}';" for key, value in one.settings.items()),
            apply,
        ),
        undo=(*(f"ALTER SYSTEM RESET {key};" for key in one.settings), apply),
        why=why,
        assumes=one.assumes,
        settings=one.settings,
    )


def log_share(case: Case) -> str:
    """Say how much of the disk's bytes the log is."""
    return f"The log is {percent(case.load.share('wal'), 2)} of what the disk is written"
