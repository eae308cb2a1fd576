"""`flashwright trace`: what a trace holds, the same trace in another format, or by its volumes."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flashwright import reading_words
from flashwright._core import InputError
from flashwright.cli.lists import Named
from flashwright.cli.options import (
    PAGE_SIZE,
    Workers,
    all_of,
    argument,
    option,
    options,
    seed_option,
)
from flashwright.cli.output import Json, Output
from flashwright.cli.outputs import OutFile
from flashwright.cli.trace_split import split
from flashwright.outputs import TRACE, replacing
from flashwright.runs import command_line
from flashwright.terminal import print_table, say

if TYPE_CHECKING:
    from flashwright.sources import Reading


class _Trace(click.Group):
    """A group that says which command a source is for, if one stands where a command should."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command. Raises click.UsageError with what would be right."""
        name, *more = args
        if self.get_command(ctx, name) is None and _is_source(name):
            has_target = bool(more) and (more[0] == "-" or not more[0].startswith("-"))
            right = ["flashwright", "trace", "convert" if has_target else "stats", *args]
            said = f"{name}: it is no command; right would be `{shlex.join(right)}`"
            raise click.UsageError(said, ctx)
        return super().resolve_command(ctx, args)


def _is_source(name: str) -> bool:
    return name == "-" or any(mark in name for mark in ".(:/") or Path(name).exists()


@click.group(
    cls=_Trace, short_help="What a trace holds, in another format, or split by its volumes."
)
def trace() -> None:
    """Look into traces, convert them, and split those of many volumes.

    \b
    Examples:
      flashwright trace stats my.blktrace.0                what is in it
      flashwright trace convert my.blktrace.0 my.parquet   smaller and quicker
      flashwright trace split io_traces_*.csv.gz --out store
      flashwright trace stats 'synth:zipf(s=0.99,pages=1M)'

    Formats are those of `flashwright list trace_format`; the content of a file says which it is.
    Parquet is the store to keep traces in: it is small, quick, and any data tool opens it.
    """


trace.add_command(split)


@trace.command(short_help="What a trace holds: sizes, skew, idle times, rewrite distances.")
@options
def stats(
    *,
    source: str = argument(type=Named("workload", or_file=True)),
    page_size: int = option(
        "Bytes in a flash page, or in a page of `synth:`.", type=PAGE_SIZE, default="4096"
    ),
    seed: int = seed_option("Seed of a synthetic SOURCE: the same seed, the same requests."),
    workers: Workers = all_of(Workers, dict.fromkeys(("engine", "jobs"), " Of a store.")),
    output: Output = all_of(Output),
) -> None:
    """Say what SOURCE holds: requests, footprint, sequentiality, idle times, skew of updates,
    rewrite distances.

    Of a store of `trace split` each volume is studied by itself, several at a time, here or on a
    Ray cluster, and all are added up; what is known of a volume is not done again.

    \b
    Examples:
      flashwright trace stats tpcc.blktrace.0
      flashwright trace stats 'part(prxy_0.csv.gz, format=msr, skip_bad=10)' --json -
      flashwright trace stats runs/postgres                a recording
      flashwright trace stats 'synth:zipf(s=0.99,pages=1M)'
      flashwright trace stats STORE
    """  # noqa: D205
    from flashwright.cli import fleet

    if fleet.is_fleet(source):
        fleet.stats(source, page_size, workers.where(), output)
        return
    workers.check_local(f"it is of a store of many volumes, and {source} is none")
    _describe(*_opened(source, page_size, seed), output)


@trace.command(short_help="The same trace in another format: Parquet, to keep it.")
@options
def convert(
    *,
    source: str = argument(type=Named("workload", or_file=True)),
    target: Path = argument(type=OutFile(TRACE, is_dash_allowed=True)),
    to_format: str | None = option(
        "Format of TARGET, if the ending of its name does not say it: .parquet, .blkparse, .iolog "
        "(fio_iolog), .mqsim or .trace (mqsim).",
        "--to",
        metavar="NAME",
    ),
    compact: bool = option(
        "Make a TARGET in Parquet as small as it gets, to be kept with code: times in whole "
        "microseconds, no latencies."
    ),
    page_size: int = option("Bytes in a page of `synth:`.", type=PAGE_SIZE, default="4096"),
    seed: int = seed_option("Seed of a synthetic SOURCE: the same seed, the same requests."),
    to: Json = all_of(Json),
) -> None:
    """Write SOURCE to TARGET in another format; `-` is standard output.

    Parquet is the store to keep traces in: it is small, quick, and any data tool opens it.

    \b
    Examples:
      flashwright trace convert tpcc.blktrace.0 tpcc.parquet
      flashwright trace convert prxy_0.csv.gz prxy.iolog --to 'fio_iolog(version=3)'
      flashwright trace convert runs/postgres kept.parquet --compact     a recording
      flashwright trace convert 'synth:uniform(pages=1M,updates=15x)' uniform.parquet
    """
    from flashwright import sources

    found, reading = _opened(source, page_size, seed)
    if found.startswith(sources.SYNTHETIC):
        _make(found, reading, target, to_format, to)
    else:
        _convert(Path(found), reading, target, to_format, to, compact=compact)


