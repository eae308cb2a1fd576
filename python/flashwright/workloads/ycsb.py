"""YCSB-like.

One table of records, and the core workloads A to F of reads, updates, inserts, scans and
read-modify-writes. After Cooper et al., "Benchmarking Cloud Serving Systems with YCSB" (SoCC 2010):
10 fields of 100 characters, keys in the order of a hash, zipfian choice with constant 0.99
scattered over the keys. Different from the original: each client reads the latest records of its
own inserts and of the load, as clients share no counter; and each field begins with a checksum of
its own, so that a lost or torn write is found at the end.
"""

from __future__ import annotations

import random
import string
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from flashwright.written import count, setting

from . import base
from .base import Mix, Report, Sized, TransactionOutcome, Violation, Workload
from .databases.base import Backend, BackendConfig, Statement, Value

FIELDS, FIELD_CHARACTERS = 10, 100
_CHECKSUM_CHARACTERS = 8
ZIPFIAN_CONSTANT = 0.99
LONGEST_SCAN = 100
_PORTION = 2_000
_ALPHANUMERIC = string.ascii_letters + string.digits
_POOL_CHARACTERS = 1 << 16

_SOURCE = "YCSB core workload"
MIXES: dict[str, Mix] = {
    mix.name: mix
    for mix in (
        Mix("a", {"read": 50, "update": 50}, f"{_SOURCE} A, update heavy: zipfian"),
        Mix("b", {"read": 95, "update": 5}, f"{_SOURCE} B, read mostly: zipfian"),
        Mix("c", {"read": 100}, f"{_SOURCE} C, read only: zipfian"),
        Mix("d", {"read": 95, "insert": 5}, f"{_SOURCE} D, read latest"),
        Mix(
            "e",
            {"scan": 95, "insert": 5},
            f"{_SOURCE} E, short ranges of 1 to 100 records: zipfian",
        ),
        Mix("f", {"read": 50, "read_modify_write": 50}, f"{_SOURCE} F: zipfian"),
    )
}

_COLUMNS = ", ".join(f"field{n} VARCHAR({FIELD_CHARACTERS})" for n in range(FIELDS))
TABLE = f"CREATE TABLE usertable (ycsb_key VARCHAR(24) NOT NULL PRIMARY KEY, {_COLUMNS})"
_CHECKED_AT_ONCE = 5_000


def fnv_hash(value: int) -> int:
    """Give the 64-bit FNV-1a hash of a number's eight bytes.

    Least significant first, as YCSB has it.
    """
    found = 0xCBF29CE484222325
    for _ in range(8):
        found = ((found ^ (value & 0xFF)) * 0x100000001B3) & (2**64 - 1)
        value >>= 8
    # YCSB takes the absolute value of a signed number.
    return found if found < 2**63 else 2**64 - found


def key_of(record: int) -> str:
    """Give the key of a record's number, whose order is that of the hash.

    Inserts go anywhere in the index.
    """
    return f"user{fnv_hash(record):020}"


class Zipfian:
    """Draws ranks 0 ... n - 1, of which rank k has a share proportional to 1 / (k + 1)^0.99.

    Gray et al., "Quickly Generating Billion-Record Synthetic Databases" (SIGMOD 1994), as YCSB
    does.
    """

    def __init__(self, n: int, constant: float = ZIPFIAN_CONSTANT) -> None:
        """Add up the n shares: a second for some ten million."""
        self._n = n
        self._constant = constant
        self._zeta = sum(1 / k**constant for k in range(1, n + 1))
        zeta_2 = 1 + 0.5**constant
        self._alpha = 1 / (1 - constant)
        self._eta = (1 - (2 / n) ** (1 - constant)) / (1 - zeta_2 / self._zeta) if n > 2 else 0.0

    def draw(self, rng: random.Random) -> int:
        """Draw a rank."""
        u = rng.random()
        scaled = u * self._zeta
        if scaled < 1:
            return 0
        if scaled < 1 + 0.5**self._constant:
            return min(1, self._n - 1)
        return min(self._n - 1, int(self._n * (self._eta * u - self._eta + 1) ** self._alpha))


class _Values:
    """Field values.

    Random letters behind a checksum of them, of the key and of the field's number.
    """

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._pool = "".join(rng.choices(_ALPHANUMERIC, k=_POOL_CHARACTERS + FIELD_CHARACTERS))

    def draw(self, key: str, number: int) -> str:
        start = int(self._rng.random() * _POOL_CHARACTERS)
        text = self._pool[start : start + FIELD_CHARACTERS - _CHECKSUM_CHARACTERS]
        return checksum(key, number, text) + text


def checksum(key: str, number: int, text: str) -> str:
    """Give the beginning of a field with this text."""
    return f"{zlib.crc32(f'{key} {number} {text}'.encode()):08x}"


