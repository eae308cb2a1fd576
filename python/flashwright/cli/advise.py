"""`flashwright advise`: one question, one answer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from flashwright._core import InputError
from flashwright.cli.grouped import GroupedCommand
from flashwright.cli.options import (
    FRACTION,
    SIZE,
    Workers,
    all_of,
    argument,
    duration,
    option,
    options,
)
from flashwright.cli.output import Json, Output

if TYPE_CHECKING:
    from flashwright.advice.answer import Answer
    from flashwright.advice.asking import Asked
    from flashwright.advice.prove import ProofPlan
    from flashwright.engine.where import Where

DATABASES = ("postgres", "sqlite")


@click.command(
    cls=GroupedCommand,
    groups={
        "What is asked": ["database", "seconds", "device", "goal", "risk", "writes_per_day"],
        "What is known": ["capacity_bytes", "fill", "form"],
        "Proof": ["prove", "workload"],
        "Running": ["within", "seed", "engine", "address", "jobs", "store"],
        "Results": ["json_path", "out"],
    },
    short_help="What a database's writes do to its drive, and what to change.",
)
@options
def advise(
    *,
    source: str | None = argument(required=False),
    command: tuple[str, ...] = argument(nargs=-1, type=click.UNPROCESSED),
    database: tuple[str, Path] | None = option(
        "Record a database that runs, on the spot: `postgres` and its data directory, or `sqlite` "
        "and its file. Needs root.",
        type=(click.Choice(DATABASES), click.Path(path_type=Path, readable=False)),
        metavar="KIND PATH",
    ),
    seconds: float = option(
        "With --database: how long it is recorded.",
        "--for",
        type=duration(is_open=True),
        default=120.0,
        show_default="2m",
    ),
    device: str | None = option(
        "The drive: a profile of `flashwright list profile`, a TOML file, the folder of a probe, "
        "or a disk.  [default: by the model of the recorded disk, or what is nearest]",
        metavar="DRIVE",
    ),
    capacity_bytes: int | None = option(
        "Size of the disk, such as 256G.  [default: as recorded]", "--size", type=SIZE
    ),
    fill: float | None = option(
        "Share of the disk that holds data, such as 60%.  [default: as recorded, or all of it]",
        type=FRACTION,
        metavar="SHARE",
    ),
    writes_per_day: int | None = option(
        "What the disk is written a day, such as 40G.  [default: by the drive's own counters, or "
        "as recorded]",
        type=SIZE,
    ),
    goal: str = option(
        "What is to become better: the life of the drive, the wait of commits (99th percentile), "
        "or commits a second.",
        type=click.Choice(["life", "latency", "throughput"]),
        default="life",
    ),
    risk: str = option(
        "What may be lost after a crash: nothing, commits of the last seconds, or more.",
        type=click.Choice(["none", "seconds", "any"]),
        default="seconds",
    ),
    within: float = option(
        "Begin no further simulation after this time.",
        type=duration(is_open=True),
        default=60.0,
        show_default="1m",
    ),
    form: str | None = option(
        "Format of SOURCE, of `flashwright list trace_format`.  [default: by its content]",
        "--format",
        metavar="FORMAT",
    ),
    prove: int | None = option(
        "Run a database on an emulated drive of that kind, as it is and with each of the first N "
        "changes, and show predicted beside measured. Needs root, and minutes for each.",
        type=click.IntRange(1),
    ),
    workload: str | None = option(
        "What is run to prove: a workload of `flashwright list workload`.  [default: "
        "tpcb(scale=8), or COMMAND on a copy of the database]",
        "--prove-with",
        metavar="WORKLOAD",
    ),
    seed: int = option("Of the simulated drives.", type=click.IntRange(0), default=1),
    workers: Workers = all_of(
        Workers, dict.fromkeys(("engine", "store"), " Of a store of volumes, or --prove.")
    ),
    output: Output = all_of(Output),
) -> None:
    """Say what the writes of a database do to its drive, and what to change.

    SOURCE is the folder of a recording, or a trace file; --database records one on the spot. Each
    change that may help is simulated with the requests that were recorded, on a drive of the disk's
    kind, size and fill: what it gains, what it costs, what may be lost after a crash, how to make
    it so, and how to undo it. What would not help is named with its number, and so is what cannot
    be known from the source.

    Results are kept: the same question again, or with another goal, takes an instant.

    With --prove a database itself runs on an emulated drive: a benchmark, or COMMAND behind `--` on
    a scratch copy of the recorded database (FLASHWRIGHT_DATA has its path). What is predicted for a
    benchmark is predicted from a recording of it, not from SOURCE.

    \b
    Examples:
      flashwright advise --database postgres /var/lib/postgresql/15/main
      flashwright advise --database sqlite app.db --for 10m --goal latency
      flashwright advise runs/tpcc --device nvme-tlc --writes-per-day 40G
      flashwright advise my.blktrace.0 --device emmc-51 --size 32G --risk none
      flashwright advise STORE --device nvme-tlc     all volumes of `flashwright trace split`
      flashwright advise runs/tpcc --goal latency --prove 3 --prove-with 'tpcc(scale=1)'
    """
    from flashwright.advice.asking import Asked
    from flashwright.advice.building import Question
    from flashwright.cli import fleet

    if database is not None and source is not None:
        # What follows is the command.
        command, source = (source, *command), None
    if (source is None) == (database is None):
        raise InputError(
            "name one SOURCE: the folder of a recording, a trace file, or --database KIND PATH"
        )
    if database is not None:
        source = str(_recorded(database, seconds, output))
    assert source is not None  # noqa: S101  (one of both was given)
    if fleet.is_fleet(source):
        fleet.advise(source, device, seed, workers.where(), output)
        return
    if prove is None:
        workers.check_local("it is of a store of many volumes, or of --prove")
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
    if prove is None and (workload is not None or command):
        raise InputError("--prove-with and COMMAND say what proves: add --prove 3")
    asked = Asked(question, within, workers.jobs)
    plan = None if prove is None else (prove, workload, command, workers.where())
    _answer(asked, output, plan)


def _recorded(database: tuple[str, Path], seconds: float, to: Json) -> Path:
    """Record a database, and give the folder of the recording."""
    from flashwright.cli import record
    from flashwright.recording.finish import drop_raw
    from flashwright.recording.tables import tables_of
    from flashwright.reports import write_report

    running = record.running_database(database, (), (), needs_root=True)
    if running is None:
        raise AssertionError("a database was named")
    folder = record.folder_for(running.place, to)
    how = {"tracer": "auto", "buffer_kib": 16 << 10}
    record.record_to_end(
        running.place, (), seconds, folder, how, running, is_quiet=to.is_only_json, keeps_log=True
    )
    tables_of(folder).write(folder)
    write_report(folder)
    drop_raw(folder)
    to.say(f"Recorded: {folder}")
    return folder


def _answer(
    asked: Asked, output: Output, proof: tuple[int, str | None, tuple[str, ...], Where] | None
) -> None:
    from flashwright.advice.asking import KEPT, ask
    from flashwright.cli.advise_said import say_answer, say_first, say_proven
    from flashwright.terminal import say

    heard = (lambda _: None) if output.is_only_json else say_first
    run, answer = ask(asked, heard)
    if not output.is_only_json:
        say_answer(answer)
        if not answer.is_complete:
            say("Stopped before its end; what was simulated is kept, and not done again.")
    if proof is not None:
        from flashwright.advice.prove import prove

        rows = prove(answer, _plan(answer, *proof), KEPT)
        run.result["proven"] = [one.document() for one in rows]
        if not output.is_only_json:
            say_proven(rows)
    output.finish(run)


def _plan(
    answer: Answer, top: int, workload: str | None, command: tuple[str, ...], where: Where
) -> ProofPlan:
    from flashwright.advice.own_commands import OwnCommand
    from flashwright.advice.prove import WORKLOAD, ProofPlan

    if not command:
        return ProofPlan(top, workload or WORKLOAD, where=where)
    if workload is not None:
        raise InputError(f"--prove-with {workload}: COMMAND is run instead; leave one of them out")
    data = answer.case.database_path
    if data is None:
        raise InputError(
            f"{answer.case.load.name}: it does not say which database it is of, so there is "
            "nothing to copy for COMMAND; --prove-with runs a benchmark"
        )
    return ProofPlan(top, OwnCommand(command, data), where=where)
