"""REPLICATION 5.3 and 5.4: the layer `replicas` under transactions, on simulated real drives.

What each parameter is from. The paper's words: drives of 64 (X25-E, Mtron), 80 (X25-M), 240 (Intel
335) and 256 GB (OCZ Vector); 16 partitions, 8 on the Mtron; databases of 48.0 GB (TPC-C) and 22.4
GB (TPC-B, TM-1); a buffer pool of 1 % of the database; pages of 8 KB; ten clients without thinking
time; a budget of 10 % of the database; PBLRU with a recency region of one half. Our profiles have
other sizes, so a database takes the share of the drive that it took of the paper's.

Not said: what state the drives were in, which log was written where. As in figures 4 to 6 there is
no log, rows are locked and a conflict restarts, and the drive is erased but for the database and
then aged by the load itself.

Drives that map pages are cut down (fewer erase blocks in each plane), so that the load uses up
their spare space in minutes. Drives with log blocks are whole: it is their few log blocks that the
load has to use up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import TYPE_CHECKING, Any

from experiments import engine
from experiments.drives.experiment import SEED, drive, of_profile, transactions_task
from flashwright import _core
from flashwright._core import RunError
from flashwright.jobs.play.names import DIRECT

if TYPE_CHECKING:
    from flashwright.engine.task import Task

BENCHMARKS: Mapping[str, str] = {"TPC-C": "tpcc", "TPC-B": "tpcb", "TM-1": "tatp"}
DATABASE_GB: Mapping[str, float] = {"TPC-C": 48.0, "TPC-B": 22.4, "TM-1": 22.4}
"""The paper's databases on real drives, in 10^9 bytes (5.1)."""
WRITTEN: Mapping[str, float] = {"TPC-C": 8.4, "TPC-B": 1.0, "TM-1": 0.2}
"""Pages that a transaction writes back, as they were counted: how long a warm-up has to be."""
PAGE_BYTES = 8192
POOL = 0.01
"""Pages of the pool, as a share of the database's (5.1)."""
BUDGET = 0.1
"""Room for replicas, as a share of the database (5.3)."""
POLICIES = ("lru", "pblru")
CFLRU_E = "cflru_e"
DEFAULT_D_NS = 800_000
"""Twice the C_W of table 2, as in figures 4 to 6."""


@dataclass(frozen=True)
class Kind:
    """A drive, and which one of the paper's it stands for."""

    profile: str
    paper: str
    paper_gb: float
    """Its size, in 10^9 bytes."""
    partitions: int
    erased_bytes: int
    """Bytes that are erased together: the parts whose blocking CFLRU/E compares."""
    cut: tuple[str, ...] = ()
    """Keys that cut the profile down."""
    log_bytes: int = 0
    """Bytes of the log blocks of a hybrid mapping, which the warm-up fills; 0 if it fills the spare
    space.
    """
    turns: float = 2.0
    """Times that the warm-up writes the log blocks, or the spare space."""
    measured: int = 10_000
    """Pages written back while it is measured, in transactions of TPC-C."""


_KIB, _MIB = 1 << 10, 1 << 20
X25E = Kind("intel-x25e", "Intel X25-E", 64, 16, 256 * _KIB, ("media.erase_blocks_per_plane=512",))
X25M = Kind("intel-x25m", "Intel X25-M", 80, 16, 512 * _KIB, ("media.erase_blocks_per_plane=256",))
MTRON = Kind(
    "mtron-pro-7500", "Mtron", 64, 8, 4 * _MIB, log_bytes=16 * _MIB, turns=8, measured=2_000
)
_EIGHT_GIB = ("media.erase_blocks_per_plane=64",)
I335 = Kind("intel-335", "Intel 335", 240, 16, 2 * _MIB, _EIGHT_GIB)
OCZ = Kind("ocz-vector", "OCZ Vector", 256, 16, 2 * _MIB, _EIGHT_GIB)
KINDS = (X25E, X25M, MTRON, I335, OCZ)


@dataclass(frozen=True)
class Setting:
    """Deviations of a play from the paper's description."""

    name: str
    state: str = "fresh"
    is_restored: bool = False
    """True if it is measured before anything has to be cleaned."""
    cpu_us: float = 0.0
    has_log: bool = False
    layer: str = ""
    """More parameters of the layer."""
    overrides: tuple[str, ...] = ()
    is_of_page_maps: bool = False
    """True if it applies only to drives with a page map."""


