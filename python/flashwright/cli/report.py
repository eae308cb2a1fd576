"""`flashwright report`: makes a run folder's report again."""

from __future__ import annotations

from pathlib import Path

import click

from flashwright.cli.options import takes
from flashwright.cli.output import Json


@click.command(short_help="Make the report of a run folder again.")
@click.argument("run_folder", type=click.Path(path_type=Path))
@takes(Json, "to")
def report(run_folder: Path, to: Json) -> None:
    """Make report.html of RUN_FOLDER again, from the files in it alone.

    \b
    Example:
      flashwright report runs/compare-1f2e3d4c5b6a
    """
    from flashwright.reports import write_report
    from flashwright.runs import Run

    path = write_report(run_folder)
    to.write(Run.read(run_folder).document())
    to.say(f"Report: {path}")