@dataclass(frozen=True)
class YcsbLoad:
    """A table of so many records at the start."""

    records: int
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
            backend.script([TABLE])
            for first in range(0, self.records, _PORTION):
                numbers = range(first, min(first + _PORTION, self.records))
                backend.bulk_load(
                    "usertable", _rows(_Values(random.Random(f"{seed} ycsb {first}")), numbers)
                )
                report(numbers[-1] + 1, self.records)
            backend.analyze()
        finally:
            backend.close()

    def client(self, *, seed: int, stream: int, client: int, clients: int) -> YcsbClient:
        """See `DatabaseLoad.client`."""
        rng = random.Random(f"{seed} ycsb stream {stream} client {client} of {clients}")
        return YcsbClient(self, rng, stream * clients + client)

    def violations(self, backend: Backend) -> list[Violation]:
        """See `DatabaseLoad.violations`: reads the whole table, in parts."""
        broken: list[tuple[str, int]] = []
        last, count = "", 0
        while True:
            statement: Statement = (
                "SELECT * FROM usertable WHERE ycsb_key > ? ORDER BY ycsb_key LIMIT "
                f"{_CHECKED_AT_ONCE}",
                (last,),
            )
            rows = backend.batch([statement], commit=True, read_only=True)[0]
            if not rows:
                break
            last, count = rows[-1][0], count + len(rows)
            broken += [
                (row[0], n)
                for row in rows
                for n in range(FIELDS)
                if not _is_whole(row[0], n, row[n + 1])
            ]
        found = []
        if broken:
            found.append(
                Violation(
                    "YCSB rows", "each field begins with its checksum", len(broken), broken[0]
                )
            )
        lost = [key_of(number) for number in self._sampled() if not _has(backend, key_of(number))]
        if lost or count < self.records:
            says = f"there are the {self.records} records of the load, and the inserted"
            found.append(
                Violation(
                    "YCSB rows",
                    says,
                    max(len(lost), self.records - count),
                    (lost[0] if lost else count,),
                )
            )
        return found

    def _sampled(self) -> range:
        """Give some hundred records over the whole load.

        That none is missing altogether is seen by counting.
        """
        return range(0, self.records, max(1, self.records // 200))


def _has(backend: Backend, key: str) -> bool:
    return bool(
        backend.batch(
            [("SELECT 1 FROM usertable WHERE ycsb_key = ?", (key,))], commit=True, read_only=True
        )[0]
    )


def _is_whole(key: str, number: int, value: str | None) -> bool:
    if value is None or len(value) != FIELD_CHARACTERS:
        return False
    return checksum(key, number, value[_CHECKSUM_CHARACTERS:]) == value[:_CHECKSUM_CHARACTERS]


def _rows(values: _Values, numbers: range) -> Iterator[tuple[Value, ...]]:
    for number in numbers:
        key = key_of(number)
        yield key, *(values.draw(key, n) for n in range(FIELDS))


@dataclass(frozen=True)
class Request:
    """Input of a transaction: `field` and `values` of a write, `length` of a scan."""

    kind: str
    key: str
    field: int = 0
    values: tuple[str, ...] = ()
    length: int = 0


class YcsbClient:
    """One client.

    What it inserts is numbered beyond the load, each client in a range of its own.
    """

    _RANGE = 10**12

    def __init__(self, load: YcsbLoad, rng: random.Random, number: int) -> None:
        self._load = load
        self._rng = rng
        self._values = _Values(rng)
        self._zipfian = Zipfian(load.records)
        self._first = load.records + number * self._RANGE
        self._inserted = 0

    def think_seconds(self, mean: float) -> float:
        """See `Client.think_seconds`."""
        return base.think_seconds(self._rng, mean)

    def draw(self) -> tuple[str, Request]:
        """See `Client.draw`."""
        kind = self._load.mix.draw(self._rng)
        if kind == "insert":
            key = key_of(self._first + self._inserted)
            self._inserted += 1
            return kind, Request(
                kind, key, values=tuple(self._values.draw(key, n) for n in range(FIELDS))
            )
        key = key_of(self._latest() if self._load.mix.name == "d" else self._scattered())
        if kind == "scan":
            return kind, Request(kind, key, length=self._rng.randint(1, LONGEST_SCAN))
        if kind == "read":
            return kind, Request(kind, key)
        field = self._rng.randrange(FIELDS)
        return kind, Request(kind, key, field, (self._values.draw(key, field),))

    def _scattered(self) -> int:
        return fnv_hash(self._zipfian.draw(self._rng)) % self._load.records

    def _latest(self) -> int:
        back = self._zipfian.draw(self._rng)
        if back < self._inserted:
            return self._first + self._inserted - 1 - back
        return self._load.records - 1 - (back - self._inserted) % self._load.records

    def execute(self, backend: Backend, request: Request) -> TransactionOutcome:
        """See `Client.execute`."""
        read: Statement = ("SELECT * FROM usertable WHERE ycsb_key = ?", (request.key,))
        match request.kind:
            case "read":
                rows = backend.batch([read], commit=True, read_only=True)[0]
            case "scan":
                scan: Statement = (
                    "SELECT * FROM usertable WHERE ycsb_key >= ? ORDER BY ycsb_key LIMIT ?",
                    (request.key, request.length),
                )
                rows = backend.batch([scan], commit=True, read_only=True)[0]
            case "insert":
                marks = ", ".join("?" * (FIELDS + 1))
                insert: Statement = (
                    f"INSERT INTO usertable VALUES ({marks})",
                    (request.key, *request.values),
                )
                backend.batch([insert], commit=True)
                rows = [(request.key,)]
            case _:
                update: Statement = (
                    f"UPDATE usertable SET field{request.field} = ? WHERE ycsb_key = ? RETURNING "
                    "ycsb_key",
                    (request.values[0], request.key),
                )
                reads: list[Any] = [read] if request.kind == "read_modify_write" else []
                rows = backend.batch([*reads, update], commit=True)[-1]
        return TransactionOutcome(misses=int(not rows), output=(len(rows),))


@dataclass(frozen=True)
class Ycsb(Sized):
    """See `Sized`."""

    scale: int = setting(
        "Records, of about 1 kB each.", count(1, 2**31 - 1), 100_000, title="records", is_log=True
    )


WORKLOAD = Workload(
    name="ycsb",
    summary="records by key: reads, updates, inserts and scans, most of a few hot records",
    source="YCSB core workloads A to F, SoCC 2010",
    settings=Ycsb,
    mixes=MIXES,
    make=lambda asked, chosen: YcsbLoad(asked.scale, chosen),
    bytes_per_unit=1_200,
    readers=frozenset(("read", "scan")),
)
