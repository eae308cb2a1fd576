"""`flashwright trace split`: a trace of many volumes as a store, by volume and time."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

import click

from flashwright._core import InputError
from flashwright.cli.following import say_next
from flashwright.cli.of_jobs import command_of, json_option
from flashwright.cli.output import Json
from flashwright.cli.outputs import OutStore
from flashwright.jobs import generic
from flashwright.progress import StoppedError
from flashwright.runs import Run
from flashwright.terminal import print_table

JOB = "trace_split"
EXAMPLES = """\
Examples:
  flashwright trace split alibaba/io_traces_*.csv.gz --out store
  flashwright trace split io_traces.csv.gz --out store --window 1h
  flashwright trace split io_traces.csv.gz --out store --memory 4Gi --threads 8
  flashwright trace split tencent.csv.zst --out store --skip-bad 10
  flashwright trace stats store                  what is in it

The trace is read once, whatever its size. Files are read in the order in which they are named: a
shell puts io_10 before io_2, `$(ls -v io_*)` does not.

\b
The store is a folder of Parquet, one table for any data tool:
  DIR/volume=17/time=3/part-0000000041.parquet
  duckdb -c "from read_parquet('DIR/*/*/*.parquet', hive_partitioning=true)"

`time` counts windows from the first request. Short windows are for who reads a few hours of all
volumes; long ones make fewer and larger files.

Requests wait in --memory, so that a volume with few of them is not many small files. Ctrl-C and
`kill -9` lose what came after the last --checkpoint: the same command goes on from there. --memory,
--checkpoint and --threads may be others then; the store is the same with any --threads."""


def do(asked: Mapping[str, Any], *, json_path: str | None) -> None:
    """Split, print what came of it, and say how to go on."""
    from flashwright.jobs.trace_split import words

    to = Json(json_path)
    try:
        run = generic.run(JOB, asked, label=words.label(asked), unit="bytes")
    except StoppedError as stop:
        on = f"{stop.unit}; the same command goes on from the last checkpoint in {asked['out']}"
        raise StoppedError(stop.done, stop.total, on, None) from None
    except InputError as error:
        raise words.in_words(error, asked["out"]) from None
    result = run.result
    if not to.is_only_json:
        print_table([("", "left"), ("", "right")], words.rows(result), result["store"])
    for line in words.lines(result):
        to.say(line)
    if to.json_path is not None:
        to.write(_document(run))
    say_next(to, shlex.join(("flashwright", "trace", "stats", result["store"])))


def _document(run: Run) -> dict[str, Any]:
    """Give the result with the counts of each volume: there is no run folder that holds them."""
    of_volumes = run.tables["volumes"].to_pylist()
    return {**Run(run.command, run.result).document(), "of_volumes": of_volumes}


split = command_of(
    JOB,
    do,
    name="split",
    short_help="Split a trace of many volumes by volume and time, into Parquet.",
    examples=EXAMPLES,
    types={"sources": click.Path(), "out": OutStore()},
    more=[json_option()],
)
