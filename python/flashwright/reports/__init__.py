"""Reports: one HTML file that works offline, made from a run folder alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from flashwright import _core
from flashwright._core import InputError
from flashwright.outputs import write_text
from flashwright.runs import REPORT_FILE, Run

if TYPE_CHECKING:
    from flashwright.pages.page import Page


def page_of(run: Run) -> Page:
    """Build the report of a run.

    Raises InputError if it is of a command that has no report.
    """
    from flashwright.jobs.play import page as play
    from flashwright.jobs.transactions import words as transactions
    from flashwright.reports import (
        advice,
        bench,
        comparison,
        demo,
        fleet,
        light,
        model,
        probe,
        recording,
        simulation,
        sweep,
        trace,
        waterfall,
    )

    builders = {
        "advise": advice.page,
        "play": play.page,
        "simulate": simulation.page,
        "compare": comparison.page,
        "trace": trace.page,
        "model": model.page,
        "demo": demo.page,
        "probe": probe.page,
        "record": recording.page,
        "waterfall": waterfall.page,
        "bench": bench.page,
        "sweep": sweep.page,
        "transactions": transactions.page,
    }
    if run.command == "record" and run.result.get("recording", {}).get("form") == "light":
        builders["record"] = light.page
    if run.command == "trace" and "volumes_of_store" in run.result:
        builders["trace"] = fleet.page
    if run.command not in builders and run.command in _core.job_names():
        from flashwright.jobs import generic

        return generic.page(run)
    if "sums" in run.result:
        # Of a store of many volumes.
        builders |= dict.fromkeys(("compare", "advise"), fleet.savings_page)
    elif run.command == "compare" and "results" not in run.result:
        # Of one policy its whole report.
        builders["compare"] = simulation.page
    if run.command not in builders:
        raise InputError(
            f"a run of `{run.command}`, which has no report; known are: {', '.join(builders)}"
        )
    return builders[run.command](run)


def html_of(run: Run, lines: Sequence[str] = ()) -> str:
    """Give the report of a run as one HTML document, with these lines of its figures alone.

    Raises InputError if it is of a command that has no report, or there is no such line.
    """
    from flashwright.pages.page import render

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
