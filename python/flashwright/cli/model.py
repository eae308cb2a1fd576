"""`flashwright model`: what can be computed without simulating."""

from __future__ import annotations

from typing import Any

import click

from flashwright.cli.lists import Named
from flashwright.cli.options import (
    LIFE,
    PAGE_SIZE,
    all_of,
    argument,
    option,
    options,
    over_provisionings_option,
    seed_option,
    wear_of,
)
from flashwright.cli.output import Output
from flashwright.terminal import print_table

OVER_PROVISIONINGS = "0.07,0.1,0.15,0.2,0.3,0.5,0.7,1.0"
OF_UNIFORM = ("pages_per_erase_block", "choices", "window")
OF_SOURCE = ("page_size", "seed", "life")
"""Parameters of the one form, which mean nothing of the other."""


@click.command(short_help="What can be computed: the bound of a workload, closed forms.")
@options
def model(
    *,
    source: str | None = argument(type=Named("workload", or_file=True), required=False),
    over_provisionings: tuple[float, ...] = over_provisionings_option(OVER_PROVISIONINGS),
    page_size: int = option("Bytes in a page of SOURCE.", type=PAGE_SIZE, default="4096"),
    life: str | None = LIFE,
    seed: int = seed_option("Seed of a synthetic SOURCE."),
    pages_per_erase_block: int = option(
        "Without SOURCE: pages that are erased together.", type=click.IntRange(2, 4096), default=64
    ),
    choices: int = option(
        "Without SOURCE: d of d-choices.", type=click.IntRange(1, 1024), default=10, metavar="D"
    ),
    window: float = option(
        "Without SOURCE: window of Window-Greedy, as a share of all erase blocks.",
        type=click.FloatRange(0, 1),
        default=0.1,
        metavar="SHARE",
    ),
    output: Output = all_of(Output),
) -> None:
    """Compute cleaning cost without simulating.

    With SOURCE, find the frequency bound: the least write amplification that placement by update
    frequency can reach if updates are independent of each other (MULTILOG Algorithm 1). Erase
    blocks are taken as large and cleaned in order, trimmed pages as spare space until they are
    written again. Real traces may go below it: `compare` shows how far.

    Without, give p_gc, the share of valid pages in a victim, under uniform updates, for each victim
    policy that has a model.

    \b
    Examples:
      flashwright model tpcc.parquet --op 0.1,0.2,0.3
      flashwright model 'synth:zipf(s=0.99,pages=1M)' --op 0.2 --json -
      flashwright model --op 0.07,0.28 --pages-per-erase-block 256
    """
    context = click.get_current_context()
    names = {one.name: one.opts[0] for one in context.command.params}
    for name in OF_UNIFORM if source is not None else OF_SOURCE:
        if context.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT:
            which = "for uniform updates, without" if source is not None else "of a"
            raise click.UsageError(f"{names[name]}: it is {which} SOURCE")
    if source is None:
        _uniform(over_provisionings, pages_per_erase_block, choices, window, output)
    else:
        _bound(source, over_provisionings, page_size, life, seed, output)


def _bound(
    source: str,
    over_provisionings: tuple[float, ...],
    page_size: int,
    life: str | None,
    seed: int,
    output: Output,
) -> None:
    from flashwright import sources
    from flashwright._text import alpha, percent, significant
    from flashwright.progress import work
    from flashwright.runs import Job, table

    source, reading = sources.part_of(source, page_size=page_size, seed=seed)
    workload = work(
        f"Reading {source}", "page writes", lambda progress: sources.load(source, reading, progress)
    )
    [name] = sources.names([source])
    lifetime = sources.lifetime(name, source, workload, reading, wear_of(life))
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
    job = Job("model", identity, [sources.describe(source, workload)], seed)
    output.finish(
        job.run(result, {"bounds": table({key: [row[key] for row in rows] for key in rows[0]})})
    )


def _uniform(
    over_provisionings: tuple[float, ...],
    pages_per_erase_block: int,
    choices: int,
    window: float,
    output: Output,
) -> None:
    from flashwright import _core
    from flashwright.reports.model import pgc_table
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
        shown = pgc_table(result)
        print_table(shown.columns, shown.rows, "p_gc under uniform updates")
    job = Job("model", [alphas, pages_per_erase_block, choices, window])
    output.finish(job.run(result, {"p_gc": table(columns)}))
