"""TATP, formerly TM-1.

A mobile network's home location register, read and changed by seven short transactions. After the
TATP Benchmark Description, version 1.0: schema and population (its chapter 2), transactions and mix
(chapter 3). In PostgreSQL pgbench runs it from scripts; elsewhere this code does. One difference:
an INSERT_CALL_FORWARDING that must fail (there is no such facility, or the row is there already)
inserts nothing and commits, where the description has the database refuse the row. It counts as
unsuccessful all the same, here as a miss.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from flashwright.written import count, setting

from . import base
from .base import Mix, Report, Scripts, Sized, TransactionOutcome, Violation, Workload
from .databases.base import Backend, BackendConfig, Row, Value
from .rules import check

KINDS = (
    "get_subscriber_data",
    "get_new_destination",
    "get_access_data",
    "update_subscriber_data",
    "update_location",
    "insert_call_forwarding",
    "delete_call_forwarding",
)
START_TIMES = (0, 8, 16)
LONGEST_HOURS = 8


def _destination_share() -> float:
    """Of GET_NEW_DESTINATION, by the population.

    The facility is there (5/8) and active (0.85), and a forwarding covers the time. The description
    says 23.9 %. Its own population, with times drawn as it says (start of 0, 8, 16; end of 1 to
    24), gives 14.8 %: forwardings are 0 to 3 of the three starts, each 1 to 8 hours long.
    """
    covered = 0.0
    for chosen in range(len(START_TIMES) + 1):
        choices = list(itertools.combinations(START_TIMES, chosen))
        for starts, asked, end in itertools.product(choices, START_TIMES, range(1, 25)):
            lasting = [
                sum(end < start + hours for hours in range(1, LONGEST_HOURS + 1))
                for start in starts
                if start <= asked
            ]
            none = math.prod(1 - hours / LONGEST_HOURS for hours in lasting)
            covered += (1 - none) / (4 * len(choices) * len(START_TIMES) * 24)
    return 0.625 * 0.85 * covered


SUCCESS = {
    "get_subscriber_data": 1.0,
    "get_new_destination": _destination_share(),
    "get_access_data": 0.625,
    "update_subscriber_data": 0.625,
    "update_location": 1.0,
    "insert_call_forwarding": 0.3125,
    "delete_call_forwarding": 0.3125,
}
"""Shares of the transactions that find what they look for, by what the population holds."""

MIXES: dict[str, Mix] = {
    mix.name: mix
    for mix in (
        Mix(
            "standard",
            dict(zip(KINDS, (35, 10, 35, 2, 14, 2, 2), strict=True)),
            "TATP 1.0: 80 % reads, 20 % writes",
        ),
        Mix(
            "read_only",
            dict(zip(KINDS, (44, 12, 44, 0, 0, 0, 0), strict=True)),
            "ours: the standard's reads alone",
        ),
        Mix(
            "update_only",
            dict(zip(KINDS, (0, 0, 0, 10, 70, 10, 10), strict=True)),
            "ours: the standard's writes alone",
        ),
    )
}

_PORTION = 5_000
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

_COLUMNS = (
    *(f"bit_{n} SMALLINT" for n in range(1, 11)),
    *(f"hex_{n} SMALLINT" for n in range(1, 11)),
    *(f"byte2_{n} SMALLINT" for n in range(1, 11)),
)
TABLES = {
    "subscriber": (
        f"s_id INTEGER NOT NULL PRIMARY KEY, sub_nbr VARCHAR(15) NOT NULL, {', '.join(_COLUMNS)}, "
        "msc_location INTEGER, vlr_location INTEGER"
    ),
    "access_info": (
        "s_id INTEGER NOT NULL REFERENCES subscriber, ai_type SMALLINT NOT NULL, data1 SMALLINT, "
        "data2 SMALLINT, data3 CHAR(3), data4 CHAR(5), PRIMARY KEY (s_id, ai_type)"
    ),
    "special_facility": (
        "s_id INTEGER NOT NULL REFERENCES subscriber, sf_type SMALLINT NOT NULL, is_active "
        "SMALLINT NOT NULL, error_cntrl SMALLINT, data_a SMALLINT, data_b CHAR(5), PRIMARY KEY "
        "(s_id, sf_type)"
    ),
    "call_forwarding": (
        "s_id INTEGER NOT NULL, sf_type SMALLINT NOT NULL, start_time SMALLINT NOT NULL, end_time "
        "SMALLINT, numberx VARCHAR(15), PRIMARY KEY (s_id, sf_type, start_time), FOREIGN KEY "
        "(s_id, sf_type) REFERENCES special_facility"
    ),
}
INDEX = "CREATE UNIQUE INDEX subscriber_number ON subscriber (sub_nbr)"

_RULES = (
    (
        "TATP rows",
        "every subscriber has 1 to 4 rows of ACCESS_INFO",
        "SELECT s.s_id FROM subscriber AS s LEFT JOIN access_info AS a ON a.s_id = s.s_id "
        "GROUP BY s.s_id HAVING COUNT(a.ai_type) NOT BETWEEN 1 AND 4",
    ),
    (
        "TATP rows",
        "every subscriber has 1 to 4 rows of SPECIAL_FACILITY",
        "SELECT s.s_id FROM subscriber AS s LEFT JOIN special_facility AS f ON f.s_id = s.s_id "
        "GROUP BY s.s_id HAVING COUNT(f.sf_type) NOT BETWEEN 1 AND 4",
    ),
    (
        "TATP rows",
        "every row of CALL_FORWARDING has its facility, a start of 0, 8 or 16, and an end of 1 to "
        "24",
        "SELECT c.s_id, c.sf_type, c.start_time FROM call_forwarding AS c LEFT JOIN "
        "special_facility AS f ON f.s_id = c.s_id AND f.sf_type = c.sf_type WHERE f.s_id IS NULL "
        "OR c.start_time NOT IN (0, 8, 16) OR c.end_time NOT BETWEEN 1 AND 24",
    ),
    (
        "TATP rows",
        "SUB_NBR is S_ID in 15 digits, BIT_1 is 0 or 1, and VLR_LOCATION is set",
        "SELECT s_id FROM subscriber WHERE CAST(sub_nbr AS BIGINT) <> s_id OR LENGTH(sub_nbr) <> "
        "15 OR bit_1 NOT IN (0, 1) OR vlr_location IS NULL OR vlr_location < 0",
    ),
)


def skew_constant(subscribers: int) -> int:
    """Give A of the description's non-uniform distribution, which depends on the population."""
    if subscribers <= 1_000_000:
        return 65_535
    return 1_048_575 if subscribers <= 10_000_000 else 2_097_151


