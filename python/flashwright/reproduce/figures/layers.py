"""The papers' figures of layers.

Every stack runs over a simulated drive of the matching profile under the shipped traces of a
database's data. The report has each figure; the page that is printed has the published numbers
beside ours. Curves that the papers show as images only are not compared.
"""

from __future__ import annotations

import hashlib
from typing import Any

from flashwright import data
from flashwright.reproduce.figures import scheduler_layers, stable_buffer
from flashwright.reproduce.figures.book import FAR, Book, Paper, registered

PAPERS = (
    Paper(
        "STABLEBUFFER",
        "STABLEBUFFER figures 4-7 (`mtron-sata7035`, `usb-stick`, `sd-card`)",
        stable_buffer.drawings,
        lambda: [stable_buffer.RUNS],
        "The published number of a method is its throughput or mean response over that of direct "
        "writes (4.2.1). Pages and slots are the paper's: page n of the trace, of 8 KiB, is taken "
        "for page n of 4 KiB, and the focused area is as large as the buffer. Each figure is drawn "
        "twice: by our rules of patterns, which leave single pages out and let four partitions "
        "take turns, and by the paper's (`paper rules`: "
        "`partitions=1024,partition_pages=1,run_pages=1`). What is known of "
        "stick and card is that focused writes are efficient on them, and figure 5: the profiles "
        "have these, by four logs of 2 MiB and by one of 4 MiB. What differs, and why. How much is "
        "gained on stick and card: an instance brings as many pages to one or two superblocks as "
        "the trace has close to each other, and wants a merge for each; direct writes want one for "
        "nearly each page. A gain of 13.6 times wants at least as many pages a merge; ours are in "
        "figure 7. Figure 5, SSD: four streams are 1.5 times as slow as one in table 1, for which "
        "the profile keeps one page map in memory, so two streams load maps in turn. With all maps "
        "in memory two are as fast as one (1.01 times, `--set "
        "ftl.scheme=bast(log_blocks=10,interleave=16,maps_in_memory=0)`); with a queue, an eager "
        "buffer and four merges at once besides, 1.33 times. Nearly twice as fast no setting was, "
        "and SCHEDULER 4.3.1 finds no gain by threads on a sister model. Figure 6: the paper's "
        "time includes its simulator on a processor of 2007, ours the layer alone. Figure 7: both "
        "reasons that the paper gives for its ends are so here. But on the SSD instances of the "
        "on-demand way grow so much with the buffer that four times the size is best in spite of "
        "it; and the card, with its one log, changes between buffer and destinations at any size, "
        "so that a larger buffer costs less than it brings.",
    ),
    Paper(
        "SCHEDULER",
        "SCHEDULER figures 7.4-7.21 (`mtron-pro-7500`)",
        scheduler_layers.drawings,
        lambda: [scheduler_layers.RUNS],
        "Figure 7.4 needs nilfs2, which few kernels have: a log-structured volume that defers "
        "nothing stands for it. The traces are recorded with the paper's set-up, one for each "
        "interval (`python/flashwright/data/traces/README.md`): 30 warehouses, pages of 4 KiB, a "
        "buffer of 80 MB, the log elsewhere, and 91,000 to 116,000 writes (theirs 82,000 at most). "
        "`join=no`: only "
        "writes that overlap are merged. The paper's text also has those that lie side by side "
        "concatenated, but its gains over deferring, converting and aligning (7.7, 7.9, 7.11) are "
        "nearly the same, those of the bytes alone; with them concatenated, 7.7 would be 1.14 "
        "times at 30 s here, and 2.42 at 600 s. `join=no` was chosen, and the order in which the "
        "database writes its checkpoints, after first results were seen (the same page). "
        "What differs, and why. Coalescing spans more: PostgreSQL's buffer holds what is written "
        "often until the next checkpoint, so a window of 30 s has no page twice (1.002 writes a "
        "page), and one of 600 s has 1.51. Converting: by eq. 4.4 and 4.3 a random write of 4 KiB "
        "takes 7.3 ms and a sequential one 60 us, 120 times as long, of which ours has 80 to 86 % "
        "and theirs 54 to 64 %; all four inherit it. Reads: PostgreSQL writes most pages at the "
        "checkpoint, where few reads are, the less the shorter the interval; so even direct ones "
        "are mostly apart from reads. A limit of 1 s closes windows early, and their batches are "
        "written beside reads.",
    ),
)


def _inputs() -> list[dict[str, Any]]:
    paths = [data.TPCC_DATA, *map(scheduler_layers.recording, scheduler_layers.INTERVALS)]
    return [
        {
            "source": str(path.relative_to(data.TRACES)),
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
            "content_hash": None,
        }
        for path in paths
    ]


BOOK = Book(
    "figures-layers",
    "The papers' figures of layers",
    PAPERS,
    "All figures but shares of processor time are of virtual time: the same on any machine. An "
    f"error is ours / published - 1; beyond {FAR:.0%} it is in bold. The traces are ours "
    "(`python/flashwright/data/traces/README.md`): no published one is at hand. The report with "
    "the figures is made by the command and not kept here. Curves that the papers show as "
    "images only have no numbers "
    "to compare.",
    "ten minutes",
    _inputs,
)

SET = registered(BOOK)
