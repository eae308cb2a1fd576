"""A profile's drive at another size: the same channels, dies and planes."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from flashwright import _core, drive_runs
from flashwright._core import InputError
from flashwright._text import size
from flashwright.devices import PAGE_MAPPED, DriveProfile

LEAST_BLOCKS = 512
"""Erase blocks of a plane that are kept before their pages become fewer: cleaning and frontiers
depend on how many there are.
"""
LEAST_PAGES = 16
"""Pages of an erase block."""
MOST_BLOCKS, MOST_PAGES, MOST_SLICES = 65_536, 32_768, 65_536
LEAST_FILL = 0.05
"""Below that a drive has so much spare space that more makes no difference."""
_STEP = 1.04
_SMALL_BYTES = 16 << 30
OWN_GEOMETRY = (
    "media.channels",
    "media.packages_per_channel",
    "media.dies_per_package",
    "media.planes_per_die",
    "media.erase_blocks_per_plane",
    "media.pages_per_erase_block",
    "media.page_bytes",
)


def is_page_mapped(own: DriveProfile) -> bool:
    """Tell whether pages go anywhere: only then a sample of them behaves as all do."""
    return str(own.profile["ftl"]["scheme"]).partition("(")[0] in PAGE_MAPPED


def has_own_geometry(own: DriveProfile) -> bool:
    """Tell whether the size was set by hand."""
    keys = {text.partition("=")[0].strip() for text in own.overrides}
    return any(key in keys for key in OWN_GEOMETRY)


def row_bytes(own: DriveProfile) -> int:
    """Bytes of one erase block on each plane."""
    media, planes = own.profile["media"], own.summary["planes"]
    return int(planes * media["pages_per_erase_block"] * media["page_bytes"])


def drive_of(
    own: DriveProfile, capacity_bytes: float, fill: float = 1.0, slices: int = 1
) -> DriveProfile:
    """Give the drive of a profile with this capacity, or the next larger that can be built.

    Of a page-mapped one only the share `fill` can be addressed: space that holds nothing is spare.
    Of `slices` the drive is one.

    Raises InputError if none can be built.
    """
    wanted = capacity_bytes
    while True:
        try:
            made = _built(own, wanted, fill, slices)
        except InputError:
            # Small ones lack room for what a mapping needs beside the data.
            if wanted > max(capacity_bytes * _STEP**4, _SMALL_BYTES):
                raise
        else:
            if made.capacity_bytes >= capacity_bytes * max(fill, LEAST_FILL) * 0.999:
                return made
        wanted *= _STEP


def _built(own: DriveProfile, capacity_bytes: float, fill: float, slices: int) -> DriveProfile:
    changes = (
        _page_mapped(own, capacity_bytes, max(fill, LEAST_FILL), slices)
        if is_page_mapped(own)
        else {"media.erase_blocks_per_plane": _blocks(own, capacity_bytes)}
    )
    texts = [f"{key}={value}" for key, value in changes.items()]
    made = replace(own, toml=_core.check_profile(own.toml, own.name, texts))
    drive_runs.run(made.toml, "io:random(reads=1)", state="fresh", requests=1)
    return made


def _blocks(own: DriveProfile, capacity_bytes: float) -> int:
    media = own.profile["media"]
    wanted: int = math.ceil(media["erase_blocks_per_plane"] * capacity_bytes / own.capacity_bytes)
    if wanted > MOST_BLOCKS:
        most = own.capacity_bytes * MOST_BLOCKS / media["erase_blocks_per_plane"]
        raise InputError(
            f"{own.name}: a drive of {size(capacity_bytes)} is too large for it: it has "
            f"{size(most)} at most"
        )
    return max(4, wanted)


def _page_mapped(
    own: DriveProfile, capacity_bytes: float, fill: float, slices: int
) -> dict[str, Any]:
    media = own.profile["media"]
    blocks, pages = media["erase_blocks_per_plane"], media["pages_per_erase_block"]
    unit = media.get("pages_per_program", 1)
    wanted = blocks * pages * capacity_bytes / own.capacity_bytes
    is_striped = str(own.profile["ftl"]["scheme"]).startswith("superblock_mapped")
    if wanted < blocks * pages:
        number = max(min(blocks, LEAST_BLOCKS), int(wanted / pages))
    else:
        number = blocks if is_striped else min(MOST_BLOCKS, math.ceil(wanted / pages))
    least = max(unit, min(pages, LEAST_PAGES))
    of_block = min(MOST_PAGES, max(round(wanted / number / unit), math.ceil(least / unit)) * unit)
    number = max(4, min(MOST_BLOCKS, math.ceil(wanted / of_block)))
    over = (1 + own.over_provisioning) * (number * of_block / wanted) / fill - 1
    changes: dict[str, Any] = {
        "media.erase_blocks_per_plane": number,
        "media.pages_per_erase_block": of_block,
        "media.slices": max(1, min(MOST_SLICES, round(media.get("slices", 1) * pages / of_block))),
        "ftl.over_provisioning": f"{over:.12g}",
    }
    buffer, cache = own.profile["write_buffer"], own.profile["read_cache"]
    if slices > 1:
        if buffer["bytes"] and buffer["flush"] == "eager" and buffer["order"] == "fifo":
            # A page comes back sooner in a slice than on its drive: it would be merged too often.
            changes["write_buffer.merges"] = "false"
        if cache["bytes"]:
            ahead = own.profile["read_ahead"]
            least_bytes = max(
                media["page_bytes"],
                ahead["window_bytes"] if ahead["detector"] != "none" else 0,
            )
            changes["read_cache.bytes"] = max(least_bytes, cache["bytes"] // slices)
    return changes