def draw_subscriber(rng: random.Random, subscribers: int) -> int:
    """Draw a subscriber, not uniformly: NURand with the description's A, and C of 0."""
    return (
        rng.randint(0, skew_constant(subscribers)) | rng.randint(1, subscribers)
    ) % subscribers + 1


def number_of(subscriber: int) -> str:
    """Give a subscriber's number: its id in 15 digits."""
    return f"{subscriber:015}"


@dataclass(frozen=True)
class TatpLoad:
    """TATP with so many subscribers."""

    subscribers: int
    mix: Mix

    def most_clients(self) -> None:
        """Any number."""

    def fill(
        self,
        database: BackendConfig,
        seed: int,
        processes: int,  # noqa: ARG002
        report: Report,
    ) -> None:
        """See `DatabaseLoad.fill`."""
        backend = database.connect()
        try:
            backend.script([f"CREATE TABLE {name} ({columns})" for name, columns in TABLES.items()])
            rng = random.Random(f"{seed} tatp load")
            # In no order, as the description's own loader does: neighbours in a table are no
            # neighbours by number.
            shuffled = rng.sample(range(1, self.subscribers + 1), self.subscribers)
            for first in range(0, self.subscribers, _PORTION):
                ids = shuffled[first : first + _PORTION]
                for table, rows in _population(rng, ids, self.subscribers).items():
                    backend.bulk_load(table, iter(rows))
                report(first + len(ids), self.subscribers)
            backend.script([INDEX])
            backend.analyze()
        finally:
            backend.close()

    def client(self, *, seed: int, stream: int, client: int, clients: int) -> TatpClient:
        """See `DatabaseLoad.client`."""
        return TatpClient(
            self, random.Random(f"{seed} tatp stream {stream} client {client} of {clients}")
        )

    def violations(self, backend: Backend) -> list[Violation]:
        """See `DatabaseLoad.violations`."""
        found = check(backend, _RULES)
        count = backend.batch(
            [("SELECT COUNT(*) FROM subscriber", ())], commit=True, read_only=True
        )[0][0][0]
        if count != self.subscribers:
            found.append(
                Violation("TATP rows", f"there are {self.subscribers} subscribers", 1, (count,))
            )
        return found


