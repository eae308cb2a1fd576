"""Written by `make jobs` from crates/jobs: change it there."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class SyntheticFleet:
    """A synthetic trace of many volumes."""

    files: tuple[str, ...]
    """Its files, in the order of their times."""
    read_bytes: int
    """Bytes read."""
    reads: int
    """Reads."""
    volumes: int
    """Volumes that have requests."""
    writes: int
    """Writes."""
    written_bytes: int
    """Bytes written."""
