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
from flashwright.reproduce.figures.layered import RUNS, TRACE

FOLDER = Path("runs") / "figures-layers"

PAPERS = (
    Paper(
        "STABLEBUFFER",
        "STABLEBUFFER figures 4-7 (`mtron-pro-7500`, `usb-stick`, `sd-card`)",
        stable_buffer.drawings,
        lambda: [RUNS],
        "The published number of a method is its throughput or mean response over that of direct writes (4.2.1).",
    ),
    Paper(
        "SCHEDULER",
        "SCHEDULER figures 7.4-7.21 (`mtron-pro-7500`)",
        scheduler_layers.drawings,
        lambda: [RUNS],
        "Figure 7.4 needs nilfs2, which few kernels have: a log-structured volume that defers nothing stands for it. A window "
        "holds as many writes as the paper's: ours come six times as fast, so that the 30 ... 600 s between checkpoints are a sixth of "
        "that here.",
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