def _text(rng: random.Random, length: int) -> str:
    return "".join(rng.choices(_LETTERS, k=length))


def _population(
    rng: random.Random, ids: Sequence[int], subscribers: int
) -> dict[str, list[tuple[Value, ...]]]:
    """Draw some subscribers with what belongs to them.

    2.5 accesses, 2.5 facilities, 1.5 forwardings a facility on average.
    """
    rows: dict[str, list[tuple[Value, ...]]] = {table: [] for table in TABLES}
    for s_id in ids:
        bits = rng.getrandbits(10)
        rows["subscriber"].append(
            (
                *(s_id, number_of(s_id)),
                *(bits >> n & 1 for n in range(10)),
                *(rng.randrange(16) for _ in range(10)),
                *(rng.randrange(256) for _ in range(10)),
                *(rng.randint(1, 2**31 - 1), rng.randint(1, 2**31 - 1)),
            )
        )
        for ai_type in sorted(rng.sample(range(1, 5), rng.randint(1, 4))):
            data = (rng.randrange(256), rng.randrange(256), _text(rng, 3), _text(rng, 5))
            rows["access_info"].append((s_id, ai_type, *data))
        for sf_type in sorted(rng.sample(range(1, 5), rng.randint(1, 4))):
            active = int(rng.random() < 0.85)
            rows["special_facility"].append(
                (s_id, sf_type, active, rng.randrange(256), rng.randrange(256), _text(rng, 5))
            )
            for start in sorted(rng.sample(START_TIMES, rng.randint(0, 3))):
                rows["call_forwarding"].append(
                    (
                        s_id,
                        sf_type,
                        start,
                        start + rng.randint(1, LONGEST_HOURS),
                        number_of(rng.randint(1, subscribers)),
                    )
                )
    return rows


@dataclass(frozen=True)
class Request:
    """Input of a transaction; each uses what it needs."""

    kind: str
    s_id: int
    a_type: int
    start_time: int
    end_time: int
    bit: int
    data: int
    location: int
    number: str


_FACILITY = "s_id = ? AND sf_type = ?"


