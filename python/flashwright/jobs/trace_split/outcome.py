"""Written by `make jobs` from crates/jobs: change it there."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class TraceStore:
    """A store of a trace of many volumes."""

    clamped_times: int
    """Requests whose time lay before that of the first request: their time is 0."""
    format: str | None
    """Format of the trace; none if it has no requests."""
    left_out: dict[str, int]
    """Records that were left out or taken for something else, by reason."""
    parts: int
    """Files of the store."""
    read_bytes: int
    """Bytes read."""
    requests: int
    """Requests."""
    resumed_requests: int
    """Requests that were in the store before: of a split that was stopped."""
    skipped: int
    """Malformed records that were left out."""
    start_ns: int | None
    """Time of the first request on the trace's own clock, in nanoseconds."""
    store: str
    """Its folder."""
    traced_seconds: float
    """Time from the first request to the latest, in seconds."""
    trimmed_bytes: int
    """Bytes trimmed."""
    volumes: int
    """Volumes."""
    warnings: tuple[str, ...]
    """What to heed before its figures are believed."""
    written_bytes: int
    """Bytes written."""
