"""Written by `make jobs` from crates/jobs: change it there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class About:
    """Name, kind and limits of a device, as it reports them."""

    capacity_bytes: int
    """Bytes that can be addressed."""
    kind: str
    """`simulated`, `block_device`, `file` or `memory`."""
    model: str
    """Its model."""
    name: str
    """Its name."""
    queue_depth: int
    """Most requests outstanding at once."""
    sector_bytes: int
    """Bytes of a sector."""


@dataclass(frozen=True, kw_only=True)
class ClientShare:
    """Shares of the clients' time; they add up to 1."""

    cpu: float
    """The processor works."""
    frame: float
    """It waits for a frame of the pool that somebody uses."""
    lock: float
    """It waits for a lock."""
    log: float
    """It waits for the log."""
    read: float
    """It waits for a page to be read."""
    restart: float
    """It waits to be restarted."""
    think: float
    """It thinks, or has nothing to do."""
    write_back: float
    """It waits until a dirty victim is written."""


@dataclass(frozen=True, kw_only=True)
class Counts:
    """Counts of a trace."""

    aborted: int
    """Transactions that were rolled back: they are left out."""
    committed: int
    """Transactions that commit."""
    reads: int
    """Reads of those that are played."""
    unfinished: int
    """Transactions without an end: they are left out."""
    writes: int
    """Writes of those that are played."""


@dataclass(frozen=True, kw_only=True)
class Database:
    """A database."""

    bytes: int
    """Its bytes."""
    kinds: tuple[str, ...]
    """Kinds of transaction."""
    name: str
    """Its name, as it was given."""
    page_bytes: int
    """Bytes of a page."""
    pages: int
    """Pages of all relations."""
    relations: tuple[Relation, ...]
    """Tables and indexes; none if they are not known."""
    rows: int
    """Rows that are numbered; 0 if none is."""
    scale: dict[str, int]
    """Quantities from which its size follows."""


@dataclass(frozen=True, kw_only=True)
class Flash:
    """Operations of flash."""

    erases: int
    """Erase blocks erased."""
    page_bytes: int
    """Bytes of a page."""
    page_programs: int
    """Pages programmed."""
    page_reads: int
    """Pages read."""


@dataclass(frozen=True, kw_only=True)
class Io:
    """Requests of the clients and the background writer."""

    background_write: Requests
    """Writes of the background writer and of checkpoints."""
    log: Requests
    """Writes of the log."""
    read: Requests
    """Reads of pages."""
    write_back: Requests
    """Writes of dirty victims."""


@dataclass(frozen=True, kw_only=True)
class LayerCounters:
    """The counters of a layer."""

    counters: dict[str, int]
    """Its counters by name."""
    layer: str
    """The layer."""


@dataclass(frozen=True, kw_only=True)
class Relation:
    """A table or an index."""

    first_page: int
    """Its first page."""
    is_index: bool
    """True if it is an index."""
    name: str
    """Its name."""
    pages: int
    """Its pages."""


@dataclass(frozen=True, kw_only=True)
class Replication:
    """Statistics of page copies."""

    counts: dict[str, int]
    """Counters by name."""
    extra_writes: float | None
    """Pages of copies for each page that the host wrote."""
    extra_writes_by_writes: float | None
    """Share of the copies that came of writes."""
    groups_by_size: tuple[int, ...]
    """Number of pages stored in 2, 3, ... places at the end."""
    interference: tuple[float, ...]
    """Share of the time in which a die worked on copies while a request waited for it, by
    die.
    """
    predicted_copies: float
    """Expected number of copies, from the probability that each page is blocked."""
    reads_by_ios: tuple[float | None, ...]
    """Shares of reads of one, two and more I/Os."""
    sizes: dict[str, int]
    """Sizes of tables and of the space for copies."""
    writes_by_ios: tuple[float | None, ...]
    """Shares of writes of one, two and more I/Os."""


@dataclass(frozen=True, kw_only=True)
class Requests:
    """Requests of one kind: their times from sending to completion."""

    blocked: int
    """Those that took longer than `blocked`."""
    count: int
    """Number of them."""
    max: int
    """The longest."""
    mean: float
    """Mean."""
    p50: int
    """Median."""
    p99: int
    """99th percentile."""
    p999: int
    """99.9th percentile."""
    p9999: int | None
    """99.99th percentile; none of too few."""
    worst_percent_mean: float
    """Mean of the worst one in a hundred."""


@dataclass(frozen=True, kw_only=True)
class Times:
    """Distribution of times, in nanoseconds: all are 0 where nothing was measured. Percentiles
    are upper ends of classes, at most 0.1 % too large.
    """

    count: int
    """Number of them."""
    max: int
    """The longest."""
    mean: float
    """Mean."""
    p50: int
    """Median."""
    p99: int
    """99th percentile."""
    p999: int
    """99.9th percentile."""
    p9999: int | None
    """99.99th percentile; none of too few."""
    worst_percent_mean: float
    """Mean of the worst one in a hundred."""


@dataclass(frozen=True, kw_only=True)
class TransactionsPlayed:
    """Outcome of transactions on a device. Times are of the device's clock."""

    about: About
    """Name, kind and limits of the device, as it reports them."""
    accesses: int
    """Page accesses of committed transactions and of others."""
    by_kind: dict[str, Times]
    """Response times by kind of transaction."""
    checkpoints: int
    """Checkpoints that ended."""
    client_share: ClientShare
    """Shares of the clients' time."""
    committed: int
    """Transactions that committed."""
    counts: Counts | None
    """Counts of a trace; none of a benchmark."""
    database: Database
    """Database of the transactions."""
    die_share: dict[str, float] | None
    """Shares of the time of all dies, by cause, and idle; none if they are not known."""
    ended: str | None
    """Reason for an end before what was asked for: `stopped`, `failed`."""
    error: str | None
    """Error that ended it."""
    flash: Flash | None
    """Operations of the flash; none if they are not known."""
    hits: int
    """Those that found their page in the pool."""
    io_ns: Io
    """Requests by kind."""
    last_attempt_ns: Times
    """Times from the last begin to the commit: without attempts that were in vain."""
    layers: tuple[LayerCounters, ...]
    """The counters of each layer over the measured part, from the top down; levels as they are
    at its end.
    """
    length_bytes: int
    """Bytes of the region."""
    lock_wait_ns: Times
    """Waits for locks."""
    locks: Literal["row", "page", "none"]
    """Unit that was locked."""
    offset_bytes: int
    """First byte of the region that they were played in."""
    pool_pages: int
    """Pages of the buffer pool."""
    replication: Replication | None
    """Statistics of page copies, if the drive makes some."""
    response_ns: Times
    """Response times, from the first begin to the commit, with restarts and the waits before
    them.
    """
    restarts: int
    """Number of restarts because of a conflict."""
    restarts_per_transaction: float
    """Restarts for each transaction that committed."""
    seconds: float
    """Measured time."""
    source_sha256: str | None
    """SHA-256 of the file of a trace; none of a benchmark."""
    transactions_per_second: float
    """Transactions a second."""
    warm_up_seconds: float
    """Time that these took."""
    warm_up_transactions: int
    """Transactions that were played before."""
