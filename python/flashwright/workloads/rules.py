"""Rules of consistency as queries."""

from __future__ import annotations

from collections.abc import Iterable

from .base import Violation
from .databases.base import Backend


def check(backend: Backend, rules: Iterable[tuple[str, str, str]]) -> list[Violation]:
    """Give the rules that do not hold.

    Each rule is a name, what it says, and a query for the keys of rows that break it.
    """
    found = []
    for rule, says, query in rules:
        rows = backend.batch([(query, ())], commit=True, read_only=True)[0]
        if rows:
            found.append(Violation(rule, says, len(rows), tuple(rows[0])))
    return found
