"""Written by `make jobs` from crates/jobs: change it there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypedDict


class Candidate(TypedDict, total=False):
    """Settings of a server, by their names in `postgresql.conf`."""

    busy_page: float | str | None
    """Least time that the background writer takes for a page: a disk that is never idle takes
    its pages in turn with what others write.
    """
    checkpoint_completion_target: float | str | None
    """Share of the time between checkpoints over which their writes are spread."""
    checkpoint_timeout: float | str | None
    """Time between the redo points of two checkpoints."""
    commit_delay: float | str | None
    """Time that a commit waits for others to be flushed with it: `200us`."""
    disk_time: float | str | None
    """Time that the disk takes for a data page over that in the recording: where the disk held
    up the background writer, one that is faster does so for less.
    """
    full_page_writes: bool | None
    """Images of pages at their first change after a redo point."""
    max_wal_size: int | str | None
    """Bytes of log that start a checkpoint before that: `4Gi`."""
    name: str
    """Its name, and that of its traces."""
    pace: float | str | None
    """Commits a second over those of the recording, from 0.01 to 100: what is due by a clock
    comes for more of them, or for fewer. As much time counts as was recorded.
    """
    shared_buffers: int | str | None
    """Bytes of the server's own buffers: `1Gi`."""
    synchronous_commit: bool | None
    """Whether a commit waits until it is durable; false: flushed each wal_writer_delay."""
    wal_compression: Literal["off", "pglz", "lz4", "zstd"] | None
    """Compression of images."""


class Fitted(TypedDict, total=False):
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


class PostgresWhatIf(TypedDict, total=False):
    """Says from the log of a PostgreSQL server what other settings would have written: log,
    images of pages, data pages, and the writes themselves as traces.
    """

    facts: str | None
    """What is known of the server: `server.json` of a recording. [default: ../server.json
    beside LOG]
    """
    as_recorded: Candidate | None
    """Settings of the recording, instead of the facts: all that is not given is PostgreSQL's
    own default. The log counts from its first redo point to its end.
    """
    flush_time: float | str | None
    """Time that a flush of the log takes, where the recording does not tell it: fsync was off,
    or track_wal_io_timing. [default: none]
    """
    flushes: int | None
    """Find that time, so that N flushes of the log follow for the settings as recorded."""
    fitted: Fitted | None
    """What an earlier call found for this recording by trying, as `fitted` of its outcome: it
    is taken, and not found again; nor is a trace of the settings as recorded written.
    """
    candidates: str | Sequence[Candidate]
    """Settings that might be: each has a name, and what is not given is as it was recorded."""
    traces: str | None
    """Write the writes of each candidate, and of the settings as recorded, there: NAME.parquet
    as a trace and NAME.files.parquet.
    """
    log_apart: bool
    """Write the log's writes to NAME.log.parquet, with addresses of a disk of their own."""
    most_wrong: float | str
    """Refuse a log of which the rule for images gets more than this share wrong."""
