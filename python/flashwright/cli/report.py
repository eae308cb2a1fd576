"""`flashwright report`: makes a run folder's report again."""

from __future__ import annotations

from pathlib import Path

import click

from flashwright.cli.options import json_option
from flashwright.cli.output import prints_only_json, say, write_json


@click.command(short_help="Make the report of a run folder again.")
@click.argument("run_folder", type=click.Path(path_type=Path))
@json_option
def report(run_folder: Path, *, json_path: str | None) -> None:
    """Make report.html of RUN_FOLDER again, from the files in it alone.

    \b
    Example:
      flashwright report runs/compare-1f2e3d4c5b6a
    """
    from flashwright.reports import write_report
    from flashwright.runs import Run

    path = write_report(run_folder)
    write_json(Run.read(run_folder).document(), json_path)
    if not prints_only_json(json_path):
        say(f"Report: {path}")
