"""Reports: one HTML file that works offline, made from a run folder alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from flashwright._core import InputError
from flashwright.outputs import write_text
from flashwright.runs import REPORT_FILE, Run

if TYPE_CHECKING:
    from flashwright.reports.page import Page


def page_of(run: Run) -> Page:
    """Build the report of a run.

    Raises InputError if it is of a command that has no report.
    """
    from flashwright.reports import (
        comparison,
        demo,
        drive,
        drive_comparison,
        layers,
        light,
        model,
        path,
        probe,
        recording,
        replay,
        simulation,
        trace,
        transactions,
        waterfall,
    )
    from flashwright.reports import run as benchmark

    builders = {
        "simulate": simulation.page,
        "compare": comparison.page,
        "trace stats": trace.page,
        "model bound": model.bound_page,
        "model figures": model.figures_page,
        "model pgc": model.pgc_page,
        "demo": demo.page,
        "probe": probe.page,
        "record": recording.page,
        "waterfall": waterfall.page,
        "path": path.page,
        "run": benchmark.page,
        "replay": replay.page,
        "layers": layers.page,
        "transactions": transactions.page,
    }
    of_drives = {"simulate": drive.page, "compare": drive_comparison.page}
    if run.command == "compare" and "stacks" in run.result:
        of_drives["compare"] = layers.page
    # A run of `simulate` or `compare` is of drives if it was given --device.
    if run.command in of_drives and (
        "device" in run.result
        if run.command == "simulate"
        else {"drives", "stacks"} & run.result.keys()
    ):
        builders |= of_drives
    if run.command == "record" and run.result.get("recording", {}).get("form") == "light":
        builders["record"] = light.page
    if run.command not in builders:
        raise InputError(
            f"a run of `{run.command}`, which has no report; known are: {', '.join(builders)}"
        )
    return builders[run.command](run)


def html_of(run: Run, lines: Sequence[str] = ()) -> str:
    """Give the report of a run as one HTML document, with these lines of its figures alone.

    Raises InputError if it is of a command that has no report, or there is no such line.
    """
    from flashwright.reports.page import render

    return render(page_of(run), lines)


def write_report(folder: Path, lines: Sequence[str] = ()) -> Path:
    """Make the report of a run folder from the files in it, and give its path.

    Of figures these lines are shown alone; the others wait in the legend.

    Raises InputError if the folder is no run folder, or of a command that has no report.
    """
    run = Run.read(folder)
    file = folder / REPORT_FILE
    try:
        html = html_of(run, lines)
    except InputError as error:
        raise InputError(f"{folder}: {error}") from None
    except (KeyError, IndexError, TypeError, ValueError, StopIteration) as error:
        raise InputError(
            f"{folder}: the run folder is incomplete or of another version: {error!r}"
        ) from error
    write_text(file, html, name="the report")
    return file
