"""Arrays of simulated drives: Differential RAID beside none, replication and RAID 5.

DIFF-RAID is M. Balakrishnan, A. Kadav, V. Prabhakaran & D. Malkhi, "Differential RAID: Rethinking
RAID for SSD Reliability", EuroSys 2010; REPLICATION compares with it in an appendix that is not at
hand. Neither is the text of DIFF-RAID: the even and the uneven shares are those that others quote
of it, (70, 10, 10, 10) and (100, 0, 0, 0) among them.

All arrays are four drives of table 2 of REPLICATION, cut to a quarter each, so that they have the
flash of its 4 GB disk together. The database is TPC-C, of two thirds of the paper's size. A page of
it, 8 KiB, lies on one drive and one chip.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from experiments.drives import fragmentation
from experiments.drives.experiment import SEED, drive, of_profile, transactions
from flashwright import _core, models

DRIVES = 4
CUT = ("media.erase_blocks_per_plane=2048",)
"""Chips with a quarter of their erase blocks."""
UNIT = "64Ki"
"""All chips of a drive have a part of each unit. Of units as large as what lies on one chip, all
parity of a drive would be on the same chip, as even parity and chips both go round by four.
"""
DATABASE_MB = 1600
"""About 60 % of what three of the four drives hold: as full with parity as figure 4's disk."""


@dataclass(frozen=True)
class Array:
    """A kind of array, and whether its drives keep copies."""

    name: str
    kind: str
    policy: str = ""


ARRAYS = (
    Array("striped", f"striped(unit={UNIT})"),
    Array("striped, replication", f"striped(unit={UNIT})", "pblru"),
    Array("RAID 5", f"raid5(unit={UNIT})"),
    Array("Diff-RAID 40", f"diff_raid(shares=40,unit={UNIT})"),
    Array("Diff-RAID 70", f"diff_raid(shares=70,unit={UNIT})"),
    Array("RAID 4", f"diff_raid(shares=100,unit={UNIT})"),
    Array("RAID 5, replication", f"raid5(unit={UNIT})", "pblru"),
    Array("Diff-RAID 70, replication", f"diff_raid(shares=70,unit={UNIT})", "pblru"),
)


@dataclass(frozen=True)
class Setting:
    """Setting of a play: the drives' state, and the processor time of an access (`cpu_us`)."""

    name: str
    state: str
    cpu_us: float = 0.0


SETTINGS = (
    Setting("sustained by its own load", "fresh"),
    Setting("sustained by its own load, 3 ms of the processor an access", "fresh", 3000.0),
)


@dataclass(frozen=True)
class Scale:
    """Transactions before and while it is measured: what tests make smaller."""

    warm_up: int = 40_000
    measured: int = 15_000


FULL = Scale()


def _profile(array: Array) -> str:
    overrides = (*CUT, *fragmentation.BASE.overrides)
    if array.policy:
        copies = fragmentation.copies(array.policy, DATABASE_MB / DRIVES, overrides)
        overrides = (*overrides, *copies)
    return drive(fragmentation.PROFILE, overrides).profile


@cache
def play(array: Array, setting: Setting, scale: Scale = FULL) -> dict[str, Any]:
    """Play TPC-C on an array, as `fragmentation.play` does on one drive."""
    of = of_profile(_profile(array), setting.state)
    return transactions(
        f"tpcc(bytes={DATABASE_MB}M,page=8Ki)",
        {"array": {"kind": array.kind, "of": of, "drives": DRIVES}},
        locks="row",
        lock_rule="no_wait",
        cpu=setting.cpu_us,
        no_log=True,
        warm_up=scale.warm_up,
        transactions=scale.measured,
    )


SHARES = (25.0, 40.0, 70.0, 100.0)
"""Percent of the parity on the oldest drive; the others share the rest."""
LIVES_OF = (fragmentation.PROFILE, ("media.erase_blocks_per_plane=64",))
"""The drive of table 2 cut down until many of its lives take seconds."""
ERASE_LIMIT = 600.0
REPLACEMENTS = 24


@cache
def lives(share: float) -> dict[str, Any]:
    """Live through replacements of drives with the share of parity in percent on the oldest."""
    profile, overrides = LIVES_OF
    return _core.simulate_array_lives(
        drive(profile, overrides).profile,
        f"diff_raid(shares={share:g},unit={UNIT})",
        drives=DRIVES,
        erase_limit=ERASE_LIMIT,
        replacements=REPLACEMENTS,
        seed=SEED,
    )


def rates(share: float) -> list[float]:
    """Give the ageing rates by the closed form."""
    rest = (100.0 - share) / (DRIVES - 1)
    return models.ageing_rates([share / 100, *[rest / 100] * (DRIVES - 1)])


ERRORS = ((0.0, 1e-7), (1.0, 1e-5))
"""Raw bit error rates when new and at the erase limit. Assumed: no profile has measured ones."""
CODEWORD_BITS, CORRECTED = 4096 + 52, 4
"""512 bytes with a BCH code of four bits. Assumed, as data sheets of MLC asked for."""
DRIVE_BYTES = 80e9
"""Size of a drive that is rebuilt. Assumed."""


LAST = 8
"""Replacements, the last ones, whose ages are looked at."""


def loss(ages: Sequence[float]) -> list[float]:
    """Give the chance of a loss when each of the drives of these ages fails."""
    errors = [models.raw_bit_error_rate(ERRORS, age) for age in ages]
    failures = [models.codeword_failure(rate, CODEWORD_BITS, CORRECTED) for rate in errors]
    return models.loss_on_failure(failures, DRIVE_BYTES / 512)
