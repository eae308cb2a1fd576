"""The papers' figures, drawn by the prober.

Every experiment runs on a simulated drive of the matching profile, as it would on a real one. The
report has each figure with what was published on it; the page that is printed has the published
numbers beside ours. Curves that the papers show as images only are not compared.
"""

from __future__ import annotations

from experiments.figures import parallelism, scheduler
from experiments.figures.papers import FAR, Paper, PaperSet, registered

PAPERS = (
    Paper(
        "SCHEDULER",
        "SCHEDULER figures 4.3-4.32 (`mtron-pro-7500`, `intel-x25e`, `ocz-vertex-ex`, `hard_disk`)",
        scheduler.drawings,
        scheduler.drives,
        "Figures 4.3, 4.7, 4.11 and 4.15 are of a hard disk, which the paper shows as images: "
        "ours is a desktop's of that time, of which nothing was fitted. "
        "Random mixes (4.26-4.31): one by one a mix is slower than "
        "writes alone only if a read among writes takes longer than a write alone, as writes get "
        "faster with more reads (4.3.3). Reads of the profiles do not wait for so long: a write "
        "waits for its merge before it is replied to. On the OCZ the prober is not sure: it pauses "
        "for a second and more among random writes.",
    ),
    Paper(
        "PARALLELISM",
        "PARALLELISM figures 2-7 and table 2 (SSD-S: `intel-x25e`, SSD-M: `intel-x25m`)",
        parallelism.drawings,
        parallelism.drives,
        "Figure 6 needs 32 spaces of 1024 MB on a drive of 32 GB (29.8 GiB): they have 976 MiB "
        "each here.",
    ),
)

GROUP = PaperSet(
    "figures-prober",
    "The papers' figures, drawn by the prober",
    PAPERS,
    "All figures are of virtual time: they are the same on any machine. An error is ours / "
    f"published - 1; beyond {FAR:.0%} it is in bold. The profiles were fitted to some of these "
    "numbers (`docs/results/drives.md` says which); the prober knows nothing of the profiles. "
    "The report with the figures is made by the command and not kept here. Curves that are only "
    "images in the papers have no numbers to compare.",
    "minutes",
)

SET = registered(GROUP)
