"""Options of commands that play a recorded trace on a device.

Its part, its pace, what becomes of addresses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from flashwright.cli.options import Command, Count, Number, apply_options

if TYPE_CHECKING:
    from flashwright.replays import Pace, Part, Plan
    from flashwright.sources import Reading

OPEN_LOOP, ONE_BY_ONE = "open_loop", "one_by_one"


def pace_options(default: str) -> Callable[[Command], Command]:
    """Give the options of a pace, of which `default` is taken if none is named."""
    told = {name: "  [default]" if name == default else "" for name in (OPEN_LOOP, ONE_BY_ONE)}
    return apply_options(
        click.option(
            "--open-loop",
            is_flag=True,
            help="Send each request at its time in the trace, however late the device "
            f"is.{told[OPEN_LOOP]}",
        ),
        click.option(
            "--depth",
            type=click.IntRange(1, 4096),
            metavar="N",
            help="Keep so many requests outstanding.",
        ),
        click.option(
            "--one-by-one",
            is_flag=True,
            help=f"Send a request when the one before it is done: --depth 1.{told[ONE_BY_ONE]}",
        ),
        click.option(
            "--waiting",
            is_flag=True,
            help="With --depth or --one-by-one: not before the trace's interval since the request "
            "before was sent.",
        ),
        click.option(
            "--factor",
            type=Number(0, 1e9, min_open=True),
            metavar="F",
            help="Times as fast as recorded: 2 plays an hour in half an hour.  [default: 1]",
        ),
    )


part_options = apply_options(
    click.option(
        "--remap",
        type=click.Choice(["refuse", "fold", "scale", "dense"]),
        default="refuse",
        show_default=True,
        help="Addresses that the device does not have: an error; taken modulo its size; all shrunk "
        "(or stretched) onto it; or what the trace touches moved together, in extents of 1 MiB.",
    ),
    click.option(
        "--skip",
        type=Number(0),
        default=0.0,
        metavar="S",
        help="Begin so many seconds into the trace.",
    ),
    click.option(
        "--seconds",
        type=Number(0, min_open=True),
        metavar="S",
        help="Play so many seconds of the trace.  [default: all]",
    ),
    click.option("--limit", type=Count(), metavar="N", help="Play at most so many requests."),
    click.option("--reads-only", is_flag=True, help="Play the reads alone: nothing is written."),
    click.option("--writes-only", is_flag=True, help="Play all but the reads."),
)


def plan_of(more: dict[str, Any], default: str) -> Plan:
    """Give the plan that options ask for; `default` is the pace if none is named.

    Raises click.UsageError if they contradict each other.
    """
    from flashwright.probing.targets import Region
    from flashwright.replays import Plan

    region = Region() if more["region"] is None else Region(*more["region"])
    return Plan(
        _pace(more, default), _part(more), more["remap"], region, more.get("keep_going", False)
    )


def reading_of(more: dict[str, Any]) -> Reading:
    """Give how the trace is read."""
    from flashwright.sources import Reading

    return Reading(format=more["format_name"], skip_bad=more["skip_bad"])


def _pace(more: dict[str, Any], default: str) -> Pace:
    from flashwright.replays import Pace

    given = {
        "--open-loop": more["open_loop"],
        "--depth": more["depth"] is not None,
        "--one-by-one": more["one_by_one"],
    }
    names = [name for name, is_given in given.items() if is_given]
    if len(names) > 1:
        raise click.UsageError(f"{' and '.join(names)}: a replay has one pace, so give one of them")
    is_open = more["open_loop"] or (not names and default == OPEN_LOOP)
    if is_open and more["waiting"]:
        raise click.UsageError(
            "--waiting: it is of --depth and --one-by-one; an open loop keeps the trace's times "
            "anyhow"
        )
    if more["factor"] is not None and not is_open and not more["waiting"]:
        raise click.UsageError(
            "--factor: without --waiting a closed loop takes no notice of the trace's times"
        )
    factor = 1.0 if more["factor"] is None else more["factor"]
    if is_open:
        return Pace("open_loop", 1, factor)
    depth = more["depth"] or 1
    return Pace("one_by_one" if depth == 1 else "closed_loop", depth, factor, more["waiting"])


def _part(more: dict[str, Any]) -> Part:
    from flashwright.replays import OPERATIONS, Part

    if more["reads_only"] and more["writes_only"]:
        raise click.UsageError("--reads-only and --writes-only: together they leave nothing")
    if more["limit"] == 0:
        raise click.UsageError("--limit 0: nothing would be played; write 1 or more")
    ops: tuple[str, ...] = (
        ("read",) if more["reads_only"] else OPERATIONS[1:] if more["writes_only"] else OPERATIONS
    )
    if more.get("drop_flushes", False):
        ops = tuple(op for op in ops if op != "flush")
    return Part(more["skip"], more["seconds"], more["limit"], ops)
