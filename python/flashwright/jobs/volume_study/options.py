"""Written by `make jobs` from crates/jobs: change it there."""

from __future__ import annotations

from typing import TypedDict


class VolumeStudy(TypedDict, total=False):
    """Studies one volume of a store of `trace_split`: its requests, pages, and how long what it
    writes lives.
    """

    page_size: int | str
    """Bytes of a page."""
    memory: int | str
    """Bytes for the last write of each page; of more pages, half are followed, a quarter, and
    so on.
    """
    sample: int | str
    """Follow one page in N from the start."""
    exact: bool
    """Keep all values beside the sketches, and tell exact quantiles."""
