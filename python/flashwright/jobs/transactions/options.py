"""Written by `make jobs` from crates/jobs: change it there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypedDict


class Transactions(TypedDict, total=False):
    """Plays transactions of SOURCE on a device, each client one after the other without a
    pause, and measures what the clients see. SOURCE is a benchmark by its specification,
    `tpcc`, `tpcb` or `tatp`, whose database can have any size (`flashwright list load`), or a
    trace of page accesses. Each access locks its row or page, needs its page in the buffer
    pool, and a dirty victim is written before; a commit waits for the log. DEVICE is a
    simulated drive, a block device, a file, or `memory(bytes=4Gi)`; a block device or file
    needs --write. The database lies at the start of the region, the log behind it.
    """

    on: str
    """A profile of `flashwright list profile`, a block device, a file, or `memory(bytes=1Gi)`.
    What belongs to it is written in it: `profile(nvme-tlc, state=aged, media.channels=4)`,
    `disk(/dev/sdb, region=8Gi, polled=yes)`, `file(/mnt/x, create=4Gi)`, `array(raid5,
    of=intel-x25e, drives=5)`.
    """
    stack: str
    """Put layers between the transactions and the device, from the top to the bottom with |
    between them, such as 'replicas(page=8Ki)'; `flashwright list layer` has them.
    """
    facts: str | None
    """What layers know of the device: the run folder of a probe; measured on a second simulated
    drive of the same profile, once; or nothing. [default: none]
    """
    no_load: bool
    """Leave the device as it is: otherwise the database is written once, in order, before
    anything else.
    """
    clients: int | str
    """Clients, each with one transaction at a time: 1 to 65536."""
    pool: float | str
    """Pages of the buffer pool, or their share of the database's: 1024, 1%."""
    buffer: str
    """How the pool chooses victims: `flashwright list buffer`."""
    locks: Literal["row", "page", "none"] | None
    """What a transaction locks until it ends. [default: row, or page if the trace has no
    rows]
    """
    lock_rule: str
    """What becomes of a conflict: `flashwright list lock_rule`."""
    cpu: float | str
    """Microseconds of the processor for each page access."""
    writer_pages: int | str
    """Let a background writer write up to N dirty pages each --writer-interval; 0 for none."""
    writer_interval: float | str
    """Milliseconds between the rounds of the background writer."""
    no_log: bool
    """Commit without a log."""
    log: int | str
    """Bytes of the log's region behind the database. A checkpoint comes when half of it is
    used.
    """
    log_each: bool
    """Write each commit by itself, instead of all that wait together."""
    log_unflushed: bool
    """Do not flush after a write of the log."""
    warm_up: int | str | None
    """Play N transactions before."""
    warm_up_seconds: float | str | None
    """Play for so long before."""
    transactions: int | str | None
    """Measure N transactions. [default: 100k, if no time is given]"""
    seconds: float | str | None
    """Measure for so long, by the device's clock: 90, 30min, 3h."""
    repeat: bool
    """Begin a trace again at its end."""
    write: bool
    """Allow writes to a block device or file: what is in the region is lost. Simulated drives
    and memory are always written.
    """
    destroy_data: str | Sequence[str]
    """Confirm overwriting a device that holds a file system, partitions or other data, by
    repeating its path.
    """
    blocked: float | str
    """Count requests that take longer as blocked."""
    seed: int
    """Seed of all that is random."""
