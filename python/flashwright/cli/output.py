"""Output of commands: JSON, tables, run folders."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flashwright._core import __version__
from flashwright.cli.options import option
from flashwright.cli.outputs import OutFile, OutFolder
from flashwright.outputs import JSON, write_text
from flashwright.runs import REPORT_FILE, Job, Run, dump_json
from flashwright.terminal import say


def _marked(document: Any) -> Any:
    """Give a document by whose content a later run knows that we wrote it."""
    if isinstance(document, list):
        return [_marked(one) for one in document]
    if isinstance(document, Mapping) and "provenance" not in document:
        return {"flashwright": __version__, **document}
    return document


@dataclass(frozen=True)
class Json:
    """Place of a result's JSON, beside what is printed for people."""

    json_path: str | None = option(
        "Write the result as JSON there. `-` prints nothing but JSON, on standard output.",
        "--json",
        metavar="PATH|-",
        type=OutFile(JSON, is_dash_allowed=True, path_type=str),
    )

    @property
    def is_only_json(self) -> bool:
        """True if standard output belongs to the JSON alone."""
        return self.json_path == "-"

    def say(self, line: str = "") -> None:
        """Print a line for people, unless standard output belongs to the JSON."""
        if not self.is_only_json:
            say(line)

    def say_known(self, known: int, planned: int, what: str) -> None:
        """Say how many of the simulations that are to be an earlier run has finished."""
        if known:
            self.say(f"{known} of {planned} {what} were finished by an earlier run, and are taken.")

    def write(self, document: Any) -> None:
        """Write the document where `--json` says, if it was given.

        Raises InputError if the file cannot be written.
        """
        if self.is_only_json:
            sys.stdout.write(dump_json(document))
            sys.stdout.flush()
        elif self.json_path is not None:
            write_text(Path(self.json_path), dump_json(_marked(document)), JSON)


@dataclass(frozen=True)
class Output(Json):
    """Places of a run's result: the JSON, and the run folder."""

    out: Path | None = option(
        "The run folder: result.json, tables as Parquet, report.html; with --json - there is none "
        "without it.  [default: runs/COMMAND-HASH of what goes in]",
        type=OutFolder(),
        metavar="DIR",
    )

    def folder(self, job: Job | None) -> Path | None:
        """Name the run folder of a job; None if none is to be written."""
        return self.out or (None if job is None or self.is_only_json else job.folder)

    def finish(self, run: Run) -> Path | None:
        """Write the run folder with its report, and the JSON.

        Give the folder, if one was written.
        """
        folder = self.keep(run)
        self.tell_finished(run, folder)
        return folder

    def keep(self, run: Run) -> Path | None:
        """Write the run folder with its report; give it, if one was written.

        The complete result of the same work stays where this run was stopped.
        """
        from flashwright.reports import write_report

        folder = self.folder(run.job)
        was_stopped = not run.result.get("complete", True)
        if was_stopped and folder and run.job and run.job.is_complete_in(folder):
            self.say(f"{folder}: the complete result of an earlier run stays there.")
            return None
        if folder is not None:
            run.write(folder)
            write_report(folder)
        return folder

    def tell_finished(self, run: Run, folder: Path | None) -> None:
        """Write the JSON, and say where the report is."""
        self.write(run.document())
        if folder is not None:
            self.say(f"\nReport: {folder / REPORT_FILE}")


def kept_of(finished: int, planned: int, what: str, folder: Path | None) -> str:
    """Say what a comparison that was stopped has finished, and what becomes of it."""
    of_all = f"{finished} of {planned} {what} are kept"
    return of_all if folder is None else f"{of_all} in {folder}, and are not done again"
