"""`flashwright advise`: one question, one answer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from flashwright._core import InputError
from flashwright.cli.options import Duration, Fraction, Size, takes
from flashwright.cli.output import Json, Output

if TYPE_CHECKING:
    from flashwright.advice.building import Question

DATABASES = ("postgres", "sqlite")


@click.command(short_help="What a database's writes do to its drive, and what to change.")
@click.argument("source", required=False)
@click.option(
    "--database",
    type=(click.Choice(DATABASES), click.Path(path_type=Path, readable=False)),
    metavar="KIND PATH",
    help="Record a database that runs, on the spot: `postgres` and its data directory, or `sqlite` "
    "and its file. Needs root.",
)
@click.option(
    "--for",
    "seconds",
    type=Duration(least_open=True),
    default=120.0,
    show_default="2m",
    metavar="S",
    help="With --database: how long it is recorded.",
)
@click.option(
    "--device",
    metavar="DRIVE",
    help="The drive: a profile of `flashwright list profile`, a TOML file, the folder of a probe, "
    "or a disk.  [default: by the model of the recorded disk, or what is nearest]",
)
@click.option(
    "--size",
    "capacity_bytes",
    type=Size(),
    metavar="BYTES",
    help="Size of the disk, such as 256G.  [default: as recorded]",
)
@click.option(
    "--fill",
    type=Fraction(),
    metavar="SHARE",
    help="Share of the disk that holds data, such as 60%.  [default: as recorded, or all of it]",
)
@click.option(
    "--writes-per-day",
    type=Size(),
    metavar="BYTES",
    help="What the disk is written a day, such as 40G.  [default: by the drive's own counters, or "
    "as recorded]",
)
@click.option(
    "--goal",
    type=click.Choice(["life", "latency", "throughput"]),
    default="life",
    show_default=True,
    help="What is to become better: the life of the drive, the wait of commits (99th percentile), "
    "or commits a second.",
)
@click.option(
    "--risk",
    type=click.Choice(["none", "seconds", "any"]),
    default="seconds",
    show_default=True,
    help="What may be lost after a crash: nothing, commits of the last seconds, or more.",
)
@click.option(
    "--within",
    type=Duration(least_open=True),
    default=120.0,
    show_default="2m",
    metavar="S",
    help="Begin no further simulation after this time.",
)
@click.option(
    "--format",
    "form",
    metavar="FORMAT",
    help="Format of SOURCE, of `flashwright list trace_format`.  [default: by its content]",
)
@click.option(
    "--seed",
    type=click.IntRange(0),
    default=1,
    show_default=True,
    metavar="N",
    help="Of the simulated drives.",
)
@takes(Output, "output")
def advise(
    source: str | None,
    database: tuple[str, Path] | None,
    seconds: float,
    device: str | None,
    capacity_bytes: int | None,
    fill: float | None,
    writes_per_day: int | None,
    goal: str,
    risk: str,
    within: float,
    form: str | None,
    seed: int,
    output: Output,
) -> None:
    """Say what the writes of a database do to its drive, and what to change.

    SOURCE is the folder of a recording, or a trace file; --database records one on the spot. Each
    change that may help is simulated with the requests that were recorded, on a drive of the disk's
    kind, size and fill: what it gains, what it costs, what may be lost after a crash, how to make
    it so, and how to undo it. What would not help is named with its number, and so is what cannot
    be known from the source.

    Results are kept: the same question again, or with another goal, takes an instant.

    \b
    Examples:
      flashwright advise --database postgres /var/lib/postgresql/15/main
      flashwright advise --database sqlite app.db --for 10m --goal latency
      flashwright advise runs/tpcc --device nvme-tlc --writes-per-day 40G
      flashwright advise my.blktrace.0 --device emmc-51 --size 32G --risk none
    """
    from flashwright.advice.building import Question

    if (source is None) == (database is None):
        raise InputError(
            "name one SOURCE: the folder of a recording, a trace file, or --database KIND PATH"
        )
    if database is not None:
        source = str(_recorded(database, seconds, output))
    assert source is not None  # noqa: S101  (one of both was given)
    question = Question(
        source,
        device,
        capacity_bytes,
        fill,
        None if writes_per_day is None else float(writes_per_day),
        goal,
        risk,
        form,
        seed=seed,
    )
    _answer(question, within, output)


def _recorded(database: tuple[str, Path], seconds: float, to: Json) -> Path:
    """Record a database, and give the folder of the recording."""
    from flashwright.cli import record
    from flashwright.cli.recorded import conclude

    running = record._running(database, (), (), needs_root=True)
    if running is None:
        raise AssertionError("a database was named")
    folder = record._folder_for(running.place, to)
    how = {"tracer": "auto", "buffer_kib": 16 << 10}
    record._record(running.place, (), seconds, folder, how, running, is_quiet=to.is_only_json)
    conclude(folder, keep_raw=False, check=False, to=Json("-" if to.is_only_json else None))
    return folder


def _answer(question: Question, within: float, output: Output) -> None:
    from flashwright.advice.asking import ask
    from flashwright.cli.advise_said import say_answer, say_first
    from flashwright.terminal import say

    heard = (lambda _: None) if output.is_only_json else say_first
    run, answer = ask(question, within, heard)
    if not output.is_only_json:
        say_answer(answer)
        if not answer.is_complete:
            say("Stopped before its end; what was simulated is kept, and not done again.")
    output.finish(run)
