"""TPC-B-like, as pgbench defines it.

A bank's branches, tellers and accounts, and one transaction that changes one of each. In PostgreSQL
pgbench fills and runs it; elsewhere this code does, statement by statement the same. Not TPC-B
itself: there a branch's accounts are preferred, and the time is measured by other rules.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from flashwright.written import count, setting

from . import base
from .base import Mix, Report, Scripts, Sized, TransactionOutcome, Violation, Workload
from .databases.base import Backend, BackendConfig, Statement, Value
from .rules import check

ACCOUNTS, TELLERS, BRANCHES = 100_000, 10, 1
"""Rows for each unit of scale."""

_PORTION = 10_000

MIXES: dict[str, Mix] = {
    mix.name: mix
    for mix in (
        Mix("standard", {"tpcb_like": 1}, "pgbench's built-in script tpcb-like"),
        Mix(
            "simple_update",
            {"simple_update": 1},
            "pgbench's simple-update: without tellers and branches",
        ),
        Mix("select_only", {"select_only": 1}, "pgbench's select-only"),
    )
}

_TABLES = (
    "CREATE TABLE pgbench_history (tid INTEGER, bid INTEGER, aid INTEGER, delta INTEGER, mtime "
    "TIMESTAMP, filler CHAR(22))",
    "CREATE TABLE pgbench_tellers (tid INTEGER NOT NULL PRIMARY KEY, bid INTEGER, tbalance "
    "INTEGER, filler CHAR(84))",
    "CREATE TABLE pgbench_accounts (aid INTEGER NOT NULL PRIMARY KEY, bid INTEGER, abalance "
    "INTEGER, filler CHAR(84))",
    "CREATE TABLE pgbench_branches (bid INTEGER NOT NULL PRIMARY KEY, bbalance INTEGER, filler "
    "CHAR(88))",
)

_RULES = tuple(
    (
        "TPC-B-like sums",
        f"the {word} balances add up to the history's deltas",
        f"SELECT have, want FROM (SELECT COALESCE(SUM({column}), 0) AS have FROM {table}) AS h, "
        "(SELECT COALESCE(SUM(delta), 0) AS want FROM pgbench_history) AS w WHERE have <> want",
    )
    for word, column, table in (
        ("accounts'", "abalance", "pgbench_accounts"),
        ("tellers'", "tbalance", "pgbench_tellers"),
        ("branches'", "bbalance", "pgbench_branches"),
    )
)
_EACH = tuple(
    (
        "TPC-B-like sums",
        f"each {word}'s balance is the sum of its history",
        f"SELECT {key}, {column}, total FROM (SELECT t.{key}, {column}, COALESCE(h.total, 0) AS "
        f"total FROM {table} AS t LEFT JOIN (SELECT {key}, SUM(delta) AS total FROM "
        f"pgbench_history GROUP BY {key}) AS h ON h.{key} = t.{key}) AS both_sums WHERE {column} "
        "<> total",
    )
    for word, key, column, table in (
        ("branch", "bid", "bbalance", "pgbench_branches"),
        ("teller", "tid", "tbalance", "pgbench_tellers"),
    )
)

_SETS = (
    f"\\set aid random(1, {ACCOUNTS} * :scale)\n\\set bid random(1, {BRANCHES} * :scale)\n"
    f"\\set tid random(1, {TELLERS} * :scale)\n\\set delta random(-5000, 5000)\n"
)
_ACCOUNT = (
    "UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;\n"
    "SELECT abalance FROM pgbench_accounts WHERE aid = :aid;\n"
)
_OTHERS = (
    "UPDATE pgbench_tellers SET tbalance = tbalance + :delta WHERE tid = :tid;\n"
    "UPDATE pgbench_branches SET bbalance = bbalance + :delta WHERE bid = :bid;\n"
)
_HISTORY = (
    "INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (:tid, :bid, :aid, :delta, "
    "CURRENT_TIMESTAMP);\n"
)
SCRIPTS = {
    "tpcb_like": f"{_SETS}BEGIN;\n{_ACCOUNT}{_OTHERS}{_HISTORY}END;\n",
    "simple_update": f"{_SETS}BEGIN;\n{_ACCOUNT}{_HISTORY}END;\n",
    "select_only": f"\\set aid random(1, {ACCOUNTS} * :scale)\nSELECT abalance FROM "
    "pgbench_accounts WHERE aid = :aid;\n",
}
"""pgbench's built-in scripts in their own words (its documentation lists them)."""


@dataclass(frozen=True)
class Transfer:
    """Input of a transaction."""

    kind: str
    aid: int
    bid: int
    tid: int
    delta: int