BASE = Setting("as in figure 7")
RESTORED = Setting("nothing cleaned yet", is_restored=True, is_of_page_maps=True)
SETTINGS = (
    BASE,
    RESTORED,
    Setting("every page written before", state="filled"),
    Setting(
        "cleaning keeps the die", overrides=("cleaning.occupies_die=true",), is_of_page_maps=True
    ),
    Setting(
        "spare space of 10 %, cleaning keeps the die",
        overrides=("ftl.over_provisioning=0.1", "cleaning.occupies_die=true"),
        is_of_page_maps=True,
    ),
    Setting("1 ms of the processor an access", cpu_us=1000.0),
    Setting("3 ms of the processor an access", cpu_us=3000.0),
    Setting("with a log, flushed at each commit", has_log=True),
    Setting("patience D of 20 ms", layer="patience=20ms"),
    Setting("reads make no replicas", layer="read_threshold=1"),
)
"""None is chosen by what comes out."""
SWEPT = (X25E, OCZ)


@dataclass(frozen=True)
class Scale:
    """Size of the drives and length of the plays, which tests reduce."""

    drive: float = 1.0
    """Share of a kind's erase blocks."""
    play: float = 1.0
    """Share of its transactions."""


FULL = Scale()


@dataclass(frozen=True)
class Case:
    """One play."""

    kind: Kind
    benchmark: str
    policy: str = ""
    """Policy of the replicas; there are none if it is empty."""
    buffer: str = "lru"
    setting: Setting = BASE
    scale: Scale = FULL


def database_bytes(kind: Kind, benchmark: str, capacity_bytes: int) -> int:
    """Give the size of a database that takes as much of the drive as the paper's of its own."""
    share = DATABASE_GB[benchmark] / kind.paper_gb
    return int(share * capacity_bytes) // PAGE_BYTES * PAGE_BYTES


def stack(case: Case) -> str:
    """Give the layers of a play: none without a policy.

    The layer's budget is a share of the device.
    """
    if not case.policy:
        return DIRECT
    more = f",{case.setting.layer}" if case.setting.layer else ""
    budget = BUDGET * DATABASE_GB[case.benchmark] / case.kind.paper_gb
    return (
        f"replicas(partitions={case.kind.partitions},page={PAGE_BYTES // 1024}Ki,"
        f"budget={budget:.6f},policy={case.policy}{more})"
    )


def profile(case: Case) -> str:
    """Give the TOML of a play's drive."""
    cut = list(case.kind.cut)
    if case.scale.drive < 1:
        whole = _core.profile_summary(drive(case.kind.profile, cut).profile)
        blocks = int(case.scale.drive * whole["erase_blocks"] / whole["planes"])
        cut = [f"media.erase_blocks_per_plane={blocks}"]
    return drive(case.kind.profile, [*cut, *case.setting.overrides]).profile


def amounts(case: Case, physical_bytes: int, database: int) -> tuple[int, int]:
    """Give the transactions of the warm-up, and those that are measured.

    The warm-up uses up the drive's spare space, or its log blocks, `turns` times; on a restored
    drive both together use up half of it.
    """
    kind, written = case.kind, WRITTEN[case.benchmark]
    to_use_up = (kind.log_bytes or physical_bytes - database) / PAGE_BYTES
    measured = kind.measured * WRITTEN["TPC-C"]
    turns = kind.turns
    if case.setting.is_restored:
        turns, measured = 0.2, min(measured, 0.3 * to_use_up)
    scale = case.scale.play
    return ceil(scale * turns * to_use_up / written), ceil(scale * measured / written)


def patience_ns(case: Case) -> float:
    """Give D for the buffer that compares how often parts were blocked: as the layer found it.

    Other buffers do not ask.
    """
    if case.buffer != CFLRU_E:
        return DEFAULT_D_NS
    found = counters(play(replace(case, policy="pblru", buffer="lru")))
    return found["write_patience_ns"] or DEFAULT_D_NS


_found: dict[Case, dict[str, Any]] = {}


def play(case: Case) -> dict[str, Any]:
    """Play a case, once: the figures of its transactions, and what was played."""
    play_all([case])
    return _found[case]