class TatpClient:
    """One client."""

    def __init__(self, load: TatpLoad, rng: random.Random) -> None:
        self._load = load
        self._rng = rng

    def think_seconds(self, mean: float) -> float:
        """See `Client.think_seconds`."""
        return base.think_seconds(self._rng, mean)

    def draw(self) -> tuple[str, Request]:
        """See `Client.draw`."""
        rng = self._rng
        kind = self._load.mix.draw(rng)
        return kind, Request(
            kind,
            draw_subscriber(rng, self._load.subscribers),
            rng.randint(1, 4),
            rng.choice(START_TIMES),
            rng.randint(1, 24),
            rng.randrange(2),
            rng.randrange(256),
            rng.randint(1, 2**31 - 1),
            number_of(rng.randint(1, self._load.subscribers)),
        )

    def execute(self, backend: Backend, request: Request) -> TransactionOutcome:
        """See `Client.execute`."""
        rows = getattr(self, f"_{request.kind}")(backend, request)
        return TransactionOutcome(misses=int(not rows), output=tuple(rows))

    @staticmethod
    def _get_subscriber_data(backend: Backend, asked: Request) -> list[Row]:
        statement = ("SELECT * FROM subscriber WHERE s_id = ?", (asked.s_id,))
        return backend.batch([statement], commit=True, read_only=True)[0]

    @staticmethod
    def _get_new_destination(backend: Backend, asked: Request) -> list[Row]:
        statement = (
            "SELECT cf.numberx FROM special_facility AS sf, call_forwarding AS cf WHERE sf.s_id = "
            "? AND sf.sf_type = ? AND sf.is_active = 1 AND cf.s_id = sf.s_id AND cf.sf_type = "
            "sf.sf_type AND cf.start_time <= ? AND ? < cf.end_time",
            (asked.s_id, asked.a_type, asked.start_time, asked.end_time),
        )
        return backend.batch([statement], commit=True, read_only=True)[0]

    @staticmethod
    def _get_access_data(backend: Backend, asked: Request) -> list[Row]:
        statement = (
            "SELECT data1, data2, data3, data4 FROM access_info WHERE s_id = ? AND ai_type = ?",
            (asked.s_id, asked.a_type),
        )
        return backend.batch([statement], commit=True, read_only=True)[0]

    @staticmethod
    def _update_subscriber_data(backend: Backend, asked: Request) -> list[Row]:
        statements = [
            ("UPDATE subscriber SET bit_1 = ? WHERE s_id = ?", (asked.bit, asked.s_id)),
            (
                f"UPDATE special_facility SET data_a = ? WHERE {_FACILITY} RETURNING data_a",
                (asked.data, asked.s_id, asked.a_type),
            ),
        ]
        return backend.batch(statements, commit=True)[1]

    @staticmethod
    def _update_location(backend: Backend, asked: Request) -> list[Row]:
        statement = (
            "UPDATE subscriber SET vlr_location = ? WHERE sub_nbr = ? RETURNING s_id",
            (asked.location, number_of(asked.s_id)),
        )
        return backend.batch([statement], commit=True)[0]

    @staticmethod
    def _insert_call_forwarding(backend: Backend, asked: Request) -> list[Row]:
        s_id = _find(backend, asked)
        values = (asked.start_time, asked.end_time, asked.number, s_id, asked.a_type)
        statements: list[Any] = [
            ("SELECT sf_type FROM special_facility WHERE s_id = ?", (s_id,)),
            (
                f"INSERT INTO call_forwarding SELECT s_id, sf_type, {_CASTS} FROM special_facility "
                f"WHERE {_FACILITY} ON CONFLICT DO NOTHING RETURNING s_id",
                values,
            ),
        ]
        return backend.batch(statements, commit=True)[1]

    @staticmethod
    def _delete_call_forwarding(backend: Backend, asked: Request) -> list[Row]:
        statement = (
            f"DELETE FROM call_forwarding WHERE {_FACILITY} AND start_time = ? RETURNING s_id",
            (_find(backend, asked), asked.a_type, asked.start_time),
        )
        return backend.batch([statement], commit=True)[0]


_CASTS = "CAST(? AS SMALLINT), CAST(? AS SMALLINT), CAST(? AS VARCHAR(15))"


def _find(backend: Backend, asked: Request) -> int:
    # As a transaction that goes on to write: SQLite would refuse to begin it as a reader.
    statement = ("SELECT s_id FROM subscriber WHERE sub_nbr = ?", (number_of(asked.s_id),))
    return int(backend.batch([statement])[0][0][0])