@dataclass(frozen=True)
class TpcbLoad:
    """TPC-B-like at some scale."""

    scale: int
    mix: Mix

    def most_clients(self) -> None:
        """Any number, though more than `scale` wait for each other's branch."""

    def fill(
        self,
        database: BackendConfig,
        seed: int,  # noqa: ARG002
        processes: int,  # noqa: ARG002
        report: Report,
    ) -> None:
        """See `DatabaseLoad.fill`.

        As pgbench does, nothing in it is drawn, so that every seed gives the same.
        """
        backend = database.connect()
        try:
            backend.script(_TABLES)
            backend.bulk_load(
                "pgbench_branches", ((bid, 0, "") for bid in range(1, self.scale + 1))
            )
            backend.bulk_load(
                "pgbench_tellers",
                (
                    (tid, (tid - 1) // TELLERS + 1, 0, "")
                    for tid in range(1, TELLERS * self.scale + 1)
                ),
            )
            for portion in range(0, ACCOUNTS * self.scale, _PORTION):
                backend.bulk_load("pgbench_accounts", _accounts(portion))
                report(portion + _PORTION, ACCOUNTS * self.scale)
            backend.analyze()
        finally:
            backend.close()

    def client(self, *, seed: int, stream: int, client: int, clients: int) -> TpcbClient:
        """See `DatabaseLoad.client`."""
        return TpcbClient(
            self, random.Random(f"{seed} tpcb stream {stream} client {client} of {clients}")
        )

    def violations(self, backend: Backend) -> list[Violation]:
        """See `DatabaseLoad.violations`.

        `simple_update` leaves tellers and branches as they are, so that only accounts add up.
        """
        return check(backend, _RULES[:1] if self.mix.share("simple_update") > 0 else _RULES + _EACH)


def _accounts(portion: int) -> Iterator[tuple[Value, ...]]:
    # pgbench's filler is of blanks, as CHAR pads it; a database that does not pad would have rows
    # of another size.
    filler = " " * 84
    return (
        (aid, (aid - 1) // ACCOUNTS + 1, 0, filler)
        for aid in range(portion + 1, portion + _PORTION + 1)
    )


class TpcbClient:
    """One client."""

    def __init__(self, load: TpcbLoad, rng: random.Random) -> None:
        self._load = load
        self._rng = rng

    def think_seconds(self, mean: float) -> float:
        """See `Client.think_seconds`."""
        return base.think_seconds(self._rng, mean)

    def draw(self) -> tuple[str, Transfer]:
        """See `Client.draw`."""
        rng, scale = self._rng, self._load.scale
        kind = self._load.mix.draw(rng)
        return kind, Transfer(
            kind,
            rng.randint(1, ACCOUNTS * scale),
            rng.randint(1, BRANCHES * scale),
            rng.randint(1, TELLERS * scale),
            rng.randint(-5000, 5000),
        )

    def execute(self, backend: Backend, request: Transfer) -> TransactionOutcome:
        """See `Client.execute`."""
        aid, tid, bid, delta = request.aid, request.tid, request.bid, request.delta
        select: Statement = ("SELECT abalance FROM pgbench_accounts WHERE aid = ?", (aid,))
        if request.kind == "select_only":
            return TransactionOutcome(
                output=tuple(backend.batch([select], commit=True, read_only=True)[0][0])
            )
        statements: list[Statement] = [
            ("UPDATE pgbench_accounts SET abalance = abalance + ? WHERE aid = ?", (delta, aid)),
            select,
        ]
        if request.kind == "tpcb_like":
            statements += [
                ("UPDATE pgbench_tellers SET tbalance = tbalance + ? WHERE tid = ?", (delta, tid)),
                ("UPDATE pgbench_branches SET bbalance = bbalance + ? WHERE bid = ?", (delta, bid)),
            ]
        now = datetime.now().isoformat(" ")
        statements.append(
            (
                "INSERT INTO pgbench_history VALUES (?, ?, ?, ?, ?, NULL)",
                (tid, bid, aid, delta, now),
            )
        )
        return TransactionOutcome(output=tuple(backend.batch(statements, commit=True)[1][0]))


def _scripts(load: base.DatabaseLoad) -> Scripts:
    if not isinstance(load, TpcbLoad):
        raise TypeError("a load of another workload")
    return Scripts(
        SCRIPTS, {"scale": load.scale}, ("--initialize", f"--scale={load.scale}", "--quiet")
    )


@dataclass(frozen=True)
class Tpcb(Sized):
    """See `Sized`."""

    scale: int = setting(
        "Branches, of 100,000 accounts each; about 15 MB.",
        count(1, 20_000),
        1,
        title="branches",
        is_log=True,
    )


WORKLOAD = Workload(
    name="tpcb",
    summary="a bank: one transaction that changes an account, a teller, a branch and a history",
    source="TPC-B-like as pgbench defines it; PostgreSQL: pgbench itself",
    settings=Tpcb,
    mixes=MIXES,
    make=lambda asked, chosen: TpcbLoad(asked.scale, chosen),
    bytes_per_unit=15_500_000,
    by_pgbench=_scripts,
    readers=frozenset(("select_only",)),
)
