"""The disk that a trace was recorded on."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from flashwright.outputs import RESULT_FILE
from flashwright.sources import REQUESTS_FILE


@dataclass(frozen=True)
class Disk:
    """Disk of a recording, by what the recording says of it."""

    size_bytes: int
    used_share: float | None
    """The share of it that held data; None if that is not known."""


def disk_of(source: str) -> Disk | None:
    """Give the disk of a recording, whose requests `source` are; None of any other trace."""
    path = Path(source)
    if path.name != REQUESTS_FILE:
        return None
    try:
        device = json.loads((path.parent / RESULT_FILE).read_text())["recording"]["device"]
        size_bytes, used = int(device["size_bytes"]), device.get("used_bytes")
        if size_bytes <= 0:
            return None
        return Disk(size_bytes, None if used is None else min(1.0, int(used) / size_bytes))
    except (OSError, ValueError, KeyError, TypeError):
        return None
