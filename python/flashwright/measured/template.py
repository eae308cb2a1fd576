"""The profile of a modern drive from its data sheet and what is estimated of it."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from flashwright._core import InputError

MIB = 1 << 20
PAGE_BYTES = 4096
PAGES_PER_READ = 4
PAGES_PER_PROGRAM = 12
PLANES_PER_DIE = 4
DIE_BYTES = 64 << 30
FREE_SUPERBLOCKS = 6.5
"""Free superblocks below which cleaning begins: the host always finds one while another is cleaned.
"""

LINK_MB_PER_S = {3: 3500.0, 4: 7000.0, 5: 14000.0}
"""Bandwidth of an NVMe drive of four lanes, in MB/s, by the PCIe generation."""


@dataclass(frozen=True)
class DataSheet:
    """Figures of a data sheet; None for those that it lacks."""

    name: str
    capacity_gb: float
    """Capacity in 10^9 bytes: 960 is 960.2."""
    pcie: int = 4
    sequential_read_mb_s: float | None = None
    sequential_write_mb_s: float | None = None
    random_read_iops: float | None = None
    random_write_iops: float | None = None
    read_latency_us: float | None = None
    write_latency_us: float | None = None

    @classmethod
    def of(cls, name: str, keys: dict[str, str]) -> DataSheet:
        """Take `key=value` pairs.

        Raises InputError for an unknown key or a value that is no number.
        """
        known = {one.name for one in fields(cls)} - {"name"}
        values: dict[str, Any] = {}
        for key, text in keys.items():
            if key not in known:
                raise InputError(
                    f"--data-sheet {key}: no such key; known are {', '.join(sorted(known))}"
                )
            try:
                values[key] = float(text)
            except ValueError:
                raise InputError(f"--data-sheet {key}={text}: it must be a number") from None
        if "pcie" in values:
            values["pcie"] = int(values["pcie"])
            if values["pcie"] not in LINK_MB_PER_S:
                raise InputError(f"--data-sheet pcie={values['pcie']}: it must be 3, 4 or 5")
        if "capacity_gb" not in values:
            raise InputError(
                "the capacity is not known: right would be steady writes, which name it, or "
                "--data-sheet capacity_gb=960"
            )
        return cls(name=name, **values)

    @property
    def capacity_bytes(self) -> int:
        """Bytes by the rule of the International Disk Drive Equipment and Materials Association.

        LBAs of 512 bytes = 97,696,368 + 1,953,504 x (GB - 50).
        """
        return 512 * round(97_696_368 + 1_953_504 * (self.capacity_gb - 50))

    @property
    def link_mb_per_s(self) -> float:
        """Rate of the link in 10^6 bytes a second."""
        fastest = max(self.sequential_read_mb_s or 0.0, self.sequential_write_mb_s or 0.0)
        return fastest or LINK_MB_PER_S[self.pcie]


@dataclass(frozen=True)
class Estimate:
    """All that measurements can say of a drive, and what is assumed where they do not."""

    sequential_mib_s: float
    over_provisioning: float = 0.2
    superblocks: int = 450
    write_gap_us: float = 0.0
    relocation_gap_us: float = 0.0
    read_gap_us: float = 0.0
    age_every: int = 10
    zone_gap_us: float = 110.0
    read_us: float = 50.0
    suspend_us: float = 20.0
    host_us: float = 8.0
    channel_mt_per_s: float = 1200.0
    buffer_stripes: float = 6.0
    in_flight_stripes: float = 2.0
    cleaning_stripes: float = 4.0
    burst_stripes: float = 0.0
    write_slack_us: float = 10_000.0
    trickle_gap_us: float = 0.0
    trickle_slack_us: float = 0.0


def dies_of(sheet: DataSheet) -> int:
    """Dies of a drive: those of 64 GiB that hold its capacity, as a power of two."""
    needed = sheet.capacity_bytes / DIE_BYTES
    dies = 4
    while dies < needed * 0.9:
        dies *= 2
    return dies


def channels_of(dies: int) -> int:
    """Channels: 16 of large drives, 8 of others."""
    return min(16 if dies > 32 else 8, dies)


KEYS = {
    "sequential_mib_s": "media.program_us",
    "over_provisioning": "ftl.over_provisioning",
    "superblocks": "media.erase_blocks_per_plane",
    "write_gap_us": "controller.write_gap_us",
    "relocation_gap_us": "controller.relocation_gap_us",
    "read_gap_us": "controller.read_gap_us",
    "age_every": "wear_levelling.age_every",
    "zone_gap_us": "interface.zone_gap_us",
    "read_us": "media.read_us",
    "suspend_us": "media.suspend_us",
    "host_us": "interface.host_us",
    "channel_mt_per_s": "media.channel_mt_per_second",
    "buffer_stripes": "write_buffer.bytes",
    "in_flight_stripes": "write_buffer.in_flight_pages",
    "cleaning_stripes": "ftl.scheme",
    "burst_stripes": "cleaning.burst_stripes",
    "write_slack_us": "controller.write_slack_us",
    "trickle_gap_us": "controller.trickle_gap_us",
    "trickle_slack_us": "controller.trickle_slack_us",
}
"""Key of the profile for each estimate."""


def profile(
    sheet: DataSheet, estimate: Estimate, slices: int, basis: dict[str, str], summary: str
) -> str:
    """Write the profile as TOML. `basis` says of each estimate what it rests on."""
    dies = dies_of(sheet)
    channels = channels_of(dies)
    planes = dies * PLANES_PER_DIE
    logical = sheet.capacity_bytes / slices / PAGE_BYTES
    physical = logical * (1 + estimate.over_provisioning)
    units = round(physical / estimate.superblocks / planes / PAGES_PER_PROGRAM)
    pages = max(2, units) * PAGES_PER_PROGRAM
    superblocks = max(8, round(physical / (pages * planes)))
    op = superblocks * pages * planes / logical - 1
    stripe = planes * PAGES_PER_PROGRAM
    program_us = stripe * PAGE_BYTES / (estimate.sequential_mib_s * MIB) * 1e6
    in_flight = max(stripe, int(estimate.in_flight_stripes * stripe))
    buffer = max(in_flight, int(estimate.buffer_stripes * stripe)) * PAGE_BYTES
    notes = "\n".join(
        f"# {KEYS[name]}: {basis.get(name, 'assumed')}" for name in KEYS if name in KEYS
    )
    fitted = "\n".join(f'    "{key}",' for key in sorted(set(KEYS.values())))
    return f"""\
