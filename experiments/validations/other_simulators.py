"""Real drives: our predictions beside those of MQSim and of the counting simulator.

All three are fitted to the same rows (`real_drives.fitted_to`) and asked for the others. Ours is
the profile. The other two have what they have keys for, and as free parameters spare space (MQSim
also its queue and when it cleans) and one factor on throughput for small random writes and one for
sequential writes and zones: the best that a search finds on the fitted rows.
"""

from __future__ import annotations

import math
import tempfile
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from experiments.data import MEASURED_WRITES
from experiments.mqsim.playing import Trace, play
from experiments.validations.real_drives import DRIVES, RealDrive, fitted_to
from flashwright import _core
from flashwright._core import InputError, RunError
from flashwright.measured import predict, rows
from flashwright.measured.fit import small
from flashwright.measured.play import GIB, MIB, PlayedProfile
from flashwright.measured.rows import WriteRow, exponent_of, sets_of, zones_of

I64 = npt.NDArray[np.int64]
SEED = 1
PLANES = 8
"""Planes that MQSim plays: they depend on each other only by the queue, which is cut alike."""
PAGES = 75_000
"""Flash pages that MQSim plays, about."""
SPARE = (0.16, 0.22, 0.3)
"""Over-provisioning that is tried for each of the two."""
OVERWRITES = 1.5
"""Times that MQSim overwrites the used space with small random writes after the fill. It is less
than was measured, as each takes MQSim several seconds; the counting simulator does all.
"""
PHYSICAL = 2.0
"""Physical pages that MQSim writes at least, fill and overwrites: it cleans from one on."""
OUTSTANDING = 512
CLEANS_BELOW = (0.05, 0.02)
"""Shares of free erase blocks below which MQSim cleans, that are tried: its example's, and less."""
SIMULATORS = ("ours", "MQSim", "counting")


@dataclass(frozen=True)
class Setting:
    """Settings of a simulator that are searched: the best for the fitted rows is taken."""

    spare: float
    """(Physical - logical) / logical pages."""
    whole_queue: bool = False
    """All requests of the host on the part of the drive, instead of the part's share of them."""
    cleans_below: float = CLEANS_BELOW[0]


OF_COUNTING = tuple(Setting(spare) for spare in SPARE)
OF_MQSIM = tuple(
    Setting(spare, whole, below)
    for spare in SPARE
    for whole in (False, True)
    for below in CLEANS_BELOW
)


@dataclass(frozen=True)
class Geometry:
    """A part of a drive: so many of its planes, with all their erase blocks."""

    profile: Mapping[str, Any]
    blocks: int
    pages: int
    """Pages of an erase block."""
    setting: Setting
    planes: int = PLANES

    @property
    def physical(self) -> int:
        """Pages of the flash."""
        return self.blocks * self.pages * self.planes

    @property
    def logical(self) -> int:
        """Logical pages; the same as MQSim has."""
        return int(self.physical / (1 + self.setting.spare))

    @property
    def share(self) -> float:
        """Share of the whole drive's planes."""
        media = self.profile["media"]
        per_channel = media["packages_per_channel"] * media["dies_per_package"]
        planes = int(media["channels"] * per_channel * media["planes_per_die"])
        return self.planes / planes

    def keys(self) -> dict[str, Any]:
        """Give it as MQSim has it: each plane a chip, since only chips work by themselves."""
        media, link = self.profile["media"], self.profile["interface"]["link_mb_per_second"]
        read_ns = round(media["read_us"][0] * 1e3)
        # A program of several pages, as so many of one.
        program_ns = round(media["program_us"][0] * 1e3 / media["pages_per_program"])
        # An erase for each page takes as long as on the drive, whose erase blocks have more pages.
        erase_ns = media["erase_us"] * 1e3 * self.pages / media["pages_per_erase_block"]
        kinds = ("LSB", "CSB", "MSB")
        return {
            "PCIe_Lane_Bandwidth": link / 4000 * self.share * 156 / 128,
            "IO_Queue_Depth": self.depth + 1,
            "Queue_Fetch_Size": self.depth,
            "Overprovisioning_Ratio": self.setting.spare / (1 + self.setting.spare),
            "GC_Exec_Threshold": self.setting.cleans_below,
            "Data_Cache_Capacity": 1 << 20,
            "Flash_Channel_Count": 1,
            "Chip_No_Per_Channel": self.planes,
            "Die_No_Per_Chip": 1,
            "Plane_No_Per_Die": 1,
            "Block_No_Per_Plane": self.blocks,
            "Page_No_Per_Block": self.pages,
            "Page_Capacity": media["page_bytes"],
            "Channel_Transfer_Rate": 1000,
            "Block_Erase_Latency": round(erase_ns / media["slices"]),
            **{f"Page_Read_Latency_{kind}": read_ns for kind in kinds},
            **{f"Page_Program_Latency_{kind}": program_ns for kind in kinds},
        }

    @property
    def depth(self) -> int:
        """Requests outstanding."""
        if self.setting.whole_queue:
            return OUTSTANDING
        return max(8, round(OUTSTANDING * self.share))

    @property
    def page_ns(self) -> float:
        """Nanoseconds of a page if all planes program."""
        return float(self.keys()["Page_Program_Latency_LSB"] / self.planes)


