"""Written by `make jobs` from crates/jobs: change it there."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Spread:
    """Values of a kind."""

    count: int
    """Values; of a sample, what they stand for."""
    exact_quantiles: tuple[int, ...] | None
    """The same exactly, where all values were kept."""
    mean: float | None
    """Their mean; none without values."""
    quantiles: tuple[int, ...]
    """The values of which the outcome's `shares` are at or below, at most 0.1 % too high; none
    without values.
    """


@dataclass(frozen=True, kw_only=True)
class VolumeStudied:
    """What a volume does."""

    first_ns: int
    """Time of its first request, in nanoseconds since the first one of the trace."""
    flushes: int
    """Flushes."""
    gaps: Spread
    """Nanoseconds from a request to the next one."""
    is_counted: bool
    """True if different pages were counted; else they are estimates, with a standard error of
    0.5 %.
    """
    last_ns: int
    """Time of its latest request."""
    lifetimes: Spread
    """Nanoseconds from a write of a page to the next write of it, once for each page."""
    one_in: int
    """Lifetimes and distances are those of one page in so many, 1 for all."""
    page_reads: int
    """Pages read; one that is read twice counts twice."""
    page_size: int
    """Bytes of a page."""
    page_writes: int
    """Pages written; one that is written twice counts twice."""
    read_bytes: int
    """Bytes read."""
    read_pages: int
    """Different pages read."""
    read_sizes: Spread
    """Bytes of reads."""
    reads: int
    """Reads."""
    reversals: int
    """Requests whose time lies before that of the one before."""
    rewrite_distances: Spread
    """Page writes of the volume from a write of a page to the next write of it, once for each
    page.
    """
    shares: tuple[float, ...]
    """Shares of all values at which quantiles are told."""
    sizes: Spread
    """Bytes of reads and writes."""
    touched_pages: int
    """Different pages read or written."""
    trimmed_bytes: int
    """Bytes trimmed."""
    trims: int
    """Trims."""
    volume: int
    """Its number."""
    write_sizes: Spread
    """Bytes of writes."""
    writes: int
    """Writes."""
    written_bytes: int
    """Bytes written."""
    written_pages: int
    """Different pages written."""
