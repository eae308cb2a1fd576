"""`flashwright bench`: benchmarks on real databases, one or several side by side."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import Field, fields
from typing import TYPE_CHECKING, Any, TypeVar

import click

from flashwright import written
from flashwright._core import RunError
from flashwright.benches.options import BenchOptions
from flashwright.cli.grouped import GroupedCommand
from flashwright.cli.lists import Listed, Named
from flashwright.cli.options import Taken, all_of, options
from flashwright.cli.output import Output
from flashwright.cli.outputs import OutFolder
from flashwright.terminal import print_table, say

if TYPE_CHECKING:
    from pathlib import Path

    from flashwright.benches.plan import Benches
    from flashwright.benches.session import BenchesSession, Outcome
    from flashwright.runs import Job, Run

Command = TypeVar("Command", bound=Callable[..., Any])


class _Records(OutFolder):
    """The folder of a recording, or that of several."""

    def check(self, path: Path) -> None:
        """Raise InputError if a recording may not be written there."""
        from flashwright.benches.plan import check_records

        check_records(path)
        super().check(path)


_TYPES: dict[str, Callable[[], click.ParamType[Any]]] = {
    "record": lambda: _Records(is_recording=True),
    "device": lambda: Named("profile", or_file=True),
    "on": lambda: Named("place", or_file=True),
}


def _options(command: Command) -> Command:
    for one in reversed(fields(BenchOptions)):
        command = _option(one)(command)
    return command


def _option(one: Field[Any]) -> Callable[[Command], Command]:
    known = written.of(one)
    if not known.help:
        return click.argument(one.name, type=Named(known.completes))
    flag = known.flag or f"--{one.name.replace('_', '-')}"
    if known.kind == written.TRUTH:
        return click.option(flag, one.name, is_flag=True, help=known.help)
    plain = (
        Named(known.completes) if known.completes else Taken(known.kind.metavar, known.kind.take)
    )
    how: dict[str, Any] = {"type": _TYPES[one.name]() if one.name in _TYPES else plain}
    default: Any = one.default
    if default not in (None, ()):
        said = ",".join(default) if known.is_several else known.kind.say(default)
        how["help"] = f"{known.help}  [default: {said}]"
    if known.is_several:
        how["cls"] = Listed
    how["metavar"] = known.completes.upper() or known.kind.metavar
    return click.option(flag, one.name, **{"help": known.help, **how})


class _BenchCommand(GroupedCommand):
    """A command that also says what belongs into the brackets of its words."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options in groups, then the settings of each word."""
        super().format_options(ctx, formatter)
        for title, kinds in _in_brackets():
            with formatter.section(title):
                formatter.write_dl(list(_rows(kinds)))


def _in_brackets() -> Iterator[tuple[str, Mapping[str, type[Any]]]]:
    from flashwright.benches.grounds import GROUNDS
    from flashwright.benches.options import Life
    from flashwright.workloads.registry import SETTINGS
    from flashwright.workloads.session import DATABASES

    yield f"In the brackets of WORKLOAD ({', '.join(SETTINGS)})", SETTINGS
    yield f"In the brackets of --db ({', '.join(DATABASES)})", DATABASES
    yield f"In the brackets of --on ({', '.join(GROUNDS)})", GROUNDS
    yield "In the brackets of --life", {"life": Life}


def _rows(kinds: Mapping[str, type[Any]]) -> Iterator[tuple[str, str]]:
    for names, one in written.together(kinds):
        known = written.of(one)
        usage = f"{written.written_name(one)}={known.kind.metavar}"
        yield usage, f"{names}: {known.help}" if names else known.help


def _groups() -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for one in fields(BenchOptions):
        groups.setdefault(written.of(one).group, []).append(one.name)
    groups["Results"] += ["json_path", "out"]
    return {title: names for title, names in groups.items() if title}


