"""The papers' figures of layers.

Every stack runs over a simulated drive of the matching profile under the shipped traces of a
database's data. The report has each figure; the page that is printed has the published numbers
beside ours. Curves that the papers show as images only are not compared.
"""

from __future__ import annotations

import hashlib
from typing import Any

from experiments.data import DATA, TPCC_DATA, TPCC_FILE_SYSTEMS
from experiments.figures import scheduler_layers, scheduler_path, stable_buffer
from experiments.figures.papers import FAR, Paper, PaperSet, registered
from flashwright.sources import REQUESTS_FILE

PAPERS = (
    Paper(
        "STABLEBUFFER",
        "STABLEBUFFER 3.2 and figures 4-7 (`mtron-sata7035`, `usb-stick`, `sd-card`)",
        stable_buffer.drawings,
        lambda: [stable_buffer.RUNS],
        "The published number of a method is its throughput or mean response over that of direct "
        "writes (4.2.1). Pages and slots are the paper's: page n of the trace, of 8 KiB, is taken "
        "for page n of 4 KiB, and the focused area is as large as the buffer. Each figure is drawn "
        "twice: by our rules of patterns, which leave single pages out and let four partitions "
        "take turns, and by the paper's (`paper rules`: "
        "`partitions=1024,partition_pages=1,run_pages=1`). What is known of "
        "stick and card is that focused writes are efficient on them, and figure 5: the profiles "
        "have these, by four logs of 2 MiB and by one of 4 MiB. Set-up (4.1): theirs is TPC-C on "
        "PostgreSQL 8.4 with default settings, 20 warehouses and 20 clients, 122,150 writes of "
        "over 30 minutes within 7 GB; ours PostgreSQL 15 with a buffer of 24 MB, its log "
        "elsewhere, 8 warehouses and 8 clients, the first 122,150 writes, of 160 s within 0.7 GB. "
        "Theirs are a file on Windows and real devices, an Mtron MSD-SATA-3525 of 16 GB; ours "
        "simulated drives alone, and the Mtron is the SATA7035 of table 1. What differs, and why. "
        "Thresholds: the profile makes room in its buffer for 8 KiB at a time, so a write of 8 "
        "KiB waits for one merge. From there to 128 KiB the worst write is as long as the mean, so "
        "l_min is 8 KiB. With 32 KiB at a time it is the paper's, and table 1 is as it was "
        "(`experiments/figures/thresholds.py`). Figures 4 "
        "to 7 have the paper's thresholds. Responses: where a write is sent when the one before "
        "it was replied to, throughput times mean response is 1, and the order of one is that of "
        "the other. The published products are 0.86 and 0.67 on the SSD: so much of its runs "
        "lies in responses, and the rest in none. Algorithm 2 responds before it notes the page "
        "and looks for the next slot, and the proactive method flushes in background: that may be "
        "the rest. Ours leave nothing out, so the methods' order by response is not the paper's. "
        "`4b SSD paced` keeps the trace's intervals, which the paper may have done. How much is "
        "gained on stick and card: an instance brings as many pages to one or two superblocks as "
        "the trace has close to each other, and wants a merge for each; direct writes want one for "
        "nearly each page. A gain of 13.6 times wants at least as many pages a merge; ours are in "
        "figure 7. Figure 5, SSD: four streams are 1.5 times as slow as one in table 1, for which "
        "the profile keeps one page map in memory, so two streams load maps in turn. With all maps "
        "in memory two are as fast as one (1.01 times, with "
        "`ftl.scheme=bast(log_blocks=10,interleave=16,maps_in_memory=0)`); with a queue, an eager "
        "buffer and four merges at once besides, 1.33 times. Nearly twice as fast no setting was, "
        "and SCHEDULER 4.3.1 finds no gain by threads on a sister model. Figure 6: the paper's "
        "time includes its simulator on a processor of 2007, ours the layer alone, in real time: "
        "the least of three runs of 20,000 writes. Figure 7: both "
        "reasons that the paper gives for its ends are so here. But on the SSD instances of the "
        "on-demand way grow so much with the buffer that four times the size is best in spite of "
        "it; and the card, with its one log, changes between buffer and destinations at any size, "
        "so that a larger buffer costs less than it brings.",
    ),
    Paper(
        "SCHEDULER",
        "SCHEDULER figures 5.5 and 7.2-7.21 (`mtron-pro-7500`, `intel-x25e`, `ocz-vertex-ex`)",
        lambda: [*scheduler_path.drawings(), *scheduler_layers.drawings()],
        lambda: [scheduler_path.RUNS, scheduler_layers.RUNS],
        "Figures 5.5 and 7.2 to 7.4 need nilfs2, which the kernel of the recordings does not have "
        "(no f2fs either): a log-structured volume that defers nothing stands for it. Not run: "
        "the commercial DBMS, and MySQL or MariaDB, which are not driven here. 5.5, 7.2, 7.3 and "
        "`7.4 file systems` play what was traced on ext2, one by one, as 7.3.1 does, and the "
        "system calls on a raw device; transactions a minute are what the drive's time alone "
        "allows, and were not run. The traces are recorded with the paper's set-up, one for each "
        "interval (`experiments/data/README.md`): 30 warehouses, pages of 4 KiB, a "
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
        "takes 7.3 ms and a sequential one 60 us: 120 times as long. Of random writes ours has 80 "
        "to 86 % and theirs 54 to 64 %; all four inherit it. Reads: PostgreSQL writes most pages "
        "at the checkpoint, where few reads are, the less the shorter the interval; so even direct "
        "ones "
        "are mostly apart from reads. A limit of 1 s closes windows early, and their batches are "
        "written beside reads.",
    ),
)


def _inputs() -> list[dict[str, Any]]:
    folders = dict.fromkeys(folder for folder, _ in scheduler_path.SYSTEMS.values())
    paths = [
        TPCC_DATA,
        *map(scheduler_layers.recording, scheduler_layers.INTERVALS),
        *(TPCC_FILE_SYSTEMS / folder / REQUESTS_FILE for folder in folders),
    ]
    return [
        {
            "source": str(path.relative_to(DATA)),
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
            "content_hash": None,
        }
        for path in paths
    ]


GROUP = PaperSet(
    "figures-layers",
    "The papers' figures of layers",
    PAPERS,
    "All figures but shares of processor time are of virtual time: the same on any machine. An "
    f"error is ours / published - 1; beyond {FAR:.0%} it is in bold. The traces are ours "
    "(`experiments/data/README.md`): no published one is at hand. The report with "
    "the figures is made by the command and not kept here. Curves that the papers show as "
    "images only have no numbers "
    "to compare.",
    "ten minutes",
    _inputs,
)

SET = registered(GROUP)