name = "{sheet.name}"
summary = "{summary}"
sources = [
    "Fitted by `flashwright device ROWS --out`: what each key rests on stands in the comments",
]
# What the keys rest on. All others are assumed: those of a TLC drive of dies of 64 GiB.
{notes}
fitted = [
    "media",
    "interface",
    "controller",
    "write_buffer",
    "ftl",
    "cleaning",
    "wear_levelling",
{fitted}
]

[media]
channels = {channels}
packages_per_channel = 1
dies_per_package = {dies // channels}
planes_per_die = {PLANES_PER_DIE}
erase_blocks_per_plane = {superblocks}
pages_per_erase_block = {pages}
slices = {slices}
page_bytes = {PAGE_BYTES}
pages_per_read = {PAGES_PER_READ}
pages_per_program = {PAGES_PER_PROGRAM}
read_us = [{estimate.read_us:.4g}]
program_us = [{program_us:.6g}]
erase_us = 8000
command_us = 0.2
channel_mt_per_second = {estimate.channel_mt_per_s:.4g}
multi_plane = true
cache_mode = true
suspend = true
suspend_at_points = true
suspend_us = {estimate.suspend_us:.4g}
most_suspensions = 255
order = "reads_first"

[interface]
kind = "nvme"
link_mb_per_second = {sheet.link_mb_per_s:.6g}
queue_depth = 1024
queues = 8
host_us = {estimate.host_us:.4g}
zone_gap_us = {estimate.zone_gap_us:.4g}

[controller]
read_command_us = 0.3
write_command_us = 0.3
write_gap_us = {estimate.write_gap_us:.4g}
relocation_gap_us = {estimate.relocation_gap_us:.4g}
read_gap_us = {estimate.read_gap_us:.4g}
write_slack_us = {estimate.write_slack_us:.4g}
trickle_gap_us = {estimate.trickle_gap_us:.4g}
trickle_slack_us = {estimate.trickle_slack_us:.4g}

[write_buffer]
bytes = {buffer}
flush = "eager"
flush_pages = 1
in_flight_pages = {in_flight}
order = "fifo"
power_loss_protected = true
merges = {str(slices == 1).lower()}

[ftl]
scheme = "superblock_mapped(cleaning_stripes={estimate.cleaning_stripes:.4g})"
placement = "separate"
victim = "greedy"
over_provisioning = {op:.6f}

[cleaning]
start_below_free = {FREE_SUPERBLOCKS / superblocks:.4g}
pace = "credits"
burst_stripes = {estimate.burst_stripes:.4g}

[wear_levelling]
static_rule = "age"
age_cycles = 21
age_every = {estimate.age_every}
"""