def _opened(source: str, page_size: int, seed: int) -> tuple[str, Reading]:
    from flashwright import sources

    found, reading = sources.part_of(source, page_size=page_size, seed=seed)
    if reading.repeat != 1:
        raise InputError(f"{source}: `repeat` is for who plays it; leave it out")
    if reading.sample != 1:
        raise InputError(f"{source}: `sample` is for who counts (`compare`); leave it out")
    return found, reading


def _describe(source: str, reading: Reading, output: Output) -> None:
    from flashwright import sources
    from flashwright.reports.scalars import trace_rows
    from flashwright.reports.trace import headline
    from flashwright.runs import Job
    from flashwright.trace_statistics import PICTURES, statistics

    given = (reading.page_size, reading.format, reading.skip_bad, reading.seed)
    scalars, tables = statistics(source, reading)
    described = sources.describe(source)
    result = {
        "source": sources.file_name(Path(source)) if described["sha256"] else source,
        **scalars,
        "distributions": {
            name: table.to_pydict() for name, table in tables.items() if name not in PICTURES
        },
    }
    if not output.is_only_json:
        print_table([("", "left"), ("", "right")], trace_rows(scalars), result["source"])
        say(headline(result))
    output.finish(Job("trace", [described, *given], [described], reading.seed).run(result, tables))


def _convert(
    source: Path,
    reading: Reading,
    target: Path,
    to_format: str | None,
    to: Json,
    *,
    compact: bool,
) -> None:
    from flashwright import _core, sources
    from flashwright.progress import whole
    from flashwright.recording.compact import write_compact
    from flashwright.runs import provenance

    if compact and (target.suffix != ".parquet" or to_format not in (None, "parquet")):
        raise InputError(f"{target}: --compact is for a TARGET that ends in .parquet")
    how = (reading.format, "parquet" if compact else to_format, reading.skip_bad)

    def write(progress: _core.Progress) -> dict[str, Any]:
        if not compact:
            return _core.convert_trace(source, target, *how, progress)
        with replacing(target, TRACE) as part:
            done = _core.convert_trace(source, part, *how, progress)
            write_compact(part)
        return done

    done = whole(f"Converting {sources.file_name(source)}", "bytes", write)
    result = {
        "target": str(target),
        **done,
        "provenance": provenance(command_line(), [sources.describe(str(source))], None),
    }
    to.write(result)
    # Standard output may be the trace itself.
    if str(target) != sources.STANDARD_INPUT:
        to.say(
            f"{target}: {done['requests']} requests, {done['from_format']} to "
            f"{done['to_format']}{_lost(done)}"
        )


def _lost(done: dict[str, Any]) -> str:
    lost = [
        f"; {done[key]} {what}"
        for key, what in (
            ("skipped", "malformed records skipped"),
            ("dropped", "requests dropped that the format cannot hold"),
            ("clamped_times", "times before the first request set to 0"),
        )
        if done.get(key)
    ]
    # Why a record is malformed stands in the result.
    left_out = [row for row in reading_words.rows(done) if not row[0].startswith("malformed")]
    return "".join([*lost, *(f"; {number} {reason}" for reason, number in left_out)])


def _make(source: str, reading: Reading, target: Path, to_format: str | None, to: Json) -> None:
    from flashwright import _core, sources
    from flashwright.progress import whole
    from flashwright.runs import provenance

    spec = source.removeprefix(sources.SYNTHETIC)
    how = (to_format, reading.page_size, reading.seed)
    done = whole(
        f"Writing {target.name}",
        "page writes",
        lambda progress: _core.write_synthetic(spec, target, *how, progress),
    )
    result = {
        "target": str(target),
        **done,
        "provenance": provenance(command_line(), [sources.describe(source)], reading.seed),
    }
    to.write(result)
    to.say(
        f"{target}: {done['requests']} requests over {done['logical_pages']} pages, as "
        f"{done['to_format']}"
    )
