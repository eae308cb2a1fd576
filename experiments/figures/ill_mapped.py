"""PARALLELISM 5.4: what a layout within one domain does to the drive's read-ahead.

The paper says that an ill-mapped layout impairs read-ahead, too, and shows no figure of it. Here
each reader reads pages in order, one by one. The layout is by the order of writes over ten domains
(figure 4): of pages that were written in order it is over all of them; with nine other pages
written after each it is within one.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from experiments.figures.drawing import Drawing, Shape
from experiments.figures.written_order import (
    DOMAINS,
    PROFILE,
    Request,
    bandwidth_after,
    bandwidths,
)

PAGES = 2560
"""Pages that are read."""
STREAMS = (1, 2, 4)
"""Readers, each of a part of its own."""
LAYOUTS = {"ten domains": False, "one domain": True}


def _order(streams: int, *, is_ill: bool) -> tuple[list[Request], list[Request]]:
    """Give the writes that lay pages out, and the reads of them."""
    written: list[Request] = []
    for page in range(PAGES):
        written.append(("write", page, 0))
        if is_ill:
            others = 2 * PAGES + page * (DOMAINS - 1)
            written += [("write", other, 0) for other in range(others, others + DOMAINS - 1)]
    each = PAGES // streams
    read = [
        ("read", stream * each + page, stream) for page in range(each) for stream in range(streams)
    ]
    return written, read


@cache
def megabytes_per_second(streams: int, *, is_ill: bool) -> float:
    """Give the bandwidth of readers that read in order, in 10^6 bytes a second."""
    written, read = _order(streams, is_ill=is_ill)
    return bandwidth_after(written, read, streams)


def _chart() -> dict[str, Any]:
    series = {
        name: {streams: megabytes_per_second(streams, is_ill=is_ill) for streams in STREAMS}
        for name, is_ill in LAYOUTS.items()
    }
    return bandwidths("ill_mapped_read_ahead", "readers in order", series)


def _impaired() -> tuple[str, bool]:
    pairs = {
        streams: [megabytes_per_second(streams, is_ill=is_ill) for is_ill in LAYOUTS.values()]
        for streams in STREAMS
    }
    words = ", ".join(
        f"{streams}: {well:.0f} and {ill:.0f} MB/s" for streams, (well, ill) in pairs.items()
    )
    return f"by readers, ten domains and one: {words}", all(w > i for w, i in pairs.values())


def drawing() -> Drawing:
    """Give the figure that the paper does not draw."""
    shape = Shape(
        "4 KB sequential reads within one domain against ten",
        "5.4",
        "read-ahead is impaired",
        _impaired,
    )
    title = "reads in order within one domain against ten, SSD-S"
    return Drawing("7 read-ahead", title, PROFILE, _chart, shapes=[shape])