def geometry(profile: Mapping[str, Any], setting: Setting) -> Geometry:
    """Cut a drive down to PLANES planes and about PAGES pages."""
    media = profile["media"]
    old = profile["ftl"]["over_provisioning"]
    blocks = round(media["erase_blocks_per_plane"] * (1 + setting.spare) / (1 + old))
    return Geometry(profile, blocks, max(16, 8 * round(PAGES / PLANES / blocks / 8)), setting)


def stream(row: WriteRow, part: Geometry, overwrites: float | None = None) -> tuple[I64, int, int]:
    """Give first pages of requests, pages of a request, and how many requests fill the drive.

    As `measured.play` plays them, but that zones are overwritten where they are trimmed there.
    """
    random = np.random.default_rng(SEED)
    whole = row.capacity_gb * 1e9 / GIB
    used = part.logical if row.used_gib > 0.99 * whole else int(part.logical * row.used_gib / whole)
    if small(row):
        least = max(OVERWRITES * used, PHYSICAL * part.physical - used)
        count = int(overwrites * used if overwrites else least)
        written = _small(row, used, count, random)
        return np.concatenate([np.arange(used), written]), 1, used
    pages = max(1, round(row.request_bytes / 4096 * part.share))
    if row.pattern == "sequential":
        return np.arange(used // pages) * pages, pages, 0
    return _zones(row, used, pages, random), pages, 0


def _small(row: WriteRow, used: int, count: int, random: np.random.Generator) -> I64:
    if row.pattern == "uniform":
        uniform: I64 = random.integers(0, used, count)
        return uniform
    if row.pattern == "zipf":
        weights = np.cumsum(np.arange(1, used + 1.0) ** -exponent_of(row))
        ranks = np.searchsorted(weights, random.random(count) * weights[-1])
        return _scattered(np.minimum(ranks, used - 1), used, random)
    sets = sets_of(row)
    edges = np.round(np.cumsum([0.0, *(size for size, _ in sets)]) * used).astype(np.int64)
    edges[-1] = used
    chosen = random.choice(len(sets), count, p=[share for _, share in sets])
    spans = np.diff(edges)[chosen]
    places = edges[chosen] + (random.random(count) * spans).astype(np.int64)
    return _scattered(places, used, random)


def _scattered(places: I64, used: int, random: np.random.Generator) -> I64:
    """Put pages that are alike in frequency far from each other, as `synth:` does."""
    pages: I64 = random.permutation(used)
    found: I64 = pages[places]
    return found


def _zones(row: WriteRow, used: int, pages: int, random: np.random.Generator) -> I64:
    active, zone_mib = zones_of(row)
    zone = max(1, round(zone_mib / 1024 / row.used_gib * used / pages))
    zones = used // (zone * pages)
    count = int(row.written_capacities * used / pages)
    open_zones = [[int(one), 0] for one in random.choice(zones, active, replace=False)]
    found = np.empty(count, np.int64)
    for number in range(count):
        one = open_zones[number % active]
        found[number] = (one[0] * zone + one[1]) * pages
        one[1] += 1
        if one[1] == zone:
            taken = {other[0] for other in open_zones}
            while one[0] in taken:
                one[0] = int(random.integers(zones))
            one[1] = 0
    return found


def of_mqsim(program: Path, row: WriteRow, part: Geometry) -> float:
    """Give the throughput of the whole drive in MiB/s, in the last third of the overwrites."""
    first, pages, filled = stream(row, part)
    # Sent at twice the rate at which all planes program, so that the queue is always full.
    times = (np.arange(len(first)) * part.page_ns * pages / 2).astype(np.int64)
    record = play(program, part.keys(), Trace(times, first, pages))
    done = record.done_us
    if record.requests < len(first):
        raise RunError(f"MQSim ended after {record.requests} of {len(first)} requests")
    begin = filled + (len(done) - filled) * 2 // 3
    seconds = (done[-1] - done[begin]) / 1e6
    return float((len(done) - 1 - begin) * pages * 4096 / MIB / seconds / part.share)


def of_counting(row: WriteRow, profile: Mapping[str, Any], setting: Setting) -> float:
    """Give the throughput in MiB/s if programs were all that counts: `separate`, greedy.

    An erase block is a superblock: as the host fills them.
    """
    whole = row.capacity_gb * 1e9 / GIB
    part = geometry(profile, setting)
    first, pages, _ = stream(row, part, row.written_capacities)
    with tempfile.TemporaryDirectory(prefix="flashwright-counting-") as folder:
        path = Path(folder) / "load.trace"
        # Space that is filled and never written again is part of the drive, too.
        Trace(np.zeros(len(first), np.int64), first, pages).write(path, 4096)
        workload = _core.load_workload(str(path), format="mqsim")
    # Space that is never written is spare.
    found = _core.simulate(
        workload,
        "separate",
        "greedy",
        (1 + setting.spare) * max(1.0, whole * 0.99 / row.used_gib) - 1,
        part.pages * part.planes,
        seed=SEED,
    )
    return flash_limit(part) / float(found["write_amplification"])


def flash_limit(part: Geometry) -> float:
    """Give what all planes of the whole drive program, in MiB/s."""
    return 4096 / MIB / part.page_ns * 1e9 / part.share


def limit(row: WriteRow, profile: Mapping[str, Any]) -> float:
    """Give what is possible at most, in MiB/s: what the flash programs, and what the host sends.

    To zones it sends one request at a time, with a gap after each.
    """
    flash = flash_limit(geometry(profile, Setting(SPARE[0])))
    if row.pattern != "zns":
        return flash
    interface = profile["interface"]
    request_us = row.request_bytes / interface["link_mb_per_second"] + interface["host_us"]
    sent = float(row.request_bytes / MIB / (request_us + interface["zone_gap_us"]) * 1e6)
    return min(flash, sent)


@dataclass
class Fitted:
    """Fit of a simulator to rows: its results before the factors, and the factors."""

    simulator: str
    setting: Setting
    raw: dict[WriteRow, float | None]
    """MiB/s; None where it did not come to an end."""
    factors: dict[bool, float]
    """Factor, by whether rows are of small random writes."""
    misfit: float
    """Squares of logarithms, of what is off in small fitted rows and of the factor."""

    def uniform(self) -> float:
        """Give the throughput of uniform writes over the whole drive without a factor, in MiB/s."""
        found = [row for row in self.raw if row.pattern == "uniform"]
        widest = max(found, key=lambda row: row.used_gib)
        return self.raw[widest] or math.nan

    def predicted(self, row: WriteRow, profile: Mapping[str, Any]) -> float | None:
        """Give MiB/s with the factor of the row's kind."""
        raw = self.raw.get(row)
        if raw is None:
            return None
        return min(raw * self.factors[small(row)], limit(row, profile))


def factors_of(
    raw: Mapping[WriteRow, float | None], fitted: Iterable[WriteRow]
) -> dict[bool, float]:
    """Give the factors that bring fitted rows to what was measured, in the geometric mean."""
    found = {}
    for kind in (True, False):
        logs = [
            math.log((row.steady_mib_s or math.nan) / value)
            for row in fitted
            if small(row) == kind and (value := raw.get(row))
        ]
        found[kind] = math.exp(sum(logs) / len(logs)) if logs else 1.0
    return found


def fit(
    simulator: str,
    play_row: Callable[[WriteRow, Setting], float | None],
    settings: Sequence[Setting],
    found: Sequence[WriteRow],
    fitted: Sequence[WriteRow],
    profile: Mapping[str, Any],
    threads: int,
) -> Fitted:
    """Search the setting that fits the fitted rows best, and play all rows with it."""
    tried = [row for row in fitted if small(row)]
    with ThreadPoolExecutor(threads) as pool:
        tries = []
        for setting in settings:
            values = list(pool.map(lambda row, setting=setting: play_row(row, setting), tried))
            raw = dict(zip(tried, values, strict=True))
            factors = factors_of(raw, tried)
            one = Fitted(simulator, setting, raw, factors, 0.0)
            errors = [_off(one.predicted(row, profile), row) for row in tried]
            # Of two that fit alike, the one that needs less of a factor.
            one.misfit = sum(errors) + math.log(factors[True]) ** 2
            tries.append(one)
        best = min(tries, key=lambda one: one.misfit)
        chosen = best.setting
        rest = [row for row in found if row not in best.raw]
        best.raw.update(zip(rest, pool.map(lambda row: play_row(row, chosen), rest), strict=True))
    best.factors = factors_of(best.raw, fitted)
    return best


def _off(predicted: float | None, row: WriteRow) -> float:
    if not predicted or not row.steady_mib_s:
        return 10.0
    return math.log(predicted / row.steady_mib_s) ** 2


@dataclass(frozen=True)
class Beside:
    """Predictions of the simulators for a drive."""

    drive: RealDrive
    unseen: list[WriteRow]
    predicted: dict[str, dict[WriteRow, float | None]]
    fits: list[Fitted]

    def errors(self, simulator: str) -> list[float]:
        """Sizes of the relative errors of the rows that were not fitted to, ascending."""
        values = self.predicted[simulator]
        return sorted(
            abs(value / row.steady_mib_s - 1)
            for row in self.unseen
            if (value := values[row]) is not None and row.steady_mib_s
        )


def beside(drive: RealDrive, program: Path, profiles: Path, threads: int) -> Beside:
    """Play the rows of a drive on all three.

    Raises InputError, RunError.
    """
    path = profiles / f"{drive.name}.toml"
    try:
        toml = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"{path}: cannot read it: {error.strerror}; right would be the folder that "
            "`validate-drives --profiles` wrote"
        ) from error
    profile = tomllib.loads(toml)
    found = [
        row
        for row in rows.of_drive(rows.read([MEASURED_WRITES]), drive.name)
        if isinstance(row, WriteRow)
    ]
    fitted = [row for row in fitted_to(found) if isinstance(row, WriteRow)]
    unseen = [row for row in found if row not in fitted]
    ours = predict.many(unseen, PlayedProfile.of(toml), threads=threads)

    def mqsim(row: WriteRow, setting: Setting) -> float | None:
        try:
            return of_mqsim(program, row, geometry(profile, setting))
        except RunError:
            # Its cleaning loses requests, or it ends itself: told in the page.
            return None

    fits = [
        fit("MQSim", mqsim, OF_MQSIM, found, fitted, profile, threads),
        fit(
            "counting",
            lambda row, setting: of_counting(row, profile, setting),
            OF_COUNTING,
            found,
            fitted,
            profile,
            threads,
        ),
    ]
    predicted: dict[str, dict[WriteRow, float | None]] = {
        "ours": {row: one.predicted["steady_mib_s"] for row, one in zip(unseen, ours, strict=True)}
    }
    for one in fits:
        predicted[one.simulator] = {row: one.predicted(row, profile) for row in unseen}
    return Beside(drive, unseen, predicted, fits)


def scales(program: Path, profiles: Path) -> list[tuple[str, float]]:
    """Play uniform writes on MQSim at other scales; gives MiB/s of the whole drive.

    A scale at which it comes to no end is left out.
    """
    drive = DRIVES[2]
    profile = tomllib.loads((profiles / f"{drive.name}.toml").read_text(encoding="utf-8"))
    row = next(
        one
        for one in rows.of_drive(rows.read([MEASURED_WRITES]), drive.name)
        if isinstance(one, WriteRow) and one.pattern == "uniform" and one.used_gib > 800
    )
    part = geometry(profile, Setting(SPARE[1]))
    parts = [part, replace(part, planes=2 * PLANES), replace(part, pages=2 * part.pages)]
    found = []
    for part in parts:
        try:
            value = of_mqsim(program, row, part)
        except RunError:
            continue
        found.append((f"{part.planes} planes of {part.blocks} x {part.pages} pages", value))
    return found
