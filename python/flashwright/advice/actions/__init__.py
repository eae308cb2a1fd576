"""Actions of advice: one file each, and a line here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flashwright.advice.actions import (
    checkpoints,
    endurance_class,
    file_system,
    full_page_writes,
    group_commit,
    inside,
    layers,
    log_apart,
    log_fast_enough,
    other_drive,
    queue_depth,
    shared_buffers,
    spare,
    sqlite_modes,
    trim,
    wal_compression,
    who_writes,
)

ALL: Sequence[Any] = (
    who_writes,
    endurance_class,
    log_fast_enough,
    spare,
    trim,
    group_commit,
    checkpoints,
    wal_compression,
    full_page_writes,
    shared_buffers,
    sqlite_modes,
    log_apart,
    file_system,
    queue_depth,
    layers,
    inside,
    other_drive,
)
"""In the order in which they are simulated, where time is short."""