@click.command(
    cls=_BenchCommand,
    groups=_groups(),
    short_help="Benchmarks on real databases, side by side: TPC-C, TPC-B, TATP, YCSB.",
)
@_options
@options
def bench(*, output: Output = all_of(Output), **given: Any) -> None:
    """Run WORKLOAD on a database.

    Fill it, warm up, measure, check that it is consistent, and remove it. What belongs to a word is
    written in it: `tpcc(scale=10, mix=normal)`, `postgres(buffer=1Gi)`, `volume(btrfs)`. Several
    workloads, databases, places or numbers of clients are run one after the other, each on a new
    database, and laid side by side. `flashwright list benchmark`, `database`, `place` and `preset`
    have all that can be named.

    \b
    Examples:
      flashwright bench tpcc                              SQLite, one warehouse, a minute
      flashwright bench tatp --for 10 --clients 2
      flashwright bench 'ycsb(mix=b, scale=1M)' --db 'sqlite(buffer=64Mi)' --on /mnt/flash
      flashwright bench 'tpcc(scale=10)' --db 'postgres(checkpoint=30s)' --clients 10 --for 5m
      flashwright bench tpcc --db postgres --preset 'scheduler_7_2(scale_down=10)'
      flashwright bench 'tpcc(scale=10)' --db postgres --record runs/tpcc
      flashwright bench tpcc --on 'volume(all)' --layers --repeat 3
      flashwright bench tpcc --db 'sqlite(buffer=1Mi),sqlite(buffer=16Mi)' --layers
      flashwright bench tpcc --db sqlite,postgres --device intel-x25e --life 'life(tbw=2000)'

    Ctrl-C ends it: what one run has measured so far is kept, and of several those that were over.
    The exit code is 1 if a database is not consistent at the end.
    """
    from flashwright.benches.document import run_of
    from flashwright.benches.plan import Benches, check_record
    from flashwright.benches.progress import follow_benches
    from flashwright.benches.session import BenchesSession
    from flashwright.progress import StoppedError

    chosen = {name: value for name, value in given.items() if value not in (None, (), False)}
    asked = Benches.of(written.build(BenchOptions, chosen))
    check_record(asked, output.out)
    job = asked.job()
    keeper = _Keeper(asked, job, output.folder(job))
    keeper.begin()
    session = BenchesSession(asked, keeper.after)
    try:
        outcome = follow_benches(session)
    except StoppedError as stop:
        if stop.result is None:
            raise
        outcome = stop.result
    run = run_of(asked, job, outcome)
    if not output.is_only_json:
        _print(run)
    folder = output.finish(run)
    _tell_recording(asked, outcome, output)
    _tell_end(session, outcome, folder)


class _Keeper:
    """Writes the run folder after each of several runs: what was measured outlives us."""

    def __init__(self, asked: Benches, job: Job, folder: Path | None) -> None:
        self._asked, self._job, self._folder = asked, job, folder

    def begin(self) -> None:
        """Make the run folder ours, if recordings go into it before anything else does."""
        from flashwright.benches.session import Outcome

        record = self._asked.options.record
        if self._folder is not None and record is not None and self._asked.runs > 1:
            self._write(Outcome())

    def after(self, outcome: Outcome) -> None:
        """Say what a run found, and write all that is known by now."""
        total = self._asked.runs
        if total == 1:
            return
        row = outcome.rows[-1]
        if not sys.stderr.isatty():
            name = f"{row['file_system']} {row['level']}".strip()
            click.echo(
                f"run {row['run']} of {total}: {name}: {row['transactions_per_second']:.1f} "
                "transactions/s",
                err=True,
            )
        self._write(outcome)

    def _write(self, outcome: Outcome) -> None:
        from flashwright.benches.document import run_of

        if self._folder is not None:
            run_of(self._asked, self._job, outcome).write(self._folder)


def _print(run: Run) -> None:
    from flashwright.reports.bench import headline, remarks, terminal_tables

    for table in terminal_tables(run.result):
        print_table(table.columns, table.rows, table.title)
    for line in (headline(run.result), *remarks(run.result)):
        say(line)


def _tell_recording(asked: Benches, outcome: Outcome, output: Output) -> None:
    """Show the recording of the only run, and keep it."""
    from flashwright.cli.recorded import tell

    options = asked.options
    if outcome.recording is not None and options.record is not None:
        tell(
            outcome.recording,
            options.record,
            keep_raw=options.keep_raw,
            check=options.check,
            to=output,
        )
    elif outcome.recording_error is not None:
        if not outcome.is_stopped:
            raise outcome.recording_error
        output.say(f"The recording: {outcome.recording_error}")


def _tell_end(session: BenchesSession, outcome: Outcome, folder: Path | None) -> None:
    """Raise what ended it before its end, or what is wrong with what it ran."""
    from flashwright.progress import StoppedError

    if outcome.is_stopped and outcome.finding is not None:
        kept = f", and is kept in {folder}" if folder else ""
        what = f"s of the run; what it measured is right{kept}"
        raise StoppedError(round(outcome.finding.result.seconds), 0, what, None)
    if outcome.is_stopped:
        kept = f", which are kept in {folder}" if folder else ""
        raise StoppedError(len(outcome.rows), len(session.plan), f"runs{kept}", None)
    if outcome.error is not None:
        raise outcome.error
    if outcome.violations:
        raise RunError(f"the database is not consistent: {outcome.violations[0]}")
