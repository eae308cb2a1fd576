"""The options of `bench`: each is declared here, and nowhere else.

What belongs to a workload, a database or a place is written in it, and declared with it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from flashwright import written
from flashwright.written import (
    DEVICE,
    FOLDER,
    TEXT,
    TRUTH,
    count,
    number,
    seconds,
    setting,
    size,
)

FIRST, LENGTH = "What matters first", "Beginning and end"
_TERABYTE = 1e12
LAYERS, SET_UP, RESULTS = "Layers below", "Set-up", "Results"


@dataclass(frozen=True)
class BenchOptions:
    """Settings of benches: what is run, and what is measured of it.

    With several workloads, databases, places or numbers of clients there is a bench for each
    combination.
    """

    workload: tuple[str, ...] = setting("", TEXT, is_several=True, completes="benchmark")
    db: tuple[str, ...] = setting(
        "The database: sqlite or postgres, with its settings, such as "
        "'postgres(buffer=1Gi, checkpoint=30s)'. a,b or again for each.",
        TEXT,
        ("sqlite",),
        is_several=True,
        group=FIRST,
        completes="database",
    )
    on: tuple[str, ...] = setting(
        "Where the database lies: DIR; a file system on DEVICE; 'volume(btrfs, size=2Gi)', one of "
        "our own over an image; volume(all), one of each kind. a,b or again for each.  [default: "
        "/var/tmp; with --layers or --record volume(ext4) there]",
        TEXT,
        (),
        is_several=True,
        group=FIRST,
        completes="place",
    )
    clients: tuple[int, ...] = setting(
        "Clients at once. a,b or again for each.  [default: 1]",
        count(1, 1000),
        (),
        title="clients",
        is_several=True,
        group=FIRST,
    )
    duration: float | None = setting(
        "How long it is measured, such as 90s or 2m.  [default: 60 s]",
        seconds(is_open=True),
        None,
        flag="--for",
        group=FIRST,
    )
    layers: bool = setting(
        "Record each run, and measure what the database calls, the file system queues, and the "
        "device gets. Needs root.",
        TRUTH,
        default=False,
        group=FIRST,
    )
    repeat: int = setting(
        "Run everything N times, every other time in the reverse order; figures are medians, with "
        "their range.",
        count(1, 100),
        1,
        group=FIRST,
    )
    transactions: int | None = setting(
        "End after N from each client.", count(1), None, group=LENGTH
    )
    warm_up: float | None = setting(
        "How long before that is left out.  [default: 0]", seconds(), None, group=LENGTH
    )
    window: float = setting(
        "Length of a window of the figures over time.", seconds(0.1), 1.0, group=LENGTH
    )
    preset: str | None = setting(
        "A paper's set-up (see `flashwright list preset`), also 'NAME(scale_down=10)'; all that is "
        "given beats it.",
        TEXT,
        None,
        group=SET_UP,
        completes="preset",
    )
    seed: int = setting(
        "Of the data and of what each client does.", count(0, 2**31 - 1), 1, group=SET_UP
    )
    keep: bool = setting(
        "The database goes into DIR of --on itself, which is to be empty, and stays.",
        TRUTH,
        default=False,
        group=SET_UP,
    )
    destroy_data: tuple[Path, ...] = setting(
        "Confirm that the data of a device of --on are lost, by repeating its path. Again for "
        "each.",
        DEVICE,
        (),
        is_several=True,
        group=SET_UP,
    )
    record: Path | None = setting(
        "Record what the device below gets while it is measured, as `flashwright record` does, and "
        "keep it there; of several runs each in a folder of its own. Needs root.",
        FOLDER,
        None,
        group=LAYERS,
    )
    device: str | None = setting(
        "Play each recording on a simulated drive: a profile of `flashwright list profile` or a "
        "TOML file; also 'profile(NAME, state=aged, capacity=own)'.",
        TEXT,
        None,
        group=LAYERS,
        completes="profile",
    )
    life: str | None = setting(
        "What a drive stands: 'life(tbw=2000, cycles=3000)'.",
        replace(TEXT, metavar="LIFE"),
        None,
        group=LAYERS,
    )
    no_calls: bool = setting(
        "Record the device alone, not the database's calls and where its files lie.",
        TRUTH,
        default=False,
        group=LAYERS,
    )
    no_log: bool = setting(
        "With --record and postgres: do not keep the server's log of that time, from which "
        "`flashwright.postgres_what_if` says what other settings would have written.",
        TRUTH,
        default=False,
        group=LAYERS,
    )
    trace_buffer: int = setting(
        "The kernel's buffer for events, for each processor.", size(), 64 << 20, group=LAYERS
    )
    keep_raw: bool = setting(
        "Keep the kernel's own stream, which blkparse reads, in the recording.",
        TRUTH,
        default=False,
        group=LAYERS,
    )
    check: bool = setting(
        "Compare the recording with what blkparse reads in the same stream.",
        TRUTH,
        default=False,
        group=LAYERS,
    )
    log_transactions: bool = setting(
        "Keep begin and end of every transaction: transactions.parquet.",
        TRUTH,
        default=False,
        group=RESULTS,
    )


@dataclass(frozen=True)
class Life:
    """Endurance of a drive."""

    tbw: float | None = setting(
        "Terabytes (10^12 bytes) that its maker lets be written to it, such as the 2000 of "
        "SCHEDULER table 5.3.",
        number(0, is_open=True),
        None,
    )
    cycles: float | None = setting(
        "Erases that a block stands.  [default: the profile's]", number(1), None
    )

    @property
    def guaranteed_bytes(self) -> float | None:
        """Bytes that the maker lets be written to it; None if not given."""
        return None if self.tbw is None else self.tbw * _TERABYTE


def life_of(text: str) -> Life:
    """Read the endurance of a drive.

    Raises:
        InputError: it is wrong.
    """
    return written.read(text, {"life": Life}, "life")
