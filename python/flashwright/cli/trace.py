"""`flashwright trace`: reading, converting and making traces."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from flashwright import reading_words
from flashwright._core import InputError
from flashwright.cli.lists import Named
from flashwright.cli.options import Size, SkipBad, TraceReading, seed_option, takes
from flashwright.cli.output import Json, Output, print_table, say
from flashwright.cli.outputs import OutFile
from flashwright.outputs import TRACE, replacing
from flashwright.runs import command_line

to_option = click.option(
    "--to",
    "to_format",
    metavar="NAME",
    help="Format of TARGET, if the ending of its name does not tell: .parquet, .blkparse, .iolog "
    "(fio_iolog), .mqsim or .trace (mqsim).",
)


@click.group(short_help="Statistics, conversion and synthesis of traces.")
def trace() -> None:
    """Look into traces, convert them, make synthetic ones.

    \b
    Examples:
      flashwright trace stats tpcc.blktrace.0
      flashwright trace convert tpcc.blktrace.0 tpcc.parquet
      flashwright trace synth 'zipf?s=0.99&pages=1M' zipf.parquet
    """


@trace.command(short_help="What a trace holds.")
@click.argument("source", type=Named(or_file=True))
@click.option(
    "--page-size", type=Size(), default=4096, show_default=True, help="Bytes in a flash page."
)
@takes(TraceReading, "how")
@seed_option("Seed of a synthetic SOURCE.")
@takes(Output, "output")
def stats(
    source: str,
    page_size: int,
    how: TraceReading,
    seed: int,
    output: Output,
) -> None:
    """Tell what SOURCE holds: requests, footprint, sequentiality, idle times, skew of updates,
    rewrite distances.

    \b
    Examples:
      flashwright trace stats tpcc.blktrace.0
      flashwright trace stats prxy_0.csv.gz --format msr --skip-bad 10 --json -
    """  # noqa: D205
    from flashwright import sources
    from flashwright.reports.scalars import trace_rows
    from flashwright.reports.trace import headline
    from flashwright.runs import Job
    from flashwright.trace_statistics import PICTURES, statistics

    source = sources.check_source(source)
    scalars, tables = statistics(source, page_size, how.format_name, how.skip_bad, seed)
    described = sources.describe(source)
    result = {
        "source": sources.file_name(Path(source)) if described["sha256"] else source,
        **scalars,
        "distributions": {
            name: table.to_pydict() for name, table in tables.items() if name not in PICTURES
        },
    }
    if not output.is_only_json:
        print_table(
            [("", "left"), ("", "right")],
            trace_rows(scalars),
            result["source"],
        )
        say(headline(result))
    identity = [described, page_size, how.format_name, how.skip_bad, seed]
    output.finish(Job("trace stats", identity, [described], seed).run(result, tables))


@trace.command(short_help="From any format to any that can be written.")
@click.argument("source", type=click.Path(path_type=Path))
@click.argument("target", type=OutFile(TRACE, is_dash_allowed=True))
@click.option(
    "--from", "from_format", metavar="NAME", help="Format of SOURCE, if its content does not tell."
)
@to_option
@click.option(
    "--compact",
    is_flag=True,
    help="To Parquet: as small as it gets, to be kept with code. Times in whole microseconds, no "
    "latencies.",
)
@takes(SkipBad, "how")
@takes(Json, "to")
def convert(
    source: Path,
    target: Path,
    from_format: str | None,
    to_format: str | None,
    how: SkipBad,
    to: Json,
    *,
    compact: bool,
) -> None:
    """Read the trace SOURCE and write it to TARGET.

    Parquet is the store to keep traces in: it is small, quick, and any data tool opens it.

    \b
    Examples:
      flashwright trace convert tpcc.blktrace.0 tpcc.parquet
      flashwright trace convert prxy_0.csv.gz prxy.iolog --to 'fio_iolog(version=3)'
      flashwright trace convert runs/postgres kept.parquet --compact     a recording
    """
    from flashwright import _core, sources
    from flashwright.progress import whole
    from flashwright.recording.compact import write_compact
    from flashwright.runs import provenance

    source = Path(sources.check_source(str(source)))
    if compact and (target.suffix != ".parquet" or to_format not in (None, "parquet")):
        raise InputError(f"{target}: --compact is for a TARGET that ends in .parquet")

    def write(progress: _core.Progress) -> dict[str, Any]:
        if not compact:
            return _core.convert_trace(
                source, target, from_format, to_format, how.skip_bad, progress
            )
        with replacing(target, TRACE) as part:
            done = _core.convert_trace(source, part, from_format, "parquet", how.skip_bad, progress)
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


@trace.command(short_help="Write a synthetic workload to a file.")
@click.argument("workload", type=Named("workload"))
@click.argument("target", type=OutFile(TRACE, is_dash_allowed=True))
@to_option
@click.option("--page-size", type=Size(), default=4096, show_default=True, help="Bytes in a page.")
@seed_option("Seed: the same seed, the same file.")
@takes(Json, "to")
def synth(
    workload: str, target: Path, to_format: str | None, page_size: int, seed: int, to: Json
) -> None:
    """Write the synthetic WORKLOAD to TARGET.

    \b
    Examples:
      flashwright trace synth 'uniform?pages=1M&updates=15x' uniform.parquet
      flashwright trace synth 'kmodal?sets=0.2:0.8,0.8:0.2' kmodal.parquet --seed 7

    `flashwright list workload` names the workloads and their parameters.
    """
    from flashwright import _core, sources
    from flashwright.progress import whole
    from flashwright.runs import provenance

    spec = workload.removeprefix(sources.SYNTHETIC)
    done = whole(
        f"Writing {target.name}",
        "page writes",
        lambda progress: _core.write_synthetic(spec, target, to_format, page_size, seed, progress),
    )
    described = sources.describe(sources.SYNTHETIC + spec)
    result = {
        "target": str(target),
        **done,
        "provenance": provenance(command_line(), [described], seed),
    }
    to.write(result)
    to.say(
        f"{target}: {done['requests']} requests over {done['logical_pages']} pages, as "
        f"{done['to_format']}"
    )
