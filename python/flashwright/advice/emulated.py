"""The drive of a trial, as `emulated(...)` makes it: of its profile, with fewer erase blocks.

It is small, and its erase blocks are as large as those of the whole drive. So it cleans more, and
for longer at a time, than a slice that stands for a whole drive.
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np

from flashwright import _core
from flashwright.advice import traces
from flashwright.advice.load import READ, WRITE
from flashwright.advice.setup import Drive
from flashwright.devices import DriveProfile
from flashwright.slices.geometry import is_page_mapped
from flashwright.slices.sized import Sized

LEAST_FILL = 0.05
"""A drive with less data on it is taken to have this share: mapping needs some room."""
EXTENT_BYTES = 1 << 20
"""Extents of a trace are put next to each other (`traces::requests`)."""
ROOM = 1.02
"""Space for the extents of a trace, in their own size: a drive has whole erase blocks."""


def touched_bytes(source: Path) -> int:
    """Give the bytes of the extents that a trace reads or writes."""
    requests = traces.load(source)
    moves = np.isin(requests.op, (READ, WRITE)) & (requests.length > 0)
    first = requests.offset[moves] // EXTENT_BYTES
    last = (requests.offset[moves] + requests.length[moves] - 1) // EXTENT_BYTES
    most = int((last - first).max(initial=0))
    every = [np.minimum(first + step, last) for step in range(most + 1)]
    return EXTENT_BYTES * len(np.unique(np.concatenate(every))) if every else 0


def sized(drive: Drive, source: Path) -> Sized:
    """Give the emulated drive with the whole trace on it.

    What is known to hold nothing is spare space of a drive that maps pages.

    Raises:
        InputError: no such drive can be built.
    """
    own = DriveProfile.load(drive.profile, drive.overrides)
    changes = []
    if drive.capacity_bytes is not None:
        blocks = own.profile["media"]["erase_blocks_per_plane"]
        fewer = math.ceil(drive.capacity_bytes / own.capacity_bytes * blocks)
        changes.append(f"media.erase_blocks_per_plane={fewer}")
    fill = max(LEAST_FILL, drive.fill or 1.0)
    if fill < 1 and is_page_mapped(own):
        size = drive.capacity_bytes or own.capacity_bytes
        fill = min(1.0, max(fill, ROOM * touched_bytes(source) / size))
        spare = (1 + own.over_provisioning) / fill - 1
        changes.append(f"ftl.over_provisioning={spare:.12g}")
    made = replace(own, toml=_core.check_profile(own.toml, own.name, changes))
    return Sized(made, str(source), 1)
