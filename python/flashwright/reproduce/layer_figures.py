"""The papers' figures of layers: `python -m flashwright.reproduce.layer_figures`.

Every stack runs over a simulated drive of the matching profile under the shipped trace of a database's data. The report has each figure;
the page that is printed has the published numbers beside ours. Curves that the papers show as images only are not compared.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from flashwright.reproduce.figures import scheduler_layers, stable_buffer
from flashwright.reproduce.figures.book import FAR, Book, Paper, command
from flashwright.reproduce.figures.layered import TRACE

FOLDER = Path("runs") / "figures-layers"

PAPERS = (
    Paper(
        "STABLEBUFFER",
        "STABLEBUFFER figures 4-7 (`mtron-sata7035`, `usb-stick`, `sd-card`)",
        stable_buffer.drawings,
        lambda: [stable_buffer.RUNS],
        "The published number of a method is its throughput or mean response over that of direct writes (4.2.1). Pages and slots are "
        "the paper's: page n of the trace, of 8 KiB, is taken for page n of 4 KiB, and the focused area is as large as the buffer. "
        "What is known of stick and card is that focused writes are efficient on them, and figure 5: the profiles have these, by four "
        "logs of 2 MiB and by one of 4 MiB. What differs, and why. How much is gained on stick and card: an instance brings as many "
        "pages to one or two superblocks as the trace has close to each other, and wants a merge for each; direct writes want one for "
        "nearly each page. A gain of 13.6 times wants at least as many pages a merge; ours are in figure 7. Figure 5, SSD: four "
        "streams are 1.5 times as slow as one in table 1, for which the profile keeps one page map in memory, so two streams load "
        "maps in turn. With all maps in memory two are as fast as one (1.01 times, `--set "
        "ftl.scheme=bast(log_blocks=10,interleave=16,maps_in_memory=0)`); with a queue, an eager buffer and four merges at once "
        "besides, 1.33 times. Nearly twice as fast no setting was, and SCHEDULER 4.3.1 finds no gain by threads on a sister model. "
        "Figure 6: the paper's time includes its simulator on a processor of 2007, ours the layer alone. Figure 7: both reasons that "
        "the paper gives for its ends are so here. But on the SSD instances of the on-demand way grow so much with the buffer that "
        "four times the size is best in spite of it; and the card, with its one log, changes between buffer and destinations at any "
        "size, so that a larger buffer costs less than it brings.",
    ),
    Paper(
        "SCHEDULER",
        "SCHEDULER figures 7.4-7.21 (`mtron-pro-7500`)",
        scheduler_layers.drawings,
        lambda: [scheduler_layers.RUNS],
        "Figure 7.4 needs nilfs2, which few kernels have: a log-structured volume that defers nothing stands for it. A window "
        "holds as many writes as the paper's: ours come six times as fast, so that the 30 ... 600 s between checkpoints are a "
        "sixth of that here. What differs, and why. Coalescing gains more, and so do all four: the database is a quarter of the "
        "paper's, and pages are written more often in a window of as many writes. Aligning gains less: pages are of 8 KiB and "
        "not 4, and by eq. 4.3 one of 8 KiB takes 94 us, eight in a write of 64 KiB 71 us each, which is 1.33 times. A limit of "
        "1 s closes windows early, and their batches are written beside reads.",
    ),
)


def _inputs() -> list[dict[str, Any]]:
    return [{"source": str(TRACE.name), "sha256": hashlib.sha256(TRACE.read_bytes()).hexdigest(), "content_hash": None}]


BOOK = Book(
    "layer_figures",
    "The papers' figures of layers",
    PAPERS,
    "All figures but shares of processor time are of virtual time: the same on any machine. An error is ours / published - 1; "
    f"beyond {FAR:.0%} it is in bold. The trace is ours (`data/traces/README.md`): no published one is at hand. "
    "The report with the figures is made by the command and not kept here. Curves that the papers show as images only have no numbers to "
    "compare.",
    _inputs,
)

main = command(BOOK, FOLDER)

if __name__ == "__main__":
    main()
