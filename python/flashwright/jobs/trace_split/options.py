"""Written by `make jobs` from crates/jobs: change it there."""

from __future__ import annotations

from typing import TypedDict


class TraceSplit(TypedDict, total=False):
    """Splits a trace of many volumes by volume and time into a folder of Parquet files, in one
    pass. After a stop it goes on where it was.
    """

    out: str
    """Folder of the store: a new one, or one that was begun with the same files and options."""
    window: float | str
    """Length of a window of time: the parts of a volume that lie in one are in one folder."""
    format: str | None
    """Format of the trace, if its content does not say it."""
    skip_bad: int | str
    """Malformed lines of each file that are left out and counted."""
    by_stream: bool
    """Take the streams of any format as volumes, also where it does not say that they are."""
    memory: int | str
    """Bytes of requests that are held: the more, the fewer and larger the files."""
    checkpoint: int | str
    """Requests after which all that is held is written and noted: what a stop loses at most."""
    threads: int | str
    """Cores to use. The store is the same."""
