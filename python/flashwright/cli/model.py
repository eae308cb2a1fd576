"""`flashwright model`: what can be computed without simulating."""

from __future__ import annotations

from typing import Any

import click

from flashwright.cli.lists import Named
from flashwright.cli.options import Life, WorkloadReading, over_provisionings_option, takes
from flashwright.cli.output import Output, print_table

OVER_PROVISIONINGS = "0.07,0.1,0.15,0.2,0.3,0.5,0.7,1.0"


@click.group(short_help="The bound, and closed forms.")
def model() -> None:
    """Compute cleaning cost without simulating: the bound of a workload, and that of uniform
    updates.

    \b
    Examples:
      flashwright model bound tpcc.parquet --op 0.1,0.2,0.3
      flashwright model pgc --op 0.07,0.28
      flashwright model figures
    """  # noqa: D205


@model.command(short_help="The frequency bound: least write amplification for independent updates.")
@click.argument("source", type=Named(or_file=True))
@over_provisionings_option()
@takes(WorkloadReading, "how")
@takes(Life, "life")
@takes(Output, "output")
def bound(
    source: str,
    over_provisionings: tuple[float, ...],
    how: WorkloadReading,
    life: Life,
    output: Output,
) -> None:
    """Find the frequency bound: the least write amplification that placement by update frequency
    can reach if updates are independent of each other (MULTILOG Algorithm 1).

    Erase blocks are taken as large and cleaned in order, trimmed pages as spare space until they
    are written again. Real traces may go below it: `compare` shows how far.

    \b
    Examples:
      flashwright model bound 'synth:zipf?s=0.99&pages=1M' --op 0.2
      flashwright model bound tpcc.parquet --op 0.1,0.2,0.3 --json -
    """  # noqa: D205
    from flashwright import sources
    from flashwright._text import alpha, percent, significant
    from flashwright.progress import work
    from flashwright.runs import Job, table

    reading = how.reading()
    source = sources.check_source(source)
    workload = work(
        f"Reading {source}", "page writes", lambda progress: sources.load(source, reading, progress)
    )
    [name] = sources.names([source])
    lifetime = sources.lifetime(name, source, workload, reading, life.wear())
    found = work(
        "Finding the frequency bound",
        "pages",
        lambda _: sources.frequency_bounds(workload, over_provisionings),
    )
    rows: list[dict[str, Any]] = [
        {
            "over_provisioning": op,
            "frequency_bound": amplification,
            "cleaning_cost": amplification - 1,
            "p_gc": 1 - 1 / amplification,
            **lifetime.life(amplification, op).document(),
        }
        for op, amplification in zip(over_provisionings, found, strict=True)
    ]
    result = {
        # With one over-provisioning its figures stand at the top, where scripts look for them.
        **(rows[0] if len(rows) == 1 else {}),
        "bounds": rows,
        "lifetime": lifetime.document(),
        "workload": sources.summary(name, workload, reading),
    }
    if not output.is_only_json:
        headings = [
            ("over-provisioning", "right"),
            ("frequency bound", "right"),
            ("cleaning cost", "right"),
            ("p_gc", "right"),
            ("life in years", "right"),
        ]
        cells = [
            (
                alpha(row["over_provisioning"]),
                significant(row["frequency_bound"], 4),
                significant(row["cleaning_cost"], 4),
                percent(row["p_gc"]),
                significant(row["life_years"]),
            )
            for row in rows
        ]
        print_table(headings, cells, name)
    identity = [over_provisionings, reading, lifetime.document(), workload.content_hash]
    job = Job("model bound", identity, [sources.describe(source, workload)], how.seed)
    output.finish(
        job.run(result, {"bounds": table({key: [row[key] for row in rows] for key in rows[0]})})
    )


@model.command(short_help="Uniform updates: equations and mean field.")
@over_provisionings_option(OVER_PROVISIONINGS)
@click.option(
    "--pages-per-erase-block",
    type=click.IntRange(2, 4096),
    default=64,
    show_default=True,
    metavar="N",
    help="Pages that are erased together.",
)
@click.option(
    "--choices",
    type=click.IntRange(1, 1024),
    default=10,
    show_default=True,
    metavar="D",
    help="d of d-choices.",
)
@click.option(
    "--window",
    type=click.FloatRange(0, 1),
    default=0.1,
    show_default=True,
    metavar="SHARE",
    help="Window of Window-Greedy, as a share of all erase blocks.",
)
@takes(Output, "output")
def pgc(
    over_provisionings: tuple[float, ...],
    pages_per_erase_block: int,
    choices: int,
    window: float,
    output: Output,
) -> None:
    """Give p_gc, the share of valid pages in a victim, under uniform updates, for each victim
    policy that has a model.

    \b
    Examples:
      flashwright model pgc
      flashwright model pgc --op 0.07 --pages-per-erase-block 256 --json -
    """  # noqa: D205
    from flashwright import _core
    from flashwright._text import alpha, percent
    from flashwright.reports.model import MODELS
    from flashwright.runs import Job, table

    alphas = list(over_provisionings)
    columns: dict[str, list[float]] = {
        "over_provisioning": alphas,
        "lru": [_core.p_gc_lru(op) for op in alphas],
        "lru_approximation": [_core.p_gc_approx(op) for op in alphas],
        "window_greedy": [
            _core.p_gc_window_greedy(op, pages_per_erase_block, window) for op in alphas
        ],
        "d_choices": [_core.p_gc_d_choices(op, pages_per_erase_block, choices) for op in alphas],
        "greedy": [_core.p_gc_greedy(op, pages_per_erase_block) for op in alphas],
    }
    rows = [
        dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)
    ]
    result = {
        "p_gc": rows,
        "pages_per_erase_block": pages_per_erase_block,
        "choices": choices,
        "window": window,
    }
    if not output.is_only_json:
        headings = [("over-provisioning", "right")] + [
            (MODELS.get(name, name), "right") for name in list(columns)[1:]
        ]
        print_table(
            headings,
            [
                (
                    alpha(row["over_provisioning"]),
                    *(percent(value, 4) for value in list(row.values())[1:]),
                )
                for row in rows
            ],
            "p_gc under uniform updates",
        )
    job = Job("model pgc", [alphas, pages_per_erase_block, choices, window])
    output.finish(job.run(result, {"p_gc": table(columns)}))


@model.command(short_help="Figures 1-3 of MULTILOG, computed here.")
@takes(Output, "output")
def figures(output: Output) -> None:
    """Compute figures 1 to 3 of MULTILOG, and the polynomial fit of its section 4.2.2, from the
    models.

    \b
    Example:
      flashwright model figures --out runs/multilog
    """  # noqa: D205
    from flashwright.cli.model_figures import run_figures

    run_figures(output)
