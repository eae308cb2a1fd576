"""REPLICATION 5.2: transactions on a drive that was restored, and on one that is fragmented.

What each parameter is from. The paper's words: 4 GB and table 2 (profile `replication-table-2`);
databases of 2.4, 2.2 and 2.4 GB; ten clients without thinking time; a pool of 1,024 pages; the
trace is of page accesses to the buffer manager, so that it has no log. Not said: what the restored
and the sustained state are, where the FTL puts pages, what is locked, which conflict restarts whom,
what the processor takes. These are swept, and none of them is chosen by what comes out.

Its simulator is DiskSim with the SSD extension (its reference 27). From there: each logical page
has its chip, and a chip that cleans serves nobody until the erase block is clean. A page of the
database lies on one chip, so that there are other chips for its copies.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from experiments.drives.experiment import drive, of_profile, transactions
from flashwright import _core

PROFILE = "replication-table-2"
DATABASE_MB: Mapping[str, int] = {"TPC-C": 2400, "TPC-B": 2200, "TM-1": 2400}
"""Sizes of the databases in 10^6 bytes (REPLICATION 5.1)."""
BENCHMARKS: Mapping[str, str] = {
    benchmark: f"{name}(bytes={DATABASE_MB[benchmark]}M)"
    for benchmark, name in (("TPC-C", "tpcc"), ("TPC-B", "tpcb"), ("TM-1", "tatp"))
}
STATIC = "ftl.scheme=page_mapped(allocation=static,chunk_pages=4)"
"""Each logical page has its chip, as in DiskSim's SSD extension (Agrawal et al. 2008)."""
OCCUPIES = "cleaning.occupies_die=true"
"""A chip that cleans serves nobody else: the same."""
COPIES_OF_DATABASE = 0.1
"""Room for copies as a share of the database (REPLICATION 5.3)."""
AVAILABLE = "ftl.scheme=page_mapped(allocation=available,chunk_pages=4)"
POLICIES = ("lru", "pblru")
CFLRU_E = "cflru_e"


def copies(policy: str, database_mb: float, overrides: tuple[str, ...]) -> tuple[str, ...]:
    """Give the keys of the profile that turn replication on.

    The room for copies is taken from what the host may address, so that the spare space is the same
    as without.
    """
    summary = _core.profile_summary(drive(PROFILE, overrides).profile)
    page = summary["page_bytes"]
    room = round(COPIES_OF_DATABASE * 1e6 * database_mb / page)
    host = summary["capacity_bytes"] // page - room
    whole = summary["physical_bytes"] // page
    return (
        f"ftl.over_provisioning={whole / host - 1:.6f}",
        f"replication.budget={room / host:.6f}",
        f"replication.policy={policy}",
    )


@dataclass(frozen=True)
class State:
    """A state of the drive, and how long it is played before and while it is measured."""

    name: str
    kind: str
    warm_up: int
    measured: int
    overwrites: float = 0.0


RESTORED = State("restored", "fresh", 3_000, 12_000)
"""Erased but for the database. It lasts as long as the load does not use up what is erased."""
OWN = State("sustained by its own load", "fresh", 60_000, 20_000)
"""Measured after the load has overwritten the spare space several times: the paper's warm-up."""
FILLED = State("every page written before", "filled", 40_000, 20_000)
AGED = State("overwritten at random", "aged", 10_000, 20_000, 2.0)
SUSTAINED = (OWN, FILLED, AGED)


@dataclass(frozen=True)
class Setting:
    """A choice for what the paper leaves open."""

    name: str
    overrides: tuple[str, ...] = ()
    locks: str = "row"
    lock_rule: str = "no_wait"
    cpu_us: float = 0.0
    page: str = "8Ki"
    pool_pages: int = 1024


