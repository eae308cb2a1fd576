"""The page on our predictions beside those of MQSim and of the counting simulator."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from experiments.pages import markdown_table, page
from experiments.validations.other_simulators import SEED, SIMULATORS, Beside
from flashwright.measured.rows import WriteRow


def _summary(found: Sequence[Beside]) -> str:
    lines = []
    for one in found:
        for simulator in SIMULATORS:
            errors = one.errors(simulator)
            shown = [f"{median(errors):.1%}", f"{errors[-1]:.1%}"] if errors else ["-", "-"]
            counted = f"{len(errors)} of {len(one.unseen)}"
            lines.append([one.drive.name, simulator, counted, *shown])
    return markdown_table(
        ("drive", "simulator", "rows predicted", "median error", "largest error"), lines
    )


def _rows(one: Beside) -> str:
    def cell(value: float | None, row: WriteRow) -> str:
        if value is None or not row.steady_mib_s:
            return "no end"
        return f"{value:,.0f} ({value / row.steady_mib_s - 1:+.0%})"

    lines = [
        [
            row.name,
            f"{row.steady_mib_s:,.0f}",
            *(cell(one.predicted[s][row], row) for s in SIMULATORS),
        ]
        for row in one.unseen
    ]
    return markdown_table(("row", "measured, MiB/s", *SIMULATORS), lines)


PLAYED = """\
All are fitted to the same rows and asked for the others (an error is predicted / measured - 1).
What each was given:

- Ours: the profile, fitted by `device fit` to the fitted rows, which also has response times at
  three rates among them. It has most free keys.
- MQSim: times of flash, planes and erase blocks of that profile. Free, searched on the fitted rows
  of small writes: over-provisioning, the queue (the part's share of 512 requests, or all of them),
  and the share of free erase blocks below which it cleans.
- The counting simulator: `separate` with greedy, an erase block for a superblock; over-provisioning
  is free.
- Both also have a factor on throughput, one for small random writes and one for sequential writes
  and zones, which makes the geometric mean of the fitted rows right; the search prefers little of
  it. Nothing is predicted above what the planes program, or above what the host sends to zones.

MQSim plays a part of the drive: 8 planes with all their erase blocks and about 75,000 pages, pages
of 4 KiB with the time of a page's share of a program, erases as much shorter as erase blocks are,
each plane a chip of its own (dies of a chip mostly wait for each other there). Cleaning is as in
its example: `RGA`, not preemptible. The trace fills what is used in order and overwrites it one and
a half times, and until twice the physical pages are written (zones: as often as was measured); the
last third counts. These are choices of ours; whoever knows MQSim better may find better ones.

What MQSim cannot do, and what that means here:

- Cleaning ends in memory errors as it comes: its switch for static wear levelling is never read,
  the difference of erases that it looks at is one of block numbers, and what it starts then marks a
  block by a wrong address. Build `--mqsim` (7ec40e3) without: in `SSD_Device.cpp`, `true, false,
  100` before the seed, in the last line of `new GC_and_WL_Unit_Page_Level`. A row that came to no
  end all the same is `no end`, and counts in no error.
- Its preconditioning is a model of valid pages. For traces the kind of load is read before it is
  set, so that it ends with an error. So the trace fills the drive.
- No trims: zones are overwritten. No superblocks: planes fill and are cleaned by themselves, and a
  queue of limited depth lets planes wait. No buffer behind capacitors: zones and sequential writes
  have a full queue there, where the host had one request outstanding.
- Response times: it reports means, no percentiles, and its limit under cleaning, `uniform without
  factor` below, is low beside the rates of those rows. They were not played.
"""


def document(
    found: Sequence[Beside], command: str, digest: str, scale: Sequence[tuple[str, float]]
) -> str:
    """Give the page; `digest` is of the program MQSim."""
    fits = [
        [
            one.drive.name,
            fit_.simulator,
            f"{fit_.setting.spare:.2f}",
            *(
                [
                    "whole" if fit_.setting.whole_queue else "cut alike",
                    f"{fit_.setting.cleans_below:g}",
                ]
                if fit_.simulator == "MQSim"
                else ["-", "-"]
            ),
            f"{fit_.factors[True]:.3g}",
            f"{fit_.factors[False]:.3g}",
            f"{fit_.uniform():,.0f}",
        ]
        for one in found
        for fit_ in one.fits
    ]
    parts = [
        _summary(found),
        PLAYED,
        markdown_table(
            (
                "drive",
                "simulator",
                "over-provisioning",
                "queue",
                "cleans below",
                "factor, small",
                "factor, zones",
                "uniform without factor, MiB/s",
            ),
            fits,
        ),
    ]
    if scale:
        parts.append(
            "Uniform writes on MQSim's micron-7450-pro at other scales, queue cut alike, before "
            "the factor: " + ", ".join(f"{what} {value:.1f} MiB/s" for what, value in scale) + "."
        )
    for one in found:
        parts += [f"## {one.drive.name}", _rows(one)]
    title = "Real drives: our predictions beside those of MQSim and of the counting simulator"
    note = f"MQSim: a program with SHA-256 {digest}. Seed {SEED}."
    return page(title, command, note, parts)
