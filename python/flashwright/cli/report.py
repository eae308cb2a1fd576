"""`flashwright report`: makes a run folder's report again."""

from __future__ import annotations

from pathlib import Path

import click

from flashwright.cli.lists import Listed
from flashwright.cli.options import all_of, argument, option, options
from flashwright.cli.output import Json


@click.command(short_help="Make the report of a run folder again.")
@options
def report(
    *,
    run_folder: Path = argument(type=click.Path(path_type=Path)),
    lines: tuple[str, ...] = option(
        "Show these lines of figures alone, by their names in the legend or parts of them; the "
        "others wait in the legend. a,b or again for each.",
        cls=Listed,
        metavar="NAME",
    ),
    to: Json = all_of(Json),
) -> None:
    """Make report.html of RUN_FOLDER again, from the files in it alone.

    \b
    Examples:
      flashwright report runs/compare-1f2e3d4c5b6a
      flashwright report runs/compare-1f2e3d4c5b6a --lines greedy,dac

    In the report a click on a name in a legend hides or shows its line, and a double click shows it
    alone. The camera above a figure saves it as SVG; print the page for PDF.
    """
    from flashwright.reports import write_report
    from flashwright.runs import Run

    path = write_report(run_folder, lines)
    to.write(Run.read(run_folder).document())
    to.say(f"Report: {path}")
