"""Reads past a die that cleans: what each technique leaves of their tail, on one drive of a kind.

All variants of a drive have the same flash and the same logical pages, so that what a technique
needs (copies, parity) is taken from the spare space. Exceptions say so: arrays are two such drives,
and one row has flash for its parity on top. The load is the same for all: 4 KiB at random, seven
reads to three writes, at times of its own (Poisson), half and three quarters of what the plain
drive does with its queue full, and a quarter of it beside.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq

from experiments import engine
from experiments.drives.experiment import SEED, drive
from flashwright import _core, drive_runs

BUDGET = 0.1
"""Room for copies, as a share of the logical pages."""
LOADS = (0.25, 0.5, 0.75)
"""Loads, as shares of the highest one."""
HEDGE_AFTER = 0.95
READS = 0.7
ARRAY_OF = 2


@dataclass(frozen=True)
class Kind:
    """A drive, cut down so that its spare space is turned over sooner, and how long it is played.

    Shares of spare space and reserve stay those of the whole drive, or are said to be others.
    """

    profile: str
    overrides: tuple[str, ...]
    over_provisioning: float
    group: int
    """Dies that have parity of their own: one on each channel."""
    suspend: tuple[str, ...]
    depth: int
    """Requests outstanding where the highest load is found."""
    window_us: int
    warm_up: int
    measured: int
    striped: tuple[str, ...]
    """Keys that group its erase blocks into superblocks."""


STRIPED = ("ftl.scheme=superblock_mapped", "ftl.placement=separate", "cleaning.pace=burst")
KINDS = (
    Kind(
        "intel-x25e",
        ("media.erase_blocks_per_plane=512",),
        over_provisioning=0.342,
        group=10,
        suspend=("media.suspend=true", "media.suspend_us=20"),
        depth=32,
        window_us=500_000,
        warm_up=100_000,
        measured=200_000,
        striped=STRIPED,
    ),
    Kind(
        "nvme-tlc",
        (
            "media.pages_per_erase_block=288",
            "media.suspend=false",
            "cleaning.start_below_free=0.02",
            "cleaning.background_below_free=0.03",
        ),
        over_provisioning=0.28,
        group=8,
        suspend=("media.suspend=true", "media.suspend_us=20"),
        depth=256,
        window_us=100_000,
        warm_up=400_000,
        measured=200_000,
        striped=STRIPED,
    ),
)


@dataclass(frozen=True)
class Technique:
    """Technique against slow reads: keys of the profile, and the kind of array."""

    name: str
    keys: tuple[str, ...] = ()
    is_striped: bool = False
    has_copies: bool = False
    has_parity: bool = False
    keeps_spare: bool = False
    """True if parity is stored on additional flash, and takes no spare space."""
    suspends: bool = False
    has_windows: bool = False
    cleans: bool = True
    array: str = ""
    """Array of two drives, by the rule that chooses the drive of a read; empty for one drive."""


NO_CLEANING = ("cleaning.start_below_free=0", "cleaning.background_below_free=0")
TURNS = ("ftl.parity_reads=cleaning", "cleaning.rotates=true")
REFERENCE = Technique("without cleaning", NO_CLEANING, cleans=False)
STRIPED_REFERENCE = Technique(
    "superblocks without cleaning", NO_CLEANING, is_striped=True, cleans=False
)
REPLICATION = Technique("replication", has_copies=True)
TECHNIQUES = (
    REFERENCE,
    Technique("without cleaning, suspend", NO_CLEANING, suspends=True, cleans=False),
    Technique("plain"),
    REPLICATION,
    Technique("suspend", suspends=True),
    Technique("replication, suspend", has_copies=True, suspends=True),
    STRIPED_REFERENCE,
    Technique("superblocks", is_striped=True),
    Technique("superblocks, suspend", is_striped=True, suspends=True),
    Technique("parity that is not read", is_striped=True, has_parity=True),
    Technique("parity, in turns", TURNS, is_striped=True, has_parity=True),
    Technique(
        "parity, in turns, more flash", TURNS, is_striped=True, has_parity=True, keeps_spare=True
    ),
    Technique("parity, busy die", ("ftl.parity_reads=busy",), is_striped=True, has_parity=True),
    Technique("windows, one drive", has_windows=True),
    Technique("two drives", array="home"),
    Technique("two drives, fail fast", array="fail_fast"),
    Technique("two drives, windows, fail fast", has_windows=True, array="fail_fast"),
    Technique("two drives, hedged", array="hedged"),
)


def keys_of(kind: Kind, technique: Technique) -> list[str]:
    """Give the changes to the profile."""
    keys = [*kind.overrides]
    spare = 1 + kind.over_provisioning
    if technique.is_striped:
        keys += kind.striped
    if technique.has_parity:
        spare *= 1.0 if technique.keeps_spare else 1 - 1 / kind.group
        keys += ["ftl.parity_dies=1", f"ftl.stripe_dies={kind.group}"]
    keys.append(f"ftl.over_provisioning={spare - 1:.6f}")
    if technique.has_copies:
        keys += ["replication.policy=pblru", f"replication.budget={BUDGET}"]
    if technique.suspends:
        keys += kind.suspend
    if technique.has_windows:
        keys += [
            f"cleaning.window_period_us={kind.window_us}",
            f"cleaning.window_share={1 / ARRAY_OF}",
        ]
    return [*keys, *technique.keys]


@cache
def highest(kind: Kind) -> float:
    """Give the requests a second of the plain drive with its queue full."""
    plain = drive(kind.profile, keys_of(kind, Technique("plain")))
    found = engine.play(
        plain.profile,
        f"io:random(size=4Ki,reads={READS})",
        pace=f"closed({kind.depth})",
        state="aged",
        seed=SEED,
        requests=kind.warm_up + kind.measured,
        warm_up=kind.warm_up,
    )
    return float(found["iops"])


@cache
def play(kind: Kind, technique: Technique, load: float) -> dict[str, Any]:
    """Play the load on a drive, or on two, and tell what the slowest percent of reads waited for.

    Without cleaning, the drive was filled in order, and is measured before its spare space is used
    up.
    """
    made = drive(kind.profile, keys_of(kind, technique))
    pause = 1e6 / (load * highest(kind))
    pattern = f"io:random(size=4Ki,reads={READS},pause_us={pause:.6f},gaps=exponential)"
    warm_up = kind.warm_up if technique.cleans else kind.warm_up // 10
    requests = warm_up + kind.measured
    state = "aged" if technique.cleans else "filled"
    if technique.array:
        return _core.simulate_array(
            made.profile,
            drive_runs.load(made.profile, pattern, seed=SEED),
            drives=ARRAY_OF,
            reads=technique.array,
            hedge_after=HEDGE_AFTER,
            state=state,
            seed=SEED,
            most_requests=requests,
            warm_up_requests=warm_up,
        )
    with tempfile.TemporaryDirectory() as folder:
        # It writes a file of each request, so it is no task.
        table = Path(folder) / "requests.parquet"
        found = drive_runs.run(
            made.profile,
            pattern,
            pace="open",
            state=state,
            seed=SEED,
            requests=requests,
            warm_up=warm_up,
            requests_to=str(table),
        )
        found["tail"] = _tail(table)
    del found["tables"]
    return found


def kept_up(kind: Kind, technique: Technique, load: float) -> float:
    """Give the share of the load that was answered as it came: below 1 the queue grows.

    Times are then those of the length of the run, and of nothing else.
    """
    return float(play(kind, technique, load)["iops"]) / (load * highest(kind))


def _tail(path: Path) -> dict[str, float]:
    """Give the mean of each delay in nanoseconds over the slowest percent of reads."""
    table = pq.read_table(path)
    reads = table.filter(pc.equal(table["op"].cast("string"), "read"))
    limit = pc.quantile(reads["latency_ns"], 0.99)[0]
    slow = reads.filter(pc.greater_equal(reads["latency_ns"], limit))
    delays = [name for name in _core.delays() if f"{name}_ns" in slow.column_names]
    return {name: float(pc.mean(slow[f"{name}_ns"]).as_py()) for name in delays}


@dataclass(frozen=True)
class Tail:
    """Percentiles of reads in nanoseconds, and beside the reference."""

    p99: int
    p999: int
    p99_ratio: float
    p999_ratio: float


def tail(kind: Kind, technique: Technique, load: float) -> Tail:
    """Compare a technique with the drive that does not clean: with the page-mapped one, always."""
    found = _read(play(kind, technique, load))
    reference = _read(play(kind, REFERENCE, load))
    return Tail(
        found["p99"],
        found["p999"],
        found["p99"] / reference["p99"],
        found["p999"] / reference["p999"],
    )


def _read(found: Mapping[str, Any]) -> dict[str, int]:
    return dict(found["latency_ns"]["read"])
