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
class FleetMerged:
    """What the volumes of a fleet do together."""

    counted_read_pages: int | None
    """Different pages read, counted; none if a volume has an estimate, or comes twice."""
    counted_written_pages: int | None
    """Different pages written, counted; none if a volume has an estimate, or comes twice."""
    flushes: int
    """Flushes."""
    gaps: Spread
    """Nanoseconds from a request to the next one of its volume."""
    lifetimes: Spread
    """Nanoseconds from a write of a page to the next write of it, once for each page."""
    most_one_in: int
    """Of the volume that was sampled most, one page in so many was followed; 1 for all."""
    page_reads: int
    """Pages read; one that is read twice counts twice."""
    page_size: int
    """Bytes of a page."""
    page_writes: int
    """Pages written; one that is written twice counts twice."""
    read_bytes: int
    """Bytes read."""
    read_pages: int
    """Different pages read, by the merged sketch: its standard error is 0.6 %."""
    read_sizes: Spread
    """Bytes of reads."""
    reads: int
    """Reads."""
    rewrite_distances: Spread
    """Page writes of a volume from a write of a page to the next write of it, once for each
    page.
    """
    shares: tuple[float, ...]
    """Shares of all values at which quantiles are told."""
    sizes: Spread
    """Bytes of reads and writes."""
    trimmed_bytes: int
    """Bytes trimmed."""
    trims: int
    """Trims."""
    volumes: int
    """Different volumes."""
    write_sizes: Spread
    """Bytes of writes."""
    writes: int
    """Writes."""
    written_bytes: int
    """Bytes written."""
    written_pages: int
    """Different pages written, by the merged sketch: its standard error is 0.6 %."""
