"""`flashwright run`: a benchmark on a real database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from flashwright._core import RunError
from flashwright.cli.lists import Named
from flashwright.cli.options import takes
from flashwright.cli.output import Output, print_table, say
from flashwright.cli.run_plan import RunOptions, document_of, lasting, plan_of
from flashwright.cli.run_recorded import RecordOptions, recorder_of
from flashwright.runs import command_line

if TYPE_CHECKING:
    from flashwright.workloads.presets import Preset
    from flashwright.workloads.session import BenchPlan, Finding

DEFAULT_SECONDS = 60.0


@click.command(short_help="A benchmark on a real database: TPC-C, TPC-B, TATP, YCSB.")
@click.argument("workload", type=Named("benchmark"))
@takes(RunOptions, "options", lasting(DEFAULT_SECONDS))
@takes(RecordOptions, "recording")
@takes(Output, "output")
def run(workload: str, options: RunOptions, recording: RecordOptions, output: Output) -> None:
    """Run WORKLOAD on a database.

    Fill it, warm up, measure, check that it is consistent, and remove it. WORKLOAD is tpcc, tpcb,
    tatp or ycsb, also with parameters: `tpcc(warehouses=2,items=1000)`.
    `flashwright list benchmark` has their parameters and mixes.

    \b
    Examples:
      flashwright run tpcc                                     SQLite, one warehouse, a minute
      flashwright run tatp --duration 10 --clients 2
      flashwright run ycsb --mix b --scale 1M --buffer 64M --on /mnt/flash
      flashwright run tpcc --db postgres --scale 10 --clients 10 --warm-up 30 \\
          --duration 300 --checkpoint 30
      flashwright run tpcc --db postgres --preset scheduler_7_2 --scale-down 10
      flashwright run tpcc --db postgres --scale 10 --record runs/tpcc
          and record what the device gets

    Ctrl-C ends the run, and keeps what was measured so far. The exit code is 1 if the database is
    not consistent at the end.
    """
    from flashwright.cli.run_progress import follow_session
    from flashwright.progress import StoppedError
    from flashwright.runs import Job
    from flashwright.workloads.session import Session

    plan, preset, remarks = plan_of(workload, options, recording, DEFAULT_SECONDS)
    recorder = recorder_of(recording, command_line(), output.out)
    session = Session(plan, recorder)
    stopped: StoppedError[Any] | None = None
    try:
        finding = follow_session(session)
    except StoppedError as stop:
        if stop.result is None:
            raise
        stopped, finding = stop, stop.result
    result, tables = _document(plan, preset, remarks, finding, log=options.log_transactions)
    if not output.is_only_json:
        _print(result)
    identity = [plan.workload.name, result["workload"], result["settings"], str(plan.on)]
    folder = output.finish(Job("run", identity, seed=plan.config.seed).run(result, tables))
    if recorder is not None:
        from flashwright.cli.record import conclude

        recorder.tell(finding.result.transactions_log, finding.checkpoints)
        try:
            conclude(recorder.folder, keep_raw=recording.keep_raw, check=recording.check, to=output)
        except RunError as error:
            if stopped is None:
                raise
            # Stopped before it was measured, mostly: it stays a run that was stopped.
            output.say(f"The recording: {error}")
    if stopped is not None:
        kept = f", and is kept in {folder}" if folder else ""
        raise StoppedError(
            round(finding.result.seconds), 0, f"s of the run; what it measured is right{kept}", None
        )
    if finding.violations:
        raise RunError(f"the database is not consistent: {finding.violations[0]}")


def _document(
    plan: BenchPlan, preset: Preset | None, remarks: list[str], finding: Finding, *, log: bool
) -> tuple[dict[str, Any], dict[str, Any]]:
    from flashwright.runs import table
    from flashwright.workloads.measure import LOG_COLUMNS
    from flashwright.workloads.session import versions

    measured = finding.result
    classes: dict[str, list[Any]] = {"kind": [], "from_ns": [], "to_ns": [], "count": []}
    for kind, found in measured.kinds.items():
        for low, high, count in found.responses.classes():
            for name, value in zip(classes, (str(kind), low, high, count), strict=True):
                classes[name].append(value)
    windows = {**measured.windows, "kind": [str(kind) for kind in measured.windows["kind"]]}
    tables = {"windows": table(windows), "responses": table(classes)}
    if measured.response_map:
        tables["latency_over_time"] = table(measured.response_map)
    if log and measured.transactions_log:
        tables["transactions"] = table(
            {name: measured.transactions_log[name] for name in LOG_COLUMNS}
        )
    broken = finding.violations
    load = plan.load
    total = sum(load.mix.weights.values())
    result = {
        **measured.as_dict(),
        "complete": measured.is_complete,
        **document_of(plan),
        "expected_shares": {str(kind): weight / total for kind, weight in load.mix.weights.items()},
        "database": {
            "name": plan.database,
            **finding.place,
            "bytes": finding.database_bytes,
            "bytes_at_end": finding.database_bytes_at_end,
            "buffer_bytes": finding.buffer_bytes,
            "load_seconds": finding.load_seconds,
            "driver": finding.driver,
        },
        "preset": preset,
        "remarks": remarks,
        "checkpoints": finding.checkpoints,
        "consistency": {
            "checked": broken is not None,
            "holds": None if broken is None else not broken,
            "violations": [str(violation) for violation in broken or ()],
        },
        "versions": versions(),
        "kept_in": None if finding.kept_in is None else str(finding.kept_in),
    }
    return result, tables


def _print(result: dict[str, Any]) -> None:
    from flashwright.reports.run import headline, kind_rows

    columns = [("transaction", "left")] + [
        (name, "right")
        for name in (
            "count",
            "share",
            "mean",
            "p50",
            "p95",
            "p99",
            "p99.9",
            "p99.99",
            "max",
            "retries",
            "rolled back",
        )
    ]
    print_table(
        columns,
        kind_rows(result),
        f"{result['workload']['name']} on "
        f"{result['database'].get('version', result['database']['name'])}",
    )
    say(headline(result))
    for remark in result["remarks"]:
        say(remark)
