"""Written by `make jobs` from crates/jobs: change it there."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Amounts:
    """What is written."""

    background_pages: int | None
    """Those that the background writer wrote."""
    checkpoint_pages: int | None
    """Those of them that checkpoints wrote."""
    checkpoints: int
    """Checkpoints that began."""
    commits: int
    """Commits."""
    data_pages: int | None
    """Data pages written, without those by which relations grow."""
    guessed_images: int
    """Images whose length is the mean of others, as none of that page is in the log."""
    image_bytes: int
    """Bytes of the images, with their headers."""
    images: int
    """Images of pages in them."""
    log_file_bytes: int | None
    """Bytes written to the files of the log: whole pages of 8 KiB, some of them again and
    again.
    """
    log_flushes: int | None
    """Flushes of the log."""
    log_made_bytes: int | None
    """Bytes of zeros with which new files of the log were made."""
    page_reads: int | None
    """Data pages read."""
    seconds: float
    """Length of the time."""
    wal_bytes: int
    """Bytes of records of the log."""


@dataclass(frozen=True, kw_only=True)
class CandidateFigures:
    """A candidate."""

    background_pages: int | None
    """Those that the background writer wrote."""
    checkpoint_pages: int | None
    """Those of them that checkpoints wrote."""
    checkpoints: int
    """Checkpoints that began."""
    commits: int
    """Commits."""
    data_pages: int | None
    """Data pages written, without those by which relations grow."""
    guessed_images: int
    """Images whose length is the mean of others, as none of that page is in the log."""
    image_bytes: int
    """Bytes of the images, with their headers."""
    images: int
    """Images of pages in them."""
    log_file_bytes: int | None
    """Bytes written to the files of the log: whole pages of 8 KiB, some of them again and
    again.
    """
    log_flushes: int | None
    """Flushes of the log."""
    log_made_bytes: int | None
    """Bytes of zeros with which new files of the log were made."""
    lost: str
    """What durability is lost beside a server that waits for each flush and writes images."""
    name: str
    """Its name."""
    page_reads: int | None
    """Data pages read."""
    seconds: float
    """Length of the time."""
    traces: Traces | None
    """Its traces."""
    wal_bytes: int
    """Bytes of records of the log."""


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """What was found by trying, so that the settings as recorded write what the server counted.
    Other settings have the same.
    """

    background_page_us: float | str
    """Microseconds that the background writer takes for a page."""
    background_share: float | str
    """Share that the background writer writes of the dirty pages that it comes to."""
    commits: int
    """Commits of the recorded time."""
    flush_us: float | str
    """Microseconds that a flush of the log takes: as given, as the server counted it, or
    found.
    """
    reads: float | str | None
    """Reads beside the changes in the log over those that the server counted; null where all
    pages fit into the buffers, or nothing tells it.
    """


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """The recorded run."""

    background_pages: int | None
    """Those that the background writer wrote."""
    checkpoint_pages: int | None
    """Those of them that checkpoints wrote."""
    checkpoints: int
    """Checkpoints that began."""
    commits: int
    """Commits."""
    data_pages: int | None
    """Data pages written, without those by which relations grow."""
    guessed_images: int
    """Images whose length is the mean of others, as none of that page is in the log."""
    image_bytes: int
    """Bytes of the images, with their headers."""
    images: int
    """Images of pages in them."""
    log_file_bytes: int | None
    """Bytes written to the files of the log: whole pages of 8 KiB, some of them again and
    again.
    """
    log_flushes: int | None
    """Flushes of the log."""
    log_made_bytes: int | None
    """Bytes of zeros with which new files of the log were made."""
    modelled: Amounts
    """As the model gives it, with the recording's own redo points."""
    page_reads: int | None
    """Data pages read."""
    seconds: float
    """Length of the time."""
    traces: Traces | None
    """The trace of it, by the model."""
    wal_bytes: int
    """Bytes of records of the log."""


@dataclass(frozen=True, kw_only=True)
class SelfCheck:
    """The rule for images with the recording's own redo points: it has to give each image."""

    bytes_error: float
    """Bytes of records by the rule over those in the log, less 1."""
    extra: int
    """Images that it gives and that are not there."""
    images: int
    """Images in the log."""
    recompressed: int
    """Compressed images that were compressed again here."""
    recompressed_error: float
    """Bytes of those over the server's, less 1."""
    right: int
    """Those of them that the rule gives."""


@dataclass(frozen=True, kw_only=True)
class Traces:
    """Files of a trace."""

    files: str
    """The files: number, path, name, purpose, offset, length."""
    log: str | None
    """The writes of the log, if it is apart."""
    trace: str
    """The writes, but for those of the log if that is apart."""


@dataclass(frozen=True, kw_only=True)
class WhatIf:
    """What other settings would have written."""

    candidates: tuple[CandidateFigures, ...]
    """Candidates, in their order."""
    fitted: Fitted
    """What was found by trying."""
    log_end: str
    """The end of the log, in words."""
    recorded: Recorded
    """The recording."""
    remarks: tuple[str, ...]
    """What the figures take for granted, and what is not known, a sentence each."""
    self_check: SelfCheck
    """The rule beside the images that are there."""
