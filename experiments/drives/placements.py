"""TPC-C on modern drives that place pages by one policy or another.

The database fills 93 % of what the host may address, as on a drive that is bought for it, and twice
what the drive holds is written back before it is measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from experiments.drives.experiment import drive, of_profile, transactions
from flashwright import _core
from flashwright.jobs.transactions.run import steady

DRIVES = ("sk-hynix-pe8110", "micron-7450-pro")
"""Built-in profiles fitted to measurements: slices of 1/64, of 15 GB each."""
POLICIES = ("none", "separate", "multi_log", "sepbit", "hazard")
DATABASE = "tpcc(bytes=13G,page=8Ki)"
PAGE_BYTES = 8192


@dataclass(frozen=True)
class Scale:
    """Transactions before and while it is measured: what tests make smaller."""

    warm_up: int = 600_000
    measured: int = 200_000
    database: str = DATABASE
    pool_pages: int = 65_536
    overrides: tuple[str, ...] = ()


FULL = Scale()


@cache
def play(name: str, policy: str, scale: Scale = FULL) -> dict[str, Any]:
    """Play TPC-C on a drive with a placement policy, and the victims of its authors."""
    profile = drive(name, (f"ftl.placement={policy}", *scale.overrides)).profile
    found = transactions(
        scale.database,
        {"profile": of_profile(profile, "filled")},
        clients=32,
        pool=scale.pool_pages,
        locks="row",
        warm_up=scale.warm_up,
        transactions=scale.measured,
    )
    return {**found, "steady": steady(found["tables"])}


def over_provisioning(name: str) -> float:
    """Give the spare space of a drive, relative to what the host may address."""
    return float(_core.profile_summary(drive(name).profile)["over_provisioning"])


def programmed(found: dict[str, Any]) -> float:
    """Give the bytes programmed for each byte of a page that was written back."""
    counts = (found["io_ns"][kind]["count"] for kind in ("write_back", "background_write"))
    flash = found["flash"]
    return float(flash["page_programs"] * flash["page_bytes"] / (sum(counts) * PAGE_BYTES))