BASE = Setting("base: a chip for each page, which cleaning keeps", (STATIC, OCCUPIES))
SWEEP = (
    BASE,
    Setting("cleaning and requests take turns", (STATIC,)),
    Setting("a page over all chips", (STATIC.replace("pages=4", "pages=1"), OCCUPIES)),
    Setting("pages placed on any chip that is free", (AVAILABLE, OCCUPIES)),
    Setting("page locks", BASE.overrides, locks="page"),
    Setting("waiting, restart by deadlock", BASE.overrides, lock_rule="detect"),
    Setting("3 ms of the processor an access", BASE.overrides, cpu_us=3000.0),
    Setting(
        "pages of 2 KiB, as the flash's",
        (STATIC.replace("pages=4", "pages=1"), OCCUPIES),
        page="2Ki",
    ),
    Setting("pool of 1 % of the database", BASE.overrides, pool_pages=3072),
)
LOADS = (
    BASE,
    Setting("1 ms of the processor an access", BASE.overrides, cpu_us=1000.0),
    Setting("3 ms of the processor an access", BASE.overrides, cpu_us=3000.0),
)
CHIPS = tuple(
    Setting(
        f"I = {chips}",
        (
            *BASE.overrides,
            f"media.channels={chips}",
            f"media.erase_blocks_per_plane={4 * 8192 // chips}",
        ),
    )
    for chips in (2, 4, 8, 16)
)
SPARE = tuple(
    Setting(
        f"R = {percent} %",
        (*BASE.overrides, f"ftl.over_provisioning={percent / (100 - percent):.6f}"),
    )
    for percent in (7, 10, 20, 30)
)


EPOCHS = tuple(
    Setting(
        f"epoch of {seconds} s", (*BASE.overrides, f"replication.epoch_s={seconds}"), cpu_us=3e3
    )
    for seconds in (30, 60, 120, 300)
)
"""Of the thresholds of idle time, where chips rest (REPLICATION 5.1)."""
RECENCY = tuple(
    Setting(
        f"recency region of {percent} %",
        (*BASE.overrides, f"replication.recency_share={percent / 100}"),
    )
    for percent in (0, 25, 50, 75, 100)
)


@cache
def play(
    benchmark: str, state: State, setting: Setting, policy: str = "", buffer: str = "lru"
) -> dict[str, Any]:
    """Play a benchmark on the drive in a state: with copies if there is a policy for them.

    `buffer` is the buffer manager. That of CFLRU/E takes a request for blocked after D (800 µs,
    2 C_W of table 2), and compares how often erase blocks of 128 KiB of the database were.
    """
    extra = copies(policy, DATABASE_MB[benchmark], setting.overrides) if policy else ()
    table_2 = drive(PROFILE, (*setting.overrides, *extra))
    spec = BENCHMARKS[benchmark].replace(")", f",page={setting.page})")
    return transactions(
        spec,
        {"profile": of_profile(table_2.profile, state.kind, state.overwrites)},
        pool=setting.pool_pages,
        buffer=buffer,
        locks=setting.locks,
        lock_rule=setting.lock_rule,
        cpu=setting.cpu_us,
        no_log=True,
        warm_up=state.warm_up * SHORTER[benchmark],
        transactions=state.measured * SHORTER[benchmark],
    )


SHORTER: Mapping[str, int] = {"TPC-C": 1, "TPC-B": 3, "TM-1": 10}
"""Transactions that change about as many pages as one of TPC-C."""


def writes_each(found: Mapping[str, Any]) -> float:
    """Give the pages written to flash for the host and as copies, for each transaction (table 5).

    What the drive writes when it cleans is not in it.
    """
    kinds = ("write_back", "background_write")
    pages = sum(int(found["io_ns"][kind]["count"]) for kind in kinds)
    copied = (found["replication"] or {"counts": {}})["counts"]
    each = found["database"]["page_bytes"] / found["flash"]["page_bytes"]
    written = pages * each + copied.get("replica_page_writes", 0)
    return float(written / max(found["committed"], 1))


@dataclass(frozen=True)
class Ratios:
    """A state beside the restored one."""

    throughput: float
    response: float
    restarts: float | None
    """None where the restored state has none."""
    busy: float
    """Share of the dies' time that was for requests of the host."""
    internal: float
    idle: float


def beside_restored(found: Mapping[str, Any], restored: Mapping[str, Any]) -> Ratios:
    """Give what became of throughput, response and restarts a transaction."""
    share = found["die_share"]
    key = "restarts_per_transaction"
    return Ratios(
        found["transactions_per_second"] / restored["transactions_per_second"],
        found["response_ns"]["mean"] / restored["response_ns"]["mean"],
        found[key] / restored[key] if restored[key] else None,
        share["host"],
        sum(part for cause, part in share.items() if cause not in ("host", "idle")),
        share["idle"],
    )