_SET_SUBSCRIBER = "\\set s_id (random(0, :skew) | random(1, :subscribers)) % :subscribers + 1\n"
_SET_TYPE = "\\set type random(1, 4)\n"
_SET_START = "\\set start_time 8 * random(0, 2)\n"
_NUMBER = "lpad(:s_id::text, 15, '0')"
SCRIPTS = {
    "get_subscriber_data": f"{_SET_SUBSCRIBER}SELECT * FROM subscriber WHERE s_id = :s_id;\n",
    "get_new_destination": (
        f"{_SET_SUBSCRIBER}{_SET_TYPE}{_SET_START}\\set end_time random(1, 24)\n"
        "SELECT cf.numberx FROM special_facility AS sf, call_forwarding AS cf WHERE sf.s_id = "
        ":s_id AND sf.sf_type = :type AND sf.is_active = 1 AND cf.s_id = sf.s_id AND cf.sf_type = "
        "sf.sf_type AND cf.start_time <= :start_time AND :end_time < cf.end_time;\n"
    ),
    "get_access_data": (
        f"{_SET_SUBSCRIBER}{_SET_TYPE}SELECT data1, data2, data3, data4 FROM access_info WHERE "
        "s_id = :s_id AND ai_type = :type;\n"
    ),
    "update_subscriber_data": (
        f"{_SET_SUBSCRIBER}{_SET_TYPE}\\set bit random(0, 1)\n\\set data random(0, 255)\nBEGIN;\n"
        "UPDATE subscriber SET bit_1 = :bit WHERE s_id = :s_id;\n"
        "UPDATE special_facility SET data_a = :data WHERE s_id = :s_id AND sf_type = :type;\nEND;\n"
    ),
    "update_location": (
        f"{_SET_SUBSCRIBER}\\set location random(1, 2147483647)\n"
        f"UPDATE subscriber SET vlr_location = :location WHERE sub_nbr = {_NUMBER};\n"
    ),
    "insert_call_forwarding": (
        f"{_SET_SUBSCRIBER}{_SET_TYPE}{_SET_START}\\set end_time random(1, 24)\n"
        "\\set number random(1, :subscribers)\nBEGIN;\n"
        f"SELECT s_id FROM subscriber WHERE sub_nbr = {_NUMBER};\n"
        "SELECT sf_type FROM special_facility WHERE s_id = :s_id;\n"
        "INSERT INTO call_forwarding SELECT s_id, sf_type, :start_time::smallint, "
        ":end_time::smallint, lpad(:number::text, 15, '0') FROM special_facility WHERE s_id = "
        ":s_id AND sf_type = :type ON CONFLICT DO NOTHING;\nEND;\n"
    ),
    "delete_call_forwarding": (
        f"{_SET_SUBSCRIBER}{_SET_TYPE}{_SET_START}BEGIN;\n"
        f"SELECT s_id FROM subscriber WHERE sub_nbr = {_NUMBER};\n"
        "DELETE FROM call_forwarding WHERE s_id = :s_id AND sf_type = :type AND start_time = "
        ":start_time;\nEND;\n"
    ),
}


def _scripts(load: base.DatabaseLoad) -> Scripts:
    if not isinstance(load, TatpLoad):
        raise TypeError("a load of another workload")
    return Scripts(
        SCRIPTS, {"subscribers": load.subscribers, "skew": skew_constant(load.subscribers)}
    )


@dataclass(frozen=True)
class Tatp(Sized):
    """See `Sized`."""

    scale: int = setting(
        "Subscribers, about 1 kB each.",
        count(1, 2**31 - 1),
        100_000,
        title="subscribers",
        is_log=True,
    )


WORKLOAD = Workload(
    name="tatp",
    summary="a mobile network's register: seven short transactions, four fifths of them reading",
    source="TATP (TM-1) 1.0; PostgreSQL: through pgbench scripts",
    settings=Tatp,
    mixes=MIXES,
    make=lambda asked, chosen: TatpLoad(asked.scale, chosen),
    bytes_per_unit=1_000,
    by_pgbench=_scripts,
    readers=frozenset(KINDS[:3]),
)