def play_all(cases: Sequence[Case]) -> None:
    """Play those that were not.

    Raises RunError if one fails.
    """
    missing = [case for case in dict.fromkeys(cases) if case not in _found]
    # CFLRU/E takes its patience from a play with LRU: those go first.
    first = [case for case in missing if case.buffer != CFLRU_E]
    for some in (first, [case for case in missing if case not in first]):
        tasks = [_task(case) for case in some]
        for case, found in zip(some, engine.done(tasks, "Transactions"), strict=True):
            if found["ended"] is not None:
                said = found["error"] or found["ended"]
                raise RunError(f"{case.benchmark} on {case.kind.profile}: {said}")
            about = _core.profile_summary(profile(case))
            _found[case] = {
                **found,
                "database_bytes": _size(case, about),
                "capacity_bytes": about["capacity_bytes"],
                "physical_bytes": about["physical_bytes"],
                "stack": stack(case),
            }


def _size(case: Case, about: Mapping[str, Any]) -> int:
    return database_bytes(case.kind, case.benchmark, about["capacity_bytes"])


def _task(case: Case) -> Task:
    toml = profile(case)
    about = _core.profile_summary(toml)
    size = _size(case, about)
    name = BENCHMARKS[case.benchmark]
    before, measured = amounts(case, about["physical_bytes"], size)
    return transactions_task(
        f"{name}(bytes={size},page={PAGE_BYTES})",
        {"profile": of_profile(toml, case.setting.state)},
        stack=stack(case),
        pool=POOL,
        buffer=case.buffer,
        locks="row",
        lock_rule="no_wait",
        cpu=case.setting.cpu_us,
        no_log=not case.setting.has_log,
        blocked=patience_ns(case) / 1e3,
        part_size=case.kind.erased_bytes,
        warm_up=before,
        transactions=measured,
    )


def delays(case: Case) -> dict[str, float]:
    """Give what requests wait for in the drive itself, as shares of their response time.

    The play of transactions does not tell. These are requests at random over the database, of the
    same size, the same share of reads, as many outstanding, and after as many writes.
    """
    found, toml = play(case), profile(case)
    reads = found["io_ns"]["read"]["count"]
    share = reads / (reads + page_writes(found))
    pattern = f"random(size={PAGE_BYTES},range={found['database_bytes']},reads={share:.4f})"
    before, measured = (
        ceil(WRITTEN[case.benchmark] * number / (1 - share))
        for number in amounts(case, found["physical_bytes"], found["database_bytes"])
    )
    made = engine.play(
        toml,
        f"io:{pattern}",
        pace="closed(10)",
        state=case.setting.state,
        seed=SEED,
        requests=before + measured,
        warm_up=before,
    )
    shares = made["delays"]["all"]
    named = {name: float(one["share_of_latency"]) for name, one in shares.items()}
    return {**named, "mean_ns": float(made["latency_ns"]["all"]["mean"])}


def counters(found: Mapping[str, Any]) -> dict[str, int]:
    """Give what the layer counted in the measured part; nothing without it."""
    return dict(found["layers"][0]["counters"]) if found["layers"] else {}


def page_writes(found: Mapping[str, Any]) -> int:
    """Give the pages that the pool wrote back."""
    kinds = ("write_back", "background_write")
    return sum(int(found["io_ns"][kind]["count"]) for kind in kinds)


def extra_writes(found: Mapping[str, Any]) -> float:
    """Give the replicas written for each page that the host wrote (table 4)."""
    return counters(found).get("extra_writes", 0) / max(page_writes(found), 1)


def writes_each(found: Mapping[str, Any]) -> float:
    """Give the pages written to the device for each transaction (table 5)."""
    extra = counters(found).get("extra_writes", 0)
    return float((page_writes(found) + extra) / max(found["committed"], 1))


def calls(found: Mapping[str, Any], operation: str) -> tuple[float, float, float]:
    """Give the shares of RRead or RWrite calls (`rread`, `rwrite`) of 1, 2 and 3 I/Os (table 3)."""
    counted = counters(found)
    each = [counted.get(f"{operation}_{number}", 0) for number in (1, 2, 3)]
    whole = max(sum(each), 1)
    return each[0] / whole, each[1] / whole, each[2] / whole
