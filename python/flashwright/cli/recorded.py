"""Ends of a recording on the command line: what it holds is said, and what to do next."""

from __future__ import annotations

import shlex
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from flashwright._core import RunError
from flashwright.cli.following import propose
from flashwright.cli.output import Json, Output
from flashwright.terminal import print_table, say

if TYPE_CHECKING:
    from flashwright.recording.running import Running
    from flashwright.runs import Run


def default_folder() -> Path:
    """Name the folder of a recording by its time: no two are the same."""
    return Path("runs") / time.strftime("record-%Y%m%d-%H%M%S")


def warn_if_never_made(running: Running | None) -> None:
    """Say that the database that was to be made is not there."""
    if running is not None and not running.path.exists():
        click.echo(f"flashwright: warning: {running.path} was never made", err=True)


def leave_as(command: Sequence[str], code: int, folder: Path | None) -> NoReturn:
    """Leave with the exit code of the command, as a shell gives it: 128 + N after signal N."""
    how = f"exit code {code}" if code > 0 else f"by {signal.Signals(-code).name}"
    where = "" if folder is None else f"; what it did is recorded in {folder}"
    click.echo(
        f"flashwright: `{shlex.join(command)}` ended {'with ' if code > 0 else ''}{how}{where}",
        err=True,
    )
    click.get_current_context().exit(code if code > 0 else 128 - code)


def conclude(folder: Path, *, keep_raw: bool, check: bool, to: Json) -> Run:
    """Make the tables and the report of a recording, and tell what it holds."""
    from flashwright.recording.tables import tables_of

    return tell(tables_of(folder), folder, keep_raw=keep_raw, check=check, to=to)


def tell(run: Run, folder: Path, *, keep_raw: bool, check: bool, to: Json) -> Run:
    """Write a recording with its report into its folder, and say what it holds."""
    from flashwright.recording.finish import drop_raw
    from flashwright.recording.recorder import RAW
    from flashwright.reports.recording import headline, rows

    differs = _differs(run, folder) if check else None
    if not to.is_only_json:
        print_table(
            [("", "left"), ("", "right")],
            rows(run.result),
            f"{run.result['recording']['device']['name']}",
        )
        say(headline(run.result))
    Output(to.json_path, folder).finish(run)
    if differs is not None:
        raise RunError(f"{differs}; the stream is kept in {folder / RAW}")
    if not keep_raw:
        drop_raw(folder)
    propose(to, "advise" if "path" in run.result else "play", folder)
    return run


def _differs(run: Run, folder: Path) -> str | None:
    """Hold the requests against blkparse's, note the outcome in the run, and say what differs."""
    from flashwright.recording import blkparse
    from flashwright.recording.finish import REQUESTS, block_stream

    try:
        number = blkparse.compare(
            block_stream(folder),
            run.table_files[REQUESTS],
            run.result["recording"]["subtracted_bytes"],
        )
    except RunError as error:
        run.result["checked"] = f"NOT what blkparse reads: {error}"
        return str(error)
    run.result["checked"] = f"blkparse reads the same {number:,} issued requests"
    return None
