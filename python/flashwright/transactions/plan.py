"""Plan of a play of transactions, and the source of these."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from flashwright import _core
from flashwright._core import InputError, Transactions

DIRECT = "direct"
"""The stack without layers."""
DEFAULT_TRANSACTIONS = 100_000
"""Measured if neither their number nor a time is given."""


@dataclass(frozen=True)
class Plan:
    """All that decides on a play, but for the transactions and the device."""

    clients: int = 10
    pool_pages: int = 1024
    buffer: str = "lru"
    locks: str | None = None
    """`row`, `page` or `none`; None for rows where the source knows them, else pages."""
    lock_rule: str = "detect"
    cpu_us: float = 0.0
    log_bytes: int = 64 << 20
    """0 for no log."""
    log_record_bytes: int = 120
    log_grouped: bool = True
    log_flushed: bool = True
    writer_ms: float = 200.0
    writer_pages: int = 0
    """0 for no background writer."""
    blocked_us: float = 800.0
    part_bytes: int = 128 << 10
    warm_up_transactions: int | None = None
    warm_up_seconds: float | None = None
    transactions: int | None = None
    seconds: float | None = None
    seed: int = 1
    loaded: bool = True
    """True if the database is written once, in order, before anything else."""
    stack: str = DIRECT
    """Layers between the transactions and the device, from the top to the bottom."""

    def given(self, transactions: Transactions) -> dict[str, Any]:
        """Give what the core takes."""
        found = asdict(self)
        del found["loaded"], found["stack"]
        if self.locks is None:
            found["locks"] = "row" if transactions.database["rows"] else "page"
        if self.transactions is None and self.seconds is None:
            found["transactions"] = DEFAULT_TRANSACTIONS
        return found


def find(source: str, *, repeated: bool = False) -> Transactions:
    """Find what a name means: a benchmark by its specification, or a trace of page accesses.

    Raises InputError if it is neither, or the trace cannot be read.
    """
    benchmarks = _core.transaction_variants()["benchmarks"]
    names = {name for one in benchmarks for name in (one["name"], *one["aliases"])}
    if source.partition("(")[0] in names:
        return _core.benchmark_transactions(source)
    path = Path(source)
    if not path.is_file():
        known = ", ".join(one["name"] for one in benchmarks)
        raise InputError(
            f"{source}: no such file, and no benchmark; benchmarks that are built in are: {known}"
        )
    return _core.load_transactions(path, repeated=repeated)
